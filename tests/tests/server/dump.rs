//! Keys that travel between Redis and kevy by `DUMP` and `RESTORE`, both ways.

use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Redis, Spec, redis_stands_in};

/// A key of every type, in both encodings where there are two.
fn examples() -> Vec<(&'static str, Vec<String>)> {
    let many = |command: &str, count: usize, each: fn(usize) -> String| {
        let elements: Vec<String> = (0..count).map(each).collect();
        format!("{command} k {}", elements.join(" "))
    };
    vec![
        ("string", vec!["SET k value".into()]),
        ("integer string", vec!["SET k -70000".into()]),
        (
            "compressed string",
            vec![format!("SET k {}", "abc".repeat(2000))],
        ),
        ("grown string", vec!["APPEND k 12".into()]),
        (
            "list",
            vec!["RPUSH k a 1 -5000 b 9223372036854775807".into()],
        ),
        (
            "long list",
            vec![many("RPUSH", 2000, |i| format!("element-{i:020}"))],
        ),
        (
            "list of large elements",
            vec![many("RPUSH", 5, |i| "x".repeat(i * 5000))],
        ),
        ("set of integers", vec!["SADD k 1 -70000 3".into()]),
        (
            "set of long integers",
            vec!["SADD k 1 9223372036854775807".into()],
        ),
        ("set", vec!["SADD k a 12 b".into()]),
        ("large set", vec![many("SADD", 700, |i| format!("m{i}"))]),
        ("hash", vec!["HSET k f v n 12".into()]),
        (
            "large hash",
            vec![many("HSET", 700, |i| format!("f{i} {i}"))],
        ),
        (
            "hash with a long value",
            vec![format!("HSET k f {}", "y".repeat(70))],
        ),
        (
            "sorted set",
            vec!["ZADD k 1 a -2.5 b inf c -inf d 3000000000 e 0.1 f".into()],
        ),
        (
            "large sorted set",
            vec![many("ZADD", 300, |i| format!("{}.25 m{i}", i * 7 % 13))],
        ),
        ("stream", stream()),
        ("empty stream", vec!["XGROUP CREATE k g $ MKSTREAM".into()]),
        (
            "long stream",
            (1..300)
                .map(|i| format!("XADD k {i}-5 n {i} m {i:0100}"))
                .collect(),
        ),
    ]
}

fn stream() -> Vec<String> {
    let commands = "XADD k 5-1 f v g 12; XADD k 5-2 f w g 13; XADD k 7-0 other 1; XADD k 9-0 f v g x; XDEL k 5-2; \
        XGROUP CREATE k g1 0; XGROUP CREATE k g2 7-0 ENTRIESREAD 2; \
        XREADGROUP GROUP g1 alice COUNT 2 STREAMS k >; XREADGROUP GROUP g1 carol COUNT 1 STREAMS k >; \
        XGROUP CREATECONSUMER k g1 bob; XDEL k 5-1";
    commands.split("; ").map(str::to_owned).collect()
}

/// What clients see of `k`.
fn seen(connection: &mut Connection) -> Vec<Reply> {
    let kind = connection.run("TYPE k").text();
    let looks: &[&str] = match kind.as_str() {
        "string" => &["GET k"],
        "list" => &["LRANGE k 0 -1"],
        "set" => &["SMEMBERS k"],
        "hash" => &["HGETALL k"],
        "zset" => &[
            "ZRANGE k 0 -1",
            "ZRANGE k -1 -1 WITHSCORES",
            "ZCOUNT k -2.5 1",
        ],
        "stream" => &[
            "XRANGE k - +",
            "XINFO STREAM k FULL COUNT 0",
            "XPENDING k g1",
        ],
        other => panic!("no key: {other}"),
    };
    let mut replies: Vec<Reply> = looks.iter().map(|look| connection.run(look)).collect();
    if kind == "set" || kind == "hash" {
        let pairs = if kind == "hash" { 2 } else { 1 };
        replies = replies[0]
            .items()
            .chunks(pairs)
            .map(|c| Reply::Array(c.to_vec()))
            .collect();
        replies.sort();
    }
    replies
}

fn payload(connection: &mut Connection) -> Vec<u8> {
    let reply = connection.run("DUMP k");
    let Reply::Bulk(payload) = reply else {
        panic!("no payload: {reply:?}");
    };
    payload
}

/// Makes each example at `from` and carries it to `to`.
fn carry(from: &mut Connection, to: &mut Connection) {
    for (name, commands) in examples() {
        from.run("FLUSHALL");
        for command in &commands {
            let reply = from.run(command);
            assert!(
                !matches!(reply, Reply::Error(_)),
                "{name}: {command}: {reply:?}"
            );
        }
        let payload = payload(from);
        let reply = to.ask(&[&b"RESTORE"[..], b"k", b"0", &payload, b"REPLACE"]);
        assert_eq!(reply, Reply::ok(), "{name}");
        assert_eq!(seen(to), seen(from), "{name}");
    }
}

#[test]
fn what_redis_dumps_is_restored() {
    let (redis, kevy) = (Redis::start(), Spec::threads(2).start());
    carry(&mut redis.connect(), &mut kevy.connect());
}

#[test]
fn redis_restores_what_is_dumped() {
    let (redis, kevy) = (Redis::start(), Spec::threads(2).start());
    carry(&mut kevy.connect(), &mut redis.connect());
}

