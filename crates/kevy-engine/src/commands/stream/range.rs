//! Reading entries by their ids: `XLEN XRANGE XREVRANGE`.

use super::{id, limit, reply_entry, reply_range};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::stream::{Stream, StreamId};
use crate::{Command, Context};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "xlen",
        arity: 2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Return the number of entries in a stream",
        run: xlen,
        subcommands: &[],
    },
    Row {
        name: "xrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: RANGE_COMPLEXITY,
        summary: "Return a range of elements in a stream, with IDs matching the specified IDs interval",
        run: xrange,
        subcommands: &[],
    },
    Row {
        name: "xrevrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: REVERSE_COMPLEXITY,
        summary: "Return a range of elements in a stream, with IDs matching the specified IDs interval, in reverse \
            order (from greater to smaller IDs) compared to XRANGE",
        run: xrevrange,
        subcommands: &[],
    },
];

const RANGE_COMPLEXITY: &str = "O(N) with N being the number of elements being returned. If N is constant (e.g. \
    always asking for the first 10 elements with COUNT), you can consider it O(1).";
const REVERSE_COMPLEXITY: &str = "O(N) with N being the number of elements returned. If N is constant (e.g. always \
    asking for the first 10 elements with COUNT), you can consider it O(1).";

fn xlen(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let stream = cx
        .keyspace
        .collection::<Stream>(args.at(1), cx.now, cx.effects)?;
    let length = stream.map_or(0, |stream| stream.entries().len());
    cx.reply.integer(length as i64);
    Ok(())
}

fn xrange(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let start = id::parse_start(args.at(2))?;
    let end = id::parse_end(args.at(3))?;
    reply_part(cx, args, (start, end), false)
}

fn xrevrange(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let start = id::parse_start(args.at(3))?;
    let end = id::parse_end(args.at(2))?;
    reply_part(cx, args, (start, end), true)
}

fn reply_part(
    cx: &mut Context<'_>,
    args: Args<'_>,
    (start, end): (StreamId, StreamId),
    newest_first: bool,
) -> Result<(), ErrorReply> {
    let count = count_option(args)?;
    let stream = cx
        .keyspace
        .collection::<Stream>(args.at(1), cx.now, cx.effects)?;
    let Some(entries) = stream.map(Stream::entries) else {
        cx.reply.array(0);
        return Ok(());
    };
    match count {
        Some(..=0) => cx.reply.null_array(),
        _ if newest_first => {
            let count = entries.count(start, end, limit(count.unwrap_or(0)));
            cx.reply.array(count);
            for entry in entries.range_back(start, end).take(count) {
                reply_entry(&mut cx.reply, &entry);
            }
        }
        _ => {
            let limit = limit(count.unwrap_or(0));
            reply_range(&mut cx.reply, entries, (start, end), limit);
        }
    }
    Ok(())
}

/// Reads `[COUNT n]..`.
fn count_option(args: Args<'_>) -> Result<Option<i64>, ErrorReply> {
    let mut count = None;
    let mut at = 4;
    while at < args.len() {
        if !is_option(args, at, "count") || at + 1 == args.len() {
            return Err(ErrorReply::Syntax);
        }
        count = Some(integer(args.at(at + 1))?);
        at += 2;
    }
    Ok(count)
}
