//! When two replies count as the same: byte for byte, but for what is listed here.

use crate::connection::Args;
use crate::reply::{self, Reply};

/// How far two remaining times may lie apart: the servers got the command one after the other, on a
/// machine that does other things too. Every TTL of these tests is at least a hundred times as long.
const TOLERANCE_SECONDS: i64 = 10;

/// Shorter numbers are exact, and compared so.
const MANY_DIGITS: usize = 16;

/// By how many of the smallest steps two distances may differ: each is made of a few sines and roots.
const LAST_BITS: u64 = 16;

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
            is(args, "OBJECT") && redis == b":2147483647\r\n" && kevy == b":1\r\n"
        },
    },
    Allowed {
        reason: "kevy keeps a whole number as an integer also when INCRBYFLOAT made it; only OBJECT ENCODING tells",
        applies: |args, redis, kevy| {
            encodings(args, redis, kevy, "embstr, a string", "int, a string")
        },
    },
    Allowed {
        reason: "a short list is a listpack, as in Redis 7.2; 7.0 calls every list a quicklist",
        applies: |args, redis, kevy| {
            encodings(args, redis, kevy, "quicklist, a list", "listpack, a list")
        },
    },
    Allowed {
        reason: "a short set is a listpack, as in Redis 7.2; in 7.0 every set of more than integers is a hashtable",
        applies: |args, redis, kevy| {
            encodings(args, redis, kevy, "hashtable, a set", "listpack, a set")
        },
    },
    Allowed {
        reason: "SORT turns a short sorted set of Redis into a skiplist for good; kevy's stays as it is",
        applies: |args, redis, kevy| {
            encodings(args, redis, kevy, "skiplist, a zset", "listpack, a zset")
        },
    },
    Allowed {
        reason: "doubles show the shortest digits that give the same number, as in Redis 7.2; 7.0 shows 17 digits. \
                 -0 as a score is 0. The last bit of a distance depends on the library of sines",
        applies: |args, redis, kevy| {
            let name = args[0].to_ascii_uppercase();
            let scores =
                name.starts_with(b"Z") || name.starts_with(b"BZ") || name.starts_with(b"GEO");
            scores && same_scores(redis, kevy)
        },
    },
    Allowed {
        reason: "GEORADIUS with STORE and STOREDIST stores at the last one; kevy's COMMAND GETKEYS names only that",
        applies: |args, _, _| {
            let has = |name: &[u8]| args.iter().any(|word| word.eq_ignore_ascii_case(name));
            let of_georadius = args.get(2).is_some_and(|name| {
                let name = name.to_ascii_uppercase();
                name.starts_with(b"GEORADIUS")
            });
            is(args, "COMMAND") && of_georadius && has(b"STORE") && has(b"STOREDIST")
        },
    },
    Allowed {
        reason: "the text of an error is UTF-8: bytes of the client's that are not are replaced in it, \
                 and it does not end at a NUL as a C string does",
        applies: |args, redis, kevy| {
            let text = |word: &Vec<u8>| !word.contains(&0) && std::str::from_utf8(word).is_ok();
            let starts = [
                &b"-ERR unknown "[..],
                b"-ERR Unsupported option ",
                b"-NOGROUP ",
            ];
            let quotes = |start: &&[u8]| redis.starts_with(start) && kevy.starts_with(start);
            starts.iter().any(quotes) && !args.iter().all(text)
        },
    },
    Allowed {
        reason: "which of several members at one distance comes first, and is counted, is nobody's promise",
        applies: |args, redis, kevy| {
            let name = args[0].to_ascii_uppercase();
            let searches = name.starts_with(b"GEORADIUS") || name == b"GEOSEARCH";
            let counted = args.iter().any(|word| word.eq_ignore_ascii_case(b"COUNT"));
            searches && same_members(redis, kevy, counted)
        },
    },
];

