//! What a replica believes and does.

use crate::world::{effects, part};
use bytes::BytesMut;
use kevy_proto::ids::ShardId;
use kevy_proto::log::{push_dropped, push_skipped};
use kevy_proto::replication::{Epoch, History};
use kevy_replicate::{LinkId, Position, SinkEffect, SinkReport};
use std::time::Duration;

use crate::{
    A, B, FULLSYNC, NOW, applied_offset, effects_of, entry, greeting, notice_of, reports, seconds,
    snapshot, streaming,
};

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
fn bug_38_heartbeats_with_less_in_them_keep_a_link_alive() {
    let (mut sink, mut seen) = (streaming(5), Vec::new());
    for second in 1..50 {
        let ping: &[u8] =
            [&b"+PING\r\n"[..], b"+PING 6\r\n", b"+PING 1 6\r\n"][second as usize % 3];
        sink.handle_bytes(LinkId(1), ping, seconds(second));
        sink.handle_timeout(seconds(second));
        seen.extend(effects_of(&mut sink));
        assert!(
            sink.poll_transmit().is_some(),
            "it acknowledges every second"
        );
    }
    assert_eq!(seen, []);
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

#[test]
fn bug_33_a_replica_that_is_being_replaced_acknowledges_nothing() {
    let history = History::begin(B, Epoch(0), 0);
    let offset = 95;
    let mut sink = greeting(Some(Position { history, offset }));
    let sync = [FULLSYNC, &snapshot(9, &[b"abc"])].concat();
    for length in FULLSYNC.len()..=sync.len() {
        let from = if length == FULLSYNC.len() {
            0
        } else {
            length - 1
        };
        sink.handle_bytes(LinkId(1), &sync[from..length], NOW);
        sink.handle_timeout(seconds(length as u64 / 40));
        if let Some(told) = sink.poll_transmit() {
            assert!(told.ends_with(b"$1\r\n0\r\n"), "{}", told.escape_ascii());
        }
    }
    effects_of(&mut sink);
    sink.installed(NOW);
    let told = sink.poll_transmit().expect("it has the snapshot");
    assert!(told.ends_with(b"$1\r\n9\r\n"), "{}", told.escape_ascii());
}

#[test]
fn what_a_primary_skips_after_a_crash_asks_for_a_snapshot() {
    let mut sink = streaming(5);
    let mut out = BytesMut::new();
    push_skipped(&mut out, 17);
    sink.handle_bytes(LinkId(1), &entry(6, 1, &out.freeze()), NOW);
    let seen = reports(&effects_of(&mut sink));
    assert_eq!(seen, [SinkReport::AppliedIsSkipped]);
    assert_eq!(sink.position(), None);
}
