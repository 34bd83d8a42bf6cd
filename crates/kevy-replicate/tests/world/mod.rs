//! A primary and a replica of one shard, whose state is the list of entries they have applied, and a wire between them.
//!
//! What is on the wire is bounded as a socket's buffer is. Whatever the replica's state becomes is compared with what the
//! branch that its position names has really written.

#![allow(dead_code, reason = "each test binary uses a part of the world")]

use bytes::{BufMut, Bytes, BytesMut};
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{TransactionPart, push_effects, push_part};
use kevy_proto::replication::{Epoch, History, HistoryId};
use kevy_proto::resp::RequestBuffer;
use kevy_proto::rng::Rng;
use kevy_proto::time::Instant;
use kevy_replicate::{
    Incoming, LinkId, PartNotice, Position, Sink, SinkConfig, SinkEffect, SinkReport, Source,
    SourceConfig, SourceEvent,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What the wire holds at most in the direction of the replica.
pub(crate) const WIRE_BYTES: usize = 4096;
/// How much of a snapshot the primary makes in one step.
const SNAPSHOT_STEP_BYTES: usize = 512;
pub(crate) const BACKLOG_BYTES: usize = 4096;

/// An entry as the log has it: `SET k number`, padded.
pub(crate) fn effects(number: u64, padding: usize) -> Bytes {
    let value = format!("{number}{}", "x".repeat(padding));
    let set = RequestBuffer::from_slices([&b"SET"[..], b"k", value.as_bytes()]);
    let mut out = BytesMut::new();
    push_effects(&mut out, [set.args()].into_iter());
    out.freeze()
}

/// A transaction's part.
pub(crate) fn part(sequence: u64, participants: &[u16]) -> Bytes {
    part_of(sequence, 0, participants)
}

/// A transaction's part that says which others are settled.
pub(crate) fn part_of(sequence: u64, settled_below: u64, participants: &[u16]) -> Bytes {
    let part = TransactionPart {
        id: TransactionId {
            coordinator: ShardId(0),
            sequence,
        },
        settled_below,
        epoch: 0,
        is_isolated: false,
        participants: participants.iter().map(|shard| ShardId(*shard)).collect(),
    };
    let set = RequestBuffer::from_slices([&b"SET"[..], b"t", b"1"]);
    let mut out = BytesMut::new();
    push_part(&mut out, &part, [set.args()].into_iter());
    out.freeze()
}

pub(crate) fn encode_state(state: &[Bytes]) -> Bytes {
    let mut out = BytesMut::new();
    for entry in state {
        out.put_u32(entry.len() as u32);
        out.extend_from_slice(entry);
    }
    out.freeze()
}

fn decode_state(mut bytes: &[u8]) -> Vec<Bytes> {
    let mut state = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (entry, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        state.push(Bytes::copy_from_slice(entry));
        bytes = rest;
    }
    state
}

pub(crate) struct Primary {
    pub(crate) source: Source,
    pub(crate) log: Vec<Bytes>,
    /// How much of the log survives a crash.
    pub(crate) persisted: usize,
    snapshots: BTreeMap<LinkId, Bytes>,
    pub(crate) events: Vec<SourceEvent>,
}

pub(crate) struct Replica {
    pub(crate) sink: Sink,
    pub(crate) state: Vec<Bytes>,
    new_state: Option<BytesMut>,
    /// Whether it takes its time to apply entries and to put snapshots in place.
    pub(crate) lazy: bool,
    to_apply: Vec<Incoming>,
    to_install: bool,
    persisted: (Option<Position>, Vec<Bytes>),
    pub(crate) reports: Vec<SinkReport>,
    pub(crate) parts: Vec<PartNotice>,
    pub(crate) snapshots: usize,
    pub(crate) aborted: usize,
    pub(crate) full: usize,
}

#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) source_link: Option<LinkId>,
    pub(crate) sink_link: Option<LinkId>,
    pub(crate) to_replica: VecDeque<u8>,
    pub(crate) to_primary: VecDeque<u8>,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) primary: Primary,
    pub(crate) replica: Replica,
    pub(crate) wire: Wire,
    /// What each branch has written, from the very first entry.
    pub(crate) truth: BTreeMap<HistoryId, Vec<Bytes>>,
    pub(crate) backlog_bytes: usize,
    /// Whether connections can be made.
    pub(crate) reachable: bool,
    /// Whether the replica never learns that the primary has closed a connection.
    pub(crate) half_open: bool,
    links: u64,
    branches: u128,
    replicas: u64,
    numbers: u64,
}

