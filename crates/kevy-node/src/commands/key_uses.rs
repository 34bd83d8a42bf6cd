//! How commands use their keys, as `COMMAND INFO` and `COMMAND GETKEYSANDFLAGS` tell it
//! (<https://redis.io/docs/latest/develop/reference/key-specs/>). Observed on redis-server 7.0.15.

use super::is;
use kevy_proto::resp::Args;

/// Flags of one key, by their names.
pub(super) type Uses = &'static [&'static str];

const READ: Uses = &["RO", "access"];
const LOOK: Uses = &["RO"];
const CHANGE: Uses = &["RW", "access", "update"];
const SET: Uses = &["OW", "update"];
const INSERT: Uses = &["RW", "insert"];
const UPDATE: Uses = &["RW", "update"];
const DELETE: Uses = &["RW", "delete"];
const TAKE: Uses = &["RW", "access", "delete"];

/// For commands that differ from what their access says: the uses of the first key and of the others.
#[rustfmt::skip]
const EXCEPTIONS: &[(Uses, Uses, &[&str])] = &[
    (&["OW", "insert"], &["OW", "insert"], &["setnx", "msetnx"]),
    (SET, SET, &["psetex", "restore", "setex", "mset"]),
    (SET, READ, &[
        "zinterstore", "zunionstore", "sdiffstore", "geosearchstore", "zrangestore", "sunionstore", "zdiffstore", "bitop",
    ]),
    (&["RM", "delete"], &["RM", "delete"], &["unlink", "del"]),
    (LOOK, LOOK, &[
        "exists", "watch", "strlen", "sismember", "zcard", "hlen", "llen", "hstrlen", "hexists", "type", "scard", "touch",
        "xlen",
    ]),
    (READ, READ, &["xreadgroup", "sort_ro"]),
    (READ, SET, &["copy", "sort", "georadius", "georadiusbymember"]),
    (&["RW", "access"], &["RW", "access"], &["pfcount"]),
    (TAKE, TAKE, &[
        "zpopmin", "zpopmax", "zmpop", "bzpopmin", "bzpopmax", "bzmpop", "getdel", "lpop", "rpop", "lmpop", "blpop", "brpop",
        "blmpop", "spop",
    ]),
    (TAKE, &["OW", "insert"], &["renamenx"]),
    (TAKE, SET, &["rename"]),
    (TAKE, INSERT, &["smove", "lmove", "blmove", "rpoplpush", "brpoplpush"]),
    (&["RW", "access", "insert"], READ, &["pfmerge"]),
    (DELETE, DELETE, &[
        "ltrim", "zremrangebylex", "zremrangebyrank", "zremrangebyscore", "xautoclaim", "lrem", "xdel", "srem", "hdel", "zrem",
        "xtrim",
    ]),
    (INSERT, INSERT, &[
        "lpushx", "rpushx", "lpush", "rpush", "linsert", "pfadd", "sadd", "append", "hsetnx",
    ]),
    (UPDATE, UPDATE, &[
        "xadd", "zadd", "geoadd", "xsetid", "expire", "pexpire", "expireat", "pexpireat", "persist", "lset", "xclaim", "hset",
        "hmset", "xack", "setrange",
    ]),
    (UPDATE, READ, &["sinterstore"]),
];

/// How the command `name` uses its first key and the others, if it writes or does not.
pub(super) fn uses(name: &str, writes: bool) -> (Uses, Uses) {
    let exception = EXCEPTIONS
        .iter()
        .find(|(_, _, names)| names.contains(&name));
    match exception {
        Some((first, others, _)) => (first, others),
        None if writes => (CHANGE, CHANGE),
        None => (READ, READ),
    }
}

/// The same for one request: `SET` and `BITFIELD` use their key as their options ask.
pub(super) fn uses_of(name: &str, writes: bool, args: Args<'_>) -> (Uses, Uses) {
    let has = |option| args.skip(2).iter().any(|arg| is(arg, option));
    match name {
        "set" if !has("get") => (SET, SET),
        "bitfield" if !has("set") && !has("incrby") => (READ, READ),
        _ => uses(name, writes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::resp::RequestBuffer;

    fn of(words: &[&str]) -> (Uses, Uses) {
        let request = RequestBuffer::from_slices(words.iter().map(|word| word.as_bytes()));
        uses_of(words[0], true, request.args())
    }

    #[test]
    fn options_decide_where_they_may() {
        assert_eq!(of(&["set", "k", "v"]).0, SET);
        assert_eq!(of(&["set", "k", "v", "GET"]).0, CHANGE);
        assert_eq!(of(&["bitfield", "k", "GET", "u8", "0"]).0, READ);
        assert_eq!(of(&["bitfield", "k", "INCRBY", "u8", "0", "1"]).0, CHANGE);
        assert_eq!(of(&["lmove", "a", "b", "LEFT", "LEFT"]), (TAKE, INSERT));
        assert_eq!(of(&["sort", "a", "STORE", "b"]), (READ, SET));
    }

    #[test]
    fn no_command_has_two_rows() {
        let mut names: Vec<&str> = EXCEPTIONS
            .iter()
            .flat_map(|(_, _, names)| names.iter().copied())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
