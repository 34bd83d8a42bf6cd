//! One conversation for each thing that went wrong in systems of this kind and that a stream's two sides can get wrong. The
//! numbers are those of the list of bug classes.

mod world;

use bytes::{Bytes, BytesMut};
use kevy_proto::ids::ShardId;
use kevy_proto::log::push_dropped;
use kevy_proto::replication::{Epoch, Handshake, History, HistoryId, push_ack};
use kevy_proto::rng::Rng;
use kevy_proto::time::Instant;
use kevy_replicate::{
    CloseReason, LinkId, MAX_SNAPSHOT_ATTEMPTS, PartNotice, Position, SNAPSHOT_PENDING_BYTES, Sink,
    SinkConfig, SinkEffect, SinkReport, Source, SourceEvent,
};
use std::time::Duration;
use world::{World, config, effects, part};

const A: HistoryId = HistoryId(0xa);
const B: HistoryId = HistoryId(0xb);
const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn seconds(seconds: u64) -> Instant {
    NOW + Duration::from_secs(seconds)
}

/// A primary with entries 1 to `entries` of branch A.
fn source(backlog_bytes: usize, entries: u64) -> Source {
    let mut source = Source::new(config(backlog_bytes), History::unknown(), 0);
    source.lead(A, Epoch(1));
    for number in 0..entries {
        source.append(effects(number, 0));
    }
    source
}

fn greet(source: &mut Source, link: u64, handshake: &Handshake) -> String {
    source.handle_open(LinkId(link), "127.0.0.1:9", NOW);
    source.handle_handshake(LinkId(link), handshake, NOW);
    said(source, link)
}

