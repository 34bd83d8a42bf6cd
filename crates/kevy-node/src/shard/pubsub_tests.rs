//! Publish and subscribe over the shards of one process. The replies expected here were seen from Redis.

use super::tests::{Client, Process, key_on};
use super::*;
use crate::host::Door;
use std::fmt::Write;

const REFUSED: &str =
    "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n";

/// An array (`*`) or push (`>`) of strings; one that begins with `:` is an integer.
fn frame(kind: char, elements: &[&str]) -> String {
    let element = |text: &&str| match text.strip_prefix(':') {
        Some(_) => format!("{text}\r\n"),
        None => format!("${}\r\n{text}\r\n", text.len()),
    };
    let count = elements.len();
    let elements: String = elements.iter().map(element).collect();
    format!("{kind}{count}\r\n{elements}")
}

fn array(elements: &[&str]) -> String {
    frame('*', elements)
}

fn push(elements: &[&str]) -> String {
    frame('>', elements)
}

fn connect(process: &mut Process, shard: u16, slot: u32) -> Client {
    process.connect(shard, slot, Door::Main)
}

/// A client that speaks RESP3.
fn connect_resp3(process: &mut Process, shard: u16, slot: u32) -> Client {
    let client = connect(process, shard, slot);
    process.ask(client, "HELLO 3");
    client
}

fn taken(process: &mut Process, client: Client) -> String {
    String::from_utf8(process.received.remove(&client).unwrap_or_default()).expect("text")
}

fn limit(process: &mut Process, limits: &str) {
    let client = connect(process, 0, 99);
    let request = format!("CONFIG SET client-output-buffer-limit \"{limits}\"");
    assert_eq!(process.ask(client, &request), "+OK\r\n");
}

#[test]
fn confirmations_count_as_in_redis() {
    let mut process = Process::new(2, 1);
    let client = connect(&mut process, 1, 0);
    let mut expect = |request: &str, replies: &[&[&str]]| {
        let expected: String = replies.iter().map(|reply| array(reply)).collect();
        assert_eq!(process.ask(client, request), expected, "{request}");
    };
    expect(
        "UNSUBSCRIBE a b",
        &[&["unsubscribe", "a", ":0"], &["unsubscribe", "b", ":0"]],
    );
    expect(
        "SUBSCRIBE a b a",
        &[
            &["subscribe", "a", ":1"],
            &["subscribe", "b", ":2"],
            &["subscribe", "a", ":2"],
        ],
    );
    expect("PSUBSCRIBE a*", &[&["psubscribe", "a*", ":3"]]);
    expect(
        "SSUBSCRIBE s t",
        &[&["ssubscribe", "s", ":1"], &["ssubscribe", "t", ":2"]],
    );
    expect("SUNSUBSCRIBE s", &[&["sunsubscribe", "s", ":1"]]);
    expect(
        "UNSUBSCRIBE",
        &[&["unsubscribe", "a", ":2"], &["unsubscribe", "b", ":1"]],
    );
    expect("PUNSUBSCRIBE", &[&["punsubscribe", "a*", ":0"]]);
    expect("SUNSUBSCRIBE", &[&["sunsubscribe", "t", ":0"]]);
    for word in ["unsubscribe", "punsubscribe", "sunsubscribe"] {
        let none = format!("*3\r\n${}\r\n{word}\r\n$-1\r\n:0\r\n", word.len());
        assert_eq!(process.ask(client, word), none);
    }
    assert!(process.shards[1].subscriptions.is_empty());
}

