//! Lists that are changed in place: `LSET LINSERT LREM LTRIM`.

use super::{position_of, range_of};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::{End, List};
use crate::{Command, Context, EventClasses};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "lset",
        arity: 4,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
        summary: "Sets an element of a list by its index.",
        run: lset,
        subcommands: &[],
    },
    Row {
        name: "linsert",
        arity: 5,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "2.2.0",
        complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
        summary: "Adds an element before or after another element of a list.",
        run: linsert,
        subcommands: &[],
    },
    Row {
        name: "lrem",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
        summary: "Removes equal elements from a list.",
        run: lrem,
        subcommands: &[],
    },
    Row {
        name: "ltrim",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements to be removed by the operation.",
        summary: "Removes all elements of a list outside of a range.",
        run: ltrim,
        subcommands: &[],
    },
];

fn lset(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, element) = (args.at(1), args.at(3));
    let index = integer(args.at(2));
    cx.keyspace
        .edit(key, cx.now, cx.effects, |list: &mut List, limits| {
            let position = position_of(index?, list.len()).ok_or(ErrorReply::OutOfRange)?;
            list.set(position, element, limits);
            Ok(())
        })?
        .ok_or(ErrorReply::NoSuchKey)??;
    cx.effects.emit(&[b"LSET", key, args.at(2), element]);
    cx.keyspace.note_event(EventClasses::LIST, "lset", key);
    cx.reply.ok();
    Ok(())
}

fn linsert(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (side, name): (End, &[u8]) = if is_option(args, 2, "after") {
        (End::Right, b"AFTER")
    } else if is_option(args, 2, "before") {
        (End::Left, b"BEFORE")
    } else {
        return Err(ErrorReply::Syntax);
    };
    let (key, pivot, element) = (args.at(1), args.at(3), args.at(4));
    let length = cx
        .keyspace
        .edit(key, cx.now, cx.effects, |list: &mut List, limits| {
            list.insert(side, pivot, element, limits)
                .then(|| list.len())
        })?;
    match length {
        None => cx.reply.integer(0),
        Some(None) => cx.reply.integer(-1),
        Some(Some(length)) => {
            cx.effects.emit(&[b"LINSERT", key, name, pivot, element]);
            cx.keyspace.note_event(EventClasses::LIST, "linsert", key);
            cx.reply.length(length);
        }
    }
    Ok(())
}

fn lrem(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, element) = (args.at(1), args.at(3));
    let count = integer(args.at(2))?;
    let from = if count < 0 { End::Right } else { End::Left };
    let most = match count.unsigned_abs() {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let removed = cx
        .keyspace
        .edit(key, cx.now, cx.effects, |list: &mut List, limits| {
            list.remove_equal(from, element, most, limits)
        })?
        .unwrap_or(0);
    if removed > 0 {
        cx.effects.emit(&[b"LREM", key, args.at(2), element]);
        cx.keyspace.note_event(EventClasses::LIST, "lrem", key);
    }
    cx.reply.length(removed);
    Ok(())
}

fn ltrim(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let removed = cx
        .keyspace
        .edit(key, cx.now, cx.effects, |list: &mut List, limits| {
            let before = list.len();
            list.trim(range_of(start, end, before), limits);
            before - list.len()
        })?;
    if removed.is_some() {
        cx.keyspace.note_event(EventClasses::LIST, "ltrim", key);
        // A trim that removes nothing counts as a change to those who watch the key, too.
        cx.effects.emit(&[b"LTRIM", key, args.at(2), args.at(3)]);
    }
    cx.reply.ok();
    Ok(())
}
