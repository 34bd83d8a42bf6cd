//! Keyspace notifications: the events that Redis has, in its order. With `KEVY_TEST_SERVER=redis` Redis shows that they are
//! its own.

use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};

/// Commands, and the events of the key that each concerns, without the names of the channels.
const CONVERSATION: &[(&str, &str)] = &[
    ("SET {t}a 1", "set"),
    ("SET {t}a 1 EX 100", "set expire"),
    ("SET {t}a 2 XX KEEPTTL", "set"),
    ("GETEX {t}a PERSIST", "persist"),
    ("EXPIRE {t}a 100", "expire"),
    ("PERSIST {t}a", "persist"),
    ("INCRBY {t}a 3", "incrby"),
    ("DECR {t}a", "incrby"),
    ("INCRBYFLOAT {t}a 0.5", "incrbyfloat"),
    ("APPEND {t}a x", "append"),
    ("SETRANGE {t}a 1 y", "setrange"),
    ("SETBIT {t}a 2 1", ""),
    ("SETBIT {t}a 3 1", ""),
    ("SETBIT {t}a 6 1", "setbit"),
    ("GETDEL {t}a", "del"),
    ("GET {t}a", ""),
    ("MSET {t}a 1 {t}b 2", "set set"),
    ("RENAME {t}a {t}b", "rename_from rename_to"),
    ("COPY {t}b {t}c", "copy_to"),
    ("EXPIRE {t}c -1", "del"),
    ("DEL {t}b", "del"),
    ("RPUSH {t}l a b c d", "rpush"),
    ("LPUSHX {t}l z", "lpush"),
    ("LINSERT {t}l AFTER a e", "linsert"),
    ("LSET {t}l 0 y", "lset"),
    ("LREM {t}l 0 e", "lrem"),
    ("LTRIM {t}l 1 -1", "ltrim"),
    ("LMOVE {t}l {t}m LEFT RIGHT", "rpush lpop"),
    ("RPOPLPUSH {t}m {t}l", "lpush rpop del"),
    ("LPOP {t}l 9", "lpop del"),
    ("SADD {t}s a b c", "sadd"),
    ("SADD {t}s a", ""),
    ("SMOVE {t}s {t}u a", "srem sadd"),
    ("SUNIONSTORE {t}v {t}s {t}u", "sunionstore"),
    ("SINTERSTORE {t}v {t}s {t}u", "del"),
    ("SPOP {t}u", "spop del"),
    ("SREM {t}s b c", "srem del"),
    ("HSET {t}h f 1", "hset"),
    ("HINCRBY {t}h f 1", "hincrby"),
    ("HINCRBYFLOAT {t}h f 1.5", "hincrbyfloat"),
    ("HDEL {t}h f", "hdel del"),
    ("ZADD {t}z 1 a 2 b 3 c 4 d", "zadd"),
    ("ZADD {t}z INCR 1 a", "zincr"),
    ("ZINCRBY {t}z 1 a", "zincr"),
    ("ZRANGESTORE {t}y {t}z 0 1", "zrangestore"),
    ("ZUNIONSTORE {t}y 2 {t}y {t}z", "zunionstore"),
    ("ZPOPMIN {t}z", "zpopmin"),
    ("ZREMRANGEBYRANK {t}z 0 0", "zremrangebyrank"),
    ("ZREM {t}z a b c d", "zrem del"),
    ("GEOADD {t}g 1 1 m", "zadd"),
    (
        "GEOSEARCHSTORE {t}y {t}g FROMLONLAT 1 1 BYRADIUS 1 km",
        "geosearchstore",
    ),
    ("XADD {t}x 1-1 f v", "xadd"),
    ("XADD {t}x MAXLEN 1 2-1 f v", "xadd xtrim"),
    ("XGROUP CREATE {t}x g 0", "xgroup-create"),
    (
        "XREADGROUP GROUP g me STREAMS {t}x >",
        "xgroup-createconsumer",
    ),
    ("XGROUP SETID {t}x g 0", "xgroup-setid"),
    ("XGROUP DELCONSUMER {t}x g me", "xgroup-delconsumer"),
    ("XGROUP DESTROY {t}x g", "xgroup-destroy"),
    ("XSETID {t}x 9-9", "xsetid"),
    ("XDEL {t}x 2-1", "xdel"),
    ("PFADD {t}p a", "pfadd"),
    ("PFMERGE {t}p {t}q", "pfadd"),
    ("SORT {t}g ALPHA STORE {t}l", "sortstore"),
    ("BITOP NOT {t}r {t}p", "set"),
    ("FLUSHALL", ""),
];

/// What the subscriber got since the last time: channel and message each.
fn heard(subscriber: &mut Connection, publisher: &mut Connection) -> Vec<(String, String)> {
    publisher.run("PUBLISH __key_end 1");
    let mut heard = Vec::new();
    loop {
        let Reply::Array(message) = subscriber.read().expect("a message") else {
            panic!("no message");
        };
        let (channel, text) = (message[2].text(), message[3].text());
        if channel == "__key_end" {
            return heard;
        }
        heard.push((channel, text));
    }
}

fn subscriber(server: &Server, classes: &str) -> Connection {
    let mut connection = server.connect();
    let set = connection.ask(&["CONFIG", "SET", "notify-keyspace-events", classes]);
    assert_eq!(set, Reply::ok());
    connection.run("PSUBSCRIBE __key*");
    connection
}

#[test]
fn every_command_says_what_it_did_to_its_keys() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let mut subscriber = subscriber(&server, "KA");
        let mut client = server.connect();
        for (command, expected) in CONVERSATION {
            let reply = client.run(command);
            assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
            let events = heard(&mut subscriber, &mut client);
            let names: Vec<&str> = events.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(
                names.join(" "),
                *expected,
                "{command} with {threads} shards"
            );
        }
    }
}

#[test]
fn channels_and_classes_are_those_that_were_asked_for() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let mut client = server.connect();
        let mut all = subscriber(&server, "KEAmn");
        client.run("SET k v");
        client.run("GET missing");
        let pair = |channel: &str, text: &str| (channel.to_owned(), text.to_owned());
        assert_eq!(
            heard(&mut all, &mut client),
            [
                pair("__keyspace@0__:k", "new"),
                pair("__keyevent@0__:new", "k"),
                pair("__keyspace@0__:k", "set"),
                pair("__keyevent@0__:set", "k"),
                pair("__keyspace@0__:missing", "keymiss"),
                pair("__keyevent@0__:keymiss", "missing"),
            ]
        );
        for (classes, expected) in [("Eg", 0), ("E$", 1), ("K$", 1), ("$", 0), ("", 0)] {
            client.ask(&["CONFIG", "SET", "notify-keyspace-events", classes]);
            client.run("SET k v");
            assert_eq!(heard(&mut all, &mut client).len(), expected, "{classes}");
        }
    }
}

#[test]
fn expiry_and_eviction_are_told() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let mut client = server.connect();
        let mut subscriber = subscriber(&server, "Exe");
        client.run("SET k v PX 1");
        let Reply::Array(message) = subscriber.read().expect("a message") else {
            panic!("no message");
        };
        assert_eq!(message[2].text(), "__keyevent@0__:expired");
        assert_eq!(message[3].text(), "k");
        client.run("SET k v");
        client.run("CONFIG SET maxmemory-policy allkeys-random");
        client.run("CONFIG SET maxmemory 10");
        // Refused or not: room was made for it first.
        client.run("SET k v");
        let events = heard(&mut subscriber, &mut client);
        assert_eq!(
            events,
            [("__keyevent@0__:evicted".to_owned(), "k".to_owned())]
        );
    }
}
