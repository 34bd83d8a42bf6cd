//! What shards announce: notifications and lines for monitors; and pauses. Messages between the shards travel in
//! any order that keeps each pair of shards in order.

use super::tests::{Client, Process, key_on};
use super::*;
use crate::host::Door;
use kevy_proto::time::UnixMillis;

pub(super) fn connect(process: &mut Process, shard: u16, slot: u32) -> Client {
    process.connect(shard, slot, Door::Main)
}

/// A client that speaks RESP3.
pub(super) fn connect_resp3(process: &mut Process, shard: u16, slot: u32) -> Client {
    let client = connect(process, shard, slot);
    process.ask(client, "HELLO 3");
    client
}

pub(super) fn taken(process: &mut Process, client: Client) -> String {
    String::from_utf8(process.received.remove(&client).unwrap_or_default()).expect("text")
}

pub(super) fn configure(process: &mut Process, name: &str, value: &str) {
    let client = connect(process, 0, 99);
    let reply = process.ask(client, &format!("CONFIG SET {name} {value}"));
    assert_eq!(reply, "+OK\r\n");
}

/// Moves the clocks of all shards on, and carries what follows.
pub(super) fn pass(process: &mut Process, now_ms: u64) {
    for shard in &mut process.shards {
        shard.handle_time(Now {
            monotonic: Instant::from_nanos(now_ms * 1_000_000),
            unix: UnixMillis(now_ms as i64),
        });
    }
    process.settle();
}

// ---- notifications -----------------------------------------------------------------------------------------------

/// The events of `key` that a subscriber of its keyspace channel got.
fn events(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split("\r\n").collect();
    let messages = lines.chunks(7).filter(|chunk| chunk.len() == 7);
    messages.map(|chunk| chunk[6].to_owned()).collect()
}

#[test]
fn events_of_a_key_keep_their_order_wherever_they_are_heard() {
    let mut process = Process::new(3, 6);
    configure(&mut process, "notify-keyspace-events", "KA");
    let [a, b] = [key_on("a", 0, 3), key_on("b", 1, 3)];
    let subscribers: Vec<Client> = (0..3)
        .map(|shard| connect(&mut process, shard, 0))
        .collect();
    for subscriber in &subscribers {
        process.ask(*subscriber, &format!("SUBSCRIBE __keyspace@0__:{b}"));
    }
    let client = connect(&mut process, 2, 1);
    let pipeline = format!(
        "SET {a} 1\r\nRENAME {a} {b}\r\nINCR {b}\r\nEXPIRE {b} 100\r\nMULTI\r\nAPPEND {b} x\r\nCOPY {b} {a}\r\nRENAME {b} {a}\r\nEXEC\r\nLPUSH {b} x\r\nRPOPLPUSH {b} {a}x\r\n"
    );
    process.send(client, pipeline.as_bytes());
    process.settle();
    let expected = [
        "rename_to",
        "incrby",
        "expire",
        "append",
        "rename_from",
        "lpush",
        "rpop",
        "del",
    ];
    for subscriber in subscribers {
        let text = taken(&mut process, subscriber);
        assert_eq!(events(&text), expected, "{text}");
    }
    configure(&mut process, "notify-keyspace-events", "\"\"");
    process.ask(client, &format!("SET {b} 1"));
    assert!(
        process
            .shards
            .iter()
            .all(|shard| !shard.keyspace.has_events())
    );
}

#[test]
fn expiry_is_told_when_it_happens() {
    let mut process = Process::new(2, 7);
    configure(&mut process, "notify-keyspace-events", "Ex");
    let subscriber = connect(&mut process, 0, 0);
    process.ask(subscriber, "SUBSCRIBE __keyevent@0__:expired");
    let client = connect(&mut process, 0, 1);
    for shard in 0..2 {
        process.ask(client, &format!("SET {} 1 PX 10", key_on("k", shard, 2)));
    }
    pass(&mut process, 500);
    let mut told = events(&taken(&mut process, subscriber));
    told.sort();
    let mut expected = [key_on("k", 0, 2), key_on("k", 1, 2)];
    expected.sort();
    assert_eq!(told, expected);
}

// ---- monitors ----------------------------------------------------------------------------------------------------

/// The commands of a monitor's lines.
fn shown(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once("] "));
    lines.map(|(_, command)| command.to_owned()).collect()
}

