//! Sorted sets whose members can be waited for: `BZPOPMIN BZPOPMAX BZMPOP`. With nothing to pop they say so
//! ([`Wait`](crate::Wait)).

use super::pop::{End, many_options, pop_first, pop_first_many};
use crate::wait::{Awaited, KEYS_BEFORE_TIMEOUT, timeout};
use crate::{Command, Context};
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

const POP: Flags = Flags::WRITE
    .with(Flags::NOSCRIPT)
    .with(Flags::BLOCKING)
    .with(Flags::FAST);

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    BZPOPMIN,
    Row {
        name: "bzpopmax",
        summary: "Remove and return the member with the highest score from one or more sorted sets, or block until one \
            is available",
        run: |cx, args| pop(cx, args, End::Max),
        ..BZPOPMIN
    },
    Row {
        name: "bzmpop",
        arity: -5,
        flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 2,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "7.0.0",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the \
            sorted set, and M being the number of elements popped.",
        summary: "Remove and return members with scores in a sorted set or block until one is available",
        run: bzmpop,
        subcommands: &[],
    },
];

const BZPOPMIN: Command = Row {
    name: "bzpopmin",
    arity: -3,
    flags: POP,
    keys: KEYS_BEFORE_TIMEOUT,
    placement: Placement::Together,
    group: "sorted-set",
    since: "5.0.0",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    summary: "Remove and return the member with the lowest score from one or more sorted sets, or block until one \
        is available",
    run: |cx, args| pop(cx, args, End::Min),
    subcommands: &[],
};

fn pop(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Result<(), ErrorReply> {
    let key_count = args.len() - 2;
    let timeout = timeout(args.at(args.len() - 1), cx.now)?;
    if !pop_first(cx, args.skip(1).iter().take(key_count), end)? {
        cx.reply.null_array();
        cx.wait(timeout, key_count, Awaited::SortedSet);
    }
    Ok(())
}

fn bzmpop(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (keys, end, count) = many_options(args.skip(2))?;
    let timeout = timeout(args.at(1), cx.now)?;
    if !pop_first_many(cx, keys.iter(), end, count)? {
        cx.reply.null_array();
        cx.wait(timeout, keys.iter().count(), Awaited::SortedSet);
    }
    Ok(())
}
