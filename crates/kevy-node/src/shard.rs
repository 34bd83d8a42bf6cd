//! One core's data plane: its sessions, its part of the keys, its part in transactions.
//!
//! A pure machine. `handle_*` takes what happened; afterwards the host drains `poll_*`: messages for other shards, then
//! output of sessions, then sessions to close. [`Shard::deadline`] says when [`Shard::handle_time`] is due at the latest.
//!
//! The other files of this crate add to it: `execute` (requests of a session), `hop` (requests of other shards),
//! `transaction` (both sides of a transaction over several shards), `commands` (what a session or the control plane answers).

mod shutdown;

use crate::announcements::Announcements;
use crate::blocking::Blocking;
use crate::command_table::CommandTable;
use crate::durability::{Durability, Loading, Logging, SettleWaiter, Settling};
use crate::histogram::Histograms;
use crate::host::{Peer, Slot};
use crate::latency::{Event, Latencies};
use crate::lock_table::{LockTable, Ticket};
use crate::log::JournalConfig;
use crate::message::{Batch, Message};
use crate::monitor::Monitors;
use crate::pause::Pausing;
pub use crate::process::Process;
use crate::session::{Session, State};
use crate::settings::Settings;
use crate::slow_log::SlowLog;
use crate::stats::Stats;
use crate::stopwatch::Stopwatch;
use crate::subscriptions::Subscriptions;
use crate::tracking::{Asker, TrackingTable};
use crate::transaction::{Transaction, Waiting};
use crate::watch::Watches;
use bytes::BytesMut;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kevy_engine::keyspace::{EvictionPolicy, ExpiryMode, Partition};
use kevy_engine::{Effects, Keyspace};
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::Limits;
use kevy_proto::rng::Rng;
use kevy_proto::slot::SlotMap;
use kevy_proto::time::{Instant, Now};
pub use shutdown::SHUTDOWN_GRACE;
use shutdown::Shutdown;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How many expired keys are removed in one turn, for each step of `active-expire-effort`.
pub const EXPIRED_PER_TURN: usize = 200;
/// How many messages may wait for one full queue before clients are no longer read.
pub const OUTBOX_MESSAGES: usize = 1024;
/// How many bytes a session that waits for a transaction buffers before it is no longer read.
pub const BLOCKED_INPUT_BYTES: usize = 64 * 1024;
/// How many emptied batches are kept for reuse.
pub const SPARE_BATCHES: usize = 64;

/// What a shard is told at its start.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Which one it is.
    pub id: ShardId,
    /// The settings of the process.
    pub settings: Arc<Settings>,
    /// Where its hashing and its random choices start.
    pub seed: u64,
    /// What `INFO` tells about the process.
    pub process: Process,
    /// When it starts.
    pub now: Now,
    /// Its files; without any it keeps everything in memory only.
    pub journal: Option<JournalConfig>,
}

