//! Setting strings whole.

use super::expiry_option::TimeUnit;
use super::{emit_set, is_past};
use crate::keyspace::{Expiry, ExpiryMode, KeyAccess};
use crate::{Command, Context, Effects, EventClasses};
use kevy_proto::command::{Flags, Join, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::Now;

/// A key, its value, the next key and so on.
const KEYS_AND_VALUES: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 2,
};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "set",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Set the string value of a key",
        run: set,
        subcommands: &[],
    },
    Row {
        name: "setnx",
        arity: 3,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Set the value of a key, only if the key does not exist",
        run: setnx,
        subcommands: &[],
    },
    Row {
        name: "setex",
        arity: 4,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Set the value and expiration of a key",
        run: setex,
        subcommands: &[],
    },
    Row {
        name: "psetex",
        arity: 4,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Set the value and expiration in milliseconds of a key",
        run: psetex,
        subcommands: &[],
    },
    Row {
        name: "getset",
        arity: 3,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Set the string value of a key and return its old value",
        run: getset,
        subcommands: &[],
    },
    Row {
        name: "mset",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: KEYS_AND_VALUES,
        placement: Placement::Split(Join::Same),
        group: "string",
        since: "1.0.1",
        complexity: "O(N) where N is the number of keys to set.",
        summary: "Set multiple keys to multiple values",
        run: mset,
        subcommands: &[],
    },
    Row {
        name: "msetnx",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: KEYS_AND_VALUES,
        placement: Placement::Together,
        group: "string",
        since: "1.0.1",
        complexity: "O(N) where N is the number of keys to set.",
        summary: "Set multiple keys to multiple values, only if none of the keys exist",
        run: msetnx,
        subcommands: &[],
    },
];

fn set(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    if args.len() > 3 {
        return set_with_options(ctx, args);
    }
    store(ctx, args.at(1), args.at(2));
    ctx.reply.ok();
    Ok(())
}

/// Sets a key for ever and tells the log.
fn store(ctx: &mut Context<'_>, key: &[u8], value: &[u8]) {
    ctx.keyspace
        .set_string(key, value, Expiry::Never, ctx.now, ctx.effects);
    ctx.effects.emit(&[b"SET", key, value]);
    ctx.keyspace.note_event(EventClasses::STRING, "set", key);
}

/// When `SET` sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

/// What `SET` does to the expiry of its key.
#[derive(Clone, Copy)]
enum SetExpiry<'a> {
    Never,
    Keep,
    At(TimeUnit, &'a [u8]),
}

#[derive(Clone, Copy)]
struct SetOptions<'a> {
    condition: Condition,
    get: bool,
    expiry: SetExpiry<'a>,
}

fn set_with_options(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let options = parse_set(args)?;
    let expiry = match options.expiry {
        SetExpiry::Never => Expiry::Never,
        SetExpiry::Keep => Expiry::Keep,
        SetExpiry::At(unit, number) => Expiry::At(unit.deadline(number, ctx.now, "set")?),
    };
    let (key, mode) = (args.at(1), ctx.keyspace.expiry_mode());
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    if options.get {
        access.note_miss();
        ctx.reply.bulk_or_null(access.string()?);
    }
    let met = match options.condition {
        Condition::Always => true,
        Condition::IfAbsent => !access.exists(),
        Condition::IfPresent => access.exists(),
    };
    if met {
        let pair = (key, args.at(2));
        store_until(&mut access, ctx.effects, pair, expiry, (ctx.now, mode));
    }
    if !options.get && met {
        ctx.reply.ok();
    } else if !options.get {
        ctx.reply.null();
    }
    Ok(())
}

