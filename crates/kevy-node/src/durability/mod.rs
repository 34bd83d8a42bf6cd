//! Nothing acknowledged is lost: what commands did goes to the log, and replies wait for it where they must.
//!
//! * Effects of a request become an entry of the log when it has run; those of a transaction become one *part*, logged
//!   when it ends (`commit`), or a plain entry if only one shard changed anything.
//! * Under `appendfsync always` no byte leaves for a client, and no reply leaves for another shard, before everything that
//!   was logged until then is durable (the *gate*). Reads wait, too: nobody sees what a crash could still undo.
//! * While the log cannot be written, writes are refused.
//!
//! [`loading`] reads it all back at the start, [`snapshots`] keeps the log short, [`settle`] is a coordinator's side.

mod loading;
mod settle;
mod snapshots;

pub(crate) use loading::Loading;
pub use settle::Commit;
pub(crate) use settle::{SettleWaiter, Settling};
pub(crate) use snapshots::SnapshotControl;
pub use snapshots::{SaveKind, SaveReport};

use crate::changes::key_of;
use crate::host::Slot;
use crate::lock_table::Ticket;
use crate::log::{DiskOperation, DiskResult, DiskTask, Journal, JournalNews, SyncPolicy};
use crate::message::{Access, Claim, Message};
use crate::settings::AppendFsync;
use crate::shard::Shard;
use crate::transaction::{Waiting, fingerprint};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{TransactionPart, push_effects, push_part};
use kevy_proto::resp::{ErrorReply, RequestBuffer};
use kevy_proto::time::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How many bytes the log may hold back before clients are no longer read.
const HELD_BYTES: u64 = 256 * 1024 * 1024;
/// How many parts may be unsynced before a sync is asked for, whatever the policy says.
const UNSYNCED_PARTS: usize = 4096;
/// How long an epoch is.
const EPOCH_MILLIS: u128 = 10;
/// How long a part is unsynced at most, whatever the policy says.
const SETTLE_INTERVAL: Duration = Duration::from_secs(1);

/// What an open shard keeps for its log.
#[derive(Debug)]
pub(crate) struct Durability {
    pub(crate) journal: Journal,
    pub(crate) snapshots: SnapshotControl,
    /// Whether replies wait for the log.
    is_gated: bool,
    /// Coordinators that want to know once the log is durable up to a position, in order.
    acknowledgements: VecDeque<(u64, TransactionId)>,
    /// Messages that wait for a position, in order.
    held_messages: VecDeque<(u64, ShardId, Message)>,
    /// Sessions with output that waits.
    gated: VecDeque<Slot>,
    /// Effects of transactions under way.
    effects: HashMap<TransactionId, Vec<RequestBuffer>, FixedState>,
    /// Transactions that are logged and keep their locks until they are durable everywhere: by what they were logged as, what
    /// holds the locks.
    isolated: HashMap<TransactionId, TransactionId, FixedState>,
    /// While the log cannot be written: what locks the keys whose last change is not durable, and up to where it must be.
    /// Each time it fails adds one; a disk that works again makes all of them durable at once.
    undurable: VecDeque<(Ticket, u64)>,
    /// The log was ended for a clean stop.
    is_closed: bool,
    /// When a sync is asked for if somebody waits for one, whatever the policy says.
    settle_at: Instant,
}

/// Where effects go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Logging {
    /// Into an entry of their own.
    #[default]
    Alone,
    /// To those of a transaction, until it commits.
    Within(TransactionId),
}

impl Durability {
    pub(crate) fn new(journal: Journal, fsync: AppendFsync, snapshots: SnapshotControl) -> Self {
        let mut durability = Self {
            journal,
            snapshots,
            is_gated: false,
            acknowledgements: VecDeque::new(),
            held_messages: VecDeque::new(),
            gated: VecDeque::new(),
            effects: HashMap::default(),
            isolated: HashMap::default(),
            undurable: VecDeque::new(),
            is_closed: false,
            settle_at: Instant::default(),
        };
        durability.set_policy(fsync);
        durability
    }

