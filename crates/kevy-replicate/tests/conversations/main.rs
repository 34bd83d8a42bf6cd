//! One conversation for each thing that went wrong in systems of this kind and that a stream's two sides can get wrong. The
//! numbers are those of the list of bug classes.

mod primary;
mod replica;
#[path = "../world/mod.rs"]
mod world;

use bytes::{Bytes, BytesMut};
use kevy_proto::ids::ShardId;
use kevy_proto::replication::{Epoch, Handshake, History, HistoryId, push_ack};
use kevy_proto::rng::Rng;
use kevy_proto::time::Instant;
use kevy_replicate::{
    CloseReason, LinkId, PartNotice, Position, Sink, SinkConfig, SinkEffect, SinkReport, Source,
    SourceEvent,
};
use std::time::Duration;
use world::{World, config, effects};

pub(crate) const A: HistoryId = HistoryId(0xa);
pub(crate) const B: HistoryId = HistoryId(0xb);
pub(crate) const NOW: Instant = Instant::from_nanos(1_000_000_000);

pub(crate) fn seconds(seconds: u64) -> Instant {
    NOW + Duration::from_secs(seconds)
}

/// A primary with entries 1 to `entries` of branch A.
pub(crate) fn source(backlog_bytes: usize, entries: u64) -> Source {
    let mut source = Source::new(config(backlog_bytes), History::unknown(), 0);
    source.lead(A, Epoch(1));
    for number in 0..entries {
        source.append(effects(number, 0));
    }
    source
}

pub(crate) fn greet(source: &mut Source, link: u64, handshake: &Handshake) -> String {
    source.handle_open(LinkId(link), "127.0.0.1:9", NOW);
    source.handle_handshake(LinkId(link), handshake, NOW);
    said(source, link)
}

