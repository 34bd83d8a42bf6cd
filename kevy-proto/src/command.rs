//! The columns of a command row.
//!
//! A command is described once, by one [`Row`], next to the function that runs it. Arity checks, routing over shards,
//! `COMMAND` and `COMMAND DOCS`, the generated documentation and the cluster client read the row; there is no second list.
//! The vocabulary (flags, ACL categories, key specifications) is Redis's: <https://redis.io/docs/latest/commands/command/>.

use crate::resp::Args;
use alloc::vec::Vec;

/// One command (or one subcommand of a container such as `OBJECT`), with `H`: the kind of function that runs it.
#[derive(Debug)]
pub struct Row<H: 'static> {
    /// Lower-case name; for a subcommand its own name only (`encoding` in `OBJECT ENCODING`).
    pub name: &'static str,
    /// Number of arguments including the name(s); negative: at least that many.
    pub arity: i32,
    /// What the command may do and where it may run.
    pub flags: Flags,
    /// Where its keys stand.
    pub keys: Keys,
    /// Which shards run it and how their replies become one.
    pub placement: Placement,
    /// The group of Redis's documentation (`string`, `generic`, `server`, ...).
    pub group: &'static str,
    /// The Redis version that introduced it.
    pub since: &'static str,
    /// Redis's documented time complexity.
    pub complexity: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The function.
    pub run: H,
    /// The subcommands, if this is a container; then `run` is never reached.
    pub subcommands: &'static [Row<H>],
}

impl<H> Row<H> {
    /// Whether `count` arguments (names included) suit the arity.
    pub fn accepts(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= wanted
        } else {
            count == wanted
        }
    }

    /// Whether the command may change the key space.
    pub fn is_write(&self) -> bool {
        self.flags.contains(Flags::WRITE)
    }
}

/// What a command may do and where it may run: Redis's command flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// May change the key space.
    pub const WRITE: Self = Self(1);
    /// Reads keys and never changes them.
    pub const READONLY: Self = Self(1 << 1);
    /// May grow memory: refused when `maxmemory` is reached.
    pub const DENYOOM: Self = Self(1 << 2);
    /// Administration.
    pub const ADMIN: Self = Self(1 << 3);
    /// Publish/subscribe.
    pub const PUBSUB: Self = Self(1 << 4);
    /// Not from scripts.
    pub const NOSCRIPT: Self = Self(1 << 5);
    /// May block the client.
    pub const BLOCKING: Self = Self(1 << 6);
    /// Answered while the data set is loaded.
    pub const LOADING: Self = Self(1 << 7);
    /// Answered by a replica whose data is stale.
    pub const STALE: Self = Self(1 << 8);
    /// Not shown by `MONITOR`.
    pub const SKIP_MONITOR: Self = Self(1 << 9);
    /// Not recorded by `SLOWLOG`.
    pub const SKIP_SLOWLOG: Self = Self(1 << 10);
    /// Allowed for an importing slot after `ASKING`.
    pub const ASKING: Self = Self(1 << 11);
    /// Constant or logarithmic time.
    pub const FAST: Self = Self(1 << 12);
    /// Needs no authentication.
    pub const NO_AUTH: Self = Self(1 << 13);
    /// May replicate although it is not a write.
    pub const MAY_REPLICATE: Self = Self(1 << 14);
    /// Not inside `MULTI`.
    pub const NO_MULTI: Self = Self(1 << 15);
    /// Key positions depend on the arguments.
    pub const MOVABLEKEYS: Self = Self(1 << 16);
    /// Allowed while a script runs too long.
    pub const ALLOW_BUSY: Self = Self(1 << 17);
    /// Not while loading asynchronously.
    pub const NO_ASYNC_LOADING: Self = Self(1 << 18);
    /// Its keys are not accessed as data (`OBJECT HELP` has none, `MEMORY USAGE` looks only).
    pub const TOUCHES_ARBITRARY_KEYS: Self = Self(1 << 19);

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names that `COMMAND INFO` shows, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(Flags, &str); 19] = [
            (Flags::WRITE, "write"),
            (Flags::READONLY, "readonly"),
            (Flags::DENYOOM, "denyoom"),
            (Flags::ADMIN, "admin"),
            (Flags::PUBSUB, "pubsub"),
            (Flags::NOSCRIPT, "noscript"),
            (Flags::BLOCKING, "blocking"),
            (Flags::LOADING, "loading"),
            (Flags::STALE, "stale"),
            (Flags::SKIP_MONITOR, "skip_monitor"),
            (Flags::SKIP_SLOWLOG, "skip_slowlog"),
            (Flags::ASKING, "asking"),
            (Flags::FAST, "fast"),
            (Flags::NO_AUTH, "no_auth"),
            (Flags::NO_MULTI, "no_multi"),
            (Flags::MOVABLEKEYS, "movablekeys"),
            (Flags::ALLOW_BUSY, "allow_busy"),
            (Flags::NO_ASYNC_LOADING, "no_async_loading"),
            (Flags::TOUCHES_ARBITRARY_KEYS, "touches_arbitrary_keys"),
        ];
        NAMES
            .into_iter()
            .filter(move |(flag, _)| self.contains(*flag))
            .map(|(_, name)| name)
    }
}

