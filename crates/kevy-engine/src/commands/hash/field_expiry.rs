//! When fields of hashes go: the `HEXPIRE` and `HTTL` commands and `HPERSIST` of Redis 7.4.
//!
//! Whatever a client says, a deadline is stored and logged as an absolute Unix time in milliseconds.

use super::{GROW, READ, WRITE, edit, emit_for_fields, row};
use crate::commands::expiry::{Condition, Given, is, name_of};
use crate::keyspace::ExpiryMode;
use crate::number::{integer, parse_i64};
use crate::value::Hash;
use crate::value::hash::LATEST_DEADLINE_MS;
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::UnixMillis;

/// There is no such field, or no such key.
const NO_FIELD: i64 = -2;
/// The field has no deadline.
const NO_DEADLINE: i64 = -1;
/// The condition does not allow the change.
const NOT_ALLOWED: i64 = 0;
/// The field was changed.
const CHANGED: i64 = 1;
/// The field is gone, for its new deadline has passed.
const REMOVED: i64 = 2;

const PER_FIELD: &str = "O(N) where N is the number of specified fields";
const SINCE: &str = "7.4.0";

/// The commands about field expiry.
#[rustfmt::skip]
pub(in crate::commands) const COMMANDS: &[Command] = &[
    row("hexpire", -6, GROW, SINCE, PER_FIELD, "Sets the time to live of fields of a hash in seconds.", |cx, args| hexpire(cx, args, Given::SECONDS_FROM_NOW)),
    row("hpexpire", -6, GROW, SINCE, PER_FIELD, "Sets the time to live of fields of a hash in milliseconds.", |cx, args| hexpire(cx, args, Given::MILLIS_FROM_NOW)),
    row("hexpireat", -6, GROW, SINCE, PER_FIELD, "Sets when fields of a hash go, as a Unix time in seconds.", |cx, args| hexpire(cx, args, Given::UNIX_SECONDS)),
    row("hpexpireat", -6, GROW, SINCE, PER_FIELD, "Sets when fields of a hash go, as a Unix time in milliseconds.", |cx, args| hexpire(cx, args, Given::UNIX_MILLIS)),
    row("hpersist", -5, WRITE, SINCE, PER_FIELD, "Removes the expiry of fields of a hash.", hpersist),
    row("httl", -5, READ, SINCE, PER_FIELD, "Returns the time to live of fields of a hash in seconds.", |cx, args| httl(cx, args, Given::SECONDS_FROM_NOW)),
    row("hpttl", -5, READ, SINCE, PER_FIELD, "Returns the time to live of fields of a hash in milliseconds.", |cx, args| httl(cx, args, Given::MILLIS_FROM_NOW)),
    row("hexpiretime", -5, READ, SINCE, PER_FIELD, "Returns when fields of a hash go, as a Unix time in seconds.", |cx, args| httl(cx, args, Given::UNIX_SECONDS)),
    row("hpexpiretime", -5, READ, SINCE, PER_FIELD, "Returns when fields of a hash go, as a Unix time in milliseconds.", |cx, args| httl(cx, args, Given::UNIX_MILLIS)),
];

/// `HEXPIRE key time [NX|XX|GT|LT] FIELDS count field ...`
fn hexpire(cx: &mut Context<'_>, args: Args<'_>, given: Given) -> Result<(), ErrorReply> {
    let key = args.at(1);
    // Redis looks at the key's type before anything else.
    edit(cx, key, |_, _, _| ())?;
    let deadline = deadline_of(cx, args, args.at(2), given)?;
    let has_condition = ["nx", "xx", "gt", "lt"].iter().any(|o| is(args.at(3), o));
    let fields_at = if has_condition { 4 } else { 3 };
    let condition = Condition::of(has_condition.then(|| args.at(3)));
    let names = fields(
        args,
        fields_at,
        "ERR Parameter `numFields` should be greater than 0",
    )?;
    // Applied from a log or a primary, a deadline that has passed meanwhile is kept: the field's `HDEL` follows.
    let passed = deadline <= cx.now.unix && cx.keyspace.expiry_mode() != ExpiryMode::Ignore;
    let wish = Wish {
        condition,
        deadline,
        passed,
    };
    let outcomes = edit(cx, key, |hash, now_ms, _| {
        let names = names.iter();
        names
            .map(|name| wish.apply(hash, name, now_ms))
            .collect::<Vec<i64>>()
    })?;
    let changed = changed_fields(names, outcomes.as_deref());
    if !changed.is_empty() && passed {
        emit_for_fields(cx, &[b"HDEL", key], changed);
        cx.keyspace.note_event(EventClasses::HASH, "hdel", key);
    } else if !changed.is_empty() {
        let [mut at, mut count] = [itoa::Buffer::new(); 2];
        let at = at.format(deadline.0).as_bytes();
        let count = count.format(changed.len()).as_bytes();
        emit_for_fields(cx, &[b"HPEXPIREAT", key, at, b"FIELDS", count], changed);
        cx.keyspace.note_event(EventClasses::HASH, "hexpire", key);
    }
    reply_outcomes(cx, names, outcomes);
    Ok(())
}

