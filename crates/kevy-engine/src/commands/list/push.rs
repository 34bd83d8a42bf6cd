//! Lists that grow at an end: `LPUSH RPUSH LPUSHX RPUSHX`.

use crate::value::{End, List};
use crate::{Command, Context, Effects, EventClasses};
use alloc::vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    row(
        "lpush",
        "1.0.0",
        "Adds elements at the head of a list.",
        |cx, args| push(cx, args, End::Left),
    ),
    row(
        "rpush",
        "1.0.0",
        "Adds elements at the tail of a list.",
        |cx, args| push(cx, args, End::Right),
    ),
    row(
        "lpushx",
        "2.2.0",
        "Adds elements at the head of a list, only if the list exists.",
        |cx, args| push_if_there(cx, args, End::Left),
    ),
    row(
        "rpushx",
        "2.2.0",
        "Adds elements at the tail of a list, only if the list exists.",
        |cx, args| push_if_there(cx, args, End::Right),
    ),
];

const fn row(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: crate::Run,
) -> Command {
    Row {
        name,
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since,
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        summary,
        run,
        subcommands: &[],
    }
}

fn push(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Result<(), ErrorReply> {
    let length =
        cx.keyspace
            .edit_or_create(args.at(1), cx.now, cx.effects, |list: &mut List, limits| {
                list.push(end, args.skip(2).iter(), limits);
                list.len()
            })?;
    emit_push(cx.effects, end, args);
    cx.keyspace
        .note_event(EventClasses::LIST, push_event(end), args.at(1));
    cx.reply.length(length);
    Ok(())
}

fn push_if_there(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Result<(), ErrorReply> {
    let length = cx
        .keyspace
        .edit(args.at(1), cx.now, cx.effects, |list: &mut List, limits| {
            list.push(end, args.skip(2).iter(), limits);
            list.len()
        })?;
    if length.is_some() {
        emit_push(cx.effects, end, args);
        cx.keyspace
            .note_event(EventClasses::LIST, push_event(end), args.at(1));
    }
    cx.reply.length(length.unwrap_or(0));
    Ok(())
}

/// What pushing to `end` is called.
pub(super) fn push_event(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// Tells the log what was pushed, by a request with the arguments of `args`.
fn emit_push(effects: &mut Effects, end: End, args: Args<'_>) {
    let name: &[u8] = match end {
        End::Left => b"LPUSH",
        End::Right => b"RPUSH",
    };
    if !effects.wanted() {
        effects.emit(&[name]);
        return;
    }
    let mut request = vec![name];
    request.extend(args.skip(1).iter());
    effects.emit(&request);
}