    /// Changes when the log is synced.
    pub(crate) fn set_policy(&mut self, fsync: AppendFsync) {
        self.is_gated = fsync == AppendFsync::Always;
        self.journal.set_policy(match fsync {
            AppendFsync::Always => SyncPolicy::Always,
            AppendFsync::Everysec => SyncPolicy::EverySecond,
            AppendFsync::No => SyncPolicy::Never,
        });
    }

    /// The position that replies have to wait for now, if they have to. While the log cannot be written, writes are refused,
    /// what is not durable is locked, and reads of all else go on.
    fn gate(&self) -> Option<u64> {
        let end = self.journal.end();
        let is_closed = self.is_gated && self.journal.synced() < end;
        (is_closed && self.journal.fault().is_none()).then_some(end)
    }
}

impl Shard {
    // ---- what is logged ------------------------------------------------------------------------------------------

    /// Logs the effects collected.
    pub(crate) fn log_effects(&mut self) {
        let Some(durability) = &mut self.durability else {
            return;
        };
        match self.logging {
            Logging::Alone => {
                let effects = self.effects.iter();
                let (now, epoch) = (self.now.monotonic, self.epoch);
                durability
                    .journal
                    .append(now, epoch, |out| push_effects(out, effects));
            }
            Logging::Within(id) => {
                let kept = durability.effects.entry(id).or_default();
                kept.extend(self.effects.iter().map(RequestBuffer::from_args));
            }
        }
    }

    /// Keeps what a transaction did to entries of ours that were lent, until it commits.
    pub(crate) fn keep_effects(&mut self, id: TransactionId, effects: Vec<RequestBuffer>) {
        if let Some(durability) = &mut self.durability
            && !effects.is_empty()
        {
            durability.effects.entry(id).or_default().extend(effects);
        }
    }

    /// Whether a transaction has changed anything here so far.
    pub(crate) fn has_effects_of(&self, id: TransactionId) -> bool {
        let durability = self.durability.as_ref();
        durability.is_some_and(|durability| durability.effects.contains_key(&id))
    }

    /// A transaction is over: logs what it did here, and lets its locks go, which `transaction` holds.
    pub(crate) fn commit_and_release(&mut self, commit: &Commit, transaction: TransactionId) {
        self.commit(commit);
        match &mut self.durability {
            Some(durability) if commit.is_isolated => {
                durability.isolated.insert(commit.id, transaction);
            }
            Some(_) | None => self.let_go_of(transaction),
        }
    }

    /// A coordinator lets the locks of a transaction go: it has changed nothing here, or is durable everywhere.
    pub(crate) fn release_held(&mut self, id: TransactionId) {
        let durability = self.durability.as_mut();
        let isolated = durability.and_then(|durability| durability.isolated.remove(&id));
        self.let_go_of(isolated.unwrap_or(id));
    }

    /// Nothing stands in the way of others any more: ends a transaction's locks, or goes on with the round of an offer.
    pub(crate) fn let_go_of(&mut self, transaction: TransactionId) {
        if !self.offer_is_back(transaction) {
            self.release(transaction);
        }
    }

    /// A transaction is over: logs what it did here.
    pub(crate) fn commit(&mut self, commit: &Commit) {
        self.note_epoch(commit.epoch);
        let (now, epoch) = (self.now.monotonic, self.epoch);
        let Some(durability) = &mut self.durability else {
            return;
        };
        let effects = durability.effects.remove(&commit.id).unwrap_or_default();
        let requests = effects.iter().map(RequestBuffer::args);
        let journal = &mut durability.journal;
        if commit.participants.len() > 1 {
            let part = TransactionPart {
                id: commit.id,
                settled_below: commit.settled_below,
                participants: commit.participants.to_vec(),
                epoch: commit.epoch,
                is_isolated: commit.is_isolated,
            };
            journal.append(now, epoch, |out| push_part(out, &part, requests));
            journal.note_part(&part);
        } else if !effects.is_empty() {
            journal.append(now, epoch, |out| push_effects(out, requests));
        }
        if commit.acknowledge {
            self.acknowledge_once_durable(commit.id);
        }
    }

