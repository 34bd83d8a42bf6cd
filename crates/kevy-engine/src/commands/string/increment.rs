//! Counting with strings that hold numbers.

use super::emit_set;
use crate::keyspace::Expiry;
use crate::long_double::LongDouble;
use crate::{Command, Context, EventClasses, number};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// What all commands of this file may do.
const FLAGS: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "incr",
        arity: 2,
        flags: FLAGS,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Increment the integer value of a key by one",
        run: incr,
        subcommands: &[],
    },
    Row {
        name: "decr",
        arity: 2,
        flags: FLAGS,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Decrement the integer value of a key by one",
        run: decr,
        subcommands: &[],
    },
    Row {
        name: "incrby",
        arity: 3,
        flags: FLAGS,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Increment the integer value of a key by the given amount",
        run: incrby,
        subcommands: &[],
    },
    Row {
        name: "decrby",
        arity: 3,
        flags: FLAGS,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Decrement the integer value of a key by the given number",
        run: decrby,
        subcommands: &[],
    },
    Row {
        name: "incrbyfloat",
        arity: 3,
        flags: FLAGS,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Increment the float value of a key by the given amount",
        run: incrbyfloat,
        subcommands: &[],
    },
];

fn incr(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    add(ctx, args.at(1), 1)
}

fn decr(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    add(ctx, args.at(1), -1)
}

fn incrby(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    add(ctx, args.at(1), number::integer(args.at(2))?)
}

fn decrby(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let by = number::integer(args.at(2))?
        .checked_neg()
        .ok_or(ErrorReply::text("ERR decrement would overflow"))?;
    add(ctx, args.at(1), by)
}

fn add(ctx: &mut Context<'_>, key: &[u8], by: i64) -> Result<(), ErrorReply> {
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let old = access.string()?.map_or(Ok(0), number::integer)?;
    let new = old.checked_add(by).ok_or(ErrorReply::IncrementOverflow)?;
    let mut digits = itoa::Buffer::new();
    let text = digits.format(new).as_bytes();
    access.set_string(text, Expiry::Keep);
    access.note_event(EventClasses::STRING, "incrby");
    emit_set(ctx.effects, key, text, access.expiry());
    ctx.reply.integer(new);
    Ok(())
}

fn incrbyfloat(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let old = access.string()?.unwrap_or(b"0");
    let old = LongDouble::parse(old).ok_or(ErrorReply::NotFloat)?;
    let by = LongDouble::parse(args.at(2)).ok_or(ErrorReply::NotFloat)?;
    let new = old
        .checked_add(by)
        .and_then(LongDouble::to_decimal)
        .ok_or(ErrorReply::IncrementNotFinite)?;
    access.set_string(&new, Expiry::Keep);
    access.note_event(EventClasses::STRING, "incrbyfloat");
    emit_set(ctx.effects, key, &new, access.expiry());
    ctx.reply.bulk(&new);
    Ok(())
}
