//! Random members of sets: `SPOP SRANDMEMBER`.

use super::row;
use crate::number::{integer, parse_i64};
use crate::value::{Set, emit_in_batches};
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::rng::Rng;

/// The most members that one reply repeats (a negative count): beyond, a small request would fill the memory.
const MOST_REPEATED: u64 = 1 << 24;

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Command {
        complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
        summary: "Removes and returns random members of a set.",
        ..row("spop", -2, Flags::WRITE.with(Flags::FAST), ONE_KEY, spop)
    },
    Command {
        complexity: "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
        summary: "Returns random members of a set.",
        ..row("srandmember", -2, Flags::READONLY, ONE_KEY, srandmember)
    },
];

/// A generator for one command, so that the keyspace can be borrowed meanwhile.
fn fork(rng: &mut Rng) -> Rng {
    Rng::from_seed(rng.next_u64())
}

fn spop(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    match args.len() {
        2 => pop_one(cx, args.at(1)),
        3 => pop_many(cx, args.at(1), args.at(2)),
        _ => Err(ErrorReply::Syntax),
    }
}

fn pop_one(cx: &mut Context<'_>, key: &[u8]) -> Result<(), ErrorReply> {
    let mut rng = fork(cx.keyspace.rng());
    let popped = cx
        .keyspace
        .edit(key, cx.now, cx.effects, |set: &mut Set, _| {
            let member = set.random(&mut rng)?.to_vec();
            set.remove(&member);
            Some(member)
        })?
        .flatten();
    if let Some(member) = &popped {
        cx.effects.emit(&[b"SREM", key, member]);
        cx.keyspace.note_event(EventClasses::SET, "spop", key);
    }
    cx.reply.bulk_or_null(popped.as_deref());
    Ok(())
}

fn pop_many(cx: &mut Context<'_>, key: &[u8], count: &[u8]) -> Result<(), ErrorReply> {
    let count = parse_i64(count).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(ErrorReply::text(
        "ERR value is out of range, must be positive",
    ))?;
    let mut rng = fork(cx.keyspace.rng());
    let popped: Option<(Vec<Vec<u8>>, bool)> =
        cx.keyspace
            .edit(key, cx.now, cx.effects, |set: &mut Set, _| {
                if count >= set.len() {
                    let all = set.iter().map(|member| member.to_vec()).collect();
                    *set = Set::default();
                    return (all, true);
                }
                let chosen = set.sample(count, &mut rng);
                let chosen: Vec<Vec<u8>> = chosen.iter().map(|member| member.to_vec()).collect();
                chosen.iter().for_each(|member| {
                    set.remove(member);
                });
                (chosen, false)
            })?;
    let (members, all) = popped.unwrap_or_default();
    if !members.is_empty() {
        cx.keyspace.note_event(EventClasses::SET, "spop", key);
    }
    if all {
        cx.effects.emit(&[b"DEL", key]);
    } else {
        let members = members.iter().map(Vec::as_slice);
        emit_in_batches(cx.effects, b"SREM", key, members);
    }
    cx.reply.set(members.len());
    members.iter().for_each(|member| cx.reply.bulk(member));
    Ok(())
}

fn srandmember(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    match args.len() {
        2 => one(cx, args.at(1)),
        3 => many(cx, args.at(1), args.at(2)),
        _ => Err(ErrorReply::Syntax),
    }
}

fn one(cx: &mut Context<'_>, key: &[u8]) -> Result<(), ErrorReply> {
    let mut rng = fork(cx.keyspace.rng());
    let set = cx.keyspace.collection::<Set>(key, cx.now, cx.effects)?;
    let member = set.and_then(|set| set.random(&mut rng));
    cx.reply.bulk_or_null(member.as_deref());
    Ok(())
}

/// Up to `count` different members, or `-count` that may repeat.
fn many(cx: &mut Context<'_>, key: &[u8], count: &[u8]) -> Result<(), ErrorReply> {
    let count = integer(count)?;
    if count == i64::MIN {
        return Err(ErrorReply::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let mut rng = fork(cx.keyspace.rng());
    let set = cx.keyspace.collection::<Set>(key, cx.now, cx.effects)?;
    let Some(set) = set.filter(|_| count != 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        if count.unsigned_abs() > MOST_REPEATED {
            return Err(ErrorReply::text("ERR value is out of range"));
        }
        cx.reply.array(wanted);
        (0..wanted)
            .filter_map(|_| set.random(&mut rng))
            .for_each(|member| cx.reply.bulk(&member));
    } else if wanted >= set.len() {
        cx.reply.array(set.len());
        set.iter().for_each(|member| cx.reply.bulk(&member));
    } else {
        let chosen = set.sample(wanted, &mut rng);
        cx.reply.array(chosen.len());
        chosen.iter().for_each(|member| cx.reply.bulk(member));
    }
    Ok(())
}
