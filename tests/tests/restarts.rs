//! What went wrong elsewhere when a server was started again: commands over several keys, clients that waited, a stop in the
//! midst of a snapshot, a policy that changed.

use kevy_tests::connection::Connection;
use kevy_tests::process::Signal;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use tempfile::TempDir;

fn start(threads: u16, directory: TempDir) -> Server {
    Spec::threads(threads).durable().start_in(directory)
}

fn empty() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

/// Each command over several keys, with keys of its own, and a question with the answer that must be there afterwards.
const SEVERAL_KEYS: &[(&[&str], &str, &str)] = &[
    (&["MSET a1 1 a2 2 a3 3 a4 4"], "MGET a1 a2 a3 a4", "1 2 3 4"),
    (&["MSETNX b1 1 b2 2 b3 3"], "MGET b1 b2 b3", "1 2 3"),
    (&["SET c1 x", "RENAME c1 c2"], "MGET c1 c2", "- x"),
    (&["SET d1 x", "RENAMENX d1 d2"], "MGET d1 d2", "- x"),
    (&["SET e1 x", "COPY e1 e2"], "MGET e1 e2", "x x"),
    (
        &["RPUSH f1 new", "RPUSH f2 old old", "COPY f1 f2 REPLACE"],
        "LRANGE f2 0 -1",
        "new",
    ),
    (
        &["RPUSH g1 a b", "LMOVE g1 g2 LEFT RIGHT"],
        "LRANGE g2 0 -1",
        "a",
    ),
    (&["RPUSH h1 a b", "RPOPLPUSH h1 h2"], "LRANGE h2 0 -1", "b"),
    (&["SADD i1 a b", "SMOVE i1 i2 a"], "SMEMBERS i2", "a"),
    (
        &["SADD j1 a", "SADD j2 b", "SUNIONSTORE j3 j1 j2"],
        "SCARD j3",
        "2",
    ),
    (
        &["SADD k1 a b", "SADD k2 b", "SINTERSTORE k3 k1 k2"],
        "SMEMBERS k3",
        "b",
    ),
    (
        &["SADD l1 a b", "SADD l2 b", "SDIFFSTORE l3 l1 l2"],
        "SMEMBERS l3",
        "a",
    ),
    (
        &["ZADD m1 1 a", "ZADD m2 2 a", "ZUNIONSTORE m3 2 m1 m2"],
        "ZSCORE m3 a",
        "3",
    ),
    (
        &["ZADD n1 1 a 9 b", "ZADD n2 2 a", "ZINTERSTORE n3 2 n1 n2"],
        "ZSCORE n3 a",
        "3",
    ),
    (
        &["ZADD o1 1 a 9 b", "ZADD o2 2 a", "ZDIFFSTORE o3 2 o1 o2"],
        "ZSCORE o3 b",
        "9",
    ),
    (
        &["ZADD p1 1 a 9 b", "ZRANGESTORE p2 p1 0 0"],
        "ZSCORE p2 a",
        "1",
    ),
    (
        &["SET q1 a", "SET q2 b", "BITOP OR q3 q1 q2"],
        "GET q3",
        "c",
    ),
    (
        &["PFADD r1 a", "PFADD r2 b", "PFMERGE r3 r1 r2"],
        "PFCOUNT r3",
        "2",
    ),
    (
        &[
            "GEOADD s1 13 38 x",
            "GEOSEARCHSTORE s2 s1 FROMLONLAT 13 38 BYRADIUS 9 km",
        ],
        "ZCARD s2",
        "1",
    ),
    (
        &["RPUSH t1 3 1 2", "SORT t1 STORE t2"],
        "LRANGE t2 0 -1",
        "1 2 3",
    ),
    (
        &["MSET u1 1 u2 2 u3 3", "DEL u1 u3"],
        "MGET u1 u2 u3",
        "- 2 -",
    ),
    (
        &["MSET v1 1 v2 2 v3 3", "UNLINK v1 v2"],
        "MGET v1 v2 v3",
        "- - 3",
    ),
    (
        &["RPUSH w2 a b", "LMPOP 2 w1 w2 LEFT"],
        "LRANGE w2 0 -1",
        "b",
    ),
    (
        &["ZADD x2 1 a 2 b", "ZMPOP 2 x1 x2 MIN"],
        "ZRANGE x2 0 -1",
        "b",
    ),
    (
        &["MULTI", "SET y1 1", "INCR y2", "RPUSH y3 a", "EXEC"],
        "MGET y1 y2",
        "1 1",
    ),
    (
        &["SADD z1 a b c", "SPOP z1 3", "SADD z1 d"],
        "SMEMBERS z1",
        "d",
    ),
];

/// A reply as words; `-` for what is not there.
fn words(reply: &Reply) -> String {
    match reply {
        Reply::Null => "-".to_owned(),
        Reply::Integer(number) => number.to_string(),
        Reply::Array(items) | Reply::Set(items) => {
            let words: Vec<String> = items.iter().map(words).collect();
            words.join(" ")
        }
        Reply::Simple(_)
        | Reply::Error(_)
        | Reply::Bulk(_)
        | Reply::Map(_)
        | Reply::Push(_)
        | Reply::Double(_)
        | Reply::Boolean(_)
        | Reply::BigNumber(_)
        | Reply::Verbatim(_) => reply.text(),
    }
}