#[test]
fn a_resp2_subscriber_may_do_little_else() {
    let mut process = Process::new(2, 2);
    for subscribe in ["SUBSCRIBE a", "PSUBSCRIBE a", "SSUBSCRIBE a"] {
        let client = connect(&mut process, 0, 0);
        process.ask(client, subscribe);
        for (request, name) in [
            ("get x", "get"),
            ("GET y", "get"),
            ("CLIENT LIST", "client|list"),
            ("PUBLISH a x", "publish"),
            ("HELLO 3", "hello"),
        ] {
            let refused = format!("-ERR Can't execute '{name}': {REFUSED}");
            assert_eq!(process.ask(client, request), refused);
        }
        assert_eq!(process.ask(client, "PING"), array(&["pong", ""]));
        assert_eq!(process.ask(client, "PING hello"), array(&["pong", "hello"]));
        let arity = "-ERR wrong number of arguments for 'ping' command\r\n";
        assert_eq!(process.ask(client, "PING a b"), arity);
        let unknown = "-ERR unknown command 'FOO', with args beginning with: \r\n";
        assert_eq!(process.ask(client, "FOO"), unknown);
        assert_eq!(process.ask(client, "RESET"), "+RESET\r\n");
        assert!(process.shards[0].subscriptions.is_empty());
        assert_eq!(process.ask(client, "GET x"), "$-1\r\n");
        process.ask(client, subscribe);
        assert_eq!(process.ask(client, "QUIT"), "+OK\r\n");
        process.shards[0].poll_output();
        assert_eq!(process.shards[0].poll_close(), Some(client.1));
        assert!(process.shards[0].subscriptions.is_empty());
    }
}

#[test]
fn a_message_reaches_every_shard_in_the_form_its_subscriber_speaks() {
    let mut process = Process::new(4, 3);
    let subscribers: Vec<Client> = (0..4)
        .map(|shard| connect(&mut process, shard, 0))
        .collect();
    let modern: Vec<Client> = (0..4)
        .map(|shard| connect_resp3(&mut process, shard, 1))
        .collect();
    for client in subscribers.iter().chain(&modern) {
        process.ask(*client, "SUBSCRIBE news");
    }
    process.ask(modern[1], "PSUBSCRIBE n?ws n* other*");
    process.ask(modern[2], "SSUBSCRIBE news");
    for shard in 0..4 {
        let publisher = process.connect(shard, 7, Door::Shard(ShardId(shard)));
        assert_eq!(process.ask(publisher, "PUBLISH news hi"), ":10\r\n");
        let message = ["message", "news", "hi"];
        for client in &subscribers {
            assert_eq!(taken(&mut process, *client), array(&message));
        }
        for client in &modern {
            let mut expected = push(&message);
            if *client == modern[1] {
                expected += &push(&["pmessage", "n*", "news", "hi"]);
                expected += &push(&["pmessage", "n?ws", "news", "hi"]);
            }
            assert_eq!(taken(&mut process, *client), expected);
        }
        assert_eq!(process.ask(publisher, "SPUBLISH news hi"), ":1\r\n");
        let message = push(&["smessage", "news", "hi"]);
        assert_eq!(taken(&mut process, modern[2]), message);
        assert_eq!(process.ask(publisher, "PUBLISH elsewhere hi"), ":0\r\n");
    }
    process.assert_nothing_is_left();
}

#[test]
fn a_resp3_subscriber_goes_on_working_and_gets_its_own_messages_before_the_reply() {
    let mut process = Process::new(2, 4);
    let client = connect_resp3(&mut process, 0, 0);
    let confirmed = push(&["subscribe", "a", ":1"]);
    assert_eq!(process.ask(client, "SUBSCRIBE a"), confirmed);
    let message = push(&["message", "a", "hi"]);
    assert_eq!(
        process.ask(client, "PUBLISH a hi"),
        format!("{message}:1\r\n")
    );
    assert_eq!(process.ask(client, "PING"), "+PONG\r\n");
    let list = process.ask(client, "CLIENT LIST");
    assert!(
        list.contains(" flags=P db=0 sub=1 psub=0 ssub=0 "),
        "{list}"
    );
    // Messages and confirmations come whatever the client says about replies.
    assert_eq!(process.ask(client, "CLIENT REPLY OFF"), "");
    assert_eq!(process.ask(client, "PUBLISH a hi"), message);
    let confirmed = push(&["subscribe", "b", ":2"]);
    assert_eq!(process.ask(client, "SUBSCRIBE b"), confirmed);
    let confirmed = push(&["subscribe", "c", ":3"]);
    process.ask(client, "CLIENT REPLY ON");
    let skipping = "CLIENT REPLY SKIP\r\nSUBSCRIBE c\r\nPING";
    assert_eq!(
        process.ask(client, skipping),
        format!("{confirmed}+PONG\r\n")
    );
}

