//! A shard's side of transactions that others (or it itself) coordinate: locks, parts, entries lent and restored; and the
//! single requests that wait until a transaction is over.

use crate::durability::Logging;
use crate::host::Slot;
use crate::lock_table::Ticket;
use crate::message::{
    Access, Batch, Claim, Held, Hopped, Lent, Lock, Message, Obstacle, Part, Partial, Restored,
};
use crate::session::Session;
use crate::shard::Shard;
use crate::tracking::Asker;
use bytes::BytesMut;
use kevy_engine::Command;
use kevy_proto::command::Placement;
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::{Args, RequestBuffer, RespVersion};
use std::hash::BuildHasher;

/// Who waits for a claim.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A transaction that locks in order.
    Transaction(ShardId, Box<Lock>),
    /// A single request: it runs once its claim is held.
    Request(Box<Request>),
    /// A snapshot: it begins when no transaction is under way here.
    Snapshot,
    /// What is not durable, while the log cannot be written: it stays locked once it is.
    Undurable,
}

/// A single request that waits.
#[derive(Debug)]
pub(crate) struct Request {
    origin: Origin,
    command: &'static Command,
    /// The command's number in the command table.
    index: usize,
    buffer: RequestBuffer,
}

/// Where the reply of a single request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    shard: ShardId,
    slot: Option<Slot>,
    connection: Option<ConnectionId>,
    sequence: u64,
    version: RespVersion,
    tracks: bool,
}

impl Origin {
    /// A request of a batch from `shard`.
    pub(crate) fn of_batch(shard: ShardId, batch: &Batch, request: &Hopped) -> Self {
        Self {
            shard,
            slot: batch.slot,
            connection: batch.connection,
            sequence: request.sequence,
            version: batch.version,
            tracks: request.tracks,
        }
    }
}

impl Shard {
    /// If a transaction has locked what the session's next request needs, lets it wait and returns true.
    pub(crate) fn wait_for_locks(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
    ) -> bool {
        let claim = Self::claim_of(command, args);
        if self.locks.is_free(&claim) {
            return false;
        }
        let origin = Origin {
            shard: self.id,
            slot: Some(session.slot),
            connection: Some(session.id),
            sequence: Self::begin_reply(session),
            version: session.client.version,
            tracks: session.tracks_reads(),
        };
        self.enqueue_request(claim, origin, command, args);
        true
    }

    /// Whether no transaction has locked what the command needs.
    pub(crate) fn is_free_for(&self, command: &Command, args: Args<'_>) -> bool {
        self.locks.is_empty() || self.locks.is_free(&Self::claim_of(command, args))
    }

    /// As [`Shard::wait_for_locks`], for a request of another shard's session.
    pub(crate) fn wait_behind_locks(
        &mut self,
        origin: Origin,
        command: &'static Command,
        args: Args<'_>,
    ) -> bool {
        let claim = Self::claim_of(command, args);
        if self.locks.is_free(&claim) {
            return false;
        }
        self.enqueue_request(claim, origin, command, args);
        true
    }

    fn enqueue_request(
        &mut self,
        claim: Claim,
        origin: Origin,
        command: &'static Command,
        args: Args<'_>,
    ) {
        let index = self.stopwatch.current;
        self.stats.lock_waits += 1;
        let (ticket, _) = self.locks.enqueue(claim);
        let buffer = RequestBuffer::from_args(args);
        self.waiting.insert(
            ticket,
            Waiting::Request(Box::new(Request {
                origin,
                command,
                index,
                buffer,
            })),
        );
    }

    /// What `command` needs to itself on the shard that runs it.
    fn claim_of(command: &Command, args: Args<'_>) -> Claim {
        let access = access(command);
        match command.placement {
            Placement::EveryShard(_) | Placement::Cursor(_) => Claim::Whole(access),
            Placement::Together | Placement::Split(_) | Placement::Session | Placement::Node => {
                let mut positions = Vec::new();
                command.keys.positions(args, &mut positions);
                claim_keys(
                    positions.into_iter().map(|position| args.at(position)),
                    access,
                )
            }
        }
    }