/// The deadline that `time` gives.
pub(super) fn deadline_of(
    cx: &Context<'_>,
    args: Args<'_>,
    time: &[u8],
    given: Given,
) -> Result<UnixMillis, ErrorReply> {
    let number = integer(time)?;
    if number < 0 {
        return Err(ErrorReply::text("ERR invalid expire time, must be >= 0"));
    }
    given
        .to_unix(number, cx.now.unix)
        .filter(|deadline| deadline.0 <= LATEST_DEADLINE_MS)
        .ok_or_else(|| ErrorReply::InvalidExpire(name_of(args)))
}

/// Reads `FIELDS count field ...` at `at`, to the end of the arguments; `bad_count` is the error for a count below 1.
pub(super) fn fields<'a>(
    args: Args<'a>,
    at: usize,
    bad_count: &'static str,
) -> Result<Args<'a>, ErrorReply> {
    if at + 2 > args.len() || !is(args.at(at), "fields") {
        return Err(ErrorReply::text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = parse_i64(args.at(at + 1)).filter(|&count| count > 0);
    let count = count.ok_or(ErrorReply::text(bad_count))?;
    let names = args.skip(at + 2);
    if usize::try_from(count) != Ok(names.len()) {
        return Err(ErrorReply::text(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(names)
}

/// What a client wants for each field.
struct Wish {
    condition: Condition,
    deadline: UnixMillis,
    /// Whether the field goes at once.
    passed: bool,
}

impl Wish {
    fn apply(&self, hash: &mut Hash, name: &[u8], now_ms: i64) -> i64 {
        let Some(field) = hash.get(name, now_ms) else {
            return NO_FIELD;
        };
        let current = field.deadline.map(UnixMillis);
        if !self.condition.permits(current, self.deadline) {
            return NOT_ALLOWED;
        }
        if self.passed {
            hash.remove(name, now_ms);
            return REMOVED;
        }
        hash.set_deadline(name, Some(self.deadline.0), now_ms);
        CHANGED
    }
}

/// Those of `names` whose outcome is a change.
fn changed_fields<'a>(names: Args<'a>, outcomes: Option<&[i64]>) -> Vec<&'a [u8]> {
    let outcomes = outcomes.unwrap_or_default().iter();
    let both = names.iter().zip(outcomes);
    both.filter(|(_, outcome)| **outcome > NOT_ALLOWED)
        .map(|(name, _)| name)
        .collect()
}

/// Replies one number for each field; without a hash there is no field.
fn reply_outcomes(cx: &mut Context<'_>, names: Args<'_>, outcomes: Option<Vec<i64>>) {
    cx.reply.array(names.len());
    match outcomes {
        Some(outcomes) => outcomes.iter().for_each(|&o| cx.reply.integer(o)),
        None => names.iter().for_each(|_| cx.reply.integer(NO_FIELD)),
    }
}

/// `HPERSIST key FIELDS count field ...`
fn hpersist(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    edit(cx, key, |_, _, _| ())?;
    let names = shown_fields(args)?;
    let outcomes = edit(cx, key, |hash, now_ms, _| {
        let names = names.iter();
        names
            .map(|name| persist(hash, name, now_ms))
            .collect::<Vec<i64>>()
    })?;
    let changed = changed_fields(names, outcomes.as_deref());
    if !changed.is_empty() {
        let mut digits = itoa::Buffer::new();
        let count = digits.format(changed.len()).as_bytes();
        emit_for_fields(cx, &[b"HPERSIST", key, b"FIELDS", count], changed);
        cx.keyspace.note_event(EventClasses::HASH, "hpersist", key);
    }
    reply_outcomes(cx, names, outcomes);
    Ok(())
}

fn persist(hash: &mut Hash, name: &[u8], now_ms: i64) -> i64 {
    match hash.get(name, now_ms).map(|field| field.deadline) {
        None => NO_FIELD,
        Some(None) => NO_DEADLINE,
        Some(Some(_)) => {
            hash.set_deadline(name, None, now_ms);
            CHANGED
        }
    }
}

/// `HTTL key FIELDS count field ...`
fn httl(cx: &mut Context<'_>, args: Args<'_>, given: Given) -> Result<(), ErrorReply> {
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let hash: Option<&Hash> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let names = shown_fields(args)?;
    cx.reply.array(names.len());
    for name in names.iter() {
        let field = hash.and_then(|hash| hash.get(name, now_ms));
        cx.reply.integer(match field.map(|field| field.deadline) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => show(deadline, given, cx.now.unix),
        });
    }
    Ok(())
}

/// `FIELDS count field ...` at argument 2.
pub(super) fn shown_fields(args: Args<'_>) -> Result<Args<'_>, ErrorReply> {
    fields(args, 2, "ERR Number of fields must be a positive integer")
}

/// The deadline as a client wants it; seconds are rounded up, unlike those of keys.
fn show(deadline_ms: i64, given: Given, now: UnixMillis) -> i64 {
    let base = if given.from_now { now.0 } else { 0 };
    let ms = deadline_ms.saturating_sub(base).max(0);
    if given.in_seconds {
        ms.saturating_add(999) / 1000
    } else {
        ms
    }
}