/// What a connection is sent, up to a limit.
fn said(source: &mut Source, link: u64) -> String {
    let mut out = BytesMut::new();
    while let Some(bytes) = source.poll_transmit(LinkId(link), 100_000) {
        out.extend_from_slice(&bytes);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn events(source: &mut Source) -> Vec<SourceEvent> {
    std::iter::from_fn(|| source.poll_event()).collect()
}

fn at(id: HistoryId, epoch: u64, from: u64) -> Handshake {
    Handshake {
        history: Some(id),
        epoch: Some(Epoch(epoch)),
        ..Handshake::new("r1", from)
    }
}

fn ack(source: &mut Source, link: u64, offset: u64, now: Instant) {
    let mut out = BytesMut::new();
    push_ack(&mut out, offset, None);
    source.handle_bytes(LinkId(link), &out, now);
}

/// A sink that streams from `offset` of branch A, on connection 1.
fn streaming(offset: u64) -> Sink {
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
fn greeting(position: Option<Position>) -> Sink {
    let config = SinkConfig::new("r1", Some((ShardId(0), 2)));
    let mut sink = Sink::new(config, position, Rng::from_seed(1), NOW);
    sink.handle_timeout(NOW);
    assert_eq!(sink.poll_effect(), Some(SinkEffect::Connect(LinkId(1))));
    sink.handle_connected(LinkId(1), NOW);
    assert!(sink.poll_transmit().is_some());
    sink
}

/// What a sink wants done; entries are applied.
fn effects_of(sink: &mut Sink) -> Vec<SinkEffect> {
    let mut effects = Vec::new();
    while let Some(effect) = sink.poll_effect() {
        if let SinkEffect::Apply(entry) = &effect {
            sink.applied(entry.offset);
        }
        effects.push(effect);
    }
    effects
}

fn reports(effects: &[SinkEffect]) -> Vec<SinkReport> {
    let reports = effects.iter().filter_map(|effect| {
        let SinkEffect::Report(report) = effect else {
            return None;
        };
        Some(report.clone())
    });
    reports.collect()
}

fn entry(offset: u64, epoch: u64, payload: &Bytes) -> Vec<u8> {
    let mut out = BytesMut::new();
    kevy_proto::replication::push_entry(&mut out, offset, Epoch(epoch), payload);
    out.to_vec()
}

fn applied_offset(effect: &SinkEffect) -> Option<u64> {
    let SinkEffect::Apply(entry) = effect else {
        return None;
    };
    Some(entry.offset)
}

fn notice_of(effect: &SinkEffect) -> Option<&PartNotice> {
    let SinkEffect::Part(notice) = effect else {
        return None;
    };
    Some(notice)
}

#[test]
fn bug_27_a_replica_that_takes_nothing_stops_nobody() {
    let mut source = source(1_000_000, 10);
    greet(&mut source, 1, &at(A, 1, 10));
    greet(
        &mut source,
        2,
        &Handshake {
            id: "r2".into(),
            ..at(A, 1, 10)
        },
    );
    for number in 0..1000 {
        source.append(effects(number, 100));
        // Only the second is read from.
        assert!(said(&mut source, 2).contains(&format!(":{}\r\n", number + 11)));
        ack(&mut source, 2, number + 11, NOW);
    }
    assert_eq!(source.acknowledged_by(1010), 1);
    assert!(source.has_output(LinkId(1)) && !source.has_output(LinkId(2)));
}

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
fn bug_29_a_write_within_the_promotion_reaches_a_fresh_replica() {
    let mut old = source(1 << 20, 3);
    let mut promoted = Source::new(config(1 << 20), History::unknown(), 0);
    promoted.adopt(old.history().clone(), 0, false);
    for number in 0..3 {
        promoted.mirror(number + 1, Epoch(1), effects(number, 0));
    }
    promoted.lead(B, Epoch(2));
    promoted.append(effects(77, 0));
    let fresh = greet(&mut promoted, 1, &Handshake::new("fresh", 0));
    assert!(fresh.starts_with("+ACK 2 0 "), "{fresh}");
    assert!(
        fresh.contains("*3\r\n:1\r\n:1\r\n") && fresh.contains("*3\r\n:4\r\n:2\r\n"),
        "{fresh}"
    );
    // A replica of the old primary continues, too; the old primary itself, which wrote on, does not.
    let other = greet(
        &mut promoted,
        2,
        &Handshake {
            id: "r2".into(),
            ..at(A, 1, 3)
        },
    );
    assert!(
        other.starts_with("+ACK 2 3 ") && other.contains(":4\r\n:2\r\n"),
        "{other}"
    );
    old.append(effects(99, 0));
    let deposed = greet(
        &mut promoted,
        3,
        &Handshake {
            id: "r3".into(),
            ..at(A, 1, 4)
        },
    );
    assert!(deposed.starts_with("+FULLSYNC 2 4 "), "{deposed}");
}

#[test]
fn bug_29_whoever_claims_nothing_gets_what_was_there_before_the_history() {
    // A key space from files of no history: offset 0 is not its beginning.
    let mut source = Source::new(config(1 << 20), History::unknown(), 1);
    source.lead(A, Epoch(0));
    let answer = greet(&mut source, 1, &Handshake::new("r1", 0));
    assert!(answer.starts_with("+FULLSYNC 0 1 "), "{answer}");
    assert_eq!(source.wants_snapshot().collect::<Vec<_>>(), [LinkId(1)]);
}

#[test]
fn bug_29_heartbeats_that_promise_what_does_not_come_end_the_link() {
    let mut sink = streaming(5);
    let mut found = Vec::new();
    for second in 1..100 {
        sink.handle_bytes(LinkId(1), b"+PING 1 8\r\n", seconds(second));
        sink.handle_timeout(seconds(second));
        found.extend(reports(&effects_of(&mut sink)));
        if !found.is_empty() {
            break;
        }
    }
    assert_eq!(found, [SinkReport::Stalled]);
    assert_eq!(sink.staleness(seconds(60)), None);
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

/// A snapshot of the state at `offset`, of some chunks.
fn snapshot(offset: u64, chunks: &[&[u8]]) -> Vec<u8> {
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

const FULLSYNC: &[u8] = b"+FULLSYNC 1 9 SHARDS 2 HISTORY 0000000000000000000000000000000a:1:0\r\n";

#[test]
fn bug_31_a_snapshot_counts_when_it_is_in_place_and_not_before() {
    let mut sink = greeting(None);
    sink.handle_bytes(LinkId(1), FULLSYNC, NOW);
    sink.handle_bytes(LinkId(1), &snapshot(9, &[b"ab", b"c"]), NOW);
    sink.handle_bytes(LinkId(1), &entry(10, 1, &effects(1, 0)), NOW);
    let seen = effects_of(&mut sink);
    assert!(
        matches!(seen.last(), Some(SinkEffect::SnapshotEnd(_))),
        "{seen:?}"
    );
    assert!(sink.status(NOW).syncing && !sink.status(NOW).up && !sink.wants_bytes());
    let told = sink.poll_transmit().expect("it says that it is there");
    assert!(told.ends_with(b"$1\r\n0\r\n"), "{}", told.escape_ascii());
    sink.installed(NOW);
    assert!(sink.status(NOW).up);
    let seen = effects_of(&mut sink);
    assert!(matches!(&seen[..], [SinkEffect::Apply(entry)] if entry.offset == 10));
    let told = sink.poll_transmit().expect("it has more");
    assert!(told.ends_with(b"$2\r\n10\r\n"), "{}", told.escape_ascii());
}

#[test]
fn bug_32_the_position_changes_with_the_state_and_a_broken_snapshot_changes_nothing() {
    let whole = [FULLSYNC, &snapshot(9, &[b"abc", b"def"])].concat();
    let history = History::begin(B, Epoch(0), 0);
    let old = Position { history, offset: 4 };
    for length in 0..whole.len() {
        let mut sink = greeting(Some(old.clone()));
        sink.handle_bytes(LinkId(1), &whole[..length], NOW);
        effects_of(&mut sink);
        sink.handle_closed(LinkId(1), NOW);
        let seen = effects_of(&mut sink);
        assert_eq!(sink.position(), Some(&old), "{length} bytes");
        assert!(reports(&seen).contains(&SinkReport::Lost));
    }
    let mut sink = greeting(Some(old));
    sink.handle_bytes(LinkId(1), &whole, NOW);
    effects_of(&mut sink);
    sink.installed(NOW);
    let history = History::begin(A, Epoch(1), 0);
    assert_eq!(sink.position(), Some(&Position { history, offset: 9 }));
}

#[test]
fn bug_32_a_snapshot_that_was_damaged_on_its_way_is_not_put_in_place() {
    let sound = snapshot(9, &[b"abc", b"def"]);
    let damaged = |from: &str, to: &str| String::from_utf8_lossy(&sound).replace(from, to);
    for bytes in [
        damaged("abc", "abd"),
        damaged("$3\r\nabc\r\n", ""),
        damaged("END 9", "END 8"),
        damaged("END 9 2", "END 9 3"),
    ] {
        let mut sink = greeting(None);
        sink.handle_bytes(LinkId(1), FULLSYNC, NOW);
        sink.handle_bytes(LinkId(1), bytes.as_bytes(), NOW);
        let seen = effects_of(&mut sink);
        assert_eq!(reports(&seen), [SinkReport::SnapshotDamaged], "{bytes}");
        assert!(seen.contains(&SinkEffect::SnapshotAbort));
    }
}

#[test]
fn bug_33_what_was_sent_is_not_what_was_applied() {
    let mut source = source(1 << 20, 10);
    greet(&mut source, 1, &at(A, 1, 4));
    assert_eq!(
        (source.acknowledged_by(4), source.acknowledged_by(5)),
        (1, 0)
    );
    ack(&mut source, 1, 7, NOW);
    assert_eq!(
        (source.acknowledged_by(7), source.acknowledged_by(8)),
        (1, 0)
    );
    // It comes again, and has less than it said: it had lost it in a crash.
    greet(&mut source, 2, &at(A, 1, 6));
    assert_eq!(
        (source.acknowledged_by(6), source.acknowledged_by(7)),
        (1, 0)
    );
    // The connection before says more, too late.
    ack(&mut source, 1, 10, NOW);
    assert_eq!(source.acknowledged_by(7), 0);
    source.handle_closed(LinkId(2), NOW);
    assert_eq!(
        source.acknowledged_by(0),
        0,
        "whoever is not there does not count"
    );
    assert_eq!(
        (source.acknowledged_offset(0), source.acknowledged_offset(1)),
        (u64::MAX, 0)
    );
}

#[test]
fn bug_33_what_was_applied_of_another_branch_does_not_count() {
    let mut source = source(1 << 20, 10);
    assert!(greet(&mut source, 1, &at(B, 1, 9)).starts_with("+FULLSYNC"));
    ack(&mut source, 1, 9, NOW);
    assert_eq!(source.acknowledged_by(1), 0);
    source.snapshot_begin(LinkId(1), 10).expect("wanted");
    ack(&mut source, 1, 9, NOW);
    source.snapshot_end(LinkId(1)).expect("begun");
    assert_eq!(source.acknowledged_by(1), 0);
    ack(&mut source, 1, 10, NOW);
    assert_eq!(source.acknowledged_by(10), 1);
    let events = events(&mut source);
    assert!(events.contains(&SourceEvent::Acknowledged));
}

#[test]
fn bug_33_a_replica_that_acknowledges_what_it_was_never_sent_is_cut_off() {
    let mut source = source(1 << 20, 10);
    greet(&mut source, 1, &at(A, 1, 10));
    ack(&mut source, 1, 11, NOW);
    let (link, reason) = (LinkId(1), CloseReason::FalseAcknowledgement);
    assert!(events(&mut source).contains(&SourceEvent::Close { link, reason }));
    assert_eq!(source.acknowledged_by(1), 0);
}

#[test]
fn bug_33_a_stalled_replica_is_not_a_good_one() {
    let mut source = source(1 << 20, 10);
    greet(&mut source, 1, &at(A, 1, 10));
    ack(&mut source, 1, 10, NOW);
    let lag = Duration::from_secs(10);
    assert_eq!(source.good_replicas(NOW, lag), 1);
    source.append(effects(11, 0));
    said(&mut source, 1);
    // It says every second that it is there, and no more.
    (0..20).for_each(|second| ack(&mut source, 1, 10, seconds(second)));
    assert_eq!(source.good_replicas(seconds(20), lag), 0);
    // A replica that is always a little behind is good.
    for second in 20..60 {
        source.append(effects(second, 0));
        said(&mut source, 1);
        let behind = source.last_offset() - 1;
        ack(&mut source, 1, behind, seconds(second));
    }
    assert_eq!(source.good_replicas(seconds(60), lag), 1);
}

#[test]
fn bug_33_a_quiet_replica_is_given_up_and_forgotten() {
    let mut source = source(1 << 20, 1);
    greet(&mut source, 1, &at(A, 1, 1));
    let deadline = source.deadline().expect("heartbeat");
    assert_eq!(deadline, seconds(1));
    for second in 1..=60 {
        source.handle_timeout(seconds(second));
    }
    let (link, reason) = (LinkId(1), CloseReason::Silent);
    assert!(events(&mut source).contains(&SourceEvent::Close { link, reason }));
    source.handle_closed(link, seconds(60));
    assert_eq!(source.replicas(seconds(60)).count(), 1);
    source.handle_timeout(seconds(121));
    assert_eq!(source.replicas(seconds(121)).count(), 0);
    assert_eq!(source.deadline(), None);
}

#[test]
fn bug_34_events_of_a_connection_that_was_left_change_nothing() {
    let mut sink = streaming(5);
    sink.retarget(NOW);
    assert_eq!(effects_of(&mut sink), [SinkEffect::Disconnect(LinkId(1))]);
    sink.handle_timeout(NOW);
    assert_eq!(effects_of(&mut sink), [SinkEffect::Connect(LinkId(2))]);
    sink.handle_closed(LinkId(1), NOW);
    sink.handle_connected(LinkId(1), NOW);
    sink.handle_bytes(LinkId(1), &entry(6, 1, &effects(6, 0)), NOW);
    assert_eq!(effects_of(&mut sink), []);
    sink.handle_connected(LinkId(2), NOW);
    let greeting = sink.poll_transmit().expect("a handshake");
    assert!(String::from_utf8_lossy(&greeting).contains("FROM\r\n$1\r\n5\r\n"));
    sink.stop();
    sink.handle_bytes(LinkId(2), b"+PING\r\n", NOW);
    sink.handle_timeout(seconds(100));
    assert_eq!(effects_of(&mut sink), [SinkEffect::Disconnect(LinkId(2))]);
    assert_eq!(sink.deadline(), None);
}

#[test]
fn bug_34_the_next_connection_waits_until_everything_that_was_let_go_is_applied() {
    let mut sink = streaming(5);
    sink.handle_bytes(LinkId(1), &entry(6, 1, &effects(6, 0)), NOW);
    let Some(SinkEffect::Apply(given)) = sink.poll_effect() else {
        panic!("no entry");
    };
    sink.handle_closed(LinkId(1), NOW);
    sink.handle_timeout(seconds(50));
    assert_eq!(sink.deadline(), None);
    let seen = effects_of(&mut sink);
    assert_eq!(seen, [SinkEffect::Report(SinkReport::Lost)]);
    sink.applied(given.offset);
    sink.handle_timeout(seconds(50));
    assert_eq!(effects_of(&mut sink), [SinkEffect::Connect(LinkId(2))]);
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
fn bug_36_a_hostile_primary_makes_a_replica_neither_panic_nor_keep_much() {
    for bytes in [
        &b"*9999999999\r\n"[..],
        b"$99999999999999999999\r\n",
        b"+ACK 1 5 HISTORY nonsense\r\n",
        b"+SNAPSHOT BEGIN 9\r\n",
        b"\0\0\0\0",
    ] {
        let mut sink = greeting(Some(Position::empty()));
        sink.handle_bytes(LinkId(1), bytes, NOW);
        let seen = effects_of(&mut sink);
        assert!(
            seen.contains(&SinkEffect::Disconnect(LinkId(1))),
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn bug_36_a_hostile_replica_is_refused() {
    let endless = vec![b'x'; 5000];
    for bytes in [
        &b"*9999999999\r\n"[..],
        b"*2\r\n$9\r\nREPLICATE\r\n$999999999\r\n",
        b"GET k\r\n",
        b"REPLCONF ACK 1\r\n",
        b"REPLICATE FROM -1 ID x\r\n",
        &endless,
    ] {
        let mut source = source(1 << 20, 1);
        source.handle_open(LinkId(1), "127.0.0.1:9", NOW);
        source.handle_bytes(LinkId(1), bytes, NOW);
        let answer = said(&mut source, 1);
        assert!(answer.starts_with("-ERR "), "{answer}");
        let closed = SourceEvent::Close {
            link: LinkId(1),
            reason: CloseReason::Protocol,
        };
        assert_eq!(events(&mut source), [closed]);
        // Nothing is kept of what it goes on to say.
        (0..100).for_each(|_| source.handle_bytes(LinkId(1), &endless, NOW));
        assert_eq!(said(&mut source, 1), "");
    }
}

#[test]
fn bug_36_there_are_only_so_many_connections_and_names() {
    let mut source = source(1 << 20, 1);
    for link in 0..64 {
        let id = format!("r{link}");
        greet(&mut source, link, &Handshake { id, ..at(A, 1, 1) });
    }
    let one_more = Handshake {
        id: "more".into(),
        ..at(A, 1, 1)
    };
    assert_eq!(
        greet(&mut source, 100, &one_more),
        "-ERR too many replicas\r\n"
    );
    source.handle_closed(LinkId(3), NOW);
    assert!(greet(&mut source, 101, &one_more).starts_with("+ACK"));
    events(&mut source);
    (200..400).for_each(|link| source.handle_open(LinkId(link), "127.0.0.1:9", NOW));
    let refused = events(&mut source).into_iter();
    let refused = refused.filter(|event| {
        matches!(
            event,
            SourceEvent::Close {
                reason: CloseReason::TooMany,
                ..
            }
        )
    });
    assert!(refused.count() > 100);
}

#[test]
fn bug_38_heartbeats_with_less_in_them_keep_a_link_alive() {
    let mut sink = streaming(5);
    for second in 1..50 {
        let ping: &[u8] =
            [&b"+PING\r\n"[..], b"+PING 6\r\n", b"+PING 1 6\r\n"][second as usize % 3];
        sink.handle_bytes(LinkId(1), ping, seconds(second));
        sink.handle_timeout(seconds(second));
        assert_eq!(effects_of(&mut sink), []);
        assert!(
            sink.poll_transmit().is_some(),
            "it acknowledges every second"
        );
    }
    assert!(
        sink.staleness(seconds(50))
            .is_some_and(|old| old < Duration::from_secs(4))
    );
    sink.handle_bytes(
        LinkId(1),
        b"*2\r\n:6\r\n$4\r\n\x01\x01\x01\x00\r\n",
        seconds(50),
    );
    assert!(
        matches!(&effects_of(&mut sink)[..], [SinkEffect::Apply(entry)] if entry.epoch == Epoch(1))
    );
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

#[test]
fn bug_40_a_replica_names_its_primary_when_it_is_asked_to_be_one() {
    let mut source = source(1 << 20, 1);
    source.follow(Some("db1:16004".into()));
    assert_eq!(
        greet(&mut source, 1, &at(A, 1, 1)),
        "-ERR chained replication is not supported: this node is a replica, ask the primary at db1:16004\r\n"
    );
    let later = Handshake {
        version: 2,
        ..at(A, 1, 1)
    };
    source.lead(B, Epoch(2));
    assert_eq!(
        greet(&mut source, 2, &later),
        "-ERR replication version 2 is unknown, this node speaks 1\r\n"
    );
}

#[test]
fn gaps_duplicates_and_foreign_epochs_are_not_applied() {
    let mut sink = streaming(5);
    sink.handle_bytes(LinkId(1), &entry(5, 1, &effects(5, 0)), NOW);
    assert_eq!(effects_of(&mut sink), []);
    assert_eq!(sink.status(NOW).duplicates, 1);
    sink.handle_bytes(LinkId(1), &entry(7, 1, &effects(7, 0)), NOW);
    let gap = SinkReport::OffsetGap {
        expected: 6,
        got: 7,
    };
    assert_eq!(reports(&effects_of(&mut sink)), [gap]);
    assert_eq!(sink.position().map(|position| position.offset), Some(5));
    let mut sink = streaming(5);
    sink.handle_bytes(LinkId(1), &entry(6, 2, &effects(6, 0)), NOW);
    assert_eq!(reports(&effects_of(&mut sink)), [SinkReport::EpochMismatch]);
    assert_eq!(sink.position(), None, "it asks for a snapshot");
    let mut sink = streaming(5);
    sink.handle_bytes(LinkId(1), b"+PING 1 5\r\n", NOW);
    assert_eq!(
        reports(&effects_of(&mut sink)),
        [SinkReport::HistoryMismatch]
    );
}

#[test]
fn an_answer_that_does_not_fit_is_not_believed() {
    let history = History::begin(A, Epoch(1), 0);
    for answer in [
        "+ACK 1 4 HISTORY 0000000000000000000000000000000a:1:0\r\n",
        "+ACK 1 5 HISTORY 0000000000000000000000000000000b:1:0\r\n",
        "+ACK 2 5 HISTORY 0000000000000000000000000000000a:1:0\r\n",
        "+ACK 1 5 HISTORY 0000000000000000000000000000000a:1:6\r\n",
    ] {
        let history = history.clone();
        let mut sink = greeting(Some(Position { history, offset: 5 }));
        sink.handle_bytes(LinkId(1), answer.as_bytes(), NOW);
        assert_eq!(
            reports(&effects_of(&mut sink)),
            [SinkReport::HistoryMismatch],
            "{answer}"
        );
    }
}

#[test]
fn a_slow_replica_costs_nothing_falls_out_and_is_reported() {
    let mut source = source(5000, 10);
    greet(&mut source, 1, &at(A, 1, 10));
    (0..1000).for_each(|number| {
        source.append(effects(number, 100));
    });
    assert!(source.backlog().held_bytes() <= 5000);
    let seen = events(&mut source);
    let fell = |event: &&SourceEvent| {
        matches!(
            event,
            SourceEvent::FellOut {
                lag_entries: 20..,
                ..
            }
        )
    };
    assert_eq!(seen.iter().filter(fell).count(), 1, "{seen:?}");
    assert_eq!(
        source.wants_snapshot().count(),
        0,
        "not before it takes what it is sent"
    );
    assert!(said(&mut source, 1).starts_with("+FULLSYNC 1 1010 "));
    assert_eq!(source.wants_snapshot().count(), 1);
    assert_eq!(source.acknowledged_by(1), 0);
}

#[test]
fn a_snapshot_flows_at_the_pace_of_the_connection() {
    let mut source = source(5000, 10);
    greet(&mut source, 1, &at(B, 1, 10));
    source.snapshot_begin(LinkId(1), 10).expect("wanted");
    let chunk = Bytes::from(vec![7; 300_000]);
    let mut given = 0;
    while source.snapshot_room(LinkId(1)) > chunk.len() {
        source
            .snapshot_chunk(LinkId(1), chunk.clone())
            .expect("begun");
        given += 1;
    }
    assert_eq!(given, SNAPSHOT_PENDING_BYTES / chunk.len());
    while source.poll_transmit(LinkId(1), 1000).is_some() {}
    assert!(source.snapshot_room(LinkId(1)) > chunk.len());
}

#[test]
fn a_snapshot_that_the_backlog_outruns_begins_anew_and_not_for_ever() {
    let mut source = source(5000, 10);
    greet(&mut source, 1, &at(B, 1, 10));
    for attempt in 1..=MAX_SNAPSHOT_ATTEMPTS {
        said(&mut source, 1);
        source
            .snapshot_begin(LinkId(1), source.last_offset())
            .expect("wanted");
        events(&mut source);
        (0..100).for_each(|number| {
            source.append(effects(number, 100));
        });
        assert!(
            source
                .snapshot_chunk(LinkId(1), Bytes::from_static(b"x"))
                .is_err()
        );
        let seen = events(&mut source);
        assert!(
            matches!(seen[0], SourceEvent::SnapshotOutrun { .. }),
            "{seen:?}"
        );
        let closed = SourceEvent::Close {
            link: LinkId(1),
            reason: CloseReason::SnapshotsOutrun,
        };
        assert_eq!(seen.contains(&closed), attempt == MAX_SNAPSHOT_ATTEMPTS);
    }
}

#[test]
fn entries_that_a_crash_may_forget_are_not_sent_before_they_are_durable() {
    let mut source = source(1 << 20, 3);
    source.set_sendable(2);
    let answer = greet(&mut source, 1, &at(A, 1, 1));
    assert!(answer.contains("\r\n:2\r\n:1\r\n") && !answer.contains("\r\n:3\r\n:1\r\n"));
    assert!(!source.has_output(LinkId(1)));
    source.set_sendable(3);
    assert!(said(&mut source, 1).contains(":3\r\n:1\r\n"));
}

#[test]
fn a_large_entry_is_sent_in_pieces_as_it_stands() {
    let mut source = source(1 << 20, 0);
    greet(&mut source, 1, &Handshake::new("r1", 0));
    let payload = effects(1, 200_000);
    source.append(payload.clone());
    source.append(effects(2, 0));
    let mut out = Vec::new();
    while let Some(bytes) = source.poll_transmit(LinkId(1), 1000) {
        assert!(bytes.len() <= 1000);
        out.extend_from_slice(&bytes);
    }
    let expected = [entry(1, 1, &payload), entry(2, 1, &effects(2, 0))].concat();
    assert_eq!(out, expected);
}

#[test]
fn parts_wait_for_their_release_and_hold_back_what_follows() {
    let mut sink = streaming(5);
    let entries = [
        effects(6, 0),
        part(1, &[0, 1]),
        effects(8, 0),
        part(2, &[0]),
        part(3, &[0, 1]),
    ];
    for (at, payload) in entries.iter().enumerate() {
        sink.handle_bytes(LinkId(1), &entry(6 + at as u64, 1, payload), NOW);
    }
    let seen = effects_of(&mut sink);
    let [
        SinkEffect::Part(first),
        SinkEffect::Part(second),
        SinkEffect::Apply(plain),
    ] = &seen[..]
    else {
        panic!("{seen:?}");
    };
    assert_eq!((first.offset, second.offset, plain.offset), (7, 10, 6));
    assert!(!sink.release(first.generation + 1, 7), "of another time");
    assert!(sink.release(first.generation, first.offset));
    let seen = effects_of(&mut sink);
    let applied: Vec<_> = seen.iter().filter_map(applied_offset).collect();
    assert_eq!(seen.len(), applied.len());
    assert_eq!(applied, [7, 8, 9]);
    // The connection goes: what was not released is forgotten, and its release comes too late.
    sink.handle_closed(LinkId(1), NOW);
    let seen = effects_of(&mut sink);
    assert_eq!(
        seen,
        [
            SinkEffect::PartsForgotten,
            SinkEffect::Report(SinkReport::Lost)
        ]
    );
    assert!(!sink.release(second.generation, second.offset));
}

#[test]
fn void_parts_are_skipped_and_applied_ones_ask_for_a_snapshot() {
    let dropped = |sequence| {
        let mut out = BytesMut::new();
        let id = kevy_proto::ids::TransactionId {
            coordinator: ShardId(0),
            sequence,
        };
        push_dropped(&mut out, 1, &[id]);
        out.freeze()
    };
    let mut history = History::begin(A, Epoch(1), 0);
    history.fork(B, Epoch(1), 6);
    let follow = || {
        let history = History::begin(A, Epoch(1), 0);
        let mut sink = greeting(Some(Position { history, offset: 5 }));
        let mut forked = History::begin(A, Epoch(1), 0);
        forked.fork(B, Epoch(1), 6);
        let answer = format!("+ACK 1 5 HISTORY {forked}\r\n");
        sink.handle_bytes(LinkId(1), answer.as_bytes(), NOW);
        sink.handle_bytes(LinkId(1), &entry(6, 1, &part(1, &[0, 1])), NOW);
        sink
    };
    let mut sink = follow();
    effects_of(&mut sink);
    sink.handle_bytes(LinkId(1), &entry(7, 1, &dropped(1)), NOW);
    let seen = effects_of(&mut sink);
    assert!(
        matches!(seen[0], SinkEffect::PartVoid(key) if key.history == A),
        "{seen:?}"
    );
    assert!(matches!(&seen[1], SinkEffect::Apply(entry) if entry.void && entry.offset == 6));
    assert!(matches!(&seen[2], SinkEffect::Apply(entry) if !entry.void && entry.offset == 7));
    let mut sink = follow();
    let seen = effects_of(&mut sink);
    let generation = seen
        .iter()
        .find_map(notice_of)
        .map(|notice| notice.generation);
    assert!(sink.release(generation.expect("it waits"), 6));
    effects_of(&mut sink);
    sink.handle_bytes(LinkId(1), &entry(7, 1, &dropped(1)), NOW);
    let seen = reports(&effects_of(&mut sink));
    assert!(
        matches!(seen[..], [SinkReport::AppliedIsVoid(_)]),
        "{seen:?}"
    );
    assert_eq!(sink.position(), None);
}

#[test]
fn too_much_that_waits_stops_reading_and_is_told() {
    let mut sink = streaming(5);
    sink.handle_bytes(LinkId(1), &entry(6, 1, &part(1, &[0, 1])), NOW);
    let mut offset = 7;
    while sink.wants_bytes() {
        sink.handle_bytes(LinkId(1), &entry(offset, 1, &effects(offset, 100_000)), NOW);
        offset += 1;
    }
    let seen = effects_of(&mut sink);
    assert_eq!(seen.iter().filter(|e| **e == SinkEffect::Full).count(), 1);
    // Not reading is not the primary's silence.
    (1..200).for_each(|second| sink.handle_timeout(seconds(second)));
    assert_eq!(effects_of(&mut sink), []);
    let SinkEffect::Part(notice) = &seen[0] else {
        panic!("{:?}", seen[0]);
    };
    assert!(sink.release(notice.generation, 6));
    assert_eq!(effects_of(&mut sink).len() as u64, offset - 6);
    assert!(sink.wants_bytes());
}

#[test]
fn silence_ends_a_link_and_connections_are_tried_more_and_more_slowly() {
    let mut sink = streaming(5);
    sink.handle_timeout(seconds(10));
    assert_eq!(reports(&effects_of(&mut sink)), [SinkReport::Silent]);
    let (mut now, mut waits) = (seconds(10), Vec::new());
    for link in 2..12 {
        let due = sink.deadline().expect("it tries again");
        waits.push(due - now);
        now = due;
        sink.handle_timeout(now);
        assert_eq!(effects_of(&mut sink), [SinkEffect::Connect(LinkId(link))]);
        sink.handle_closed(LinkId(link), now);
        effects_of(&mut sink);
    }
    assert!(waits[0] <= Duration::from_millis(100) && waits[9] >= Duration::from_millis(2500));
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(5)));
}

#[test]
fn a_position_is_written_and_read() {
    let mut history = History::begin(A, Epoch(1), 0);
    history.fork(B, Epoch(3), 17);
    for position in [
        Position {
            history,
            offset: 40,
        },
        Position::empty(),
    ] {
        assert_eq!(Position::parse(&position.to_string()), Some(position));
    }
    assert_eq!(Position::parse("17"), None);
}
