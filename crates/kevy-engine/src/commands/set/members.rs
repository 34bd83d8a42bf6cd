//! Members of sets: `SADD SREM SMOVE SISMEMBER SMISMEMBER SCARD SMEMBERS SSCAN`.

use super::row;
use crate::commands::element_scan::{self, ElementScan};
use crate::value::{Member, Set};
use crate::{Command, Context, Effects, EventClasses};
use alloc::vec;
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, TWO_KEYS};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Command {
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        summary: "Adds members to a set.",
        ..row(
            "sadd",
            -3,
            Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            ONE_KEY,
            sadd,
        )
    },
    Command {
        complexity: "O(N) where N is the number of members to be removed.",
        summary: "Removes members from a set.",
        ..row("srem", -3, Flags::WRITE.with(Flags::FAST), ONE_KEY, srem)
    },
    Command {
        summary: "Moves a member from one set to another.",
        ..row("smove", 4, Flags::WRITE.with(Flags::FAST), TWO_KEYS, smove)
    },
    Command {
        summary: "Says whether a member is in a set.",
        ..row(
            "sismember",
            3,
            Flags::READONLY.with(Flags::FAST),
            ONE_KEY,
            sismember,
        )
    },
    Command {
        since: "6.2.0",
        complexity: "O(N) where N is the number of elements being checked for membership",
        summary: "Says for each of the given members whether it is in a set.",
        ..row(
            "smismember",
            -3,
            Flags::READONLY.with(Flags::FAST),
            ONE_KEY,
            smismember,
        )
    },
    Command {
        summary: "Returns the number of members of a set.",
        ..row(
            "scard",
            2,
            Flags::READONLY.with(Flags::FAST),
            ONE_KEY,
            scard,
        )
    },
    Command {
        complexity: "O(N) where N is the set cardinality.",
        summary: "Returns all members of a set.",
        ..row("smembers", 2, Flags::READONLY, ONE_KEY, smembers)
    },
    Command {
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        summary: "Iterates over the members of a set, some at each call.",
        ..row("sscan", -3, Flags::READONLY, ONE_KEY, sscan)
    },
];

fn sadd(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let members = args.skip(2).iter();
    let added =
        cx.keyspace
            .edit_or_create(args.at(1), cx.now, cx.effects, |set: &mut Set, limits| {
                members.filter(|member| set.add(member, limits)).count()
            })?;
    if added > 0 {
        emit(cx.effects, b"SADD", args);
        cx.keyspace
            .note_event(EventClasses::SET, "sadd", args.at(1));
    }
    cx.reply.length(added);
    Ok(())
}

fn srem(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let members = args.skip(2).iter();
    let removed = cx
        .keyspace
        .edit(args.at(1), cx.now, cx.effects, |set: &mut Set, _| {
            members.filter(|member| set.remove(member)).count()
        })?
        .unwrap_or(0);
    if removed > 0 {
        emit(cx.effects, b"SREM", args);
        cx.keyspace
            .note_event(EventClasses::SET, "srem", args.at(1));
    }
    cx.reply.length(removed);
    Ok(())
}

/// Tells the log what was done, by a request with the arguments of `args`.
fn emit(effects: &mut Effects, name: &[u8], args: Args<'_>) {
    if !effects.wanted() {
        effects.emit(&[name]);
        return;
    }
    let mut request = vec![name];
    request.extend(args.skip(1).iter());
    effects.emit(&request);
}

fn smove(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (source, destination, member) = (args.at(1), args.at(2), args.at(3));
    let moved = move_member(cx, source, destination, member)?;
    cx.reply.integer(i64::from(moved));
    Ok(())
}

fn move_member(
    cx: &mut Context<'_>,
    source: &[u8],
    destination: &[u8],
    member: &[u8],
) -> Result<bool, ErrorReply> {
    let found = cx
        .keyspace
        .edit(source, cx.now, cx.effects, |set: &mut Set, _| {
            set.contains(member)
        })?;
    let Some(found) = found else {
        return Ok(false);
    };
    // A destination of the wrong type is an error even if there is nothing to move.
    cx.keyspace
        .edit(destination, cx.now, cx.effects, |_: &mut Set, _| ())?;
    if !found || source == destination {
        return Ok(found);
    }
    cx.keyspace
        .edit(source, cx.now, cx.effects, |set: &mut Set, _| {
            set.remove(member)
        })?;
    cx.effects.emit(&[b"SREM", source, member]);
    cx.keyspace.note_event(EventClasses::SET, "srem", source);
    let is_new =
        cx.keyspace
            .edit_or_create(destination, cx.now, cx.effects, |set: &mut Set, limits| {
                set.add(member, limits)
            })?;
    if is_new {
        cx.effects.emit(&[b"SADD", destination, member]);
        cx.keyspace
            .note_event(EventClasses::SET, "sadd", destination);
    }
    Ok(true)
}

fn sismember(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set = cx
        .keyspace
        .collection::<Set>(args.at(1), cx.now, cx.effects)?;
    let found = set.is_some_and(|set| set.contains(args.at(2)));
    cx.reply.integer(i64::from(found));
    Ok(())
}

fn smismember(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set = cx
        .keyspace
        .collection::<Set>(args.at(1), cx.now, cx.effects)?;
    let members = args.skip(2).iter();
    cx.reply.array(members.len());
    for member in members {
        let found = set.is_some_and(|set| set.contains(member));
        cx.reply.integer(i64::from(found));
    }
    Ok(())
}

fn scard(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set = cx
        .keyspace
        .collection::<Set>(args.at(1), cx.now, cx.effects)?;
    cx.reply.length(set.map_or(0, Set::len));
    Ok(())
}

fn smembers(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set = cx
        .keyspace
        .collection::<Set>(args.at(1), cx.now, cx.effects)?;
    cx.reply.set(set.map_or(0, Set::len));
    for member in set.into_iter().flat_map(Set::iter) {
        cx.reply.bulk(&member);
    }
    Ok(())
}

fn sscan(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let cursor = element_scan::cursor(args)?;
    let set = cx
        .keyspace
        .collection::<Set>(args.at(1), cx.now, cx.effects)?;
    let Some(set) = set else {
        element_scan::reply_missing(&mut cx.reply);
        return Ok(());
    };
    let options = ElementScan::read(args, false)?;
    let (members, next) = set.scan(cursor, options.count);
    let wanted: Vec<Member<'_>> = members
        .into_iter()
        .filter(|member| options.accepts(member))
        .collect();
    element_scan::reply_head(&mut cx.reply, next);
    cx.reply.array(wanted.len());
    wanted.iter().for_each(|member| cx.reply.bulk(member));
    Ok(())
}
