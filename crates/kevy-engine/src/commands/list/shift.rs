//! One element moved from a list to another: `LMOVE RPOPLPUSH`.

use super::pop::{emit_pop, pop_event};
use super::push::push_event;
use super::{end_at, end_name};
use crate::value::{End, List};
use crate::{Command, Context, Effects, EventClasses, Keyspace};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, Placement, Row, TWO_KEYS};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::Now;

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "lmove",
        arity: 5,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "list",
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Moves an element from an end of a list to an end of another and returns it.",
        run: lmove,
        subcommands: &[],
    },
    Row {
        name: "rpoplpush",
        arity: 3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "list",
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Moves the last element of a list to the head of another and returns it.",
        run: rpoplpush,
        subcommands: &[],
    },
];

fn lmove(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let ends = (end_at(args, 3)?, end_at(args, 4)?);
    reply_moved(cx, args, ends)
}

fn rpoplpush(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_moved(cx, args, (End::Right, End::Left))
}

fn reply_moved(cx: &mut Context<'_>, args: Args<'_>, ends: (End, End)) -> Result<(), ErrorReply> {
    let keys = (args.at(1), args.at(2));
    let moved = move_element(cx.keyspace, cx.now, cx.effects, keys, ends)?;
    cx.reply.bulk_or_null(moved.as_deref());
    Ok(())
}

/// Moves one element from the list `source` to the list `destination`, which may be the same, with the effects of it, and
/// returns the element; `None` if there is no source.
///
/// # Errors
/// [`ErrorReply::WrongType`] if one of the keys holds something else; then nothing was changed.
pub(super) fn move_element(
    keyspace: &mut Keyspace,
    now: Now,
    effects: &mut Effects,
    (source, destination): (&[u8], &[u8]),
    (from, to): (End, End),
) -> Result<Option<Vec<u8>>, ErrorReply> {
    let element = keyspace.edit(source, now, effects, |list: &mut List, _| {
        list.iter_from(from).next().map(<[u8]>::to_vec)
    })?;
    let Some(element) = element.flatten() else {
        return Ok(None);
    };
    if source == destination {
        rotate(keyspace, now, effects, source, (from, to))?;
        keyspace.note_event(EventClasses::LIST, push_event(to), destination);
        keyspace.note_event(EventClasses::LIST, pop_event(from), source);
        return Ok(Some(element));
    }
    keyspace.edit_or_create(destination, now, effects, |list: &mut List, limits| {
        list.push(to, core::iter::once(element.as_slice()), limits);
    })?;
    keyspace.note_event(EventClasses::LIST, push_event(to), destination);
    keyspace.edit(source, now, effects, |list: &mut List, limits| {
        list.pop(from, 1, limits);
    })?;
    keyspace.note_event(EventClasses::LIST, pop_event(from), source);
    emit_pop(effects, source, from, 1);
    let name: &[u8] = match to {
        End::Left => b"LPUSH",
        End::Right => b"RPUSH",
    };
    effects.emit(&[name, destination, &element]);
    Ok(Some(element))
}

/// Moves an element of the list at `key` from one end to another. That it may stay where it is makes no difference to those
/// who watch the key, as in Redis.
fn rotate(
    keyspace: &mut Keyspace,
    now: Now,
    effects: &mut Effects,
    key: &[u8],
    (from, to): (End, End),
) -> Result<(), ErrorReply> {
    keyspace.edit(key, now, effects, |list: &mut List, limits| {
        if list.len() > 1 && from != to {
            list.rotate(from, limits);
        }
    })?;
    effects.emit(&[b"LMOVE", key, key, end_name(from), end_name(to)]);
    Ok(())
}
