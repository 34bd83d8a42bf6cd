//! The replica's side of one shard's stream.
//!
//! ```text
//! resting --> connecting --> greeting --+--> streaming <-------------------+
//!    ^                                  |        | FULLSYNC                | END, whole and right
//!    |                                  +--> awaiting snapshot --> loading-+
//!    +--- whatever goes wrong, from anywhere
//! ```
//!
//! What is applied is always the state of one history at one offset: entries are taken only in order and of the epoch that
//! the history says; a snapshot replaces everything, at once and only when it is complete. Whatever cannot be true ends the
//! connection; whatever puts the common history in doubt asks for a snapshot.

mod effect;
mod held;
mod message;
mod status;

pub use effect::{SinkEffect, SinkReport};
pub use held::{Incoming, PartNotice, TransactionKey};
pub use status::SinkStatus;

use crate::LinkId;
use crate::backoff::Backoff;
use bytes::{Bytes, BytesMut};
use held::Held;
use kevy_proto::ids::ShardId;
use kevy_proto::replication::{Epoch, Handshake, History, StreamLimits, Terms, push_ack};
use kevy_proto::rng::Rng;
use kevy_proto::time::Instant;
use message::Loading;
use std::collections::VecDeque;
use std::time::Duration;

/// A replica says at least this often what it has applied.
pub const ACK_INTERVAL: Duration = Duration::from_secs(1);
/// How many parts of transactions may wait for other shards' parts.
pub const MAX_HELD_PARTS: usize = 4096;

/// What a sink needs to know.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// The replica's name: 1 to 64 visible ASCII characters, different for each replica.
    pub id: String,
    /// Which shard of how many this is. `None` if the primary's shards are not mirrored one by one (`single_source`).
    pub shard: Option<(ShardId, u16)>,
    /// Where the replica's clients find it.
    pub port: Option<u16>,
    /// How long connecting, and then the answer, may take.
    pub handshake_timeout: Duration,
    /// After how much silence the primary's connection is given up.
    pub link_timeout: Duration,
    /// After how long it is given up if heartbeats come and what they promise does not.
    pub stall_timeout: Duration,
    /// The first wait before connecting again.
    pub reconnect_min: Duration,
    /// The longest.
    pub reconnect_max: Duration,
    /// How many bytes of entries may wait to be applied before nothing more is to be read.
    pub held_bytes: usize,
    /// What is refused of a primary.
    pub limits: StreamLimits,
}

impl SinkConfig {
    /// The defaults.
    pub fn new(id: &str, shard: Option<(ShardId, u16)>) -> Self {
        Self {
            id: id.into(),
            shard,
            port: None,
            handshake_timeout: Duration::from_secs(5),
            link_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_mins(1),
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(5),
            held_bytes: 16 << 20,
            limits: StreamLimits::default(),
        }
    }
}

/// What a shard's state is: to be kept with the state, and never to be ahead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The branches that led to it.
    pub history: History,
    /// The last entry that is part of it.
    pub offset: u64,
}

#[derive(Debug)]
enum State {
    Stopped,
    Resting { until: Instant },
    Connecting { since: Instant },
    Greeting { since: Instant },
    Streaming,
    AwaitingSnapshot(Terms),
    Loading(Box<Loading>),
}

/// The replica's side of one shard's stream.
#[derive(Debug)]
pub struct Sink {
    config: SinkConfig,
    state: State,
    /// What is applied; unknown if it has to be replaced.
    position: Option<Position>,
    /// The position of a snapshot that the owner puts in place.
    installing: Option<Position>,
    /// The owner has been told to put it in place.
    end_handed: bool,
    /// The last entry that was given out to be applied.
    handed: u64,
    held: Held,
    durable: Option<u64>,
    link: LinkId,
    input: BytesMut,
    effects: VecDeque<SinkEffect>,
    backoff: Backoff,
    greeting: Option<Bytes>,
    ack_due: bool,
    ack_at: Instant,
    heard_at: Instant,
    progress_at: Instant,
    /// What the primary had according to its last heartbeat.
    primary_last: u64,
    fresh_at: Option<Instant>,
    mark: Option<(u64, Instant)>,
    epoch: Option<Epoch>,
    duplicates: u64,
}

