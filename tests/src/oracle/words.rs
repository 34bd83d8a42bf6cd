//! What an argument may say, by its name and type in the documentation.

use fastrand::Rng;

use super::args;
use super::generator::Row;
use super::syntax::Syntax;
use super::values::{self, absolute, float, index, integer, offset, relative, value, word as of};
use super::{generic, strings};

/// Keys of each type, so that a command finds what it is for; some share a hash tag or a shard.
const KEYS: &[(&str, [&str; 4])] = &[
    ("list", ["l1", "l2", "{tag}l", "l:\u{e9}"]),
    ("hash", ["h1", "h2", "{tag}h", "hash:3"]),
    ("set", ["s1", "s2", "{tag}s", "set:4"]),
    ("sorted-set", ["z1", "z2", "{tag}z", "zset:4"]),
    ("geo", ["geo1", "geo2", "{tag}geo", "geo:4"]),
    ("hyperloglog", ["p1", "p2", "{tag}p", "p4"]),
    ("stream", ["x1", "x1", "{tag}x", "x2"]),
];

/// Members, fields and elements: integers, which sets keep apart; short and long words around the length at
/// which an encoding changes (64 bytes); binary and empty ones.
const ELEMENTS: [&str; 26] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "aa",
    "ab",
    "",
    "1",
    "2",
    "3",
    "-7",
    "10",
    "32767",
    "32768",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "007",
    "1.5",
    "A",
    "\u{0}\r\n",
    "\u{e9}",
    "Palermo",
    "Catania",
    "edge",
];

/// Members of one score, among which ranges by member are told.
pub(super) const ROWS: &[Row] = &[(6, |rng| {
    let mut args = args!["ZADD", key_for(rng, "sorted-set", Range::Lex)];
    for _ in 0..rng.u8(1..6) {
        args.extend(args!["0", element(rng)]);
    }
    args
})];

/// How the borders of a sorted set's range are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    /// By rank.
    Index,
    /// By score.
    Score,
    /// By member.
    Lex,
}

impl Range {
    /// The kind that this command takes; one of them where it takes several.
    pub(super) fn of(rng: &mut Rng, command: &str) -> Self {
        match command {
            name if name.contains("LEX") => Self::Lex,
            "ZRANGE" | "ZRANGESTORE" => {
                let kinds = [Self::Index, Self::Score, Self::Lex];
                kinds[rng.usize(..3)]
            }
            name if name.contains("SCORE") || name == "ZCOUNT" => Self::Score,
            _ => Self::Index,
        }
    }
}

/// A key that most likely holds, or will hold, what commands of `group` work on.
pub(super) fn key(rng: &mut Rng, group: &str) -> Vec<u8> {
    let own = KEYS.iter().find(|(name, _)| *name == group);
    if let Some((_, keys)) = own
        && rng.u8(..12) > 0
    {
        let most = if rng.bool() { 2 } else { 4 };
        return of(rng, &keys[..most]);
    }
    if group == "generic" || group == "transactions" || own.is_some() {
        let (_, keys) = KEYS[rng.usize(..KEYS.len())];
        if rng.u8(..4) > 0 {
            return of(rng, &keys);
        }
    }
    values::key(rng)
}

/// As [`key`], for a command on ranges of this kind: those by member want equal scores.
pub(super) fn key_for(rng: &mut Rng, group: &str, range: Range) -> Vec<u8> {
    if range == Range::Lex && rng.u8(..6) > 0 {
        of(rng, &["lex1", "lex2", "{tag}lex"])
    } else {
        key(rng, group)
    }
}

/// A member, field or element.
pub(super) fn element(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..24) {
        0 => "m".repeat(rng.usize(63..66)).into_bytes(),
        1 => value(rng),
        2 => rng.i64(-200..200).to_string().into_bytes(),
        3..10 => of(rng, &ELEMENTS),
        _ => of(rng, &ELEMENTS[..8]),
    }
}

/// A score: halves, so that both servers write the same digits, and the infinities.
fn score(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..16) {
        0 => of(
            rng,
            &[
                "inf", "-inf", "+inf", "Infinity", "nan", "1e3", "-0", "0x10", ".5", " 1",
            ],
        ),
        1 => of(
            rng,
            &[
                "9007199254740993",
                "1e300",
                "-1e300",
                "3.0",
                "0.1",
                "1e17",
                "123456789012345678",
            ],
        ),
        2..5 => {
            let halves = f64::from(rng.i32(-40..40)) / 2.0;
            halves.to_string().into_bytes()
        }
        _ => rng.i64(-5..12).to_string().into_bytes(),
    }
}