impl World {
    pub(crate) fn new(backlog_bytes: usize) -> Self {
        let source = Source::new(config(backlog_bytes), History::unknown(), 0);
        let mut world = Self {
            now: Instant::from_nanos(1_000_000_000),
            primary: Primary {
                source,
                log: Vec::new(),
                persisted: 0,
                snapshots: BTreeMap::new(),
                events: Vec::new(),
            },
            replica: Replica::new(Some(Position::empty()), Vec::new(), 1),
            wire: Wire::default(),
            truth: BTreeMap::new(),
            backlog_bytes,
            reachable: true,
            half_open: false,
            links: 0,
            branches: 0,
            replicas: 1,
            numbers: 0,
        };
        world.lead(Epoch(0));
        world
    }

    /// A new branch sets out from what the primary has.
    pub(crate) fn lead(&mut self, epoch: Epoch) {
        self.branches += 1;
        let id = HistoryId(0x1000 + self.branches);
        self.truth.insert(id, self.primary.log.clone());
        self.primary.source.lead(id, epoch);
        self.drain_primary();
    }

    pub(crate) fn append(&mut self, padding: usize) {
        self.numbers += 1;
        self.append_entry(effects(self.numbers, padding));
    }

    pub(crate) fn append_entry(&mut self, entry: Bytes) {
        let offset = self.primary.source.append(entry.clone());
        self.primary.log.push(entry.clone());
        assert_eq!(offset, self.primary.log.len() as u64);
        let tip = *self.primary.source.history().tip().expect("it leads");
        self.truth.get_mut(&tip.id).expect("known").push(entry);
        self.drain_primary();
        let largest = self.backlog_bytes + 2000;
        assert!(self.primary.source.backlog().held_bytes() <= largest);
    }

    pub(crate) fn persist(&mut self) {
        self.primary.persisted = self.primary.log.len();
        let replica = &mut self.replica;
        replica.persisted = (replica.sink.position().cloned(), replica.state.clone());
    }

    /// The primary forgets what it has not persisted, and begins a branch.
    pub(crate) fn crash_primary(&mut self, epoch: Epoch) {
        self.cut();
        let log = &mut self.primary.log;
        log.truncate(self.primary.persisted);
        let history = self.primary.source.history().clone();
        let source = Source::new(config(self.backlog_bytes), history, log.len() as u64);
        self.primary.source = source;
        self.primary.snapshots.clear();
        self.lead(epoch);
    }

    /// The replica forgets what it has not persisted.
    pub(crate) fn crash_replica(&mut self) {
        self.cut();
        let (position, state) = self.replica.persisted.clone();
        self.replicas += 1;
        let reports = std::mem::take(&mut self.replica.reports);
        self.replica = Replica::new(position, state, self.replicas);
        self.replica.reports = reports;
    }

    /// The connection ends; what is on the wire is lost.
    pub(crate) fn cut(&mut self) {
        let wire = std::mem::take(&mut self.wire);
        if let Some(link) = wire.source_link {
            self.primary.source.handle_closed(link, self.now);
        }
        if let Some(link) = wire.sink_link {
            self.replica.sink.handle_closed(link, self.now);
        }
        self.drain_primary();
        self.drain_replica();
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.primary.source.handle_timeout(self.now);
        self.replica.sink.handle_timeout(self.now);
        self.drain_primary();
        self.drain_replica();
    }