/// Whether both replies hold the same members in any order; with a limit, as many.
fn same_members(redis: &[u8], kevy: &[u8], counted: bool) -> bool {
    let members = |bytes| {
        let mut members = reply::decode(bytes).ok().flatten()?.0.as_items()?.to_vec();
        members.sort();
        Some(members)
    };
    match (members(redis), members(kevy)) {
        (Some(redis), Some(kevy)) if counted => redis.len() == kevy.len(),
        (Some(redis), Some(kevy)) => redis == kevy,
        _ => false,
    }
}

fn is(args: &Args, name: &str) -> bool {
    args[0].eq_ignore_ascii_case(name.as_bytes())
}

fn encodings(args: &Args, redis: &[u8], kevy: &[u8], theirs: &str, ours: &str) -> bool {
    is(args, "OBJECT") && redis == theirs.as_bytes() && kevy == ours.as_bytes()
}

/// Whether both replies have the same shape and words, but for scores that are written differently and mean
/// the same.
fn same_scores(redis: &[u8], kevy: &[u8]) -> bool {
    let reply = |bytes| Some(reply::decode(bytes).ok().flatten()?.0);
    match (reply(redis), reply(kevy)) {
        (Some(redis), Some(kevy)) => same_score(&redis, &kevy),
        _ => false,
    }
}

fn same_score(redis: &Reply, kevy: &Reply) -> bool {
    if let (Some(theirs), Some(ours)) = (redis.as_items(), kevy.as_items()) {
        let pairs = || theirs.iter().zip(ours);
        return theirs.len() == ours.len() && pairs().all(|(a, b)| same_score(a, b));
    }
    let (Some(theirs), Some(ours)) = (digits(redis), digits(kevy)) else {
        return redis == kevy;
    };
    theirs == ours
        || (theirs == "-0" && ours == "0")
        || (theirs.len().max(ours.len()) >= MANY_DIGITS && near_by(&theirs, &ours))
}

/// The text of a double: a type of its own in RESP3.
fn digits(reply: &Reply) -> Option<String> {
    if let Reply::Double(text) = reply {
        Some(text.clone())
    } else if let Reply::Bulk(bytes) = reply {
        String::from_utf8(bytes.clone()).ok()
    } else {
        None
    }
}

fn near_by(theirs: &str, ours: &str) -> bool {
    let (Ok(theirs), Ok(ours)) = (theirs.parse::<f64>(), ours.parse::<f64>()) else {
        return false;
    };
    theirs.to_bits().abs_diff(ours.to_bits()) <= LAST_BITS
}

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
        b"OBJECT"
            if args
                .get(1)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"IDLETIME")) =>
        {
            i64::MAX
        }
        _ => return false,
    };
    let number = |bytes| reply::decode(bytes).ok().flatten()?.0.as_integer();
    match (number(redis), number(kevy)) {
        (Some(a), Some(b)) => a >= 0 && b >= 0 && a.abs_diff(b) <= tolerance as u64,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::args;

    #[test]
    fn members_at_one_distance_come_in_any_order() {
        let search = args!["GEOSEARCH", "g", "FROMMEMBER", "a", "BYRADIUS", "1", "M"];
        let (ab, ba) = (
            b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"*2\r\n$1\r\nb\r\n$1\r\na\r\n",
        );
        let ac = b"*2\r\n$1\r\na\r\n$1\r\nc\r\n";
        assert!(same(&search, ab, ba));
        assert!(!same(&search, ab, ac));
        assert!(same(&[search, args!["COUNT", "2"]].concat(), ab, ac));
        assert!(!same(&args!["ZRANGE", "g", "0", "-1"], ab, ba));
    }

    #[test]
    fn doubles_may_only_look_different() {
        let range = args!["ZSCORE", "z", "a"];
        assert!(same(
            &range,
            b"$19\r\n0.10000000000000001\r\n",
            b"$3\r\n0.1\r\n"
        ));
        assert!(!same(&range, b"$3\r\n0.2\r\n", b"$3\r\n0.1\r\n"));
        assert!(same(&range, b",-0\r\n", b",0\r\n"));
        assert!(!same(&args!["GET", "a"], b"$2\r\n-0\r\n", b"$1\r\n0\r\n"));
    }

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
}
