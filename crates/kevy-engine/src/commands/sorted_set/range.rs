//! Ranges, replied or stored: `ZRANGE ZRANGESTORE` and their older relatives.

use super::bounds::{Bounds, MemberBounds, RankBounds, ScoreBounds};
use super::{reply_elements, store};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::SortedSet;
use crate::{Command, Context};
use core::ops::Range;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row, TWO_KEYS};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
        summary: "Return a range of members in a sorted set",
        run: zrange,
        subcommands: &[],
    },
    Row {
        name: "zrangestore",
        arity: -5,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "sorted-set",
        since: "6.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.",
        summary: "Store a range of members from sorted set into another key",
        run: zrangestore,
        subcommands: &[],
    },
    Row {
        name: "zrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.0.5",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        summary: "Return a range of members in a sorted set, by score",
        run: zrangebyscore,
        subcommands: &[],
    },
    Row {
        name: "zrevrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        summary: "Return a range of members in a sorted set, by score, with scores ordered from high to low",
        run: zrevrangebyscore,
        subcommands: &[],
    },
    Row {
        name: "zrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.8.9",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        summary: "Return a range of members in a sorted set, by lexicographical range",
        run: zrangebylex,
        subcommands: &[],
    },
    Row {
        name: "zrevrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.8.9",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        summary: "Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower strings",
        run: zrevrangebylex,
        subcommands: &[],
    },
    Row {
        name: "zrevrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
        summary: "Return a range of members in a sorted set, by index, with scores ordered from high to low",
        run: zrevrange,
        subcommands: &[],
    },
];

/// By what a range is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// What a command leaves open and its options may say.
#[derive(Clone, Copy)]
struct Form {
    /// Position of the range's first end; the key is before it.
    first: usize,
    by: Option<By>,
    reverse: Option<bool>,
    may_have_scores: bool,
}

const OPEN: Form = Form {
    first: 2,
    by: None,
    reverse: None,
    may_have_scores: true,
};

fn zrange(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_range(cx, args, OPEN)
}

fn zrevrange(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_older(cx, args, By::Rank, true)
}

fn zrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_older(cx, args, By::Score, false)
}

fn zrevrangebyscore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_older(cx, args, By::Score, true)
}

fn zrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_older(cx, args, By::Member, false)
}

fn zrevrangebylex(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_older(cx, args, By::Member, true)
}

fn reply_older(
    cx: &mut Context<'_>,
    args: Args<'_>,
    by: By,
    reverse: bool,
) -> Result<(), ErrorReply> {
    let form = Form {
        by: Some(by),
        reverse: Some(reverse),
        ..OPEN
    };
    reply_range(cx, args, form)
}

fn reply_range(cx: &mut Context<'_>, args: Args<'_>, form: Form) -> Result<(), ErrorReply> {
    let request = Request::parse(args, form)?;
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let Some(set) = set else {
        cx.reply.array(0);
        return Ok(());
    };
    let ranks = request.ranks(set);
    let (count, elements) = (ranks.len(), set.range(ranks, request.reverse));
    reply_elements(&mut cx.reply, count, elements, request.with_scores);
    Ok(())
}

fn zrangestore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let form = Form {
        first: 3,
        may_have_scores: false,
        ..OPEN
    };
    let request = Request::parse(args, form)?;
    let limits = cx.keyspace.encoding_limits();
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(2), cx.now, cx.effects)?;
    let mut result = SortedSet::default();
    if let Some(set) = set {
        for (member, score) in set.range(request.ranks(set), request.reverse) {
            result.set(member, score, &limits);
        }
    }
    let count = store(cx, args.at(1), result, "zrangestore");
    cx.reply.length(count);
    Ok(())
}

/// A range as a whole.
struct Request<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    with_scores: bool,
    limit: Limit,
}

/// `LIMIT offset count`; a negative count means all.
#[derive(Clone, Copy)]
struct Limit {
    offset: i64,
    count: i64,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, form: Form) -> Result<Self, ErrorReply> {
        let (form, limit, with_scores) = parse_options(args, form)?;
        let (by, reverse) = (
            form.by.unwrap_or(By::Rank),
            form.reverse.unwrap_or_default(),
        );
        if limit.count != -1 && by == By::Rank {
            return Err(ErrorReply::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Member {
            return Err(ErrorReply::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (start, end) = (args.at(form.first), args.at(form.first + 1));
        let (min, max) = if reverse { (end, start) } else { (start, end) };
        let bounds = match by {
            By::Rank => Bounds::Ranks(RankBounds::parse(start, end)?),
            By::Score => Bounds::Scores(ScoreBounds::parse(min, max)?),
            By::Member => Bounds::Members(MemberBounds::parse(min, max)?),
        };
        Ok(Self {
            bounds,
            reverse,
            with_scores,
            limit,
        })
    }

    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let ranks = self.bounds.ranks(set, self.reverse);
        match self.bounds {
            // Whatever offset came with the count -1, which says no limit.
            Bounds::Ranks(_) => ranks,
            Bounds::Scores(_) | Bounds::Members(_) => self.limit.cut(ranks, self.reverse),
        }
    }
}

impl Limit {
    const NONE: Self = Self {
        offset: 0,
        count: -1,
    };

    /// The part of `ranks` that is wanted, counted from its end if `reverse`.
    fn cut(self, ranks: Range<usize>, reverse: bool) -> Range<usize> {
        // A negative offset skips everything, as in Redis.
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let skipped = skipped.min(ranks.len());
        let left = ranks.len() - skipped;
        let count = usize::try_from(self.count).map_or(left, |count| count.min(left));
        if reverse {
            let end = ranks.end - skipped;
            end - count..end
        } else {
            let start = ranks.start + skipped;
            start..start + count
        }
    }
}

/// Reads `[BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`, of which a form may have decided some.
fn parse_options(args: Args<'_>, mut form: Form) -> Result<(Form, Limit, bool), ErrorReply> {
    let (mut limit, mut with_scores) = (Limit::NONE, false);
    let mut at = form.first + 2;
    while at < args.len() {
        let is = |name| is_option(args, at, name);
        if form.may_have_scores && is("withscores") {
            with_scores = true;
        } else if is("limit") && at + 2 < args.len() {
            limit.offset = integer(args.at(at + 1))?;
            limit.count = integer(args.at(at + 2))?;
            at += 2;
        } else if form.reverse.is_none() && is("rev") {
            form.reverse = Some(true);
        } else if form.by.is_none() && is("bylex") {
            form.by = Some(By::Member);
        } else if form.by.is_none() && is("byscore") {
            form.by = Some(By::Score);
        } else {
            return Err(ErrorReply::Syntax);
        }
        at += 1;
    }
    Ok((form, limit, with_scores))
}
