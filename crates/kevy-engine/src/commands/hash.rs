//! Hashes: their rows, and what their functions share.
//!
//! Every function sees a hash at one time ([`Keyspace::fields_now_ms`](crate::Keyspace::fields_now_ms)): fields that have
//! expired by then do not exist for it. A function that changes a hash removes some of those first, with their own effect.

mod change;
pub(super) mod expiring;
pub(super) mod field_expiry;
mod random;
mod read;

use crate::value::{EncodingLimits, Hash};
use crate::{Command, Context};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::ErrorReply;

/// The most expired fields that a change of a hash removes first: enough to keep up with what expires, few enough that
/// nobody waits for it.
const LAZY_REMOVALS: usize = 64;

/// A change of one field or of those named.
const WRITE: Flags = Flags::WRITE.with(Flags::FAST);
/// A change that may add fields.
const GROW: Flags = WRITE.with(Flags::DENYOOM);
/// A look at one field or at those named.
const READ: Flags = Flags::READONLY.with(Flags::FAST);
/// A look at the whole.
const READ_ALL: Flags = Flags::READONLY;

/// What is O(1) for each of the fields given.
const PER_PAIR: &str = "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.";
const OF_HASH: &str = "O(N) where N is the size of the hash.";

/// The commands of this family but those about field expiry.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    row("hset", -4, GROW, "2.0.0", PER_PAIR, "Sets fields of a hash and counts the new ones.", change::hset),
    row("hmset", -4, GROW, "2.0.0", "O(N) where N is the number of fields being set.", "Sets fields of a hash.", change::hmset),
    row("hsetnx", 4, GROW, "2.0.0", "O(1)", "Sets a field of a hash, only if it does not exist.", change::hsetnx),
    row("hdel", -3, WRITE, "2.0.0", "O(N) where N is the number of fields to be removed.", "Removes fields of a hash; without fields the hash goes.", change::hdel),
    row("hincrby", 4, GROW, "2.0.0", "O(1)", "Adds an integer to a field of a hash.", change::hincrby),
    row("hincrbyfloat", 4, GROW, "2.6.0", "O(1)", "Adds a float to a field of a hash.", change::hincrbyfloat),
    row("hget", 3, READ, "2.0.0", "O(1)", "Returns the value of a field of a hash.", read::hget),
    row("hmget", -3, READ, "2.0.0", "O(N) where N is the number of fields being requested.", "Returns the values of the given fields of a hash.", read::hmget),
    row("hlen", 2, READ, "2.0.0", "O(1)", "Returns the number of fields of a hash.", read::hlen),
    row("hstrlen", 3, READ, "3.2.0", "O(1)", "Returns the length of the value of a field of a hash.", read::hstrlen),
    row("hexists", 3, READ, "2.0.0", "O(1)", "Tells whether a field exists in a hash.", read::hexists),
    row("hkeys", 2, READ_ALL, "2.0.0", OF_HASH, "Returns the names of all fields of a hash.", read::hkeys),
    row("hvals", 2, READ_ALL, "2.0.0", OF_HASH, "Returns the values of all fields of a hash.", read::hvals),
    row("hgetall", 2, READ_ALL, "2.0.0", OF_HASH, "Returns all fields of a hash with their values.", read::hgetall),
    row("hrandfield", -2, READ_ALL, "6.2.0", "O(N) where N is the number of fields returned", "Returns random fields of a hash.", random::hrandfield),
    row("hscan", -3, READ_ALL, "2.8.0", "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.", "Iterates over the fields of a hash, some at each call.", read::hscan),
];

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    run: crate::Run,
) -> Command {
    Row {
        name,
        arity,
        flags,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "hash",
        since,
        complexity,
        summary,
        run,
        subcommands: &[],
    }
}

/// Changes the hash at `key`, if there is one, at the time that the change is given.
fn edit<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    change: impl FnOnce(&mut Hash, i64, &EncodingLimits) -> R,
) -> Result<Option<R>, ErrorReply> {
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let mut expired = Vec::new();
    let change = |hash: &mut Hash, limits: &EncodingLimits| {
        expired = hash.remove_due(now_ms, LAZY_REMOVALS);
        change(hash, now_ms, limits)
    };
    let result = cx.keyspace.edit(key, cx.now, cx.effects, change)?;
    cx.keyspace.note_expired_fields(key, &expired, cx.effects);
    Ok(result)
}

/// As [`edit`]; a missing hash is created first.
fn edit_or_create<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    change: impl FnOnce(&mut Hash, i64, &EncodingLimits) -> R,
) -> Result<R, ErrorReply> {
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let mut expired = Vec::new();
    let change = |hash: &mut Hash, limits: &EncodingLimits| {
        expired = hash.remove_due(now_ms, LAZY_REMOVALS);
        change(hash, now_ms, limits)
    };
    let result = cx
        .keyspace
        .edit_or_create(key, cx.now, cx.effects, change)?;
    cx.keyspace.note_expired_fields(key, &expired, cx.effects);
    Ok(result)
}

/// Emits `command` with the fields it changed.
fn emit_for_fields<'a>(
    cx: &mut Context<'_>,
    command: &[&'a [u8]],
    fields: impl IntoIterator<Item = &'a [u8]>,
) {
    let mut request = command.to_vec();
    request.extend(fields);
    cx.effects.emit(&request);
}