/// Where the keys of a command stand among its arguments (position 0 is the name).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// No keys.
    None,
    /// From `first` to `last` in steps of `step`; a negative `last` counts from the end (-1: the last argument).
    Range {
        /// Position of the first key.
        first: i32,
        /// Position of the last key, or from the end if negative.
        last: i32,
        /// Distance between keys.
        step: i32,
    },
    /// The argument at `count_at` says how many keys follow it (`LMPOP`, `SINTERCARD`); `extra_first` is the position of
    /// one more key before it (`ZUNIONSTORE destination numkeys key ...`), 0 if there is none.
    Counted {
        /// Position of the number of keys.
        count_at: i32,
        /// Position of one more key, or 0.
        extra_first: i32,
    },
    /// A key at `first`, and the last occurrence of an option (such as `STORE`) names one more.
    WithOption {
        /// Position of the first key.
        first: i32,
        /// The option whose value is a key; several with `|` between them (`store|storedist`).
        option: &'static str,
    },
    /// After the argument `option`, the first half of what is left (`XREAD ... STREAMS k1 k2 id1 id2`).
    AfterOption {
        /// The option.
        option: &'static str,
    },
}

/// One key at argument 1: the most frequent case.
pub const ONE_KEY: Keys = Keys::Range {
    first: 1,
    last: 1,
    step: 1,
};
/// Every argument is a key.
pub const ALL_KEYS: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 1,
};
/// Arguments 1 and 2 are keys.
pub const TWO_KEYS: Keys = Keys::Range {
    first: 1,
    last: 2,
    step: 1,
};

impl Keys {
    /// Appends the positions of the keys in `args` to `positions`. Arguments that do not fit (a count that is no number,
    /// say) give no positions: the command itself then reports its syntax error.
    pub fn positions(self, args: Args<'_>, positions: &mut Vec<usize>) {
        let count = args.len();
        match self {
            Self::None => {}
            Self::Range { first, last, step } => {
                let last = if last < 0 {
                    count as i64 + i64::from(last)
                } else {
                    i64::from(last)
                };
                let last = usize::try_from(last)
                    .unwrap_or(0)
                    .min(count.saturating_sub(1));
                positions.extend((first.max(0) as usize..=last).step_by(step.max(1) as usize));
            }
            Self::Counted {
                count_at,
                extra_first,
            } => {
                let at = count_at.max(0) as usize;
                let Some(keys) = args.get(at).and_then(parse_count) else {
                    return;
                };
                if keys > count.saturating_sub(at + 1) {
                    return;
                }
                if extra_first > 0 {
                    positions.push(extra_first as usize);
                }
                positions.extend(at + 1..=at + keys);
            }
            Self::WithOption { first, option } => {
                positions.push(first.max(0) as usize);
                let at = (first.max(0) as usize + 1..count.saturating_sub(1)).rev();
                let is_any = |&i: &usize| option.split('|').any(|name| is_option(args, i, name));
                positions.extend(at.filter(is_any).map(|i| i + 1).take(1));
            }
            Self::AfterOption { option } => {
                let Some(at) = (1..count).find(|&i| is_option(args, i, option)) else {
                    return;
                };
                let left = count - at - 1;
                positions.extend(at + 1..at + 1 + left / 2);
            }
        }
    }

    /// First key, last key and step as `COMMAND INFO` shows them.
    pub fn legacy_range(self) -> (i32, i32, i32) {
        match self {
            Self::None | Self::AfterOption { .. } | Self::Counted { extra_first: 0, .. } => {
                (0, 0, 0)
            }
            Self::Range { first, last, step } => (first, last, step),
            Self::Counted { extra_first, .. } => (extra_first, extra_first, 1),
            Self::WithOption { first, .. } => (first, first, 1),
        }
    }
}

fn parse_count(text: &[u8]) -> Option<usize> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn is_option(args: Args<'_>, position: usize, option: &str) -> bool {
    args.get(position)
        .is_some_and(|arg| arg.eq_ignore_ascii_case(option.as_bytes()))
}

/// Which shards run a command, and how their replies become one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Runs on one key space that holds all its keys: on their owner if they share one, else the entries are brought
    /// together under locks (decision record 0004).
    Together,
    /// Each key by itself on its owner, under locks if there are several owners; the replies are joined.
    Split(Join),
    /// Every shard runs it on its own keys, under locks; the replies are joined.
    EveryShard(Join),
    /// One shard per call: the cursor at this argument position says which (`SCAN`).
    Cursor(usize),
    /// The session answers alone (`PING`, `HELLO`).
    Session,
    /// The control plane answers (`INFO`, `CONFIG`, `CLUSTER`).
    Node,
}

/// How partial replies become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Integers are added (`DEL`, `DBSIZE`).
    Sum,
    /// All parts say the same; the first one stands (`MSET`, `FLUSHALL`).
    Same,
    /// Arrays with one element per key go back to the keys' places (`MGET`).
    ByPosition,
    /// Arrays are concatenated (`KEYS`).
    Concat,
    /// One part is drawn, weighted by the shards' key counts (`RANDOMKEY`).
    Weighted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::RequestBuffer;

    #[test]
    fn any_of_several_options_may_name_a_key() {
        let keys = Keys::WithOption {
            first: 1,
            option: "store|storedist",
        };
        for (request, expected) in [
            ("georadius k 1 2 3 m", &[1][..]),
            ("georadius k 1 2 3 m STORE a", &[1, 7]),
            ("georadius k 1 2 3 m asc StoreDist a", &[1, 8]),
            ("georadius k 1 2 3 m store a storedist b", &[1, 9]),
            ("georadius k 1 2 3 m store", &[1]),
        ] {
            let request = RequestBuffer::from_slices(request.split(' ').map(str::as_bytes));
            let mut positions = Vec::new();
            keys.positions(request.args(), &mut positions);
            assert_eq!(positions, expected, "{request:?}");
        }
    }
}