/// One core's data plane.
#[derive(Debug)]
pub struct Shard {
    pub(crate) id: ShardId,
    pub(crate) map: SlotMap,
    pub(crate) config: ShardConfig,
    /// The settings in force here: those of the start, changed by `CONFIG SET`.
    pub(crate) settings: Settings,
    /// The moment of this turn.
    pub(crate) now: Now,
    pub(crate) keyspace: Keyspace,
    pub(crate) effects: Effects,
    pub(crate) commands: CommandTable,
    pub(crate) stats: Stats,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) histograms: Histograms,
    pub(crate) latencies: Latencies,
    pub(crate) slow_log: SlowLog,
    pub(crate) rng: Rng,
    /// This shard's share of `maxmemory`; 0: no limit.
    pub(crate) memory_limit_bytes: u64,
    pub(crate) eviction_policy: EvictionPolicy,
    pub(crate) sessions: Vec<Option<Box<Session>>>,
    /// Where the sessions are.
    pub(crate) connections: HashMap<ConnectionId, Slot, FixedState>,
    pub(crate) subscriptions: Subscriptions,
    /// Who has cached what.
    pub(crate) tracking: TrackingTable,
    pub(crate) monitors: Monitors,
    pub(crate) pausing: Pausing,
    /// On whose behalf the command at work runs.
    pub(crate) asker: Asker,
    pub(crate) announcements: Announcements,
    next_connection: u64,
    pub(crate) locks: LockTable,
    /// Keys that sessions, of whatever shard, watch here.
    pub(crate) watches: Watches,
    /// Who waits for keys, here and elsewhere.
    pub(crate) blocking: Blocking,
    /// Claims that transactions hold here.
    pub(crate) held: HashMap<TransactionId, Ticket, FixedState>,
    /// Who waits for which claim.
    pub(crate) waiting: BTreeMap<Ticket, Waiting>,
    /// Transactions of our own sessions, by their sequence numbers.
    pub(crate) transactions: BTreeMap<u64, Transaction>,
    pub(crate) next_transaction: u64,
    /// Transactions of ours that are not durable everywhere, by their sequence numbers.
    pub(crate) settling: BTreeMap<u64, Settling>,
    /// Shards that wait until they are.
    pub(crate) settle_waiters: Vec<SettleWaiter>,
    /// The log, once it is open.
    pub(crate) durability: Option<Box<Durability>>,
    /// Where effects go.
    pub(crate) logging: Logging,
    /// When we are, as shards count time together for their logs.
    pub(crate) epoch: u64,
    /// The epoch at the start of the process.
    pub(crate) epoch_base: u64,
    /// Set until the files of all shards are loaded.
    pub(crate) loading: Option<Box<Loading>>,
    /// Why the shard cannot go on.
    pub(crate) failure: Option<String>,
    /// Where entries of several shards meet for a command that needs them together. Empty between uses.
    pub(crate) meeting: Keyspace,
    /// For each shard, messages that its queue did not take yet.
    outboxes: Vec<VecDeque<Message>>,
    /// Messages to ourselves.
    pub(crate) local: VecDeque<Message>,
    /// For each shard, the requests of the session at work for it.
    pub(crate) batches: Vec<Option<Box<Batch>>>,
    #[expect(
        clippy::vec_box,
        reason = "batches travel boxed; unboxing them to wait would copy them"
    )]
    pub(crate) spare_batches: Vec<Box<Batch>>,
    /// Batches and transactions of ours that other shards have not answered yet.
    pub(crate) unanswered: usize,
    pub(crate) scratch: BytesMut,
    with_output: VecDeque<Slot>,
    to_close: VecDeque<Slot>,
    pub(crate) readable: VecDeque<Slot>,
    next_cron: Instant,
    /// Expired keys were left alone because of locks.
    expiry_postponed: bool,
    shutdown: Shutdown,
}