    /// A transaction wants locks.
    pub(crate) fn lock(&mut self, from: ShardId, lock: Lock) {
        if let Some(obstacle) = self.obstacle(lock.writes, lock.grows) {
            return self.send(from, Message::Denied(lock.transaction, obstacle));
        }
        if !lock.wait && !self.locks.is_free(&lock.claim) {
            self.stats.locks_refused += 1;
            return self.send(from, Message::Refused(lock.transaction));
        }
        let (ticket, held) = self.locks.enqueue(lock.claim.clone());
        if held {
            self.grant(ticket, from, &lock);
        } else {
            self.stats.lock_waits += 1;
            self.waiting
                .insert(ticket, Waiting::Transaction(from, Box::new(lock)));
        }
    }

    /// Why a command cannot be carried out here now.
    pub(crate) fn obstacle(&mut self, writes: bool, grows: bool) -> Option<Obstacle> {
        if writes && let Some(error) = self.write_refusal() {
            return Some(Obstacle::Refusal(error));
        }
        (grows && !self.make_room()).then_some(Obstacle::NoMemory)
    }

    fn grant(&mut self, ticket: Ticket, from: ShardId, lock: &Lock) {
        self.held.insert(lock.transaction, ticket);
        if let Some(connection) = lock.watcher
            && self.is_watch_hit(connection)
        {
            self.send(from, Message::WatchHit(lock.transaction));
        }
        let lent = self.take_out(lock.asker, lock.take.args());
        self.send(from, Message::Granted(lock.transaction, lent));
    }

    /// Takes entries of an `EXEC`, which holds their locks.
    pub(crate) fn lend(
        &mut self,
        from: ShardId,
        transaction: TransactionId,
        asker: Asker,
        keys: Args<'_>,
    ) {
        let lent = self.take_out(asker, keys);
        self.send(from, Message::Lent(transaction, lent));
    }

    pub(crate) fn take_out(&mut self, asker: Asker, keys: Args<'_>) -> Lent {
        if asker.tracks {
            keys.iter().for_each(|key| self.remember_read(key, asker));
        }
        Lent {
            entries: keys.iter().map(|key| self.keyspace.take(key)).collect(),
            wants_changes: self.wants_changes(),
            has_waiters: self.may_wake(),
            wants_effects: self.durability.is_some(),
            epoch: self.epoch,
        }
    }

    /// Runs commands of an `EXEC`, which keeps its locks.
    pub(crate) fn run_held(&mut self, from: ShardId, held: &Held) {
        let mut reply = BytesMut::new();
        let mut slow = Vec::new();
        let own = std::mem::replace(&mut self.now, held.now);
        self.asker = held.asker;
        self.logging = Logging::Within(held.transaction);
        for (command, request) in &held.commands {
            self.start_stopwatch();
            self.measure_by_name(command.name);
            self.run_command(command, request.args(), held.version, &mut reply);
            self.stopwatch.note_run();
            if let Some(took) = self.settle_stopwatch()
                && self.is_slow(took)
            {
                slow.push((request.clone(), took));
            }
        }
        self.logging = Logging::Alone;
        self.now = own;
        let partial = Box::new(Partial {
            reply,
            keys: self.keyspace.len(),
            has_effects: self.has_effects_of(held.transaction),
            slow,
        });
        self.send(from, Message::Ran(held.transaction, partial));
    }

    /// Runs a part of a transaction and lets its locks go.
    pub(crate) fn run_part(&mut self, from: ShardId, part: &Part) {
        let mut reply = BytesMut::new();
        // All parts run at the coordinator's moment: a pair of keys expires for all readers at once.
        let own = std::mem::replace(&mut self.now, part.now);
        // How long it takes is the coordinator's business: the parts run at the same time.
        self.measure_by_name(part.command.name);
        self.asker = part.asker;
        if part.commit.is_some() {
            self.logging = Logging::Within(part.transaction);
        }
        let outer = self.begin_hold();
        self.run_command(part.command, part.request.args(), part.version, &mut reply);
        let hold = self.end_hold(outer);
        self.logging = Logging::Alone;
        self.now = own;
        let partial = Box::new(Partial {
            reply,
            keys: self.keyspace.len(),
            has_effects: false,
            slow: Vec::new(),
        });
        let ran = Message::Ran(part.transaction, partial);
        let ran = self.hold_back(hold, from, ran);
        if let Some(commit) = &part.commit {
            ran.into_iter().for_each(|ran| self.send(from, ran));
            self.commit_and_release(commit, part.transaction);
        } else {
            ran.into_iter().for_each(|ran| self.send_reply(from, ran));
            self.release(part.transaction);
        }
    }