fn border(rng: &mut Rng, range: Range) -> Vec<u8> {
    match range {
        Range::Index => index(rng),
        Range::Score => {
            let open = rng.u8(..4) == 0;
            let edge = match rng.u8(..6) {
                0 => b"-inf".to_vec(),
                1 => b"+inf".to_vec(),
                _ => score(rng),
            };
            if open {
                [b"(".to_vec(), edge].concat()
            } else {
                edge
            }
        }
        Range::Lex => match rng.u8(..8) {
            0 | 1 => b"-".to_vec(),
            2 | 3 => b"+".to_vec(),
            4 => [b"(".to_vec(), element(rng)].concat(),
            5 if rng.u8(..4) == 0 => element(rng),
            _ => [b"[".to_vec(), element(rng)].concat(),
        },
    }
}

/// A count: small, sometimes zero, negative, large or no number.
fn count(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..16) {
        0 => of(rng, &["0", "-1", "x", "1.5", "", "9223372036854775808"]),
        1 => of(rng, &["100", "1000", "2147483648", "9223372036854775807"]),
        _ => rng.u8(1..6).to_string().into_bytes(),
    }
}

/// As [`count`], for commands that answer with as many elements as they are asked for.
fn random_count(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0 => of(
            rng,
            &[
                "0",
                "x",
                "1.5",
                "",
                "9223372036854775808",
                "-9223372036854775808",
            ],
        ),
        1 => of(rng, &["100", "-100", "1000", "4294967296"]),
        _ => rng.i8(-5..8).to_string().into_bytes(),
    }
}

/// The number before the hyphen of the ids that are added at `step`: it changes seldom, so that ids are dense.
fn epoch(step: u64) -> u64 {
    1 + step / 64
}

/// The id of an entry that is added.
fn new_id(rng: &mut Rng, step: u64) -> Vec<u8> {
    let now = epoch(step);
    let text = match rng.u8(..20) {
        0 => {
            return of(
                rng,
                &[
                    "0-0",
                    "0",
                    "x",
                    "1-x",
                    "-",
                    "18446744073709551615-1",
                    "1-1-1",
                    "$",
                ],
            );
        }
        1 => format!("{now}"),
        2 => format!("{now}-{}", rng.u8(..20)),
        3 => "*".to_owned(),
        _ => format!("{now}-*"),
    };
    text.into_bytes()
}

/// The id of an entry that may be there.
fn old_id(rng: &mut Rng, step: u64) -> Vec<u8> {
    let time = rng.u64(1..=epoch(step));
    let text = match rng.u8(..20) {
        0 => {
            return of(
                rng,
                &[
                    "0-0",
                    "0",
                    "x",
                    "",
                    "-",
                    "1-",
                    "18446744073709551615-18446744073709551615",
                ],
            );
        }
        1 => format!("{time}"),
        _ => format!("{time}-{}", rng.u8(..8)),
    };
    text.into_bytes()
}

fn id_border(rng: &mut Rng, step: u64) -> Vec<u8> {
    match rng.u8(..8) {
        0..2 => b"-".to_vec(),
        2..4 => b"+".to_vec(),
        4 => [b"(".to_vec(), old_id(rng, step)].concat(),
        _ => old_id(rng, step),
    }
}

/// A time that no entry has been idle for, or one that every entry has.
fn idle(rng: &mut Rng) -> Vec<u8> {
    of(
        rng,
        &["0", "0", "0", "0", "100000000", "100000000", "-1", "x"],
    )
}

