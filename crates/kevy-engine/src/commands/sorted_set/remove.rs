//! Members that go: `ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREMRANGEBYLEX`.

use super::bounds::{Bounds, MemberBounds, RankBounds, ScoreBounds};
use crate::value::SortedSet;
use crate::value::sorted_set::emit_removals;
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zrem",
        arity: -3,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
        summary: "Remove one or more members from a sorted set",
        run: zrem,
        subcommands: &[],
    },
    Row {
        name: "zremrangebyrank",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.0.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        summary: "Remove all members in a sorted set within the given indexes",
        run: zremrangebyrank,
        subcommands: &[],
    },
    Row {
        name: "zremrangebyscore",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        summary: "Remove all members in a sorted set within the given scores",
        run: zremrangebyscore,
        subcommands: &[],
    },
    Row {
        name: "zremrangebylex",
        arity: 4,
        flags: Flags::WRITE,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.8.9",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        summary: "Remove all members in a sorted set between the given lexicographical range",
        run: zremrangebylex,
        subcommands: &[],
    },
];

fn zrem(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, members) = (args.at(1), args.skip(2).iter());
    let removed = cx
        .keyspace
        .edit(key, cx.now, cx.effects, |set: &mut SortedSet, _| {
            let is_there = |member: &&[u8]| set.remove(member).is_some();
            members.filter(is_there).collect::<Vec<_>>()
        })?;
    let removed = removed.unwrap_or_default();
    cx.reply.length(removed.len());
    if !removed.is_empty() {
        cx.keyspace
            .note_event(EventClasses::SORTED_SET, "zrem", key);
    }
    emit_removals(key, removed.into_iter(), cx.effects);
    Ok(())
}

fn zremrangebyrank(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let bounds = Bounds::Ranks(RankBounds::parse(args.at(2), args.at(3))?);
    remove_range(cx, args.at(1), &bounds, "zremrangebyrank")
}

fn zremrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let bounds = Bounds::Scores(ScoreBounds::parse(args.at(2), args.at(3))?);
    remove_range(cx, args.at(1), &bounds, "zremrangebyscore")
}

fn zremrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let bounds = Bounds::Members(MemberBounds::parse(args.at(2), args.at(3))?);
    remove_range(cx, args.at(1), &bounds, "zremrangebylex")
}

/// The log is told the ranks, which mean the same wherever the set is the same.
fn remove_range(
    cx: &mut Context<'_>,
    key: &[u8],
    bounds: &Bounds<'_>,
    event: &'static str,
) -> Result<(), ErrorReply> {
    let removed = cx
        .keyspace
        .edit(key, cx.now, cx.effects, |set: &mut SortedSet, _| {
            let ranks = bounds.ranks(set, false);
            set.remove_range(ranks.clone());
            ranks
        })?;
    let ranks = removed.unwrap_or_default();
    if !ranks.is_empty() {
        let (mut first, mut last) = (itoa::Buffer::new(), itoa::Buffer::new());
        let first = first.format(ranks.start).as_bytes();
        let last = last.format(ranks.end - 1).as_bytes();
        cx.effects.emit(&[b"ZREMRANGEBYRANK", key, first, last]);
        cx.keyspace.note_event(EventClasses::SORTED_SET, event, key);
    }
    cx.reply.length(ranks.len());
    Ok(())
}