#[test]
fn messages_of_one_connection_keep_their_order() {
    for seed in 0..50 {
        let mut process = Process::new(3, seed);
        let subscribers: Vec<Client> = (0..3)
            .map(|shard| connect(&mut process, shard, 0))
            .collect();
        for client in &subscribers {
            process.ask(*client, "SUBSCRIBE a b");
        }
        let publisher = connect(&mut process, 1, 1);
        let mut pipeline = String::new();
        let (mut messages, mut replies) = (String::new(), String::new());
        for number in 0..50 {
            let (channel, number) = (if number % 3 == 0 { "a" } else { "b" }, number.to_string());
            let _ = write!(
                pipeline,
                "PUBLISH {channel} {number}\r\nSET k{number} 1\r\n"
            );
            messages += &array(&["message", channel, &number]);
            replies += ":3\r\n+OK\r\n";
        }
        for piece in pipeline.as_bytes().chunks(99) {
            process.send(publisher, piece);
            process.step();
        }
        process.settle();
        assert_eq!(taken(&mut process, publisher), replies, "seed {seed}");
        for client in subscribers {
            assert_eq!(taken(&mut process, client), messages, "seed {seed}");
        }
        process.assert_nothing_is_left();
    }
}

/// Whoever got the message finds what its publisher wrote before, whatever the order in which shards get to work.
#[test]
fn a_message_comes_after_what_its_publisher_did_before() {
    for seed in 0..100 {
        let mut process = Process::new(3, seed);
        let key = key_on("k", 2, 3);
        let subscriber = connect(&mut process, 1, 0);
        process.ask(subscriber, "SUBSCRIBE a");
        let publisher = connect(&mut process, 0, 0);
        process.send(
            publisher,
            format!("SET {key} 1\r\nPUBLISH a x\r\n").as_bytes(),
        );
        while !process.received.contains_key(&subscriber) {
            assert!(process.step(), "the message comes");
        }
        let written = process.shards[2].keyspace.len();
        assert_eq!(written, 1, "seed {seed}: the message overtook the write");
        process.settle();
        assert_eq!(taken(&mut process, publisher), "+OK\r\n:1\r\n");
        process.assert_nothing_is_left();
    }
}

#[test]
fn a_confirmation_comes_before_the_messages_it_announces() {
    for seed in 0..50 {
        let mut process = Process::new(2, seed);
        let key = key_on("k", 1, 2);
        let subscriber = connect(&mut process, 0, 0);
        let publisher = connect(&mut process, 0, 1);
        // The reply of GET is outstanding when the message arrives.
        process.send(
            subscriber,
            format!("GET {key}\r\nSUBSCRIBE a\r\n").as_bytes(),
        );
        process.send(publisher, b"PUBLISH a x\r\n");
        process.settle();
        let confirmed = array(&["subscribe", "a", ":1"]) + &array(&["message", "a", "x"]);
        assert_eq!(
            taken(&mut process, subscriber),
            format!("$-1\r\n{confirmed}")
        );
    }
}

#[test]
fn pubsub_tells_of_the_whole_process() {
    let mut process = Process::new(3, 5);
    for shard in 0..3 {
        let client = connect(&mut process, shard, 0);
        process.ask(client, &format!("SUBSCRIBE all only{shard}"));
        process.ask(client, "PSUBSCRIBE p* q*");
        process.ask(client, &format!("SSUBSCRIBE s{shard}"));
    }
    let client = connect(&mut process, 1, 1);
    let mut expect = |request: &str, reply: String| assert_eq!(process.ask(client, request), reply);
    expect(
        "PUBSUB CHANNELS",
        array(&["all", "only0", "only1", "only2"]),
    );
    expect("PUBSUB CHANNELS o*[02]", array(&["only0", "only2"]));
    expect("PUBSUB SHARDCHANNELS", array(&["s0", "s1", "s2"]));
    expect("PUBSUB SHARDCHANNELS all", "*0\r\n".to_owned());
    expect("PUBSUB NUMPAT", ":2\r\n".to_owned());
    expect(
        "PUBSUB NUMSUB only1 all none all",
        array(&["only1", ":1", "all", ":3", "none", ":0", "all", ":3"]),
    );
    expect(
        "PUBSUB SHARDNUMSUB s2 all",
        array(&["s2", ":1", "all", ":0"]),
    );
    expect("PUBSUB NUMSUB", "*0\r\n".to_owned());
    let wrong =
        "-ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.\r\n";
    expect("PUBSUB CHANNELS a b", wrong.to_owned());
    let unknown = "-ERR unknown subcommand 'FOO'. Try PUBSUB HELP.\r\n";
    expect("PUBSUB FOO", unknown.to_owned());
    let info = process.ask(client, "INFO stats");
    for field in [
        "pubsub_channels:4\r\n",
        "pubsub_patterns:2\r\n",
        "pubsubshard_channels:3\r\n",
    ] {
        assert!(info.contains(field), "{info}");
    }
    let lines = |list: String| list.matches("id=").count();
    assert_eq!(lines(process.ask(client, "CLIENT LIST TYPE pubsub")), 3);
    assert_eq!(lines(process.ask(client, "CLIENT LIST TYPE normal")), 1);
    assert_eq!(process.ask(client, "CLIENT KILL TYPE pubsub"), ":3\r\n");
    assert!(
        process
            .shards
            .iter()
            .all(|shard| shard.subscriptions.is_empty())
    );
    assert_eq!(process.ask(client, "PUBLISH all x"), ":0\r\n");
    process.assert_nothing_is_left();
}

