//! The session's side: the first attempt, being blocked, and the ways out of it.

use super::{AWAITED_KEYS_PER_CONNECTION, Offer, Registration, Served, Waiter, distinct};
use crate::host::Slot;
use crate::message::{Message, Restored};
use crate::route::{Route, route};
use crate::session::{Session, State};
use crate::shard::Shard;
use crate::transaction::{Caller, Meeting, Party};
use bytes::BytesMut;
use kevy_engine::{Command, Wait};
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RequestBuffer};
use kevy_proto::time::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The error of a client that another one unblocked.
const UNBLOCKED: ErrorReply = ErrorReply::text("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// What a session that is blocked waits for.
#[derive(Debug)]
pub(crate) struct Blocked {
    id: TransactionId,
    /// When it waits no longer.
    deadline: Option<Instant>,
    /// The number of the request among its replies.
    reply_number: u64,
    /// What it is told when the deadline has passed.
    timeout_reply: BytesMut,
    /// Who knows its waiter.
    owners: BTreeSet<ShardId>,
    /// Its request runs just now, as a transaction.
    busy: bool,
}

impl Shard {
    /// Begins a command that may have to wait.
    pub(crate) fn begin_blocking(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
    ) {
        if args.len() > AWAITED_KEYS_PER_CONNECTION {
            return self.reply_error(session, &ErrorReply::text("ERR too many keys to wait for"));
        }
        match route(command, args, self.map, self.id, session.peer.door) {
            Route::One(shard) if shard == self.id && self.is_free_for(command, args) => {
                self.attempt_here(session, command, args);
            }
            Route::One(shard) => {
                let mut positions = Vec::new();
                command.keys.positions(args, &mut positions);
                self.begin_on_owners(session, command, args, vec![(shard, positions)]);
            }
            Route::Owners(owners) => self.begin_on_owners(session, command, args, owners),
            Route::Moved { slot, owner } => {
                let address = self.shard_address(owner, session);
                self.reply_error(session, &ErrorReply::Moved { slot, address });
            }
            Route::Everywhere => debug_assert!(false, "a blocking command names its keys"),
        }
    }

    fn attempt_here(&mut self, session: &mut Session, command: &'static Command, args: Args<'_>) {
        let mut reply = BytesMut::new();
        self.keyspace.set_touching(!session.client.no_touch);
        let wait = self.run_single(command, args, session.client.version, &mut reply);
        self.keyspace.set_touching(true);
        let Some(wait) = wait else {
            return Self::finish_reply(session, reply);
        };
        let reply_number = Self::begin_reply(session);
        let waiter = self.waiter_for(session, command, args, &wait);
        let sources = waiter.sources();
        let keys = distinct(waiter.request.args(), &sources);
        let registration = Registration {
            keys: RequestBuffer::from_slices(keys),
            waiter: Arc::clone(&waiter),
        };
        self.register_waiter(&registration);
        let owners = BTreeSet::from([self.id]);
        self.block(session, &waiter, wait.timeout, reply_number, owners);
    }

    fn waiter_for(
        &mut self,
        session: &Session,
        command: &'static Command,
        args: Args<'_>,
        wait: &Wait,
    ) -> Arc<Waiter> {
        let request = wait.request.clone();
        Arc::new(Waiter {
            id: self.new_transaction_id(),
            slot: session.slot,
            connection: session.id,
            command,
            request: request.unwrap_or_else(|| RequestBuffer::from_args(args)),
            version: session.client.version,
            no_touch: session.client.no_touch,
            awaited: wait.awaited,
            sources: wait.sources,
        })
    }

    /// The attempt was a transaction and found nothing: if the session is still there it waits, and the owners of its keys
    /// hear of it with their entries. Says whether it waits.
    pub(crate) fn block_caller(
        &mut self,
        caller: Caller,
        command: &'static Command,
        args: Args<'_>,
        wait: &Wait,
        restored: &mut [(ShardId, Restored)],
    ) {
        let Some(mut session) = self.take_session(caller.slot) else {
            return;
        };
        let waiter = self.waiter_for(&session, command, args, wait);
        let sources = waiter.sources();
        let keys = distinct(waiter.request.args(), &sources);
        let mut owners = BTreeSet::new();
        for (shard, restored) in restored {
            let owned = |key: &&[u8]| self.map.owner_of_key(key) == *shard;
            let own = RequestBuffer::from_slices(keys.iter().copied().filter(owned));
            if !own.args().is_empty() {
                owners.insert(*shard);
                restored.registration = Some(Box::new(Registration {
                    waiter: Arc::clone(&waiter),
                    keys: own,
                }));
            }
        }
        self.block(
            &mut session,
            &waiter,
            wait.timeout,
            caller.reply_number,
            owners,
        );
        let held = session.end_reading();
        self.return_session(session);
        self.tell_held(caller.connection, held);
    }

    fn block(
        &mut self,
        session: &mut Session,
        waiter: &Waiter,
        timeout: Option<Duration>,
        reply_number: u64,
        owners: BTreeSet<ShardId>,
    ) {
        let mut timeout_reply = BytesMut::new();
        Encoder::new(&mut timeout_reply, session.client.version).null_array();
        let deadline = timeout.map(|timeout| self.now.monotonic + timeout);
        self.suspend(
            session,
            Blocked {
                id: waiter.id,
                deadline,
                reply_number,
                timeout_reply,
                owners,
                busy: false,
            },
        );
    }

    /// Lets a session wait for nothing but time; then it is told `timeout_reply`.
    pub(crate) fn block_for(
        &mut self,
        session: &mut Session,
        timeout: Option<Duration>,
        timeout_reply: BytesMut,
    ) {
        let blocked = Blocked {
            id: self.new_transaction_id(),
            deadline: timeout.map(|timeout| self.now.monotonic + timeout),
            reply_number: Self::begin_reply(session),
            timeout_reply,
            owners: BTreeSet::new(),
            busy: false,
        };
        self.suspend(session, blocked);
    }

    fn suspend(&mut self, session: &mut Session, blocked: Blocked) {
        if let Some(deadline) = blocked.deadline {
            self.blocking.deadlines.insert((deadline, session.slot));
        }
        session.state = State::Blocked;
        session.blocked = Some(Box::new(blocked));
    }

    // ---- ways out --------------------------------------------------------------------------------------------------

    /// Ends the waiting of a session that is out of the table; owners of its keys forget it.
    pub(crate) fn stop_waiting(&mut self, session: &mut Session) -> Option<Box<Blocked>> {
        let blocked = session.blocked.take()?;
        if let Some(deadline) = blocked.deadline {
            self.blocking.deadlines.remove(&(deadline, session.slot));
        }
        for &owner in &blocked.owners {
            if owner == self.id {
                // At once: whoever changes the key next must find nobody.
                self.remove_waiter(blocked.id);
            }
            if owner != self.id || !self.local.is_empty() {
                // Behind a registration that may be under way.
                self.send(owner, Message::StopWaiting(blocked.id));
            }
        }
        Some(blocked)
    }

    /// Ends the waiting of a session without a reply: it is about to go.
    pub(crate) fn abandon_waiting(&mut self, session: &mut Session) {
        if let Some(blocked) = self.stop_waiting(session) {
            session
                .replies
                .complete(blocked.reply_number, BytesMut::new());
        }
    }

    /// Hands the reply to a blocked session and lets it go on.
    /// If replies wait for the disk, this one waits for what `settles` says.
    pub(crate) fn unblock(&mut self, slot: Slot, reply: BytesMut, settles: Option<TransactionId>) {
        let Some(mut session) = self.take_session(slot) else {
            return;
        };
        if let Some(blocked) = self.stop_waiting(&mut session) {
            self.complete_when_settled(&mut session, blocked.reply_number, reply, settles);
            if session.state == State::Blocked {
                session.state = State::Open;
                self.blocking.resumed.push_back(slot);
            }
        }
        // Another session may be at work: its batches are not to be flushed in the name of this one.
        self.sessions[slot.index()] = Some(session);
        self.announce_output(slot);
        self.close_above_hard_limit(slot);
    }

    /// Goes on with a session that was unblocked.
    pub(crate) fn resume(&mut self, slot: Slot) {
        let Some(mut session) = self.take_session(slot) else {
            return;
        };
        if session.state == State::Open {
            self.execute_buffered(&mut session);
            self.readable.push_back(slot);
        }
        self.return_session(session);
    }

    /// Unblocks sessions whose time is over.
    pub(crate) fn end_overdue_waits(&mut self) {
        while let Some(&(deadline, slot)) = self.blocking.deadlines.first()
            && deadline <= self.now.monotonic
        {
            self.blocking.deadlines.pop_first();
            self.time_out(slot);
        }
    }

    fn time_out(&mut self, slot: Slot) {
        let blocked = self
            .session_mut(slot)
            .and_then(|session| session.blocked.as_mut());
        if let Some(blocked) = blocked {
            let reply = std::mem::take(&mut blocked.timeout_reply);
            self.unblock(slot, reply, None);
        }
    }

    /// `CLIENT UNBLOCK`: how many sessions were unblocked, 0 or 1.
    pub(crate) fn unblock_client(&mut self, connection: ConnectionId, with_error: bool) -> usize {
        let mut sessions = self.sessions.iter().flatten();
        let Some(session) = sessions.find(|session| {
            session.id == connection && session.blocked.as_ref().is_some_and(|b| !b.busy)
        }) else {
            return 0;
        };
        let (slot, version) = (session.slot, session.client.version);
        if with_error {
            let mut reply = BytesMut::new();
            Encoder::new(&mut reply, version).error(&UNBLOCKED);
            self.stats.count_error(&UNBLOCKED);
            self.unblock(slot, reply, None);
        } else {
            self.time_out(slot);
        }
        1
    }

    // ---- being served ----------------------------------------------------------------------------------------------

    /// Whether the waiter's session still waits, and nothing else is under way for it.
    pub(super) fn is_waiting(&self, waiter: &Waiter) -> bool {
        self.session(waiter.slot).is_some_and(|session| {
            session.state == State::Blocked
                && session
                    .blocked
                    .as_ref()
                    .is_some_and(|blocked| blocked.id == waiter.id && !blocked.busy)
        })
    }

    /// An owner ran a request of ours that consumes nothing.
    pub(crate) fn take_served(&mut self, served: Served) {
        if self.is_waiting(&served.waiter) {
            self.unblock(served.waiter.slot, served.reply, None);
        }
    }

    /// An entry came that a session of ours may wait for.
    pub(crate) fn take_offer(&mut self, from: ShardId, offer: Offer) {
        let Offer {
            id,
            waiter,
            key,
            lent,
        } = offer;
        self.note_epoch(lent.epoch);
        if !self.is_waiting(&waiter) {
            let entries = lent.entries.into_iter().flatten().collect();
            let unchanged = Restored::unchanged(id, entries);
            return self.send(from, Message::Restore(Box::new(unchanged)));
        }
        let request = waiter.request_for(&key);
        let args = request.args();
        let mut positions = Vec::new();
        waiter.command.keys.positions(args, &mut positions);
        let (at_key, others): (Vec<usize>, Vec<usize>) =
            positions.into_iter().partition(|at| args.at(*at) == key);
        let party = Party {
            shard: from,
            transaction: id,
            positions: at_key,
        };
        // Of other sources nothing is needed; what is only written to must be here.
        let written = waiter.sources().len();
        let others: Vec<usize> = if waiter.positions().len() > written {
            others
        } else {
            Vec::new()
        };
        if !others.is_empty() {
            return self.take_up(&waiter, party, lent, &others);
        }
        let meeting = Meeting {
            asker: waiter.asker(),
            keys: args,
            parties: vec![party],
            lent: vec![lent],
            keep_locks: false,
            offer: Some(id),
        };
        let began = self.clock();
        let met = self.run_together(meeting, waiter.command, args, waiter.version);
        if met.wait.is_none() {
            self.log_served(waiter.slot, args, began);
            // The owner hears that the session waits no longer before the entry is back.
            self.unblock(waiter.slot, met.reply, met.settles);
        }
        self.send_back(met.restored);
    }

    /// An offered entry is to be moved to other keys: a transaction with what is offered and, if they are free, those.
    fn take_up(
        &mut self,
        waiter: &Waiter,
        party: Party,
        lent: crate::message::Lent,
        others: &[usize],
    ) {
        let Some(session) = self.session_mut(waiter.slot) else {
            return;
        };
        let Some(blocked) = &mut session.blocked else {
            return;
        };
        blocked.busy = true;
        let caller = Caller {
            slot: waiter.slot,
            connection: waiter.connection,
            reply_number: blocked.reply_number,
            version: waiter.version,
            asker: waiter.asker(),
        };
        if let Some(deadline) = blocked.deadline {
            self.blocking.deadlines.remove(&(deadline, waiter.slot));
        }
        let request = waiter.request.clone();
        self.begin_with_offer(caller, waiter.command, request, (party, lent), others);
    }

    /// The transaction of a waiter found nothing after all: it waits on.
    pub(crate) fn wait_on(&mut self, caller: Caller) {
        let session = self.session_mut(caller.slot);
        if let Some(blocked) = session.and_then(|session| session.blocked.as_mut()) {
            blocked.busy = false;
            if let Some(deadline) = blocked.deadline {
                self.blocking.deadlines.insert((deadline, caller.slot));
            }
        }
    }
}
