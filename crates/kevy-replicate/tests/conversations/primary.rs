//! What a primary says and counts.

use crate::world::{config, effects};
use bytes::Bytes;
use kevy_proto::replication::{Epoch, Handshake, History};
use kevy_replicate::{
    CloseReason, LinkId, MAX_SNAPSHOT_ATTEMPTS, SNAPSHOT_PENDING_BYTES, Source, SourceEvent,
};
use std::time::Duration;

use crate::{A, B, NOW, ack, at, entry, events, greet, said, seconds, source};

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