fn parse_set(args: Args<'_>) -> Result<SetOptions<'_>, ErrorReply> {
    let mut options = SetOptions {
        condition: Condition::Always,
        get: false,
        expiry: SetExpiry::Never,
    };
    let mut rest = args.skip(3).iter();
    while let Some(arg) = rest.next() {
        let is = |name: &[u8]| arg.eq_ignore_ascii_case(name);
        if is(b"NX") && options.condition != Condition::IfPresent {
            options.condition = Condition::IfAbsent;
        } else if is(b"XX") && options.condition != Condition::IfAbsent {
            options.condition = Condition::IfPresent;
        } else if is(b"GET") {
            options.get = true;
        } else if is(b"KEEPTTL") && !matches!(options.expiry, SetExpiry::At(..)) {
            options.expiry = SetExpiry::Keep;
        } else {
            let unit = TimeUnit::from_option(arg).ok_or(ErrorReply::Syntax)?;
            let number = rest.next().ok_or(ErrorReply::Syntax)?;
            options.expiry = match options.expiry {
                SetExpiry::Never => SetExpiry::At(unit, number),
                // The same unit again is allowed: the last number counts.
                SetExpiry::At(before, _) if before == unit => SetExpiry::At(unit, number),
                SetExpiry::Keep | SetExpiry::At(..) => return Err(ErrorReply::Syntax),
            };
        }
    }
    Ok(options)
}

/// Sets a key and tells the log; a moment that has passed removes it instead.
fn store_until(
    access: &mut KeyAccess<'_>,
    effects: &mut Effects,
    (key, value): (&[u8], &[u8]),
    expiry: Expiry,
    (now, mode): (Now, ExpiryMode),
) {
    if let Expiry::At(deadline) = expiry
        && is_past(deadline, now, mode)
    {
        // Set, and expired at once.
        access.note_event(EventClasses::STRING, "set");
        access.note_event(EventClasses::GENERIC, "expire");
        if access.remove() {
            effects.emit(&[b"DEL", key]);
        }
        access.note_event(EventClasses::EXPIRED, "expired");
        return;
    }
    access.set_string(value, expiry);
    access.note_event(EventClasses::STRING, "set");
    if matches!(expiry, Expiry::At(_)) {
        access.note_event(EventClasses::GENERIC, "expire");
    }
    emit_set(effects, key, value, access.expiry());
}

fn setnx(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, value) = (args.at(1), args.at(2));
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let absent = !access.exists();
    if absent {
        access.set_string(value, Expiry::Never);
        access.note_event(EventClasses::STRING, "set");
        ctx.effects.emit(&[b"SET", key, value]);
    }
    ctx.reply.integer(i64::from(absent));
    Ok(())
}

fn setex(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    set_until(ctx, args, TimeUnit::Seconds, "setex")
}

fn psetex(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    set_until(ctx, args, TimeUnit::Millis, "psetex")
}

fn set_until(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    unit: TimeUnit,
    command: &str,
) -> Result<(), ErrorReply> {
    let (key, value) = (args.at(1), args.at(3));
    let deadline = unit.deadline(args.at(2), ctx.now, command)?;
    ctx.keyspace
        .set_string(key, value, Expiry::At(deadline), ctx.now, ctx.effects);
    emit_set(ctx.effects, key, value, Some(deadline));
    ctx.keyspace.note_event(EventClasses::STRING, "set", key);
    ctx.keyspace
        .note_event(EventClasses::GENERIC, "expire", key);
    ctx.reply.ok();
    Ok(())
}

fn getset(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, value) = (args.at(1), args.at(2));
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    access.note_miss();
    ctx.reply.bulk_or_null(access.string()?);
    access.set_string(value, Expiry::Never);
    access.note_event(EventClasses::STRING, "set");
    ctx.effects.emit(&[b"SET", key, value]);
    Ok(())
}

fn mset(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    check_pairs(args, "mset")?;
    store_pairs(ctx, args);
    ctx.reply.ok();
    Ok(())
}

fn msetnx(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    check_pairs(args, "msetnx")?;
    let mut keys = args.skip(1).iter().step_by(2);
    let absent = !keys.any(|key| ctx.keyspace.is_alive(key, ctx.now, ctx.effects));
    if absent {
        store_pairs(ctx, args);
    }
    ctx.reply.integer(i64::from(absent));
    Ok(())
}

fn check_pairs(args: Args<'_>, command: &str) -> Result<(), ErrorReply> {
    if args.len().is_multiple_of(2) {
        return Err(ErrorReply::WrongArity(command.into()));
    }
    Ok(())
}

fn store_pairs(ctx: &mut Context<'_>, args: Args<'_>) {
    for at in (1..args.len()).step_by(2) {
        store(ctx, args.at(at), args.at(at + 1));
    }
}