impl Sink {
    /// A sink that connects at once. `position`: what the shard's state is; offset 0 for an empty key space, `None` if it is
    /// of no known history and is to be replaced. `rng` spreads reconnections.
    pub fn new(config: SinkConfig, position: Option<Position>, rng: Rng, now: Instant) -> Self {
        let mut held = Held::default();
        let offset = position.as_ref().map_or(0, |position| position.offset);
        held.restart(offset);
        Self {
            backoff: Backoff::new(config.reconnect_min, config.reconnect_max, rng),
            config,
            state: State::Resting { until: now },
            position,
            installing: None,
            end_handed: false,
            handed: offset,
            held,
            durable: None,
            link: LinkId(0),
            input: BytesMut::new(),
            effects: VecDeque::new(),
            greeting: None,
            ack_due: false,
            ack_at: now,
            heard_at: now,
            progress_at: now,
            primary_last: 0,
            fresh_at: None,
            mark: None,
            epoch: None,
            duplicates: 0,
        }
    }

    /// What is to be done next, in order.
    pub fn poll_effect(&mut self) -> Option<SinkEffect> {
        if self.end_handed {
            return None;
        }
        if let Some(effect) = self.effects.pop_front() {
            self.end_handed = matches!(effect, SinkEffect::SnapshotEnd(_));
            return Some(effect);
        }
        let entry = self.held.pop()?;
        self.handed = entry.offset;
        Some(SinkEffect::Apply(entry))
    }

