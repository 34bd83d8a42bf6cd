//! What a durable server promises while it runs and across clean stops, over the wire.

use kevy_tests::connection::Connection;
use kevy_tests::process::{Signal, poll};
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::Path;
use tempfile::TempDir;

/// A value of every type, with deadlines, groups and pending entries.
const EVERYTHING: &[&str] = &[
    "SET string value",
    "SET number 42",
    "SET dying value PXAT 99999999999999",
    "SETRANGE sparse 10 x",
    "RPUSH list a b c",
    "SADD numbers 1 2 3",
    "SADD words one two three",
    "HSET hash field value other thing",
    "HPEXPIREAT hash 9999999999999 FIELDS 1 other",
    "ZADD zset 1 a 2.5 b -inf c",
    "XADD stream 1-1 field value",
    "XADD stream 2-1 field value",
    "XADD stream 3-1 field value",
    "XDEL stream 3-1",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
    "XGROUP CREATE empty group $ MKSTREAM",
    "PFADD hyperloglog a b c",
    "GEOADD places 13.361389 38.115556 Palermo",
    "MSET first 1 second 2 third 3 fourth 4",
    "RENAME first renamed",
    "COPY list copied",
    "SUNIONSTORE union numbers words",
    "LMOVE copied moved LEFT RIGHT",
];

/// Everything a client can learn of every key.
fn state(connection: &mut Connection) -> Vec<(String, Vec<Reply>)> {
    let keys = connection.run("KEYS *");
    let mut names: Vec<String> = keys.items().iter().map(Reply::text).collect();
    names.sort();
    let questions = ["TYPE", "DUMP", "PEXPIRETIME", "OBJECT ENCODING"];
    let mut about = |name: String| {
        let mut replies: Vec<Reply> = questions
            .iter()
            .map(|question| connection.run(&format!("{question} {name}")))
            .collect();
        // The order of elements in a table is its own affair.
        if ["set", "hash"].contains(&replies[0].text().as_str()) {
            replies[1] = Reply::Null;
            for question in ["SMEMBERS", "HGETALL"] {
                let elements = connection.run(&format!("{question} {name}"));
                if let Some(items) = elements.as_items() {
                    let mut texts: Vec<String> = items.iter().map(Reply::text).collect();
                    texts.sort();
                    replies.push(Reply::bulk(&texts.join(" ")));
                }
            }
            replies.push(connection.run(&format!("HPEXPIRETIME {name} FIELDS 1 other")));
        }
        // When a consumer was seen last is not logged, as in Redis, and deleted entries leave no trace in a snapshot.
        if replies[0].text() == "stream" {
            replies[1] = connection.run(&format!("XRANGE {name} - +"));
            replies.push(connection.run(&format!("XINFO GROUPS {name}")));
            replies.push(Reply::bulk(&pending(connection, &name)));
        }
        (name, replies)
    };
    names.into_iter().map(&mut about).collect()
}