/// Bug classes 1, 2, 6 and 17: what was acknowledged, read back, and gone or doubled after the restart.
#[test]
fn every_command_over_several_keys_is_there_after_a_restart() {
    for threads in [1, 4, 8] {
        let server = start(threads, empty());
        let mut connection = server.connect();
        assert_eq!(connection.run("CONFIG SET appendfsync always"), Reply::ok());
        for (requests, ..) in SEVERAL_KEYS {
            for request in *requests {
                let reply = connection.run(request);
                assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
            }
        }
        let (_, directory) = server.stop(Signal::KILL);
        let server = start(threads, directory);
        let mut connection = server.connect();
        for (requests, question, answer) in SEVERAL_KEYS {
            let reply = connection.run(question);
            assert_eq!(words(&reply), *answer, "{requests:?} with {threads} shards");
        }
    }
}

/// Bug class 4: what a client that waited was given is gone for good.
#[test]
fn what_waiting_clients_were_given_does_not_come_back() {
    let waits = [
        ("BLPOP q1 0", "RPUSH q1 only", "EXISTS q1", "0"),
        ("BRPOP q2 0", "RPUSH q2 only", "EXISTS q2", "0"),
        (
            "BLMOVE q3 q4 LEFT RIGHT 0",
            "RPUSH q3 only",
            "LRANGE q4 0 -1",
            "only",
        ),
        ("BLMPOP 0 2 q5 q6 LEFT", "RPUSH q6 only", "EXISTS q6", "0"),
        ("BZPOPMIN q7 0", "ZADD q7 1 only", "EXISTS q7", "0"),
        (
            "XREADGROUP GROUP g c BLOCK 0 STREAMS q8 >",
            "XADD q8 1-1 f v",
            "XLEN q8",
            "1",
        ),
    ];
    for threads in [1, 4] {
        let server = start(threads, empty());
        let mut connection = server.connect();
        assert_eq!(connection.run("CONFIG SET appendfsync always"), Reply::ok());
        connection.run("XGROUP CREATE q8 g $ MKSTREAM");
        for (wait, push, ..) in waits {
            let mut waiting = server.connect();
            let line = format!("{wait}\r\n");
            waiting.send(line.as_bytes()).expect("the server is there");
            await_blocked(&mut connection);
            connection.run(push);
            let given = waiting.read().expect("a reply");
            assert!(
                !matches!(given, Reply::Error(_) | Reply::Null),
                "{wait}: {given:?}"
            );
        }
        let (_, directory) = server.stop(Signal::KILL);
        let server = start(threads, directory);
        let mut connection = server.connect();
        for (wait, _, question, answer) in waits {
            assert_eq!(words(&connection.run(question)), answer, "{wait}");
        }
        let pending = connection.run("XPENDING q8 g");
        assert_eq!(pending.items()[0], Reply::Integer(1));
    }
}

fn await_blocked(connection: &mut Connection) {
    let is_blocked = kevy_tests::process::poll(|| {
        let info = connection.run("INFO clients").text();
        info.contains("blocked_clients:1").then_some(())
    });
    assert!(is_blocked.is_some(), "the client waits");
}

/// Bug class 16: a single command costs a few bytes beside its own.
#[test]
fn a_single_command_is_logged_without_ceremony() {
    let server = start(1, empty());
    let mut connection = server.connect();
    let mut pipeline = Vec::new();
    for number in 0..1000 {
        let request = format!("*3\r\n$3\r\nSET\r\n$8\r\nkey:{number:04}\r\n$4\r\nxxxx\r\n");
        pipeline.extend_from_slice(request.as_bytes());
    }
    connection.send(&pipeline).expect("the server is there");
    for _ in 0..1000 {
        assert_eq!(connection.read().expect("a reply"), Reply::ok());
    }
    let (_, directory) = server.stop(Signal::TERM);
    let log = directory.path().join("1.shard-0.2.log");
    let bytes = std::fs::metadata(log).expect("the log").len();
    // "SET", the key and the value have 15 bytes together.
    assert!(bytes < 1000 * (15 + 8), "{bytes} bytes");
}

/// Bug class 20: a stop in the midst of a snapshot loses nothing.
#[test]
fn a_stop_during_a_snapshot_loses_nothing() {
    for stop in ["SHUTDOWN SAVE", "SHUTDOWN NOSAVE", "SHUTDOWN"] {
        let server = start(2, empty());
        let mut connection = server.connect();
        for number in 0..2000 {
            connection.run(&format!("SET key:{number} {number}"));
        }
        connection.run("BGSAVE");
        connection.run("SET last one");
        connection
            .send(format!("{stop}\r\n").as_bytes())
            .expect("the server is there");
        let (status, directory) = server.ended();
        assert!(status.success(), "{stop}");
        let server = start(2, directory);
        let mut connection = server.connect();
        assert_eq!(connection.run("DBSIZE"), Reply::Integer(2001), "{stop}");
        assert_eq!(connection.run("GET last"), Reply::bulk("one"), "{stop}");
    }
}

/// Bug class 24: `appendfsync` changes under load, and what was acknowledged is there.
#[test]
fn a_policy_that_changes_under_load_loses_nothing() {
    let server = start(2, empty());
    let (stop, acknowledged) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let writer = {
        let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let mut connection = server.connect();
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let count = connection.run("INCR count").integer();
                acknowledged.store(count as u64, Ordering::Relaxed);
            }
        })
    };
    let mut connection = server.connect();
    for policy in ["no", "always", "everysec", "always"]
        .iter()
        .cycle()
        .take(40)
    {
        let reply = connection.run(&format!("CONFIG SET appendfsync {policy}"));
        assert_eq!(reply, Reply::ok());
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("the writer");
    let (_, directory) = server.stop(Signal::KILL);
    let server = start(2, directory);
    let count = server.connect().run("GET count").text();
    let count: u64 = count.parse().expect("a number");
    assert!(count >= acknowledged.load(Ordering::Relaxed));
}
