//! `SORT` and `SORT_RO`: full syntax; no type that can be sorted exists yet, so what can be sorted is the missing key.

use super::is_option;
use crate::number::integer;
use crate::{Command, Context};
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "sort",
        arity: -2,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::WithOption {
            first: 1,
            option: "store",
        },
        placement: Placement::Together,
        group: "generic",
        since: "1.0.0",
        complexity: COMPLEXITY,
        summary: "Sorts the elements of a list, a set or a sorted set, optionally storing the result.",
        run: |cx, args| sort(cx, args, true),
        subcommands: &[],
    },
    Row {
        name: "sort_ro",
        arity: -2,
        flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "generic",
        since: "7.0.0",
        complexity: COMPLEXITY,
        summary: "Returns the sorted elements of a list, a set or a sorted set.",
        run: |cx, args| sort(cx, args, false),
        subcommands: &[],
    },
];

const COMPLEXITY: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).";

fn sort(cx: &mut Context<'_>, args: Args<'_>, may_store: bool) -> Result<(), ErrorReply> {
    let destination = read_options(args, may_store)?;
    if cx.keyspace.lookup(args.at(1), cx.now, cx.effects).is_some() {
        return Err(ErrorReply::WrongType);
    }
    let Some(destination) = destination else {
        cx.reply.array(0);
        return Ok(());
    };
    if cx.keyspace.remove(destination, cx.now, cx.effects) {
        cx.effects.emit(&[b"DEL", destination]);
    }
    cx.reply.length(0);
    Ok(())
}

/// Reads `[BY pattern] [LIMIT offset count] [GET pattern ...] [ASC|DESC] [ALPHA] [STORE destination]`; the destination.
fn read_options(args: Args<'_>, may_store: bool) -> Result<Option<&[u8]>, ErrorReply> {
    let mut destination = None;
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        let is = |name| is_option(args, at, name);
        if is("asc") || is("desc") || is("alpha") {
            at += 1;
        } else if is("limit") && left >= 2 {
            integer(args.at(at + 1))?;
            integer(args.at(at + 2))?;
            at += 3;
        } else if may_store && is("store") && left >= 1 {
            destination = args.get(at + 1);
            at += 2;
        } else if (is("by") || is("get")) && left >= 1 {
            at += 2;
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok(destination)
}