/// What a connection is sent, up to a limit.
pub(crate) fn said(source: &mut Source, link: u64) -> String {
    let mut out = BytesMut::new();
    while let Some(bytes) = source.poll_transmit(LinkId(link), 100_000) {
        out.extend_from_slice(&bytes);
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn events(source: &mut Source) -> Vec<SourceEvent> {
    std::iter::from_fn(|| source.poll_event()).collect()
}

pub(crate) fn at(id: HistoryId, epoch: u64, from: u64) -> Handshake {
    Handshake {
        history: Some(id),
        epoch: Some(Epoch(epoch)),
        ..Handshake::new("r1", from)
    }
}

pub(crate) fn ack(source: &mut Source, link: u64, offset: u64, now: Instant) {
    let mut out = BytesMut::new();
    push_ack(&mut out, offset, None);
    source.handle_bytes(LinkId(link), &out, now);
}

/// A sink that streams from `offset` of branch A, on connection 1.
pub(crate) fn streaming(offset: u64) -> Sink {
    let history = History::begin(A, Epoch(1), 0);
    let position = Some(Position {
        history: history.clone(),
        offset,
    });
    let mut sink = greeting(position);
    let answer = format!("+ACK 1 {offset} SHARDS 2 HISTORY {history}\r\n");
    sink.handle_bytes(LinkId(1), answer.as_bytes(), NOW);
    effects_of(&mut sink);
    sink.poll_transmit();
    sink
}

/// A sink that has sent its handshake on connection 1.
pub(crate) fn greeting(position: Option<Position>) -> Sink {
    let config = SinkConfig::new("r1", Some((ShardId(0), 2)));
    let mut sink = Sink::new(config, position, Rng::from_seed(1), NOW);
    sink.handle_timeout(NOW);
    assert_eq!(sink.poll_effect(), Some(SinkEffect::Connect(LinkId(1))));
    sink.handle_connected(LinkId(1), NOW);
    assert!(sink.poll_transmit().is_some());
    sink
}

/// What a sink wants done; entries are applied.
pub(crate) fn effects_of(sink: &mut Sink) -> Vec<SinkEffect> {
    let mut effects = Vec::new();
    while let Some(effect) = sink.poll_effect() {
        if let SinkEffect::Apply(entry) = &effect {
            sink.applied(entry.offset);
        }
        effects.push(effect);
    }
    effects
}

pub(crate) fn reports(effects: &[SinkEffect]) -> Vec<SinkReport> {
    let reports = effects.iter().filter_map(|effect| {
        let SinkEffect::Report(report) = effect else {
            return None;
        };
        Some(report.clone())
    });
    reports.collect()
}

pub(crate) fn entry(offset: u64, epoch: u64, payload: &Bytes) -> Vec<u8> {
    let mut out = BytesMut::new();
    kevy_proto::replication::push_entry(&mut out, offset, Epoch(epoch), payload);
    out.to_vec()
}

pub(crate) fn applied_offset(effect: &SinkEffect) -> Option<u64> {
    let SinkEffect::Apply(entry) = effect else {
        return None;
    };
    Some(entry.offset)
}

pub(crate) fn notice_of(effect: &SinkEffect) -> Option<&PartNotice> {
    let SinkEffect::Part(notice) = effect else {
        return None;
    };
    Some(notice)
}

/// A snapshot of the state at `offset`, of some chunks.
pub(crate) fn snapshot(offset: u64, chunks: &[&[u8]]) -> Vec<u8> {
    use kevy_proto::replication::{
        SnapshotDigest, push_snapshot_begin, push_snapshot_chunk, push_snapshot_end,
    };
    let (mut out, mut digest) = (BytesMut::new(), SnapshotDigest::new());
    push_snapshot_begin(&mut out, offset);
    for chunk in chunks {
        digest.add(chunk);
        push_snapshot_chunk(&mut out, chunk);
    }
    push_snapshot_end(&mut out, offset, &digest.totals());
    out.to_vec()
}

pub(crate) const FULLSYNC: &[u8] =
    b"+FULLSYNC 1 9 SHARDS 2 HISTORY 0000000000000000000000000000000a:1:0\r\n";

#[test]
fn bug_28_a_replica_that_dies_at_any_moment_leaves_the_primary_as_it_was() {
    for bytes in 0..200 {
        let mut world = World::new(1 << 20);
        (0..5).for_each(|_| world.append(10));
        world.pass(Duration::ZERO);
        world.send();
        world.carry(bytes);
        world.crash_replica();
        world.append(10);
        assert_eq!(world.primary.source.last_offset(), 6);
        world.live(10);
        assert!(world.converged(), "after {bytes} bytes");
    }
}

#[test]
fn bug_29_offsets_do_not_alias_after_an_unclean_restart() {
    let mut world = World::new(1 << 20);
    (0..10).for_each(|_| world.append(10));
    world.persist();
    (0..5).for_each(|_| world.append(10));
    world.live(1);
    assert_eq!(world.replica.state.len(), 15);
    // Five entries are lost, and five others get the same offsets, in the same epoch.
    world.crash_primary(Epoch(0));
    (0..5).for_each(|_| world.append(20));
    world.live(5);
    assert!(world.converged());
    let forked = |event: &SourceEvent| {
        matches!(
            event,
            SourceEvent::Forked {
                common: 10,
                discarded: 5,
                ..
            }
        )
    };
    assert!(world.primary.events.iter().any(forked));
    let discarded = SinkReport::Discarded {
        common: 10,
        entries: 5,
    };
    assert!(world.replica.reports.contains(&discarded));
}

#[test]
fn bug_30_a_new_branch_makes_every_replica_ask_again_and_none_stalls() {
    let mut world = World::new(1 << 20);
    (0..10).for_each(|_| world.append(10));
    world.live(1);
    world.lead(Epoch(1));
    (0..10).for_each(|_| world.append(10));
    world.live(2);
    assert!(world.converged());
    assert_eq!(world.replica.snapshots, 0, "it continued");
    let position = world.replica.sink.position().expect("known");
    assert_eq!(
        position.history.tip().map(|tip| (tip.epoch, tip.start)),
        Some((Epoch(1), 10))
    );
    let closed = |event: &SourceEvent| {
        matches!(
            event,
            SourceEvent::Close {
                reason: CloseReason::HistoryChanged,
                ..
            }
        )
    };
    assert_eq!(world.primary.events.iter().filter(|e| closed(e)).count(), 1);
}

#[test]
fn bug_35_a_replica_keeps_the_very_bytes_that_the_primary_logged() {
    let mut world = World::new(1 << 20);
    (0..50).for_each(|padding| world.append(padding * 7));
    world.append(100_000);
    world.live(2);
    assert_eq!(world.replica.state, world.primary.log);
}

#[test]
fn bug_39_unequal_numbers_of_shards_are_refused_by_either_side() {
    let mut source = source(1 << 20, 1);
    let with = |shards, shard| Handshake {
        shards,
        shard,
        ..at(A, 1, 1)
    };
    let answer = greet(&mut source, 1, &with(Some(4), Some(0)));
    assert_eq!(
        answer,
        "-ERR shard count mismatch: the primary has 2, the replica 4\r\n"
    );
    let answer = greet(&mut source, 2, &with(Some(2), Some(1)));
    assert_eq!(answer, "-ERR this port streams shard 0, not 1\r\n");
    assert!(greet(&mut source, 3, &with(None, None)).starts_with("+ACK"));
    for answer in ["+ACK 1 0 SHARDS 4\r\n", "+FULLSYNC 1 0 SHARDS 4\r\n"] {
        let mut sink = greeting(Some(Position::empty()));
        sink.handle_bytes(LinkId(1), answer.as_bytes(), NOW);
        let mismatch = SinkReport::ShardsMismatch {
            primary: 4,
            replica: 2,
        };
        assert_eq!(reports(&effects_of(&mut sink)), [mismatch]);
    }
}