#[test]
fn who_goes_away_leaves_nothing() {
    let mut process = Process::new(2, 6);
    let subscriber = connect(&mut process, 0, 0);
    process.ask(subscriber, "SUBSCRIBE a b\r\nPSUBSCRIBE *\r\nSSUBSCRIBE s");
    process.shards[0].handle_disconnected(subscriber.1);
    assert!(process.shards[0].subscriptions.is_empty());
    let next = connect(&mut process, 0, 0);
    let publisher = connect(&mut process, 1, 0);
    assert_eq!(process.ask(publisher, "PUBLISH a x"), ":0\r\n");
    assert_eq!(process.ask(next, "PING"), "+PONG\r\n");
    // A publisher that is closed while its message waits for a reply before it has published all the same.
    process.ask(next, "SUBSCRIBE a");
    let key = key_on("k", 0, 2);
    process.send(
        publisher,
        format!("GET {key}\r\nPUBLISH a x\r\n").as_bytes(),
    );
    assert!(
        process.shards[1]
            .session(publisher.1)
            .expect("it is there")
            .held_question
            .is_some()
    );
    process.shards[1].close(publisher.1);
    process.settle();
    assert_eq!(taken(&mut process, next), array(&["message", "a", "x"]));
    process.assert_nothing_is_left();
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_at_its_own_limit() {
    let mut process = Process::new(2, 7);
    limit(&mut process, "normal 100 0 0 pubsub 20000 5000 10");
    let publisher = connect(&mut process, 1, 0);
    let message = "x".repeat(3000);
    for (sends, seconds, closed) in [(1, 60, false), (2, 9, false), (2, 10, true), (7, 0, true)] {
        let slow = connect(&mut process, 0, 0);
        process.ask(slow, "SUBSCRIBE a");
        process.shards[0]
            .session_mut(slow.1)
            .expect("it is there")
            .awaits_writable = true;
        for _ in 0..sends {
            assert_eq!(
                process.ask(publisher, &format!("PUBLISH a {message}")),
                ":1\r\n"
            );
        }
        for elapsed in [1, seconds] {
            let shard = &mut process.shards[0];
            let later = shard.now.monotonic + Duration::from_secs(elapsed);
            shard.handle_time(Now {
                monotonic: later,
                ..shard.now
            });
        }
        let was_closed = process.shards[0].poll_close() == Some(slow.1);
        assert_eq!(was_closed, closed, "{sends} messages, {seconds} s");
        assert_eq!(process.shards[0].subscriptions.is_empty(), closed);
        process.shards[0].close(slow.1);
        process.shards[0].poll_close();
    }
    assert_eq!(
        process.shards[0].stats.output_buffer_limit_disconnections,
        2
    );
}

#[test]
fn subscribers_are_never_idle() {
    let mut process = Process::new(1, 8);
    let subscriber = connect(&mut process, 0, 0);
    let idle = connect(&mut process, 0, 1);
    process.ask(idle, "CONFIG SET timeout 5");
    process.ask(subscriber, "SUBSCRIBE a");
    let later = Instant::from_nanos(60_000_000_000);
    process.shards[0].handle_time(Now {
        monotonic: later,
        ..Now::default()
    });
    assert_eq!(process.shards[0].poll_close(), Some(idle.1));
    assert_eq!(process.shards[0].poll_close(), None);
}