impl Shard {
    /// A shard without keys and sessions.
    pub fn new(config: ShardConfig) -> Self {
        let settings = (*config.settings).clone();
        let map = SlotMap::new(settings.server.threads);
        let shards = map.shards();
        let partition = Partition {
            index: config.id.0,
            count: shards,
        };
        let mut shard = Self {
            id: config.id,
            map,
            now: config.now,
            keyspace: Keyspace::with_partition(config.seed, partition),
            meeting: Keyspace::with_partition(config.seed, partition),
            effects: Effects::off(),
            commands: CommandTable::new(),
            stats: Stats::new(config.now),
            stopwatch: Stopwatch::default(),
            histograms: Histograms::default(),
            latencies: Latencies::default(),
            slow_log: SlowLog::default(),
            rng: Rng::from_seed(config.seed ^ 0x6b65_7679),
            memory_limit_bytes: 0,
            eviction_policy: EvictionPolicy::NoEviction,
            sessions: Vec::new(),
            connections: HashMap::default(),
            subscriptions: Subscriptions::default(),
            tracking: TrackingTable::default(),
            monitors: Monitors::default(),
            pausing: Pausing::default(),
            asker: Asker::default(),
            announcements: Announcements::default(),
            next_connection: 0,
            locks: LockTable::new(),
            watches: Watches::default(),
            blocking: Blocking::default(),
            held: HashMap::default(),
            waiting: BTreeMap::new(),
            transactions: BTreeMap::new(),
            next_transaction: 0,
            settling: BTreeMap::new(),
            settle_waiters: Vec::new(),
            durability: None,
            logging: Logging::default(),
            epoch: 0,
            epoch_base: 0,
            loading: Loading::begin(&config, shards),
            failure: None,
            outboxes: (0..shards).map(|_| VecDeque::new()).collect(),
            local: VecDeque::new(),
            batches: (0..shards).map(|_| None).collect(),
            spare_batches: Vec::new(),
            unanswered: 0,
            scratch: BytesMut::new(),
            with_output: VecDeque::new(),
            to_close: VecDeque::new(),
            readable: VecDeque::new(),
            next_cron: config.now.monotonic,
            expiry_postponed: false,
            shutdown: Shutdown::No,
            settings,
            config,
        };
        shard.apply_memory_settings();
        shard.apply_notification_settings();
        shard
    }

    /// Which shard this is.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// How many shards the process has.
    pub fn shards(&self) -> u16 {
        self.map.shards()
    }

    // ---- what happened -------------------------------------------------------------------------------------------

    /// Begins a turn at `now`, and does what has become due.
    pub fn handle_time(&mut self, now: Now) {
        self.now = now;
        self.advance_epoch();
        self.end_pause_if_due();
        self.end_overdue_waits();
        self.drive_snapshot();
        if now.monotonic >= self.next_cron {
            self.run_cron();
        }
        self.handle_local();
    }

    /// Ends a turn that began at the time given to [`Shard::handle_time`]: for statistics.
    pub fn end_turn(&mut self) {
        let took = self.clock().saturating_since(self.now.monotonic);
        self.stats.longest_turn = self.stats.longest_turn.max(took);
    }

    fn run_cron(&mut self) {
        let now = self.now;
        self.next_cron = now.monotonic + self.cron_interval();
        self.expire();
        self.close_idle_clients();
        self.close_slow_clients();
        self.want_snapshot_if_due();
        self.settle_if_due();
        self.stats.sample(now, self.keyspace.used_bytes());
        self.advance_shutdown();
    }

    /// A connection was accepted.
    pub fn handle_connected(&mut self, slot: Slot, peer: Peer) {
        let id = ConnectionId::new(self.next_connection, self.id, self.shards());
        self.next_connection += 1;
        self.stats.connections_received += 1;
        let limits = Limits {
            bulk_bytes: self.settings.server.proto_max_bulk_len as usize,
            ..Limits::default()
        };
        let rejected = peer.connected_total > self.settings.server.maxclients as usize;
        let mut session = Box::new(Session::new(id, slot, peer, limits, self.now));
        if rejected {
            self.stats.rejected_connections += 1;
            session
                .replies
                .push_out_of_band(b"-ERR max number of clients reached\r\n");
            session.drain();
        }
        if self.sessions.len() <= slot.index() {
            self.sessions.resize_with(slot.index() + 1, || None);
        }
        self.connections.insert(id, slot);
        self.sessions[slot.index()] = Some(session);
        if rejected {
            self.announce_output(slot);
        }
    }

    /// Bytes came from a client.
    pub fn handle_bytes(&mut self, slot: Slot, bytes: &[u8]) {
        self.make_room_ahead();
        let Some(mut session) = self.take_session(slot) else {
            return;
        };
        self.stats.input_bytes += bytes.len() as u64;
        if session.input.is_empty() && session.state == State::Open {
            let consumed = self.execute_input(&mut session, bytes);
            if session.state != State::Draining {
                session.input.extend_from_slice(&bytes[consumed..]);
            }
        } else if session.state != State::Draining {
            session.input.extend_from_slice(bytes);
            self.execute_buffered(&mut session);
        }
        self.check_query_buffer(&mut session);
        self.return_session(session);
        self.handle_local();
    }