    /// Puts entries back and, if the transaction is over, lets its locks go.
    pub(crate) fn restore(&mut self, restored: Restored) {
        for entry in restored.entries {
            self.keyspace.put(entry);
        }
        self.asker = restored.asker;
        let logged_as = restored.commit.as_ref().map(|commit| commit.id);
        self.keep_effects(logged_as.unwrap_or(restored.transaction), restored.effects);
        let outer = match restored.offer {
            Some(offer) => Some(self.inherit_hold(offer)),
            None => self.begin_hold(),
        };
        self.note_changed_keys(restored.changed.args());
        self.notify(restored.events);
        if let Some(registration) = restored.registration {
            self.register_waiter(&registration);
        }
        let id = restored.transaction;
        match &restored.commit {
            Some(commit) => self.commit_and_release(commit, id),
            None if restored.keep_locks => {}
            None => self.let_go_of(id),
        }
        let hold = self.end_hold(outer);
        if restored.tell_served {
            let served = Message::WokenServed(id);
            if let Some(served) = self.hold_back(hold, id.coordinator, served) {
                self.send(id.coordinator, served);
            }
        }
    }

    /// Lets the locks of a transaction go, and runs what waited for them.
    pub(crate) fn release(&mut self, transaction: TransactionId) {
        let Some(ticket) = self.held.remove(&transaction) else {
            return;
        };
        let mut granted = Vec::new();
        self.pass_on(ticket, &mut granted);
        self.run_granted(granted);
    }

    /// Goes on with those whose claims are held from now on.
    pub(crate) fn run_granted(&mut self, mut granted: Vec<Ticket>) {
        // In the order of arrival; a request that has run lets go at once and may free others.
        while !granted.is_empty() {
            for ticket in std::mem::take(&mut granted) {
                match self.waiting.remove(&ticket) {
                    Some(Waiting::Transaction(from, lock)) => self.grant(ticket, from, &lock),
                    Some(Waiting::Request(request)) => {
                        self.run_waiting(&request);
                        self.pass_on(ticket, &mut granted);
                    }
                    Some(Waiting::Undurable) => {}
                    Some(Waiting::Snapshot) => {
                        self.begin_snapshot_now();
                        self.pass_on(ticket, &mut granted);
                    }
                    None => debug_assert!(false, "a claim was granted that nobody waits for"),
                }
            }
        }
        self.after_last_lock();
    }

    fn run_waiting(&mut self, waiting: &Request) {
        let origin = waiting.origin;
        self.asker = Asker {
            connection: origin.connection,
            tracks: origin.tracks,
        };
        let mut batch = Box::new(Batch {
            slot: origin.slot,
            connection: origin.connection,
            version: origin.version,
            ..Batch::default()
        });
        self.start_stopwatch();
        self.measure(waiting.index, waiting.buffer.args().len());
        let outer = self.begin_hold();
        self.run_single(
            waiting.command,
            waiting.buffer.args(),
            origin.version,
            &mut batch.replies,
        );
        let hold = self.end_hold(outer);
        self.settle_stopwatch();
        batch.lengths.push((origin.sequence, batch.replies.len()));
        if let Some(replies) = self.hold_back(hold, origin.shard, Message::Replies(batch)) {
            self.send_reply(origin.shard, replies);
        }
    }
}

/// How `command` uses its keys.
pub(super) fn access(command: &Command) -> Access {
    if command.is_write() {
        Access::Exclusive
    } else {
        Access::Shared
    }
}

/// What stands for a key in a claim.
pub(crate) fn fingerprint(key: &[u8]) -> u64 {
    foldhash::quality::FixedState::default().hash_one(key)
}

/// The claim for `keys`: a fingerprint each, so that two keys may rarely share one; that costs a wait, never safety.
pub(super) fn claim_keys<'a>(keys: impl Iterator<Item = &'a [u8]>, access: Access) -> Claim {
    let mut fingerprints: Vec<(u64, Access)> = keys.map(|key| (fingerprint(key), access)).collect();
    fingerprints.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
    fingerprints.dedup_by_key(|(fingerprint, _)| *fingerprint);
    Claim::Keys(fingerprints)
}
