//! Members that are taken from an end: `ZPOPMIN ZPOPMAX ZMPOP`, and what their blocking variants do when there is
//! something ([`pop_first`], [`pop_first_many`]).

use super::reply_elements;
use crate::commands::is_option;
use crate::number::integer;
use crate::value::SortedSet;
use crate::value::sorted_set::emit_removals;
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zpopmin",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "5.0.0",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
        summary: "Remove and return members with the lowest scores in a sorted set",
        run: zpopmin,
        subcommands: &[],
    },
    Row {
        name: "zpopmax",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "5.0.0",
        complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
        summary: "Remove and return members with the highest scores in a sorted set",
        run: zpopmax,
        subcommands: &[],
    },
    Row {
        name: "zmpop",
        arity: -4,
        flags: Flags::WRITE.with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 1,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "7.0.0",
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
        summary: "Remove and return members with scores in a sorted set",
        run: zmpop,
        subcommands: &[],
    },
];

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The lowest score first.
    Min,
    /// The highest score first.
    Max,
}

/// A member that was taken, and its score.
type Popped = (Vec<u8>, f64);
/// The key that members were taken from, and these.
type PoppedFrom<'a> = (&'a [u8], Vec<Popped>);

/// Takes the outermost member of the first of `keys` that is not empty and replies key, member and score: what
/// `BZPOPMIN` and `BZPOPMAX` do when they need not block. Says whether there was one; if not, nothing is replied.
///
/// # Errors
/// [`ErrorReply::WrongType`] if a key before that holds something else.
pub(super) fn pop_first<'a>(
    cx: &mut Context<'_>,
    keys: impl IntoIterator<Item = &'a [u8]>,
    end: End,
) -> Result<bool, ErrorReply> {
    let Some((key, popped)) = take_first(cx, keys, end, 1)? else {
        return Ok(false);
    };
    cx.reply.array(1 + 2 * popped.len());
    cx.reply.bulk(key);
    for (member, score) in &popped {
        cx.reply.bulk(member);
        cx.reply.double(*score);
    }
    Ok(true)
}

/// Takes up to `count` members of the first of `keys` that is not empty and replies the key and pairs of member and
/// score: what `ZMPOP` does, and `BZMPOP` when it need not block. Says whether there were any; if not, nothing is replied.
///
/// # Errors
/// [`ErrorReply::WrongType`] if a key before that holds something else.
pub(super) fn pop_first_many<'a>(
    cx: &mut Context<'_>,
    keys: impl IntoIterator<Item = &'a [u8]>,
    end: End,
    count: usize,
) -> Result<bool, ErrorReply> {
    let Some((key, popped)) = take_first(cx, keys, end, count)? else {
        return Ok(false);
    };
    cx.reply.array(2);
    cx.reply.bulk(key);
    cx.reply.array(popped.len());
    for (member, score) in &popped {
        cx.reply.array(2);
        cx.reply.bulk(member);
        cx.reply.double(*score);
    }
    Ok(true)
}

fn take_first<'a>(
    cx: &mut Context<'_>,
    keys: impl IntoIterator<Item = &'a [u8]>,
    end: End,
    count: usize,
) -> Result<Option<PoppedFrom<'a>>, ErrorReply> {
    for key in keys {
        let popped = take(cx, key, end, count)?;
        if !popped.is_empty() {
            return Ok(Some((key, popped)));
        }
    }
    Ok(None)
}

/// Takes up to `count` members from an end, and tells the log their names.
fn take(
    cx: &mut Context<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Vec<Popped>, ErrorReply> {
    let take = |set: &mut SortedSet, _: &_| {
        let count = count.min(set.len());
        let ranks = match end {
            End::Min => 0..count,
            End::Max => set.len() - count..set.len(),
        };
        let elements = set.range(ranks.clone(), end == End::Max);
        let popped: Vec<Popped> = elements.map(|(m, score)| (m.to_vec(), score)).collect();
        set.remove_range(ranks);
        popped
    };
    let popped = cx.keyspace.edit(key, cx.now, cx.effects, take)?;
    let popped = popped.unwrap_or_default();
    if !popped.is_empty() {
        let event = match end {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        };
        cx.keyspace.note_event(EventClasses::SORTED_SET, event, key);
    }
    emit_removals(key, popped.iter().map(|(m, _)| &m[..]), cx.effects);
    Ok(popped)
}

fn zpopmin(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    pop(cx, args, End::Min)
}

fn zpopmax(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    pop(cx, args, End::Max)
}

/// `key [count]`.
fn pop(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Result<(), ErrorReply> {
    if args.len() > 3 {
        return Err(ErrorReply::Syntax);
    }
    let count = args.get(2).map(count).transpose()?;
    let popped = take(cx, args.at(1), end, count.unwrap_or(1))?;
    let elements = popped.iter().map(|(member, score)| (&member[..], *score));
    match (count, popped.first()) {
        // One member that nobody counted is no pair, even in RESP3.
        (None, Some((member, score))) => {
            cx.reply.array(2);
            cx.reply.bulk(member);
            cx.reply.double(*score);
        }
        (None | Some(_), _) => reply_elements(&mut cx.reply, popped.len(), elements, true),
    }
    Ok(())
}

fn count(text: &[u8]) -> Result<usize, ErrorReply> {
    const OUT_OF_RANGE: ErrorReply =
        ErrorReply::text("ERR value is out of range, must be positive");
    let count = integer(text).map_err(|_| OUT_OF_RANGE)?;
    usize::try_from(count).map_err(|_| OUT_OF_RANGE)
}

fn zmpop(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (keys, end, count) = many_options(args.skip(1))?;
    if !pop_first_many(cx, keys.iter(), end, count)? {
        cx.reply.null_array();
    }
    Ok(())
}

/// Reads `numkeys key ... MIN|MAX [COUNT count]`: what `ZMPOP` and, after its timeout, `BZMPOP` are given.
///
/// # Errors
/// Numbers that are not positive, and a wrong syntax, as Redis words them.
pub(super) fn many_options(args: Args<'_>) -> Result<(KeyList<'_>, End, usize), ErrorReply> {
    let numkeys = positive(args.at(0), "ERR numkeys should be greater than 0")?;
    let end_at = numkeys.saturating_add(1);
    let end = if is_option(args, end_at, "min") {
        End::Min
    } else if is_option(args, end_at, "max") {
        End::Max
    } else {
        return Err(ErrorReply::Syntax);
    };
    let count = match args.len() - end_at - 1 {
        0 => 1,
        // A second `COUNT`, or one without a number, is no option.
        given if is_option(args, end_at + 1, "count") && given > 1 => {
            let count = positive(args.at(end_at + 2), "ERR count should be greater than 0")?;
            if given > 2 {
                return Err(ErrorReply::Syntax);
            }
            count
        }
        _ => return Err(ErrorReply::Syntax),
    };
    Ok((KeyList { args, numkeys }, end, count))
}

fn positive(text: &[u8], error: &'static str) -> Result<usize, ErrorReply> {
    let number = integer(text).ok().and_then(|n| usize::try_from(n).ok());
    number
        .filter(|&number| number > 0)
        .ok_or(ErrorReply::text(error))
}

/// Keys that a number comes before.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyList<'a> {
    args: Args<'a>,
    numkeys: usize,
}

impl<'a> KeyList<'a> {
    /// The keys in order.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.args.skip(1).iter().take(self.numkeys)
    }
}