    /// The client closed its side, or is gone. Replies of what it asked for are still sent if they can be.
    pub fn handle_disconnected(&mut self, slot: Slot) {
        let Some(mut session) = self.take_session(slot) else {
            return;
        };
        self.abandon_waiting(&mut session);
        let gone = session.state == State::Draining;
        session.drain();
        if gone || session.is_drained() {
            self.forget(&mut session);
            self.to_close.push_back(slot);
        } else {
            self.return_session(session);
        }
    }

    /// `count` bytes of a session's output were sent.
    pub fn handle_sent(&mut self, slot: Slot, count: usize) {
        self.stats.output_bytes += count as u64;
        let Some(session) = self.session_mut(slot) else {
            return;
        };
        session.replies.consume(count);
        session.awaits_writable = !session.replies.sendable().is_empty();
        if session.is_drained() {
            self.close(slot);
        }
    }

    /// Another shard said something.
    pub fn handle_message(&mut self, from: ShardId, message: Message) {
        self.dispatch_message(from, message);
        self.handle_local();
    }

    // ---- what is to be done --------------------------------------------------------------------------------------

    /// When [`Shard::handle_time`] is due at the latest.
    pub fn deadline(&self) -> Instant {
        let others = [
            self.pausing.until(),
            self.blocking.deadline(),
            self.disk_deadline(),
        ];
        let earliest = others.into_iter().flatten().min();
        earliest.map_or(self.next_cron, |due| due.min(self.next_cron))
    }

    /// Whether other shards owe us answers.
    pub fn expects_messages(&self) -> bool {
        self.unanswered > 0
    }

    /// The next message for the shard `to`.
    pub fn poll_message(&mut self, to: ShardId) -> Option<Message> {
        self.outboxes.get_mut(to.index())?.pop_front()
    }

    /// Keeps a message that the queue to `to` had no room for; it is the first to be polled again.
    pub fn take_back(&mut self, to: ShardId, message: Message) {
        if let Some(outbox) = self.outboxes.get_mut(to.index()) {
            outbox.push_front(message);
        }
    }

    /// The next session with output to send.
    pub fn poll_output(&mut self) -> Option<Slot> {
        while let Some(slot) = self.with_output.pop_front() {
            self.gate_output(slot);
            let Some(session) = self.session_mut(slot) else {
                continue;
            };
            session.in_output_list = false;
            if !session.awaits_writable && !session.replies.sendable().is_empty() {
                return Some(slot);
            }
            if session.is_drained() {
                self.close(slot);
            }
        }
        None
    }

    /// Whether [`Shard::poll_output`] may return something.
    pub fn has_output(&self) -> bool {
        !self.with_output.is_empty()
    }

    /// Bytes to send to the client at `slot`.
    pub fn output(&self, slot: Slot) -> &[u8] {
        self.session(slot)
            .map_or(&[], |session| session.replies.sendable())
    }

    /// The next connection to close.
    pub fn poll_close(&mut self) -> Option<Slot> {
        self.to_close.pop_front()
    }

    /// The next session that was not read for a while and wants to be read again.
    pub fn poll_readable(&mut self) -> Option<Slot> {
        self.readable.pop_front()
    }

    /// Whether bytes of the client at `slot` are welcome now. If not, the session comes up in [`Shard::poll_readable`].
    pub fn wants_bytes(&mut self, slot: Slot) -> bool {
        if self.is_congested() {
            if !self.readable.contains(&slot) {
                self.readable.push_back(slot);
            }
            return false;
        }
        let Some(session) = self.session(slot) else {
            return false;
        };
        match session.state {
            // Also of who waits for long the end must be noticed; `client_query_buffer_limit` bounds what comes before it.
            State::Blocked if session.is_blocked() => true,
            State::Blocked | State::Paused => session.input_bytes() < BLOCKED_INPUT_BYTES,
            // Of a draining session the end of the stream must still be noticed.
            State::Open | State::Draining => true,
        }
    }