    /// Tells the coordinator once everything that was logged so far is durable.
    pub(crate) fn acknowledge_once_durable(&mut self, id: TransactionId) {
        let Some(durability) = &mut self.durability else {
            return self.send(id.coordinator, Message::Durable(vec![id.sequence]));
        };
        let end = durability.journal.end();
        durability.acknowledgements.push_back((end, id));
        if durability.acknowledgements.len() > UNSYNCED_PARTS {
            durability.journal.request_sync();
        }
        self.tell_what_is_durable();
    }

    // ---- epochs --------------------------------------------------------------------------------------------------

    /// Time goes on: epochs follow the clock of the process, which all shards share.
    pub(crate) fn advance_epoch(&mut self) {
        if self.config.journal.is_none() {
            return;
        }
        let elapsed = self
            .now
            .monotonic
            .saturating_since(self.config.now.monotonic);
        let epochs = elapsed.as_millis() / EPOCH_MILLIS;
        self.note_epoch(self.epoch_base + epochs as u64);
    }

    /// Another shard has come to `epoch`: what we do from now on is no earlier.
    pub(crate) fn note_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    // ---- the gate ------------------------------------------------------------------------------------------------

    /// Sends a reply of ours to a session of another shard, once it may leave.
    pub(crate) fn send_reply(&mut self, to: ShardId, message: Message) {
        if let Some(durability) = &mut self.durability
            && to != self.id
            && let Some(position) = durability.gate()
        {
            return durability.held_messages.push_back((position, to, message));
        }
        self.send(to, message);
    }

    /// Lets the output of a session go, or wait for the log. To be called once its turn is over.
    pub(crate) fn gate_output(&mut self, slot: Slot) {
        let durability = self.durability.as_ref();
        let gate = durability.and_then(|durability| durability.gate());
        let synced = durability.map_or(u64::MAX, |durability| durability.journal.synced());
        let Some(session) = self.session_mut(slot) else {
            return;
        };
        let own = Some(session.replies.waits_for()).filter(|position| *position > synced);
        let gate = gate.or(own);
        let Some(position) = gate else {
            return session.replies.let_go();
        };
        if session.replies.hold_until(position)
            && let Some(durability) = &mut self.durability
        {
            durability.gated.push_back(slot);
        }
    }

    /// More of the log is durable: whatever waited for it goes on.
    fn tell_what_is_durable(&mut self) {
        let Some(durability) = &mut self.durability else {
            return;
        };
        let synced = durability.journal.synced();
        let mut settled: BTreeMap<ShardId, Vec<u64>> = BTreeMap::new();
        while let Some((position, id)) = durability.acknowledgements.front()
            && *position <= synced
        {
            settled.entry(id.coordinator).or_default().push(id.sequence);
            durability.acknowledgements.pop_front();
        }
        let mut ready = Vec::new();
        while let Some((position, ..)) = durability.held_messages.front()
            && *position <= synced
        {
            ready.extend(durability.held_messages.pop_front());
        }
        let gated = std::mem::take(&mut durability.gated);
        for (coordinator, sequences) in settled {
            self.send(coordinator, Message::Durable(sequences));
        }
        for (_, to, message) in ready {
            self.send(to, message);
        }
        for slot in gated {
            self.release_output(slot, synced);
        }
    }

    fn release_output(&mut self, slot: Slot, synced: u64) {
        let Some(session) = self.session_mut(slot) else {
            return;
        };
        let still_held = session.replies.release(synced);
        if still_held && let Some(durability) = &mut self.durability {
            durability.gated.push_back(slot);
        }
        self.announce_output(slot);
    }

    // ---- the disk ------------------------------------------------------------------------------------------------

    /// Asks for a sync if a coordinator has waited for one for a while, whatever the policy says.
    pub(crate) fn settle_if_due(&mut self) {
        let now = self.now.monotonic;
        if let Some(durability) = &mut self.durability
            && now >= durability.settle_at
        {
            durability.settle_at = now + SETTLE_INTERVAL;
            if !durability.acknowledgements.is_empty() {
                durability.journal.request_sync();
            }
        }
    }

