//! The keyspace as a whole: `KEYS SCAN RANDOMKEY DBSIZE FLUSHALL FLUSHDB`.

use super::is_option;
use crate::glob;
use crate::keyspace::{Cursor, Entry, ExpiryMode, Keyspace};
use crate::number::integer;
use crate::{Command, Context};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, Join, Keys, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use kevy_proto::time::Now;

/// How many entries a step of `SCAN` looks at unless told otherwise (Redis's default).
pub(super) const SCAN_COUNT: usize = 10;
/// How often `RANDOMKEY` draws again after an expired key (Redis's limit).
const RANDOM_KEY_TRIES: usize = 100;

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY,
        keys: Keys::None,
        placement: Placement::EveryShard(Join::Concat),
        group: "generic",
        since: "1.0.0",
        complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
        summary: "Returns all key names that match a pattern.",
        run: keys,
        subcommands: &[],
    },
    Row {
        name: "scan",
        arity: -2,
        flags: Flags::READONLY,
        keys: Keys::None,
        placement: Placement::Cursor(1),
        group: "generic",
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        summary: "Iterates over the key names, some at each call.",
        run: scan,
        subcommands: &[],
    },
    Row {
        name: "randomkey",
        arity: 1,
        flags: Flags::READONLY,
        keys: Keys::None,
        placement: Placement::EveryShard(Join::Weighted),
        group: "generic",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns a random key name.",
        run: randomkey,
        subcommands: &[],
    },
    Row {
        name: "dbsize",
        arity: 1,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: Keys::None,
        placement: Placement::EveryShard(Join::Sum),
        group: "server",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the number of keys.",
        run: dbsize,
        subcommands: &[],
    },
    Row {
        name: "flushall",
        arity: -1,
        flags: Flags::WRITE,
        keys: Keys::None,
        placement: Placement::EveryShard(Join::Same),
        group: "server",
        since: "1.0.0",
        complexity: "O(N) where N is the total number of keys in all databases",
        summary: "Removes all keys.",
        run: flush,
        subcommands: &[],
    },
    Row {
        name: "flushdb",
        arity: -1,
        flags: Flags::WRITE,
        keys: Keys::None,
        placement: Placement::EveryShard(Join::Same),
        group: "server",
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys in the selected database",
        summary: "Removes all keys of the current database, which is the only one.",
        run: flush,
        subcommands: &[],
    },
];

fn keys(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let filter = Filter {
        pattern: args.at(1),
        type_name: None,
    };
    let all = cx.keyspace.iter();
    let found: Vec<&Entry> = all.filter(|entry| filter.accepts(entry)).collect();
    let expired = reply_names(&mut cx.reply, cx.keyspace, &found, cx.now);
    cx.keyspace.expire_found(&expired, cx.now, cx.effects);
    Ok(())
}

fn scan(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let cursor = parse_cursor(args.at(1)).ok_or(ErrorReply::text("ERR invalid cursor"))?;
    let (filter, count) = scan_options(args)?;
    let step = cx.keyspace.scan(Cursor::from_external(cursor), count);
    let met = step.entries.into_iter();
    let found: Vec<&Entry> = met.filter(|entry| filter.accepts(entry)).collect();
    cx.reply.array(2);
    cx.reply.bulk_integer(step.next.external() as i64);
    let expired = reply_names(&mut cx.reply, cx.keyspace, &found, cx.now);
    cx.keyspace.expire_found(&expired, cx.now, cx.effects);
    Ok(())
}

/// Replies the names of those entries of `found` whose time has not come; returns the names of the others.
fn reply_names(
    reply: &mut Encoder<'_>,
    keyspace: &Keyspace,
    found: &[&Entry],
    now: Now,
) -> Vec<Vec<u8>> {
    let is_hidden = |entry: &&&Entry| keyspace.is_hidden(entry, now);
    let expired: Vec<Vec<u8>> = found
        .iter()
        .filter(is_hidden)
        .map(|entry| entry.key().to_vec())
        .collect();
    reply.array(found.len() - expired.len());
    for entry in found.iter().filter(|entry| !is_hidden(entry)) {
        reply.bulk(entry.key());
    }
    expired
}

/// Which entries a client wants.
struct Filter<'a> {
    pattern: &'a [u8],
    type_name: Option<&'a [u8]>,
}

impl Filter<'_> {
    fn accepts(&self, entry: &Entry) -> bool {
        let wanted = |name: &[u8]| name.eq_ignore_ascii_case(entry.type_name().as_bytes());
        // `*` alone matches the empty key too, as in Redis.
        (self.pattern == b"*" || glob::matches(self.pattern, entry.key()))
            && self.type_name.is_none_or(wanted)
    }
}

/// Reads `[MATCH pattern] [COUNT count] [TYPE type]`.
fn scan_options(args: Args<'_>) -> Result<(Filter<'_>, usize), ErrorReply> {
    let mut filter = Filter {
        pattern: b"*",
        type_name: None,
    };
    let mut count = SCAN_COUNT;
    for at in (2..args.len()).step_by(2) {
        let value = args.get(at + 1).ok_or(ErrorReply::Syntax)?;
        if is_option(args, at, "count") {
            let given = usize::try_from(integer(value)?).ok();
            count = given.filter(|&count| count > 0).ok_or(ErrorReply::Syntax)?;
        } else if is_option(args, at, "match") {
            filter.pattern = value;
        } else if is_option(args, at, "type") {
            filter.type_name = Some(value);
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok((filter, count))
}

/// A cursor as C's `strtoul` reads it, because clients were seen to send what only that accepts: a sign, no digits.
pub(super) fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() && !text.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    Some(if negative {
        number.wrapping_neg()
    } else {
        number
    })
}

fn randomkey(cx: &mut Context<'_>, _args: Args<'_>) -> Result<(), ErrorReply> {
    for tries_left in (0..RANDOM_KEY_TRIES).rev() {
        let Some(key) = cx.keyspace.random_entry().map(|entry| entry.key().to_vec()) else {
            break;
        };
        // A replica may hold nothing but expired keys, which it must not remove: then one of these is the answer.
        let last_resort = tries_left == 0 && cx.keyspace.expiry_mode() == ExpiryMode::Hide;
        if cx.keyspace.is_alive(&key, cx.now, cx.effects) || last_resort {
            cx.reply.bulk(&key);
            return Ok(());
        }
    }
    cx.reply.null();
    Ok(())
}

fn dbsize(cx: &mut Context<'_>, _args: Args<'_>) -> Result<(), ErrorReply> {
    cx.reply.length(cx.keyspace.len());
    Ok(())
}

/// `[ASYNC|SYNC]` says when memory is given back; here both at once.
fn flush(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let known = args.len() == 2 && (is_option(args, 1, "async") || is_option(args, 1, "sync"));
    if args.len() > 1 && !known {
        return Err(ErrorReply::Syntax);
    }
    cx.keyspace.clear();
    cx.effects.emit(&[b"FLUSHALL"]);
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_redis_reads_them() {
        assert_eq!(parse_cursor(b"0"), Some(0));
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"+12"), Some(12));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        for text in ["18446744073709551616", " 1", "1 ", "x", "-", "1x"] {
            assert_eq!(parse_cursor(text.as_bytes()), None, "{text}");
        }
    }
}