fn stream_word(rng: &mut Rng, syntax: &Syntax, name: &str, step: u64) -> Option<Vec<u8>> {
    let command = syntax.name[0].as_slice();
    Some(match name {
        "id" if command == b"XADD" => new_id(rng, step),
        "id" if command == b"XREADGROUP" && rng.u8(..4) > 0 => b">".to_vec(),
        "id" if command == b"XREAD" && rng.u8(..4) > 0 => of(rng, &["0", "$", "0-0"]),
        "id" if command == b"XGROUP" && rng.bool() => of(rng, &["0", "$"]),
        "start" if command == b"XAUTOCLAIM" => old_id(rng, step),
        "start" | "end" => id_border(rng, step),
        "threshold" if rng.bool() => count(rng),
        "id" | "last-id" | "max_deleted_entry_id" | "threshold" => old_id(rng, step),
        "group" | "groupname" => of(rng, &["g", "g", "g", "g", "g", "g", "h", ""]),
        "consumer" | "consumername" => {
            of(rng, &["alice", "alice", "alice", "bob", "bob", "carol", ""])
        }
        "min-idle-time" | "ms" => idle(rng),
        "unix-time-milliseconds" => of(rng, &["0", "1", "-1"]),
        "entries_added" | "entries_read" => of(rng, &["0", "1", "2", "3", "10", "100", "-1", "-2"]),
        _ => return None,
    })
}

/// A word for the argument `name` of `syntax`, whose type is `kind`.
pub(super) fn word(
    rng: &mut Rng,
    syntax: &Syntax,
    name: &str,
    kind: &str,
    range: Range,
    step: u64,
) -> Vec<u8> {
    let command = syntax.name[0].as_slice();
    if syntax.group == "stream"
        && let Some(word) = stream_word(rng, syntax, name, step)
    {
        return word;
    }
    let sorted_set = syntax.group == "sorted-set";
    match name {
        "member" | "member1" | "member2" | "element" | "field" | "pivot" => element(rng),
        "count" if command.ends_with(b"RANDFIELD") => random_count(rng),
        "count" if command.ends_with(b"RANDMEMBER") => random_count(rng),
        "count" | "limit" | "num-matches" | "rank" | "numkeys" => count(rng),
        "cursor" => of(rng, &["0", "0", "0", "0", "0", "0", "0", "1", "x", "-1"]),
        "min" | "max" | "start" | "stop" | "end" if sorted_set => border(rng, range),
        "offset" if syntax.group == "string" => offset(rng),
        "offset" if syntax.group == "bitmap" => values::bit_offset(rng),
        "start" | "stop" | "end" | "index" | "len" | "offset" => index(rng),
        "score" | "weight" => score(rng),
        "increment" if sorted_set => score(rng),
        "pattern" if command.starts_with(b"SORT") => generic::sort_pattern(rng),
        "pattern" => generic::pattern(rng),
        "type" => of(
            rng,
            &[
                "string", "list", "hash", "set", "zset", "stream", "ZSET", "nosuch",
            ],
        ),
        "longitude" => degrees(rng, 180),
        "latitude" => degrees(rng, 85),
        "radius" | "width" | "height" => of(
            rng,
            &[
                "200", "100", "400", "0", "1", "5000", "20000", "1e9", "-1", "x",
            ],
        ),
        "operation" => of(rng, &["AND", "OR", "XOR", "NOT", "NAND"]),
        "encoding" => strings::field_type(rng),
        "bit" => of(rng, &["0", "1", "1", "2"]),
        "destination-db" => of(rng, &["0", "0", "x"]),
        "channel" | "shardchannel" => of(rng, &["news", "news", "{tag}ch", "a", ""]),
        // Never zero: that is for ever.
        "timeout" => of(rng, &["0.001", "0.002", "0.001", "1e-3", "-1", "x"]),
        name if name.contains("seconds") => time(rng, name),
        _ if kind == "double" => float(rng),
        _ if kind == "integer" => integer(rng),
        _ => value(rng),
    }
}

/// `seconds`, `milliseconds`, `unix-time-seconds`, `unix-time-milliseconds`.
fn time(rng: &mut Rng, name: &str) -> Vec<u8> {
    let unit = if name.contains("milliseconds") {
        1000
    } else {
        1
    };
    if name.starts_with("unix-time") {
        absolute(rng, unit)
    } else {
        relative(rng, unit)
    }
}

/// Degrees up to `limit`: seldom twice the same, for who comes first of two at one distance is nobody's promise.
fn degrees(rng: &mut Rng, limit: i32) -> Vec<u8> {
    match rng.u8(..24) {
        0 => of(
            rng,
            &["-180", "180", "0", "180.1", "-85.1", "x", "inf", "nan"],
        ),
        1..12 => (f64::from(rng.i32(-limit * 1000..limit * 1000)) / 1000.0)
            .to_string()
            .into_bytes(),
        _ => format!("{}.{}", rng.i32(12..16), rng.u32(..1_000_000)).into_bytes(),
    }
}
