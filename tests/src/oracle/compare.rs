//! When two replies count as the same: byte for byte, but for what is listed here.

use crate::connection::{Args, quoted};
use crate::reply::{self, Reply};

/// How far two remaining times may lie apart: the servers got the command one after the other, on a
/// machine that does other things too. Every TTL of these tests is at least a hundred times as long.
const TOLERANCE_SECONDS: i64 = 10;

/// A known difference from redis-server 7.0.15.
struct Allowed {
    reason: &'static str,
    applies: fn(args: &Args, redis: &[u8], kevy: &[u8]) -> bool,
}

/// Every known difference in the commands compared here, with its reason. An entry must name its case as narrowly as it can.
const ALLOWED: &[Allowed] = &[
    Allowed {
        reason: "kevy shares no objects between keys, so OBJECT REFCOUNT is always 1",
        applies: |args, redis, kevy| {
            let name = args[0].eq_ignore_ascii_case(b"OBJECT");
            name && redis == b":2147483647\r\n" && kevy == b":1\r\n"
        },
    },
    Allowed {
        reason: "kevy keeps a whole number as an integer also when INCRBYFLOAT made it; only OBJECT ENCODING tells",
        applies: |args, redis, kevy| {
            let name = args[0].eq_ignore_ascii_case(b"OBJECT");
            name && redis == b"$6\r\nembstr\r\n" && kevy == b"$3\r\nint\r\n"
        },
    },
    Allowed {
        reason: "a short list is a listpack, as in Redis 7.2; 7.0 calls every list a quicklist",
        applies: |args, redis, kevy| {
            let name = args[0].eq_ignore_ascii_case(b"OBJECT");
            name && redis == b"$9\r\nquicklist\r\n" && kevy == b"$8\r\nlistpack\r\n"
        },
    },
    Allowed {
        reason: "SORT turns a short sorted set of Redis into a skiplist for good; kevy's stays as it is",
        applies: |args, redis, kevy| {
            let name = args[0].eq_ignore_ascii_case(b"OBJECT");
            name && redis == b"$8\r\nskiplist\r\n" && kevy == b"$8\r\nlistpack\r\n"
        },
    },
    Allowed {
        reason: "the text of an error is UTF-8: bytes of the client's that are not are replaced in it, \
                 and it does not end at a NUL as a C string does",
        applies: |args, redis, kevy| {
            let text = |word: &Vec<u8>| !word.contains(&0) && std::str::from_utf8(word).is_ok();
            let unknown = b"-ERR unknown ";
            redis.starts_with(unknown) && kevy.starts_with(unknown) && !args.iter().all(text)
        },
    },
];

/// Whether both replies to `args` say the same.
pub fn same(args: &Args, redis: &[u8], kevy: &[u8]) -> bool {
    redis == kevy || near(args, redis, kevy) || allowed(args, redis, kevy).is_some()
}

/// Why the difference between two replies is known and wanted, if it is.
pub fn allowed(args: &Args, redis: &[u8], kevy: &[u8]) -> Option<&'static str> {
    let entry = ALLOWED
        .iter()
        .find(|entry| (entry.applies)(args, redis, kevy));
    entry.map(|entry| entry.reason)
}

/// Remaining times, and points in time made from them, differ by the moment of their command.
fn near(args: &Args, redis: &[u8], kevy: &[u8]) -> bool {
    let tolerance = match args[0].to_ascii_uppercase().as_slice() {
        b"TTL" | b"EXPIRETIME" => TOLERANCE_SECONDS,
        b"PTTL" | b"PEXPIRETIME" => TOLERANCE_SECONDS * 1000,
        // Redis shares small integers between keys, and with them the time of their last use.
        b"OBJECT" if args[1].eq_ignore_ascii_case(b"IDLETIME") => i64::MAX,
        _ => return false,
    };
    let number = |bytes| reply::decode(bytes).ok().flatten()?.0.as_integer();
    match (number(redis), number(kevy)) {
        (Some(a), Some(b)) => a >= 0 && b >= 0 && a.abs_diff(b) <= tolerance as u64,
        _ => false,
    }
}

/// A reply whose order is nobody's promise, in sorted order.
pub(super) fn sorted(reply: &Reply) -> Vec<u8> {
    let Some(items) = reply.as_items() else {
        return format!("{reply:?}").into_bytes();
    };
    let mut items = items.to_vec();
    items.sort();
    items.dedup();
    describe(&items)
}

fn describe(items: &[Reply]) -> Vec<u8> {
    let bytes = items.iter().map(|item| {
        if let Reply::Bulk(bytes) = item {
            quoted(&[bytes])
        } else {
            format!("{item:?}")
        }
    });
    let words: Vec<_> = bytes.collect();
    format!("the set {{{}}}", words.join(", ")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::args;

    #[test]
    fn only_times_may_differ_and_only_a_little() {
        let ttl = args!["ttl", "a"];
        assert!(same(&ttl, b":5000\r\n", b":5001\r\n"));
        assert!(!same(&ttl, b":5000\r\n", b":5011\r\n"));
        assert!(!same(&ttl, b":-1\r\n", b":1\r\n"));
        assert!(same(&args!["PTTL", "a"], b":5000000\r\n", b":5001000\r\n"));
        assert!(!same(
            &args!["OBJECT", "REFCOUNT", "a"],
            b":1\r\n",
            b":2\r\n"
        ));
        assert!(!same(&args!["INCR", "a"], b":5000\r\n", b":5001\r\n"));
        assert!(!same(&args!["GET", "a"], b"$-1\r\n", b"_\r\n"));
    }

    #[test]
    fn sets_forget_order_and_repetition() {
        let of = |words: &[&str]| {
            let bulks = words.iter().map(|w| Reply::Bulk(w.as_bytes().to_vec()));
            sorted(&Reply::Array(bulks.collect()))
        };
        assert_eq!(of(&["a", "b", "a"]), of(&["b", "a"]));
        assert_ne!(of(&["a"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["a b"]));
    }
}