    /// The next thing to be done with a file, if there is one now.
    pub fn poll_disk(&mut self) -> Option<DiskOperation> {
        if let Some(operation) = self.poll_loading() {
            return Some(operation);
        }
        let now = self.now.monotonic;
        self.durability.as_mut()?.journal.poll_operation(now)
    }

    /// An operation on a file has ended.
    pub fn handle_disk(&mut self, task: DiskTask, result: DiskResult) {
        if self.handle_loading(task, &result) {
            return self.handle_local();
        }
        let now = self.now.monotonic;
        let Some(durability) = &mut self.durability else {
            return;
        };
        let was_faulty = durability.journal.fault().is_some();
        let news = durability.journal.handle_done(task, result, now);
        let is_faulty = durability.journal.fault().is_some();
        if was_faulty != is_faulty {
            self.keyspace.set_expiry_mode(self.expiry_mode());
        }
        if is_faulty && !was_faulty {
            self.hold_outputs();
            self.lock_undurable();
        }
        match news {
            JournalNews::Nothing => {}
            JournalNews::Synced => {
                self.tell_what_is_durable();
                self.unlock_undurable();
            }
            JournalNews::Opened => self.log_has_opened(),
            JournalNews::SnapshotAdopted => self.end_snapshot(None),
            JournalNews::SnapshotFailed(fault) => self.end_snapshot(Some(&fault)),
        }
        self.go_on_opening();
        self.handle_local();
    }

    /// What was replied in this turn waits for the log, although from now on nothing more does.
    fn hold_outputs(&mut self) {
        let Some(durability) = &mut self.durability else {
            return;
        };
        if !durability.is_gated {
            return;
        }
        let position = durability.journal.end();
        for session in self.sessions.iter_mut().flatten() {
            session.replies.hold_waiting_until(position);
            if session.replies.hold_until(position) {
                durability.gated.push_back(session.slot);
            }
        }
    }

    /// The log cannot be written: reads go on, but not of keys whose last change a crash could still undo. Those are locked
    /// until it is durable.
    fn lock_undurable(&mut self) {
        let Some(durability) = &self.durability else {
            return;
        };
        if !durability.is_gated {
            return;
        }
        let mut keys = Vec::new();
        let mut is_whole = false;
        durability.journal.for_each_undurable(|requests| {
            requests.for_each(|effect| match key_of(&mut self.commands, effect) {
                Some(key) => keys.push(fingerprint(key)),
                None => is_whole = true,
            });
        });
        let position = durability.journal.end();
        keys.sort_unstable();
        keys.dedup();
        let claim = if is_whole {
            Claim::Whole(Access::Exclusive)
        } else {
            Claim::Keys(
                keys.into_iter()
                    .map(|key| (key, Access::Exclusive))
                    .collect(),
            )
        };
        let (ticket, held) = self.locks.enqueue(claim);
        if !held {
            self.waiting.insert(ticket, Waiting::Undurable);
        }
        if let Some(durability) = &mut self.durability {
            durability.undurable.push_back((ticket, position));
        }
    }

    fn unlock_undurable(&mut self) {
        while let Some(durability) = &mut self.durability
            && let Some((ticket, position)) = durability.undurable.front().copied()
            && position <= durability.journal.synced()
        {
            durability.undurable.pop_front();
            self.waiting.remove(&ticket);
            let mut granted = Vec::new();
            self.pass_on(ticket, &mut granted);
            self.run_granted(granted);
        }
    }

    /// Why writes are refused now, if they are.
    #[inline]
    pub(crate) fn write_refusal(&self) -> Option<ErrorReply> {
        let fault = self.durability.as_ref()?.journal.fault()?;
        let text = format!("MISCONF Errors writing to the AOF file: {fault}");
        Some(ErrorReply::Other(text.into()))
    }

    /// Whether the log holds so much back that clients must wait.
    pub(crate) fn is_log_congested(&self) -> bool {
        let durability = self.durability.as_ref();
        durability.is_some_and(|durability| durability.journal.held_bytes() > HELD_BYTES)
    }
}