/// Payloads as Redis 2.6 to 6.2 wrote them.
const OLDER: &[(&str, &[u8])] = &[
    ("list", b"\x01\x03\x01a\xc0\x05\x03abc\x06\x00}\x7f*\xdc\xc6\xc4\xa9Q"),
    ("list of ziplist", b"\x0aAff\x01\x00\x00\x5c\x01\x00\x00\x0a\x00\x00\x01a\x03\xfe\x80\x03\xc0,\x01\x04\xf0\xff\xff\x7f\x05\xd0\xff\xff\xff\xff\x06\xe0\x00\x00\x00\x00\x00\x00\x00\x80\x0a\xf1\x02\xfd\x02A,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xfe/\x01\x00\x00\x03end\xff\x06\x00\xe3\x9f\xee{\xbe2\x19\x7f"),
    ("quicklist", b"\x0e\x02Aff\x01\x00\x00\x5c\x01\x00\x00\x0a\x00\x00\x01a\x03\xfe\x80\x03\xc0,\x01\x04\xf0\xff\xff\x7f\x05\xd0\xff\xff\xff\xff\x06\xe0\x00\x00\x00\x00\x00\x00\x00\x80\x0a\xf1\x02\xfd\x02A,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xfe/\x01\x00\x00\x03end\xff\x0e\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x01z\xff\x09\x00*\xce.>(\xc1\x1d0"),
    ("quicklist2 plain", b"\x12\x02\x01\x03abc\x02\x09\x09\x00\x00\x00\x01\x00\x01\x01\xff\x0a\x00\x82d\xb4ED\x06\xa1\xdf"),
    ("intset 64", b"\x0b \x08\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x05\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f\x06\x00\x8e\x95\xfaL\x18\xbc\x8f\x16"),
    ("intset 32", b"\x0b\x10\x04\x00\x00\x00\x02\x00\x00\x00\x90\xee\xfe\xff\x05\x00\x00\x00\x06\x00\xef\xb4\xbb\xcc\x7f\x9eOe"),
    ("set", b"\x02\x02\x01a\xc0\x05\x06\x00\x1d\x82\xaeR;\x9a\xa0L"),
    ("zset text", b"\x03\x03\x01a\x041.25\x01b\xfe\x01c\xff\x06\x00\x83;\xa5j\x8c\xef\xcd@"),
    ("zset 2", b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\x04@\x08\x00`\x84\xfct\x89}>h"),
    ("zset ziplist", b"\x0c##\x00\x00\x00\x1f\x00\x00\x00\x06\x00\x00\x01a\x03\x04-inf\x06\x01b\x03\x041.25\x06\x01c\x03\xfe\x05\xff\x06\x00&\xdf\xc8\x86F\x22\xff0"),
    ("hash", b"\x04\x01\x01a\x01b\x06\x00\xe6 -7I\xb0\xb4\xa9"),
    ("hash zipmap", b"\x09\x1a\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff\x06\x00\xfd\xfe\x99\xe4=\xe9H\x9f"),
    ("hash ziplist", b"\x0d\x18\x18\x00\x00\x00\x13\x00\x00\x00\x04\x00\x00\x01f\x03\x01v\x03\x01n\x03\xc0,\x01\xff\x06\x00.\x16\x13\x9dD\x16\xd8)"),
];

#[test]
fn older_payloads_are_restored() {
    let (redis, kevy) = (Redis::start(), Spec::threads(1).start());
    let (mut redis, mut kevy) = (redis.connect(), kevy.connect());
    for (name, payload) in OLDER {
        let request = [&b"RESTORE"[..], b"k", b"0", payload, b"REPLACE"];
        assert_eq!(
            redis.ask(&request),
            Reply::ok(),
            "{name}: Redis does not take it"
        );
        assert_eq!(kevy.ask(&request), Reply::ok(), "{name}");
        assert_eq!(seen(&mut kevy), seen(&mut redis), "{name}");
    }
}

#[test]
fn the_time_to_live_is_restored() {
    let server = Spec::threads(1).start();
    let mut client = server.connect();
    client.run("RPUSH k a");
    let payload = payload(&mut client);
    let mut restore = |words: &[&[u8]]| {
        let request = [&[&b"RESTORE"[..], b"k"], words].concat();
        client.ask(&request)
    };
    assert_eq!(
        restore(&[b"99999999999999", &payload, b"REPLACE", b"ABSTTL"]),
        Reply::ok()
    );
    assert_eq!(
        client.run("PEXPIRETIME k"),
        Reply::Integer(99_999_999_999_999)
    );
}

#[test]
fn fields_keep_their_deadlines() {
    if redis_stands_in() {
        return;
    }
    let server = Spec::threads(1).start();
    let mut client = server.connect();
    client.run("HSET k f v g w");
    client.run("HPEXPIREAT k 33177117420000 FIELDS 1 f");
    let payload = payload(&mut client);
    let reply = client.ask(&[&b"RESTORE"[..], b"other", b"0", &payload]);
    assert_eq!(reply, Reply::ok());
    let deadlines = [Reply::Integer(33_177_117_420_000), Reply::Integer(-1)];
    assert_eq!(
        client.run("HPEXPIRETIME other FIELDS 2 f g").items(),
        deadlines
    );
}