#[test]
fn monitors_see_the_commands_of_all_shards() {
    let mut process = Process::new(3, 8);
    let monitor = connect(&mut process, 0, 0);
    assert_eq!(process.ask(monitor, "MONITOR"), "+OK\r\n");
    let [a, b] = [key_on("a", 0, 3), key_on("b", 1, 3)];
    let client = connect(&mut process, 2, 0);
    process.ask(client, &format!("SET {a} 1"));
    process.ask(client, "CONFIG GET hz");
    process.ask(client, "nonsense");
    process.ask(client, &format!("MULTI\r\nGET {a}\r\nGET {b}\r\nEXEC"));
    let expected = [
        format!("\"SET\" \"{a}\" \"1\""),
        "\"MULTI\"".to_owned(),
        format!("\"GET\" \"{a}\""),
        format!("\"GET\" \"{b}\""),
        "\"EXEC\"".to_owned(),
    ];
    assert_eq!(shown(&taken(&mut process, monitor)), expected);
    let refused = "-ERR Replica can't interact with the keyspace\r\n";
    assert_eq!(process.ask(monitor, &format!("GET {a}")), refused);
    assert_eq!(process.ask(monitor, "MONITOR"), "");
    let reset = process.ask(monitor, "RESET");
    assert!(reset.starts_with("+RESET\r\n"), "{reset}");
    process.ask(client, "PING");
    assert_eq!(taken(&mut process, monitor), "");
    assert!(process.shards.iter().all(|shard| !shard.has_monitors()));
}

#[test]
fn a_monitor_that_does_not_keep_up_is_cut() {
    let mut process = Process::new(2, 9);
    configure(
        &mut process,
        "client-output-buffer-limit",
        "\"normal 10000 0 0\"",
    );
    let monitor = connect(&mut process, 0, 0);
    process.ask(monitor, "MONITOR");
    let client = connect(&mut process, 0, 1);
    // The monitor's output is not taken meanwhile.
    for _ in 0..200 {
        let text = format!("ECHO {}\r\n", "x".repeat(100));
        process.shards[0].handle_bytes(client.1, text.as_bytes());
        let sent = process.shards[0].output(client.1).len();
        process.shards[0].handle_sent(client.1, sent);
    }
    assert_eq!(process.shards[0].poll_close(), Some(monitor.1));
    process.settle();
    assert!(process.shards.iter().all(|shard| !shard.has_monitors()));
}

// ---- pauses ------------------------------------------------------------------------------------------------------

#[test]
fn writes_wait_for_the_end_of_a_pause_to_the_moment() {
    let mut process = Process::new(3, 10);
    pass(&mut process, 1000);
    let client = connect(&mut process, 0, 0);
    assert_eq!(process.ask(client, "CLIENT PAUSE 1234 WRITE"), "+OK\r\n");
    let writers: Vec<Client> = (0..3)
        .map(|shard| connect(&mut process, shard, 1))
        .collect();
    for writer in &writers {
        assert_eq!(process.ask(*writer, "GET k\r\nINCR k\r\nGET k"), "$-1\r\n");
        let deadline = process.shards[usize::from(writer.0)].deadline();
        assert!(deadline <= Instant::from_nanos(2_234_000_000));
    }
    pass(&mut process, 2233);
    assert!(
        writers
            .iter()
            .all(|writer| taken(&mut process, *writer).is_empty())
    );
    let until = process.shards[1].deadline();
    assert_eq!(until, Instant::from_nanos(2_234_000_000));
    pass(&mut process, 2234);
    let mut counts: Vec<String> = writers
        .iter()
        .map(|writer| taken(&mut process, *writer))
        .collect();
    counts.sort();
    assert!(
        counts.iter().all(|text| text.starts_with(':')),
        "{counts:?}"
    );
    assert_eq!(process.ask(client, "GET k"), "$1\r\n3\r\n");
    process.assert_nothing_is_left();
}

#[test]
fn an_unpause_lets_everybody_go_on() {
    let mut process = Process::new(2, 11);
    let client = connect(&mut process, 0, 0);
    let writer = connect(&mut process, 1, 0);
    process.ask(writer, "MULTI\r\nSET k 1");
    process.ask(client, "CLIENT PAUSE 100000 WRITE");
    assert_eq!(process.ask(writer, "EXEC\r\nPING"), "");
    assert_eq!(process.ask(client, "CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(taken(&mut process, writer), "*1\r\n+OK\r\n+PONG\r\n");
    process.ask(client, "CLIENT PAUSE 100 ALL");
    assert_eq!(process.ask(writer, "PING"), "");
    // Its sender is gone before the end.
    process.shards[1].handle_disconnected(writer.1);
    pass(&mut process, 200);
    assert_eq!(process.ask(client, "PING"), "+PONG\r\n");
}

#[test]
fn nothing_expires_during_a_pause() {
    let mut process = Process::new(1, 12);
    let client = connect(&mut process, 0, 0);
    process.ask(client, "SET k 1 PX 10\r\nCLIENT PAUSE 1000 WRITE");
    pass(&mut process, 500);
    assert_eq!(process.ask(client, "GET k\r\nDBSIZE"), "$-1\r\n:1\r\n");
    pass(&mut process, 1000);
    pass(&mut process, 1200);
    assert_eq!(process.ask(client, "DBSIZE"), ":0\r\n");
}