    // ---- for the other files of this crate -----------------------------------------------------------------------

    /// Whether a queue to another shard is so full that clients must wait.
    fn is_congested(&self) -> bool {
        self.is_log_congested()
            || self
                .outboxes
                .iter()
                .any(|outbox| outbox.len() >= OUTBOX_MESSAGES)
    }

    /// Sends `message` to `to`, which may be this shard.
    pub(crate) fn send(&mut self, to: ShardId, message: Message) {
        if to == self.id {
            self.local.push_back(message);
        } else if let Some(outbox) = self.outboxes.get_mut(to.index()) {
            outbox.push_back(message);
        }
    }

    /// Serves who waits, handles messages to ourselves and goes on with sessions that were unblocked, until there is nothing
    /// left of all that. Not from within a handler: a loop, no recursion.
    pub(crate) fn handle_local(&mut self) {
        loop {
            self.serve_waiters();
            if let Some(message) = self.local.pop_front() {
                self.dispatch_message(self.id, message);
            } else if let Some((to, message)) = self.blocking.waiters.holds.poll() {
                self.send_reply(to, message);
            } else if let Some(slot) = self.blocking.resumed.pop_front() {
                self.resume(slot);
            } else if !self.announce() {
                return;
            }
        }
    }

    fn dispatch_message(&mut self, from: ShardId, message: Message) {
        match message {
            Message::Requests(batch) => {
                self.make_room_ahead();
                self.run_batch(from, batch);
            }
            Message::Replies(batch) => self.take_replies(batch),
            Message::Lock(lock) => self.lock(from, *lock),
            Message::Granted(id, lent) => self.lock_granted(id, from, lent),
            Message::Refused(id) => self.lock_refused(id),
            Message::Denied(id, obstacle) => self.lock_denied(id, obstacle),
            Message::WatchHit(id) => self.watch_hit(id),
            Message::Run(part) => self.run_part(from, &part),
            Message::RunHeld(steps) => self.run_held(from, &steps),
            Message::Lend(id, asker, keys) => self.lend(from, id, asker, keys.args()),
            Message::Lent(id, lent) => self.lent(id, from, lent),
            Message::Ran(id, partial) => self.part_ran(id, from, *partial),
            Message::Restore(restored) => self.restore(*restored),
            Message::Release(id) => self.release_held(id),
            Message::Commit(commit) => self.commit_and_release(&commit, commit.id),
            Message::Settle(id) => self.acknowledge_once_durable(id),
            Message::Durable(sequences) => self.note_durable(&sequences),
            Message::AwaitSettled(snapshot, epoch) => self.await_settled(from, snapshot, epoch),
            Message::AllSettled(snapshot) => self.count_settled(snapshot),
            Message::Surveyed(survey) => self.take_survey(from, *survey),
            Message::Opened => self.count_opened(from),
            Message::Ready => self.count_ready(from),
            Message::Ask(id, query) => self.answer(from, id, query),
            Message::Told(id, answer) => self.told(id, from, *answer),
            Message::Offer(offer) => self.take_offer(from, *offer),
            Message::Served(served) => self.take_served(*served),
            Message::WokenServed(id) => self.owner_has_served(id),
            Message::StopWaiting(id) => self.remove_waiter(id),
            Message::Slow(request) => self.keep_slow(*request),
            Message::Unwatch(connection) => self.unwatch(connection),
            Message::Notify(notifications) => self.deliver_all(&notifications),
            Message::Invalidate(invalidations) => self.take_invalidations(from, invalidations),
            Message::Listen(connection, prefixes) => self.add_listener(connection, &prefixes),
            Message::StopListening(connection) => self.remove_listener(connection),
            Message::Monitor(lines) => self.take_lines(&lines),
            Message::MonitorLeft => self.discount_monitor(from),
            Message::ShutDown => self.handle_shutdown(),
            Message::Goodbye => self.count_goodbye(),
        }
    }

