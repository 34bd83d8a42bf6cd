//! Changing strings in place: `APPEND` and `SETRANGE`.

use super::{check_length, is_raw};
use crate::keyspace::Expiry;
use crate::{Command, Context, EventClasses, number};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "append",
        arity: 3,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.0.0",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already \
            present value is of any size, since the dynamic string library used by Redis will double the free space \
            available on every reallocation.",
        summary: "Append a value to a key",
        run: append,
        subcommands: &[],
    },
    Row {
        name: "setrange",
        arity: 4,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.2.0",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very \
            small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the \
            value argument.",
        summary: "Overwrite part of a string at key starting at the specified offset",
        run: setrange,
        subcommands: &[],
    },
];

fn append(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, tail) = (args.at(1), args.at(2));
    let longest = ctx.keyspace.longest_string_bytes();
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let Some(length) = access.string()?.map(<[u8]>::len) else {
        access.set_string(tail, Expiry::Never);
        access.note_event(EventClasses::STRING, "append");
        ctx.effects.emit(&[b"SET", key, tail]);
        ctx.reply.length(tail.len());
        return Ok(());
    };
    check_length(length, tail.len(), longest)?;
    if !tail.is_empty() || !is_raw(&access) {
        access.string_mut(tail.len())?.append(tail);
        ctx.effects.emit(&[b"APPEND", key, tail]);
    }
    ctx.keyspace.note_event(EventClasses::STRING, "append", key);
    ctx.reply.length(length + tail.len());
    Ok(())
}

fn setrange(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, data) = (args.at(1), args.at(3));
    let offset = usize::try_from(number::integer(args.at(2))?)
        .map_err(|_| ErrorReply::text("ERR offset is out of range"))?;
    let longest = ctx.keyspace.longest_string_bytes();
    let access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let length = access.string()?.map_or(0, <[u8]>::len);
    if data.is_empty() {
        ctx.reply.length(length);
        return Ok(());
    }
    check_length(offset, data.len(), longest)?;
    let end = offset + data.len();
    let mut string = access.string_mut(end.saturating_sub(length))?;
    string.write_at(offset, data);
    ctx.reply.length(string.bytes().len());
    drop(string);
    ctx.keyspace
        .note_event(EventClasses::STRING, "setrange", key);
    ctx.effects.emit(&[b"SETRANGE", key, args.at(2), data]);
    Ok(())
}