    /// The next bytes for the primary; to be asked when effects are drained.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        if !std::mem::take(&mut self.ack_due) {
            return None;
        }
        let mut out = BytesMut::new();
        let offset = self.acknowledged();
        push_ack(&mut out, offset, self.durable.map(|at| at.min(offset)));
        Some(out.freeze())
    }

    /// What may be told to the primary of this connection: nothing while a snapshot is to replace what is here.
    fn acknowledged(&self) -> u64 {
        match (&self.state, &self.position) {
            (State::Streaming, Some(position)) if self.installing.is_none() => position.offset,
            _ => 0,
        }
    }

    /// Whether bytes are to be read from the connection. If not, enough waits to be applied.
    pub fn wants_bytes(&self) -> bool {
        !self.end_handed
            && self.held.bytes() < self.config.held_bytes
            && self.held.blocked_parts() < MAX_HELD_PARTS
    }

    /// When [`Sink::handle_timeout`] wants to be called next.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Stopped => None,
            State::Resting { until } => self.is_settled().then_some(*until),
            State::Connecting { since } | State::Greeting { since } => {
                Some(*since + self.config.handshake_timeout)
            }
            State::Streaming | State::AwaitingSnapshot(_) | State::Loading(_) => {
                let silent = self.heard_at + self.config.link_timeout;
                let stalled = self.progress_at + self.config.stall_timeout;
                Some(self.ack_at.min(silent).min(stalled))
            }
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &self.state {
            State::Stopped => {}
            State::Resting { until } => {
                if *until <= now && self.is_settled() {
                    self.connect(now);
                }
            }
            State::Connecting { since } | State::Greeting { since } => {
                if *since + self.config.handshake_timeout <= now {
                    self.lose(SinkReport::Silent, now);
                }
            }
            State::Streaming | State::AwaitingSnapshot(_) | State::Loading(_) => {
                self.keep_alive(now);
            }
        }
    }

    /// Whether everything that was let go has been applied: only then is it known what to ask for.
    fn is_settled(&self) -> bool {
        let applied = self.position.as_ref().map(|position| position.offset);
        self.installing.is_none()
            && self.held.received == self.handed
            && applied.is_none_or(|applied| applied == self.handed)
    }

    fn connect(&mut self, now: Instant) {
        self.link = LinkId(self.link.0 + 1);
        self.state = State::Connecting { since: now };
        self.effects.push_back(SinkEffect::Connect(self.link));
    }

    fn keep_alive(&mut self, now: Instant) {
        if !self.wants_bytes() || self.installing.is_some() {
            // It is this side that does not listen, or is busy.
            (self.heard_at, self.progress_at) = (now, now);
        }
        if self.heard_at + self.config.link_timeout <= now {
            return self.lose(SinkReport::Silent, now);
        }
        if self.progress_at + self.config.stall_timeout <= now {
            return self.lose(SinkReport::Stalled, now);
        }
        if self.ack_at <= now {
            self.ack_at = now + ACK_INTERVAL;
            self.ack_due = true;
        }
    }

    /// The connection is made: the handshake goes out.
    pub fn handle_connected(&mut self, link: LinkId, now: Instant) {
        if link != self.link || !matches!(self.state, State::Connecting { .. }) {
            return;
        }
        self.state = State::Greeting { since: now };
        let mut out = BytesMut::new();
        self.handshake().encode(&mut out);
        self.greeting = Some(out.freeze());
    }

    fn handshake(&self) -> Handshake {
        let offset = self.position.as_ref().map_or(0, |position| position.offset);
        let branch = self.position.as_ref();
        let branch = branch.and_then(|position| position.history.branch_at(offset));
        Handshake {
            epoch: branch.map(|branch| branch.epoch),
            history: branch.map(|branch| branch.id),
            shards: self.config.shard.map(|(_, shards)| shards),
            shard: self.config.shard.map(|(shard, _)| shard.0),
            full: self.position.is_none(),
            port: self.config.port,
            ..Handshake::new(&self.config.id, offset)
        }
    }

    /// The connection could not be made, or is gone.
    pub fn handle_closed(&mut self, link: LinkId, now: Instant) {
        let open = !matches!(self.state, State::Stopped | State::Resting { .. });
        if link == self.link && open {
            self.end_link(now);
            self.report(SinkReport::Lost);
        }
    }

    /// Gives the connection up, for a reason.
    fn lose(&mut self, why: SinkReport, now: Instant) {
        self.report(why);
        self.effects.push_back(SinkEffect::Disconnect(self.link));
        self.end_link(now);
    }

    /// As [`Sink::lose`]; what is here is not to be trusted or does not fit: it has to be replaced.
    fn distrust(&mut self, why: SinkReport, now: Instant) {
        self.lose(why, now);
        self.position = None;
    }

    fn end_link(&mut self, now: Instant) {
        let wait = self.backoff.next();
        self.leave(State::Resting { until: now + wait });
    }

    fn leave(&mut self, next: State) {
        let left = std::mem::replace(&mut self.state, next);
        if matches!(left, State::Loading(_)) {
            self.effects.push_back(SinkEffect::SnapshotAbort);
        }
        self.forget_held();
        self.input.clear();
        (self.greeting, self.ack_due) = (None, false);
        (self.mark, self.epoch) = (None, None);
    }

    fn forget_held(&mut self) {
        if self.held.drop_unreleased() {
            self.effects.push_back(SinkEffect::PartsForgotten);
        }
        self.held.full_reported = false;
    }

    /// The primary is elsewhere now: connects anew, at once.
    pub fn retarget(&mut self, now: Instant) {
        if !matches!(self.state, State::Stopped | State::Resting { .. }) {
            self.effects.push_back(SinkEffect::Disconnect(self.link));
        }
        self.backoff.reset();
        self.leave(State::Resting { until: now });
    }

    /// Follows nobody any more. What was let go is still given out; then [`Sink::position`] is final.
    pub fn stop(&mut self) {
        if !matches!(self.state, State::Stopped | State::Resting { .. }) {
            self.effects.push_back(SinkEffect::Disconnect(self.link));
        }
        self.leave(State::Stopped);
    }

    /// The entry at `offset`, and all before it, are applied: readers see them.
    pub fn applied(&mut self, offset: u64) {
        debug_assert!(
            offset <= self.handed,
            "what was not given out is not applied"
        );
        let Some(position) = &mut self.position else {
            return;
        };
        position.offset = offset;
        if let Some((_, at)) = self.mark.take_if(|(mark, _)| *mark <= offset) {
            self.fresh_at = self.fresh_at.max(Some(at));
        }
        self.ack_due |= matches!(self.state, State::Streaming);
    }

    /// Everything up to `offset` is durable here.
    pub fn durable(&mut self, offset: u64) {
        self.ack_due |= matches!(self.state, State::Streaming) && self.durable != Some(offset);
        self.durable = Some(offset);
    }

    /// The snapshot is in place of the old state.
    pub fn installed(&mut self, now: Instant) {
        let Some(position) = self.installing.take() else {
            return;
        };
        self.end_handed = false;
        self.fresh_at = None;
        self.durable = self.durable.map(|_| 0);
        self.position = Some(position);
        self.ack_due |= matches!(self.state, State::Streaming);
        self.progress_at = now;
    }

    /// Parts up to `up_to` may be applied: all others are there. Returns whether it is so; not if this shard's entries were
    /// dropped since: `generation` is that of the notice.
    pub fn release(&mut self, generation: u64, up_to: u64) -> bool {
        let current = generation == self.held.generation && up_to <= self.held.received;
        if current {
            self.held.release(up_to);
            self.held.full_reported = false;
            self.report_full();
        }
        current
    }

    fn report_full(&mut self) {
        if !self.wants_bytes() && self.held.blocked_parts() > 0 && !self.held.full_reported {
            self.held.full_reported = true;
            self.effects.push_back(SinkEffect::Full);
        }
    }

    fn report(&mut self, report: SinkReport) {
        self.effects.push_back(SinkEffect::Report(report));
    }

    /// What is applied, to be kept with it; nothing if it is of no known history.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }
}
