//! Generators of the commands on keys of any type, of the whole keyspace, and of the connection.

use fastrand::Rng;

use super::generator::Row;
use super::values::{absolute, index, integer, key, keys, relative, value, word};
use super::{args, words};
use crate::connection::Args;

/// How often each command comes, and what makes it. `ROUNDTRIP` is DUMP and RESTORE in one step.
pub(super) const ROWS: &[Row] = &[
    (4, |rng| with_keys("DEL", rng)),
    (2, |rng| with_keys("UNLINK", rng)),
    (4, |rng| with_keys("EXISTS", rng)),
    (2, |rng| with_keys("TOUCH", rng)),
    (3, |rng| args!["TYPE", key(rng)]),
    (4, |rng| expire(rng, "EXPIRE", |rng| relative(rng, 1))),
    (4, |rng| expire(rng, "PEXPIRE", |rng| relative(rng, 1000))),
    (4, |rng| expire(rng, "EXPIREAT", |rng| absolute(rng, 1))),
    (4, |rng| expire(rng, "PEXPIREAT", |rng| absolute(rng, 1000))),
    (3, |rng| args!["TTL", key(rng)]),
    (3, |rng| args!["PTTL", key(rng)]),
    (3, |rng| args!["EXPIRETIME", key(rng)]),
    (3, |rng| args!["PEXPIRETIME", key(rng)]),
    (3, |rng| args!["PERSIST", key(rng)]),
    (4, |rng| args!["RENAME", key(rng), key(rng)]),
    (4, |rng| args!["RENAMENX", key(rng), key(rng)]),
    (5, copy),
    // Values of other types, for the commands above to copy, refuse and sort. Sets are left out: SORT BY
    // nosort of one is in no order.
    (2, |rng| args!["RPUSH", key(rng), value(rng), value(rng)]),
    (2, |rng| {
        args!["LPUSH", key(rng), integer(rng), integer(rng), integer(rng)]
    }),
    (2, |rng| args!["HSET", key(rng), value(rng), value(rng)]),
    (2, |rng| args!["ZADD", key(rng), integer(rng), value(rng)]),
    (4, |rng| args!["OBJECT", "ENCODING", key(rng)]),
    (2, |rng| args!["OBJECT", "REFCOUNT", key(rng)]),
    (1, |rng| {
        args![
            "OBJECT",
            word(rng, &["IDLETIME", "FREQ", "NOSUCH"]),
            key(rng)
        ]
    }),
    (12, round_trip),
    // No payload: Redis takes eleven zero bytes for one without a checksum.
    (1, |rng| {
        args![
            "RESTORE",
            key(rng),
            "0",
            [b"x".to_vec(), value(rng)].concat()
        ]
    }),
    (2, |_| args!["RANDOMKEY"]),
    (3, |rng| args!["KEYS", pattern(rng)]),
    (4, scan),
    (1, |rng| args!["SCAN", word(rng, &["x", "1.5", "1x"])]),
    (2, |_| args!["DBSIZE"]),
    (1, |rng| flush(rng, "FLUSHALL")),
    (1, |rng| flush(rng, "FLUSHDB")),
    (3, |rng| sort(rng, "SORT")),
    (1, |rng| sort(rng, "SORT_RO")),
    (1, |rng| args!["ECHO", value(rng)]),
    (1, |_| args!["PING"]),
    (1, |rng| args!["PING", value(rng)]),
    (1, |rng| {
        args!["SELECT", word(rng, &["0", "1", "-1", "x", "99999999999"])]
    }),
    (1, |rng| {
        args![
            word(rng, &["NOSUCH", "GETT", "", "SET K", "nosuch\r\n"]),
            key(rng),
            value(rng)
        ]
    }),
];

fn with_keys(name: &str, rng: &mut Rng) -> Args {
    let mut args = args![name];
    args.extend(keys(rng));
    args
}

fn expire(rng: &mut Rng, name: &str, when: fn(&mut Rng) -> Vec<u8>) -> Args {
    let mut args = args![name, key(rng), when(rng)];
    for _ in 0..rng.u8(..6).saturating_sub(3) {
        args.push(word(rng, &["NX", "XX", "GT", "LT", "AT"]));
    }
    args
}

fn copy(rng: &mut Rng) -> Args {
    let mut args = args!["COPY", key(rng), key(rng)];
    if rng.bool() {
        args.push(b"REPLACE".to_vec());
    }
    if rng.u8(..5) == 0 {
        args.extend(args!["DB", word(rng, &["0", "0", "1", "x"])]);
    }
    args
}

fn round_trip(rng: &mut Rng) -> Args {
    let [from, to] = [0; 2].map(|_| words::key(rng, "generic"));
    let mut args = args!["ROUNDTRIP", from, to, "0"];
    match rng.u8(..6) {
        0 | 1 => args[3] = relative(rng, 1000),
        2 => {
            args[3] = absolute(rng, 1000);
            args.push(b"ABSTTL".to_vec());
        }
        3 => args.extend(args!["IDLETIME", word(rng, &["5", "-1", "x"])]),
        4 => args.extend(args!["FREQ", word(rng, &["5", "256", "-1"])]),
        _ => {}
    }
    if rng.u8(..3) != 0 {
        args.push(b"REPLACE".to_vec());
    }
    args
}

pub(super) fn pattern(rng: &mut Rng) -> Vec<u8> {
    let patterns = [
        "*", "a*", "?", "[a-c]", "[^a]", "[^a-c]*", "key:*", "{tag}?", "\\a", "*1", "", "**a**",
        "[a", "[c-a]",
    ];
    word(rng, &patterns)
}

fn scan(rng: &mut Rng) -> Args {
    let mut args = args!["SCAN", "0"];
    for _ in 0..rng.u8(..3) {
        args.extend(match rng.u8(..3) {
            0 => args!["MATCH", pattern(rng)],
            1 => args![
                "COUNT",
                word(rng, &["1", "2", "10", "1000", "0", "-1", "x"])
            ],
            _ => args!["TYPE", word(rng, &["string", "STRING", "list", "nosuch"])],
        });
    }
    args
}

fn flush(rng: &mut Rng, name: &str) -> Args {
    match rng.u8(..4) {
        0 => args![name, "SYNC"],
        1 => args![name, "ASYNC"],
        2 => args![name, "NOW"],
        _ => args![name],
    }
}

fn sort(rng: &mut Rng, name: &str) -> Args {
    let mut args = args![name, key(rng)];
    for _ in 0..rng.u8(..3) {
        args.extend(match rng.u8(..6) {
            0 => args!["BY", "nosort"],
            1 => args!["GET", "#"],
            2 => args!["LIMIT", index(rng), index(rng)],
            3 => args![word(rng, &["ASC", "DESC"])],
            4 => args!["ALPHA"],
            _ => args!["STORE", key(rng)],
        });
    }
    args
}

/// What SORT takes as a pattern.
pub(super) fn sort_pattern(rng: &mut Rng) -> Vec<u8> {
    let patterns = [
        "nosort", "#", "*", "key:*", "h1->*", "*->a", "h*->a", "nosuch_*", "{tag}*", "->*",
    ];
    word(rng, &patterns)
}
