//! What a server holds: keys of every type, and what commands show of them, as it is compared between servers.

use std::collections::BTreeMap;

use crate::connection::Connection;
use crate::reply::Reply;

/// What can be seen of each key.
pub type State = BTreeMap<Vec<u8>, Vec<String>>;

/// Runs a command whose words stand in one line, and sees that it does not fail.
pub fn run(connection: &mut Connection, line: &str) {
    let reply = connection.run(line);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
}

/// Sets keys of every type whose names begin with `tag`, with few elements and with `many`.
pub fn fill(connection: &mut Connection, tag: &str, many: usize) {
    let big = "x".repeat(20_000);
    for line in [
        format!("SET {tag}string value"),
        format!("SET {tag}small -7 PXAT 4000000000123"),
        format!("SET {tag}number -70000"),
        format!("SET {tag}large 1099511627776"),
        format!("SET {tag}packed {}", "abc".repeat(5000)),
        format!("RPUSH {tag}bigs a {big} 12 {big}"),
        format!("HSET {tag}bighash f {big} {big} v"),
        format!("ZADD {tag}infinite inf a -inf b 3000000000 c 1.5 d"),
        format!("PFADD {tag}hll {}", words(1000, |i| format!("e{i}"))),
        format!("XGROUP CREATE {tag}empty g $ MKSTREAM"),
    ] {
        run(connection, &line);
    }
    connection.ask(&[b"SET", format!("{tag}binary").as_bytes(), b"\0\r\n\xff\x80"]);
    for count in [3, many] {
        let tag = format!("{tag}{count}:");
        for line in [
            format!(
                "RPUSH {tag}list {}",
                words(count, |i| format!("element-{i} {i}"))
            ),
            format!(
                "SADD {tag}integers {}",
                words(count, |i| (i * i * i * i).to_string())
            ),
            format!("SADD {tag}shorts {}", words(count, |i| (i * 3).to_string())),
            format!("SADD {tag}set {}", words(count, |i| format!("m{i}"))),
            format!("HSET {tag}hash {}", words(count, |i| format!("f{i} {i}"))),
            format!(
                "ZADD {tag}zset {}",
                words(count, |i| format!("{}.25 m{i}", i * 7 % 13))
            ),
            format!("PEXPIREAT {tag}list 4000000000000"),
        ] {
            run(connection, &line);
        }
        fill_stream(connection, &format!("{tag}stream"), count);
    }
}

fn words(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(" ")
}

fn fill_stream(connection: &mut Connection, key: &str, count: usize) {
    for i in 0..count {
        let id = format!("{}-{}", i / 3 + 1, i % 3 + 1);
        let fields = if i % 5 == 4 { "other" } else { "f v g" };
        run(connection, &format!("XADD {key} {id} {fields} {i}"));
    }
    for line in [
        format!("XGROUP CREATE {key} g 0"),
        format!(
            "XREADGROUP GROUP g alice COUNT {} STREAMS {key} >",
            count / 2 + 1
        ),
        format!("XGROUP CREATECONSUMER {key} g bob"),
        format!("XACK {key} g 1-1"),
        format!("XDEL {key} 1-2"),
        format!("XGROUP CREATE {key} late $ ENTRIESREAD 2"),
    ] {
        run(connection, &line);
    }
}

/// Every key of the server and what can be seen of it.
pub fn state(connection: &mut Connection) -> State {
    let keys = connection.run("KEYS *");
    let keys = keys.as_items().expect("an array of keys");
    let keys = keys.iter().map(|key| {
        let Reply::Bulk(key) = key else {
            panic!("{key:?} is no key");
        };
        key.clone()
    });
    keys.map(|key| (key.clone(), seen(connection, &key)))
        .collect()
}

fn seen(connection: &mut Connection, key: &[u8]) -> Vec<String> {
    let Reply::Simple(kind) = connection.ask(&[b"TYPE", key]) else {
        panic!("no type of {}", key.escape_ascii());
    };
    let deadline = connection.ask(&[b"PEXPIRETIME", key]);
    let value = match kind.as_str() {
        "string" => format!("{:?}", connection.ask(&[b"GET", key])),
        "list" => format!("{:?}", connection.ask(&[b"LRANGE", key, b"0", b"-1"])),
        "set" => in_order(&connection.ask(&[b"SMEMBERS", key]), 1),
        "hash" => in_order(&connection.ask(&[b"HGETALL", key]), 2),
        "zset" => format!(
            "{:?}",
            connection.ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])
        ),
        "stream" => {
            let all = connection.ask(&[&b"XINFO"[..], b"STREAM", key, b"FULL", b"COUNT", b"0"]);
            format!("{:?}", without_accidents(&all))
        }
        other => panic!("{other} of {}", key.escape_ascii()),
    };
    vec![kind, format!("{deadline:?}"), value]
}

/// Elements whose order says nothing, every `step` of them belonging together.
fn in_order(reply: &Reply, step: usize) -> String {
    let items = reply.as_items().expect("an array");
    let mut items: Vec<String> = items.chunks(step).map(|part| format!("{part:?}")).collect();
    items.sort();
    items.join(", ")
}

/// A stream without what depends on when and how it was built: the sizes of its blocks, and when consumers were seen (an
/// append-only file does not say).
fn without_accidents(reply: &Reply) -> Reply {
    let names: [&[u8]; 3] = [b"radix-tree-keys", b"radix-tree-nodes", b"seen-time"];
    let Reply::Array(items) = reply else {
        return reply.clone();
    };
    let mut kept = Vec::new();
    let mut is_accident = false;
    for item in items {
        if !is_accident {
            kept.push(without_accidents(item));
        }
        is_accident = matches!(item, Reply::Bulk(name) if names.contains(&name.as_slice()));
    }
    Reply::Array(kept)
}

/// Fails with the first key that is not the same.
pub fn assert_same(found: &State, expected: &State) {
    for (key, seen) in expected {
        assert_eq!(found.get(key), Some(seen), "{}", key.escape_ascii());
    }
    assert_eq!(found.len(), expected.len(), "there are more keys");
}