/// Who has what of the group, and how often it was delivered; not for how long.
fn pending(connection: &mut Connection, name: &str) -> String {
    let entries = connection.run(&format!("XPENDING {name} group - + 10"));
    let entries = entries.as_items().unwrap_or_default().iter();
    let texts = entries.map(|entry| {
        let columns = entry.items();
        format!(
            "{} {} {}",
            columns[0].text(),
            columns[1].text(),
            columns[3].integer()
        )
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn start(threads: u16, directory: TempDir) -> Server {
    Spec::threads(threads).durable().start_in(directory)
}

fn filled(threads: u16) -> (Server, Vec<(String, Vec<Reply>)>) {
    let server = start(threads, TempDir::new().expect("a temporary directory"));
    let mut connection = server.connect();
    for request in EVERYTHING {
        let reply = connection.run(request);
        assert!(!matches!(reply, Reply::Error(_)), "{request}: {reply:?}");
    }
    let state = state(&mut connection);
    assert!(state.len() >= 18, "{} keys", state.len());
    (server, state)
}

fn compare(now: &[(String, Vec<Reply>)], before: &[(String, Vec<Reply>)], threads: u16) {
    assert_eq!(now.len(), before.len(), "{threads} shards");
    for (now, before) in now.iter().zip(before) {
        assert_eq!(now, before, "{threads} shards");
    }
}

#[test]
fn every_type_is_there_after_a_clean_stop() {
    for threads in [1, 4] {
        let (server, before) = filled(threads);
        let (status, directory) = server.stop(Signal::TERM);
        assert!(status.success());
        let server = start(threads, directory);
        compare(&state(&mut server.connect()), &before, threads);
    }
}

#[test]
fn every_type_is_there_after_a_snapshot_and_on_another_number_of_shards() {
    let (mut server, before) = filled(3);
    for threads in [1, 4, 2] {
        assert_eq!(server.connect().run("SAVE"), Reply::ok());
        let (status, directory) = server.stop(Signal::TERM);
        assert!(status.success());
        server = start(threads, directory);
        compare(&state(&mut server.connect()), &before, threads);
    }
}

#[test]
fn what_is_written_after_a_rewrite_is_not_done_twice() {
    let (server, _) = filled(2);
    let mut connection = server.connect();
    assert_eq!(connection.run("CONFIG SET appendfsync always"), Reply::ok());
    assert_eq!(connection.run("SAVE"), Reply::ok());
    for number in 0..50 {
        connection.run(&format!("RPUSH counted {number}"));
        connection.run("INCR counter");
        if number == 25 {
            connection.run("BGREWRITEAOF");
        }
    }
    let before = state(&mut connection);
    let (_, directory) = server.stop(Signal::KILL);
    let server = start(2, directory);
    let mut connection = server.connect();
    assert_eq!(connection.run("LLEN counted"), Reply::Integer(50));
    compare(&state(&mut connection), &before, 2);
}

#[test]
fn flushed_keys_stay_gone_whatever_snapshot_is_under_way() {
    let (server, _) = filled(2);
    let mut connection = server.connect();
    connection.run("BGSAVE");
    connection.run("FLUSHALL");
    connection.run("SET only one");
    let (_, directory) = server.stop(Signal::TERM);
    let server = start(2, directory);
    assert_eq!(server.connect().run("KEYS *").items().len(), 1);
}

#[test]
fn many_short_lives_leave_few_files() {
    let mut directory = TempDir::new().expect("a temporary directory");
    for life in 0..40 {
        let server = start(1, directory);
        let mut connection = server.connect();
        assert_eq!(connection.run("INCR lives"), Reply::Integer(life + 1));
        directory = server.stop(Signal::TERM).1;
    }
    let segments = files(directory.path(), ".log");
    assert!(segments < 36, "{segments} segments");
}

fn files(directory: &Path, ending: &str) -> usize {
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.ends_with(ending)).count()
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else_until_there_is_room_again() {
    let mut server = start(1, TempDir::new().expect("a temporary directory"));
    let mut connection = server.connect();
    assert_eq!(connection.run("CONFIG SET appendfsync always"), Reply::ok());
    assert_eq!(connection.run("SET before 1"), Reply::ok());
    let pid = Pid::from_raw(server.process().pid() as i32);
    let limit = |bytes| Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit(Some(4096))).expect("it is our process");
    // Their replies wait for the log, which cannot be written: so another connection asks.
    let mut blocked = server.connect();
    let value = "x".repeat(3000);
    for _ in 0..3 {
        let request = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$3000\r\n{value}\r\n");
        blocked
            .send(request.as_bytes())
            .expect("the server is there");
    }
    let noticed = poll(|| {
        server
            .process()
            .words()
            .contains("Error writing the log")
            .then_some(())
    });
    assert!(noticed.is_some(), "a full disk is noticed");
    assert_eq!(
        connection.run("SET after 1").error(),
        "MISCONF Errors writing to the AOF file: File too large"
    );
    assert_eq!(connection.run("PING"), Reply::Simple("PONG".to_owned()));
    let info = connection.run("INFO persistence").text();
    assert!(info.contains("aof_last_write_status:err"), "{info}");
    prlimit(pid, Resource::Fsize, limit(None)).expect("it is our process");
    let works = poll(|| (connection.run("SET after 2") == Reply::ok()).then_some(()));
    assert!(works.is_some(), "writes resume");
    for _ in 0..3 {
        blocked.read().expect("what waited is answered");
    }
    let (_, directory) = server.stop(Signal::KILL);
    let server = start(1, directory);
    let mut connection = server.connect();
    assert_eq!(
        connection.run("MGET before after"),
        Reply::Array(vec![Reply::bulk("1"), Reply::bulk("2")])
    );
    assert_eq!(connection.run("STRLEN big"), Reply::Integer(3000));
}