    pub(crate) fn session(&self, slot: Slot) -> Option<&Session> {
        self.sessions.get(slot.index())?.as_deref()
    }

    pub(crate) fn session_mut(&mut self, slot: Slot) -> Option<&mut Session> {
        self.sessions.get_mut(slot.index())?.as_deref_mut()
    }

    /// Takes a session out of the table while it is worked on, so that the rest of the shard stays free to use.
    pub(crate) fn take_session(&mut self, slot: Slot) -> Option<Box<Session>> {
        self.sessions.get_mut(slot.index())?.take()
    }

    /// Puts a session back and notices what has become of it.
    pub(crate) fn return_session(&mut self, session: Box<Session>) {
        let slot = session.slot;
        self.flush_batches(&session);
        let announce = !session.replies.output().is_empty() || session.is_drained();
        self.sessions[slot.index()] = Some(session);
        if announce {
            self.announce_output(slot);
        }
        self.close_above_hard_limit(slot);
    }

    pub(crate) fn announce_output(&mut self, slot: Slot) {
        if let Some(session) = self.session_mut(slot)
            && !session.in_output_list
        {
            session.in_output_list = true;
            self.with_output.push_back(slot);
        }
    }

    /// Slots of all sessions, lowest first.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.sessions
            .iter()
            .flatten()
            .map(|session| session.slot)
            .collect()
    }

    /// Forgets a session and lets the host close its connection.
    pub(crate) fn close(&mut self, slot: Slot) {
        if let Some(mut session) = self.take_session(slot) {
            self.forget(&mut session);
            self.to_close.push_back(slot);
        }
    }

    pub(crate) fn other_shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        let own = self.id.0;
        (0..self.shards())
            .filter(move |index| *index != own)
            .map(ShardId)
    }

    fn close_idle_clients(&mut self) {
        let timeout = u64::from(self.settings.server.timeout);
        if timeout == 0 {
            return;
        }
        let now = self.now.monotonic;
        let idle = |session: &Session| {
            session.state == State::Open
                && !session.subscribed.any()
                && now.saturating_since(session.client.last_request).as_secs() >= timeout
        };
        let slots: Vec<Slot> = self
            .sessions
            .iter()
            .flatten()
            .filter(|s| idle(s))
            .map(|s| s.slot)
            .collect();
        slots.into_iter().for_each(|slot| self.close(slot));
    }

    /// Removes keys whose time has come. Not while transactions hold keys: their moment may be earlier, and a key must not
    /// go for one of their parts and stay for another; [`Shard::release`] makes up for it.
    fn expire(&mut self) {
        self.expiry_postponed = !self.locks.is_empty();
        if self.expiry_postponed || self.expiry_mode() == ExpiryMode::Hide {
            return;
        }
        self.asker = Asker::default();
        let most = EXPIRED_PER_TURN * self.settings.memory.active_expire_effort as usize;
        let began = self.clock();
        let more = self.keyspace.expire_due(self.now, most, &mut self.effects);
        let took = self.clock().saturating_since(began);
        self.note_latency(Event::ExpireCycle, took);
        if more {
            self.next_cron = self.now.monotonic;
        }
        self.settle_effects();
    }

    /// Does what had to wait for the last lock to go.
    pub(crate) fn after_last_lock(&mut self) {
        if self.expiry_postponed && self.locks.is_empty() {
            self.expire();
        }
    }

    /// How often the shard looks after what nobody asked for: expired keys, idle clients (`hz`).
    fn cron_interval(&self) -> Duration {
        Duration::from_secs(1) / self.settings.server.hz.max(1)
    }
}

#[cfg(test)]
mod announcement_tests;
#[cfg(test)]
mod pubsub_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tracking_tests;
