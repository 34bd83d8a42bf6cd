//! Scores, ranks and counts: `ZSCORE ZMSCORE ZCARD ZRANK ZREVRANK ZCOUNT ZLEXCOUNT`.

use super::bounds::{Bounds, MemberBounds, ScoreBounds};
use crate::commands::is_option;
use crate::value::SortedSet;
use crate::{Command, Context};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zscore",
        arity: 3,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Get the score associated with the given member in a sorted set",
        run: zscore,
        subcommands: &[],
    },
    Row {
        name: "zmscore",
        arity: -3,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "6.2.0",
        complexity: "O(N) where N is the number of members being requested.",
        summary: "Get the score associated with the given members in a sorted set",
        run: zmscore,
        subcommands: &[],
    },
    Row {
        name: "zcard",
        arity: 2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Get the number of members in a sorted set",
        run: zcard,
        subcommands: &[],
    },
    Row {
        name: "zrank",
        arity: -3,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.0.0",
        complexity: "O(log(N))",
        summary: "Determine the index of a member in a sorted set",
        run: zrank,
        subcommands: &[],
    },
    Row {
        name: "zrevrank",
        arity: -3,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.0.0",
        complexity: "O(log(N))",
        summary: "Determine the index of a member in a sorted set, with scores ordered from high to low",
        run: zrevrank,
        subcommands: &[],
    },
    Row {
        name: "zcount",
        arity: 4,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.0.0",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        summary: "Count the members in a sorted set with scores within the given values",
        run: zcount,
        subcommands: &[],
    },
    Row {
        name: "zlexcount",
        arity: 4,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.8.9",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        summary: "Count the number of members in a sorted set between a given lexicographical range",
        run: zlexcount,
        subcommands: &[],
    },
];

fn zscore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    match set.and_then(|set| set.score(args.at(2))) {
        Some(score) => cx.reply.double(score),
        None => cx.reply.null(),
    }
    Ok(())
}

fn zmscore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    cx.reply.array(args.len() - 2);
    for member in args.skip(2).iter() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => cx.reply.double(score),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn zcard(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    cx.reply.length(set.map_or(0, SortedSet::len));
    Ok(())
}

fn zrank(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    rank(cx, args, "zrank", false)
}

fn zrevrank(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    rank(cx, args, "zrevrank", true)
}

/// `key member [WITHSCORE]`; the option is of Redis 7.2.
fn rank(
    cx: &mut Context<'_>,
    args: Args<'_>,
    command: &str,
    reverse: bool,
) -> Result<(), ErrorReply> {
    if args.len() > 4 {
        return Err(ErrorReply::WrongArity(command.into()));
    }
    let with_score = args.len() == 4;
    if with_score && !is_option(args, 3, "withscore") {
        return Err(ErrorReply::Syntax);
    }
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let found = set.and_then(|set| Some((set.len(), set.rank(args.at(2))?)));
    let Some((length, (rank, score))) = found else {
        if with_score {
            cx.reply.null_array();
        } else {
            cx.reply.null();
        }
        return Ok(());
    };
    if with_score {
        cx.reply.array(2);
    }
    cx.reply
        .length(if reverse { length - 1 - rank } else { rank });
    if with_score {
        cx.reply.double(score);
    }
    Ok(())
}

fn zcount(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let bounds = Bounds::Scores(ScoreBounds::parse(args.at(2), args.at(3))?);
    count(cx, args.at(1), &bounds)
}

fn zlexcount(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let bounds = Bounds::Members(MemberBounds::parse(args.at(2), args.at(3))?);
    count(cx, args.at(1), &bounds)
}

fn count(cx: &mut Context<'_>, key: &[u8], bounds: &Bounds<'_>) -> Result<(), ErrorReply> {
    let set: Option<&SortedSet> = cx.keyspace.collection(key, cx.now, cx.effects)?;
    cx.reply
        .length(set.map_or(0, |set| bounds.ranks(set, false).len()));
    Ok(())
}