    /// Hands the primary's bytes to the wire, and makes a piece of a snapshot.
    pub(crate) fn send(&mut self) {
        let wants: Vec<_> = self.primary.source.wants_snapshot().collect();
        for link in wants {
            let offset = self.primary.log.len() as u64;
            self.primary
                .snapshots
                .insert(link, encode_state(&self.primary.log));
            self.primary
                .source
                .snapshot_begin(link, offset)
                .expect("wanted");
        }
        let links: Vec<_> = self.primary.snapshots.keys().copied().collect();
        links.into_iter().for_each(|link| self.snapshot_step(link));
        while let Some(link) = self.wire.source_link {
            let room = WIRE_BYTES - self.wire.to_replica.len();
            let Some(bytes) = self.primary.source.poll_transmit(link, room) else {
                break;
            };
            assert!(!bytes.is_empty() && bytes.len() <= room);
            self.wire.to_replica.extend(bytes);
        }
    }

    fn snapshot_step(&mut self, link: LinkId) {
        let (source, snapshots) = (&mut self.primary.source, &mut self.primary.snapshots);
        let Some(rest) = snapshots.get_mut(&link) else {
            return;
        };
        let length = rest
            .len()
            .min(SNAPSHOT_STEP_BYTES)
            .min(source.snapshot_room(link));
        let chunk = rest.split_to(length);
        let done = source.snapshot_chunk(link, chunk).is_err()
            || (rest.is_empty() && source.snapshot_end(link).is_ok());
        if done {
            snapshots.remove(&link);
        }
    }

    /// Carries up to `bytes` bytes each way.
    pub(crate) fn carry(&mut self, bytes: usize) {
        if let Some(link) = self
            .wire
            .sink_link
            .filter(|_| self.replica.sink.wants_bytes())
        {
            let length = bytes.min(self.wire.to_replica.len());
            let bytes: Vec<_> = self.wire.to_replica.drain(..length).collect();
            self.replica.sink.handle_bytes(link, &bytes, self.now);
        }
        self.deliver_end();
        self.drain_replica();
        if let Some(link) = self.wire.source_link {
            let length = bytes.min(self.wire.to_primary.len());
            let bytes: Vec<_> = self.wire.to_primary.drain(..length).collect();
            self.primary.source.handle_bytes(link, &bytes, self.now);
        }
        self.drain_primary();
    }

    fn deliver_end(&mut self) {
        let ended = self.wire.source_link.is_none() && self.wire.to_replica.is_empty();
        if let Some(link) = self.wire.sink_link.filter(|_| ended && !self.half_open) {
            self.wire.sink_link = None;
            self.replica.sink.handle_closed(link, self.now);
        }
    }

    /// Everything flows until nothing does.
    pub(crate) fn flow(&mut self) {
        for _ in 0..200 {
            self.send();
            self.carry(WIRE_BYTES);
        }
    }

    /// Time passes and everything flows.
    pub(crate) fn live(&mut self, seconds: u64) {
        for _ in 0..seconds * 4 {
            self.pass(Duration::from_millis(250));
            self.flow();
        }
    }

    pub(crate) fn drain_primary(&mut self) {
        while let Some(event) = self.primary.source.poll_event() {
            self.primary.events.push(event.clone());
            if let SourceEvent::Close { link, .. } = event {
                self.send();
                self.primary.source.handle_closed(link, self.now);
                self.primary.snapshots.remove(&link);
                if self.wire.source_link == Some(link) {
                    self.wire.source_link = None;
                    self.wire.to_primary.clear();
                }
            }
        }
    }

    pub(crate) fn drain_replica(&mut self) {
        if !self.replica.lazy {
            self.replica.catch_up(self.now);
        }
        while let Some(effect) = self.replica.sink.poll_effect() {
            if let SinkEffect::Connect(link) = effect {
                self.connect(link);
            } else if let SinkEffect::Disconnect(link) = effect {
                self.disconnect(link);
            } else {
                self.replica.handle(effect, self.now);
            }
            self.check();
        }
        while let Some(bytes) = self.replica.sink.poll_transmit() {
            if self.wire.source_link.is_some() {
                self.wire.to_primary.extend(bytes);
            }
        }
    }

    fn connect(&mut self, link: LinkId) {
        self.cut_source();
        if !self.reachable {
            self.replica.sink.handle_closed(link, self.now);
            return;
        }
        self.links += 1;
        let source_link = LinkId(self.links);
        self.wire.sink_link = Some(link);
        self.wire.source_link = Some(source_link);
        self.primary
            .source
            .handle_open(source_link, "127.0.0.1:9", self.now);
        self.replica.sink.handle_connected(link, self.now);
    }

