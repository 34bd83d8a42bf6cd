//! Lists whose elements can be waited for: `BLPOP BRPOP BLMPOP BLMOVE BRPOPLPUSH`. With nothing to pop they say so
//! ([`Wait`](crate::Wait)); everything else is as in the commands that do not wait.

use super::end_at;
use super::pop::{BatchPop, take};
use super::shift::move_element;
use crate::value::End;
use crate::wait::{Awaited, KEYS_BEFORE_TIMEOUT, timeout};
use crate::{Command, Context};
use kevy_proto::command::{Flags, Keys, Placement, Row, TWO_KEYS};
use kevy_proto::resp::{Args, ErrorReply};

const POP: Flags = Flags::WRITE.with(Flags::NOSCRIPT).with(Flags::BLOCKING);

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    BLPOP,
    Row {
        name: "brpop",
        summary: "Remove and get the last element in a list, or block until one is available",
        run: |cx, args| pop_first(cx, args, End::Right),
        ..BLPOP
    },
    Row {
        name: "blmpop",
        arity: -5,
        flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 2,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "list",
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        summary: "Pop elements from a list, or block until one is available",
        run: blmpop,
        subcommands: &[],
    },
    Row {
        name: "blmove",
        arity: 6,
        flags: POP.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "list",
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
        run: blmove,
        subcommands: &[],
    },
    Row {
        name: "brpoplpush",
        arity: 4,
        flags: POP.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "list",
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
        run: brpoplpush,
        subcommands: &[],
    },
];

const BLPOP: Command = Row {
    name: "blpop",
    arity: -3,
    flags: POP,
    keys: KEYS_BEFORE_TIMEOUT,
    placement: Placement::Together,
    group: "list",
    since: "2.0.0",
    complexity: "O(N) where N is the number of provided keys.",
    summary: "Remove and get the first element in a list, or block until one is available",
    run: |cx, args| pop_first(cx, args, End::Left),
    subcommands: &[],
};

fn pop_first(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Result<(), ErrorReply> {
    let key_count = args.len() - 2;
    let timeout = timeout(args.at(args.len() - 1), cx.now)?;
    for key in args.skip(1).iter().take(key_count) {
        let reply = &mut cx.reply;
        let popped = take(
            cx.keyspace,
            cx.now,
            cx.effects,
            (key, end, 1),
            |_, elements| {
                reply.array(2);
                reply.bulk(key);
                elements.for_each(|element| reply.bulk(element));
            },
        )?;
        if popped.is_some() {
            return Ok(());
        }
    }
    cx.reply.null_array();
    cx.wait(timeout, key_count, Awaited::List);
    Ok(())
}

fn blmpop(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let request = BatchPop::read(args, 2)?;
    let timeout = timeout(args.at(1), cx.now)?;
    if !request.pop(cx)? {
        cx.reply.null_array();
        cx.wait(timeout, request.keys().count(), Awaited::List);
    }
    Ok(())
}

fn blmove(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let ends = (end_at(args, 3)?, end_at(args, 4)?);
    move_or_wait(cx, args, ends)
}

fn brpoplpush(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    move_or_wait(cx, args, (End::Right, End::Left))
}

fn move_or_wait(cx: &mut Context<'_>, args: Args<'_>, ends: (End, End)) -> Result<(), ErrorReply> {
    let timeout = timeout(args.at(args.len() - 1), cx.now)?;
    let keys = (args.at(1), args.at(2));
    let moved = move_element(cx.keyspace, cx.now, cx.effects, keys, ends)?;
    cx.reply.bulk_or_null(moved.as_deref());
    if moved.is_none() {
        cx.wait(timeout, 1, Awaited::List);
    }
    Ok(())
}
