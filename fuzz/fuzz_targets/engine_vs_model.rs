//! Commands over strings, lists, hashes, sets and sorted sets: the engine and a model made of plain collections must give
//! the same replies, hold the same keys in the end, and so must an engine that ran the effects only.
//!
//! An input is a sequence of commands: a byte for the command, then a byte for each argument.

#![no_main]

mod engine;
mod model;

use engine::Engine;
use libfuzzer_sys::fuzz_target;
use model::{Answer, Model};

/// The most commands of one run.
const MOST_COMMANDS: usize = 2000;

/// What an argument is.
#[derive(Clone, Copy)]
enum Argument {
    /// A word of the command.
    Word(&'static [u8]),
    /// One of a few keys.
    Key,
    /// A string that looks like a number, or not, short or long.
    Text,
    /// A number near 0.
    Index,
    /// A number with quarters.
    Score,
}
use Argument::{Index, Key, Score, Text, Word};

/// A command's name and its arguments; the reply of the last ones has no order.
type Shape = (&'static [u8], &'static [Argument]);

const SHAPES: &[Shape] = &[
    (b"SET", &[Key, Text]),
    (b"GET", &[Key]),
    (b"APPEND", &[Key, Text]),
    (b"INCRBY", &[Key, Text]),
    (b"STRLEN", &[Key]),
    (b"DEL", &[Key]),
    (b"EXISTS", &[Key]),
    (b"RENAME", &[Key, Key]),
    (b"COPY", &[Key, Key]),
    (b"LPUSH", &[Key, Text]),
    (b"LPUSH", &[Key, Text, Text, Text]),
    (b"RPUSH", &[Key, Text]),
    (b"RPUSH", &[Key, Text, Text, Text]),
    (b"LPOP", &[Key]),
    (b"RPOP", &[Key]),
    (b"LLEN", &[Key]),
    (b"LINDEX", &[Key, Index]),
    (b"LRANGE", &[Key, Index, Index]),
    (b"LSET", &[Key, Index, Text]),
    (b"LREM", &[Key, Index, Text]),
    (b"LTRIM", &[Key, Index, Index]),
    (b"LINSERT", &[Key, Word(b"BEFORE"), Text, Text]),
    (b"LINSERT", &[Key, Word(b"AFTER"), Text, Text]),
    (b"HSET", &[Key, Text, Text]),
    (b"HGET", &[Key, Text]),
    (b"HDEL", &[Key, Text]),
    (b"HLEN", &[Key]),
    (b"HINCRBY", &[Key, Text, Text]),
    (b"SADD", &[Key, Text]),
    (b"SREM", &[Key, Text]),
    (b"SISMEMBER", &[Key, Text]),
    (b"SCARD", &[Key]),
    (b"ZADD", &[Key, Score, Text]),
    (b"ZINCRBY", &[Key, Score, Text]),
    (b"ZREM", &[Key, Text]),
    (b"ZSCORE", &[Key, Text]),
    (b"ZRANK", &[Key, Text]),
    (b"ZCARD", &[Key]),
    (b"ZRANGE", &[Key, Index, Index]),
    (b"ZCOUNT", &[Key, Score, Score]),
    (b"ZREMRANGEBYRANK", &[Key, Index, Index]),
    (b"HGETALL", &[Key]),
    (b"SMEMBERS", &[Key]),
    (b"SINTER", &[Key, Key]),
    (b"SDIFF", &[Key, Key]),
];

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.iter().copied();
    let (mut engine, mut model) = (Engine::new(), Model::default());
    for _ in 0..MOST_COMMANDS {
        let Some(choice) = bytes.next() else {
            break;
        };
        // Above the shapes: a key travels through DUMP and RESTORE.
        let Some(&(name, arguments)) = SHAPES.get(usize::from(choice) % (SHAPES.len() + 1)) else {
            round_trip(&mut engine, KEYS[usize::from(choice) % KEYS.len()]);
            continue;
        };
        let mut words = vec![name.to_vec()];
        words.extend(arguments.iter().map(|kind| argument(*kind, &mut bytes)));
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        check(&mut engine, &mut model, &words);
    }
    for key in KEYS {
        compare(&mut engine, &mut model, key);
    }
    assert_eq!(engine.keyspace.len(), model.keys.len());
    let mut replica = engine.replayed();
    for key in KEYS {
        compare(&mut replica, &mut model, key);
    }
});

fn argument(kind: Argument, bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    if let Word(word) = kind {
        return word.to_vec();
    }
    let byte = bytes.next().unwrap_or(0);
    let small = i64::from(byte.cast_signed());
    match kind {
        Word(_) => Vec::new(),
        Key => KEYS[usize::from(byte) % KEYS.len()].to_vec(),
        Index => (small / 8).to_string().into_bytes(),
        Score => (f64::from(byte.cast_signed()) / 4.0)
            .to_string()
            .into_bytes(),
        Text => match byte % 8 {
            0..=2 => (small / 8).to_string().into_bytes(),
            3 => (small.pow(9) / 8).to_string().into_bytes(),
            4..=6 => format!("m{}", byte / 8).into_bytes(),
            _ => vec![b'x'; usize::from(byte / 4)],
        },
    }
}

fn check(engine: &mut Engine, model: &mut Model, words: &[&[u8]]) {
    let shown = || {
        words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect::<Vec<_>>()
    };
    let expected = model.run(words).encode();
    let got = engine.run(words);
    // COPY of a key to itself is an error; what has no order is compared sorted.
    let same = match words[0] {
        b"COPY" if words[1] == words[2] => got[0] == b'-',
        b"HGETALL" => lines(&got, 4) == lines(&expected, 4),
        b"SMEMBERS" | b"SINTER" | b"SDIFF" => lines(&got, 2) == lines(&expected, 2),
        _ => got == expected,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        same,
        "{:?}: {} instead of {}",
        shown(),
        text(&got),
        text(&expected)
    );
}

/// The items of an array, each of `size` lines, sorted.
fn lines(reply: &[u8], size: usize) -> Vec<Vec<&[u8]>> {
    let all: Vec<&[u8]> = reply.split(|&byte| byte == b'\n').collect();
    let mut items: Vec<Vec<&[u8]>> = all[1..].chunks(size).map(<[&[u8]]>::to_vec).collect();
    items.sort();
    items.push(vec![all[0]]);
    items
}

/// Asks for everything that `key` holds.
fn compare(engine: &mut Engine, model: &mut Model, key: &[u8]) {
    let ends: [&[u8]; 2] = [b"0", b"-1"];
    for words in [
        &[b"GET", key][..],
        &[b"HGETALL", key],
        &[b"SMEMBERS", key],
        &[b"LRANGE", key, ends[0], ends[1]],
        &[b"ZRANGE", key, ends[0], ends[1]],
    ] {
        check(engine, model, words);
    }
}

/// A key that is dumped and restored is the same.
fn round_trip(engine: &mut Engine, key: &[u8]) {
    let reply = engine.run(&[b"DUMP", key]);
    if reply == Answer::Nil.encode() {
        return;
    }
    let start = reply
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a bulk string")
        + 1;
    let payload = reply[start..reply.len() - 2].to_vec();
    let reply = engine.run(&[b"RESTORE", key, b"0", &payload, b"REPLACE"]);
    assert_eq!(reply, Answer::Ok.encode());
}