    fn disconnect(&mut self, link: LinkId) {
        if self.wire.sink_link == Some(link) {
            self.cut_source();
        }
    }

    fn cut_source(&mut self) {
        let wire = std::mem::take(&mut self.wire);
        if let Some(link) = wire.source_link {
            self.primary.source.handle_closed(link, self.now);
        }
    }

    /// The replica's state is what its position says: the beginning of what that branch wrote.
    pub(crate) fn check(&self) {
        let Some(position) = self.replica.sink.position() else {
            return;
        };
        let offset = position.offset;
        assert_eq!(self.replica.state.len() as u64, offset, "{position}");
        if offset == 0 {
            return;
        }
        let branch = position.history.branch_at(offset).expect("known");
        let truth = &self.truth[&branch.id];
        assert_eq!(
            self.replica.state[..],
            truth[..offset as usize],
            "{position}"
        );
    }

    /// What the primary takes for replicated is on the replica.
    pub(crate) fn check_acknowledged(&self) {
        let connected = self.wire.source_link.is_some() && self.wire.sink_link.is_some();
        let acked = self.primary.source.acknowledged_offset(1);
        let acked = if connected { acked as usize } else { 0 };
        let (here, there) = (
            self.primary.log.get(..acked),
            self.replica.state.get(..acked),
        );
        assert!(
            here.is_some() && here == there,
            "{acked} are said to be replicated"
        );
    }

    pub(crate) fn converged(&self) -> bool {
        self.replica.state == self.primary.log
    }

    pub(crate) fn acked(&self) -> u64 {
        let mut replicas = self.primary.source.replicas(self.now);
        replicas.next().map_or(0, |replica| replica.offset)
    }
}

pub(crate) fn config(backlog_bytes: usize) -> SourceConfig {
    SourceConfig {
        backlog_bytes,
        ..SourceConfig::new(ShardId(0), 2)
    }
}

impl Replica {
    pub(crate) fn new(position: Option<Position>, state: Vec<Bytes>, seed: u64) -> Self {
        let config = SinkConfig::new("r1", Some((ShardId(0), 2)));
        let (now, rng) = (Instant::default(), Rng::from_seed(seed));
        Self {
            sink: Sink::new(config, position.clone(), rng, now),
            state: state.clone(),
            new_state: None,
            lazy: false,
            to_apply: Vec::new(),
            to_install: false,
            persisted: (position, state),
            reports: Vec::new(),
            parts: Vec::new(),
            snapshots: 0,
            aborted: 0,
            full: 0,
        }
    }

    fn handle(&mut self, effect: SinkEffect, now: Instant) {
        match effect {
            SinkEffect::Apply(entry) => {
                self.to_apply.push(entry);
            }
            SinkEffect::SnapshotBegin { .. } => self.new_state = Some(BytesMut::new()),
            SinkEffect::SnapshotChunk(chunk) => {
                let new_state = self.new_state.as_mut().expect("it has begun");
                new_state.extend_from_slice(&chunk);
            }
            SinkEffect::SnapshotEnd(_) => {
                self.to_install = true;
            }
            SinkEffect::SnapshotAbort => {
                self.new_state = None;
                self.aborted += 1;
            }
            SinkEffect::Report(report) => self.reports.push(report),
            SinkEffect::Part(notice) => self.parts.push(notice),
            SinkEffect::Full => self.full += 1,
            SinkEffect::Attached { .. }
            | SinkEffect::PartVoid(_)
            | SinkEffect::PartsForgotten
            | SinkEffect::Connect(_)
            | SinkEffect::Disconnect(_) => {}
        }
        if !self.lazy {
            self.catch_up(now);
        }
    }

    /// Does what it has put off.
    fn catch_up(&mut self, now: Instant) {
        for entry in self.to_apply.drain(..) {
            self.state.push(entry.payload);
            self.sink.applied(entry.offset);
        }
        if std::mem::take(&mut self.to_install) {
            let new_state = self.new_state.take().expect("it has begun");
            self.state = decode_state(&new_state);
            self.snapshots += 1;
            self.sink.installed(now);
        }
    }
}
