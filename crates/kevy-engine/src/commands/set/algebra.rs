//! Sets combined: `SINTER SUNION SDIFF`, the same with `STORE`, and `SINTERCARD`.

use super::row;
use crate::commands::is_option;
use crate::keyspace::Entry;
use crate::number::parse_i64;
use crate::value::{Collection, EncodingLimits, Member, Set};
use crate::{Command, Context, Effects, EventClasses, Keyspace};
use alloc::vec::Vec;
use kevy_proto::command::{ALL_KEYS, Flags, Keys};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::Now;

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Command {
        complexity: INTERSECTION_COMPLEXITY,
        summary: "Returns the intersection of sets.",
        ..row("sinter", -2, Flags::READONLY, ALL_KEYS, |cx, args| {
            reply_combined(cx, args, Combination::Intersection)
        })
    },
    Command {
        complexity: INTERSECTION_COMPLEXITY,
        summary: "Stores the intersection of sets in a key.",
        ..row("sinterstore", -3, STORE, ALL_KEYS, |cx, args| {
            store_combined(cx, args, Combination::Intersection)
        })
    },
    Command {
        since: "7.0.0",
        complexity: INTERSECTION_COMPLEXITY,
        summary: "Returns the number of members of the intersection of sets.",
        ..row(
            "sintercard",
            -3,
            Flags::READONLY.with(Flags::MOVABLEKEYS),
            Keys::Counted {
                count_at: 1,
                extra_first: 0,
            },
            sintercard,
        )
    },
    Command {
        complexity: TOTAL_COMPLEXITY,
        summary: "Returns the union of sets.",
        ..row("sunion", -2, Flags::READONLY, ALL_KEYS, |cx, args| {
            reply_combined(cx, args, Combination::Union)
        })
    },
    Command {
        complexity: TOTAL_COMPLEXITY,
        summary: "Stores the union of sets in a key.",
        ..row("sunionstore", -3, STORE, ALL_KEYS, |cx, args| {
            store_combined(cx, args, Combination::Union)
        })
    },
    Command {
        complexity: TOTAL_COMPLEXITY,
        summary: "Returns what a set has and others have not.",
        ..row("sdiff", -2, Flags::READONLY, ALL_KEYS, |cx, args| {
            reply_combined(cx, args, Combination::Difference)
        })
    },
    Command {
        complexity: TOTAL_COMPLEXITY,
        summary: "Stores what a set has and others have not in a key.",
        ..row("sdiffstore", -3, STORE, ALL_KEYS, |cx, args| {
            store_combined(cx, args, Combination::Difference)
        })
    },
];

const STORE: Flags = Flags::WRITE.with(Flags::DENYOOM);
const INTERSECTION_COMPLEXITY: &str =
    "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.";
const TOTAL_COMPLEXITY: &str = "O(N) where N is the total number of elements in all given sets.";

/// How sets become one.
#[derive(Clone, Copy)]
enum Combination {
    Intersection,
    Union,
    Difference,
}

impl Combination {
    /// What storing the result is called.
    fn store_event(self) -> &'static str {
        match self {
            Self::Intersection => "sinterstore",
            Self::Union => "sunionstore",
            Self::Difference => "sdiffstore",
        }
    }
}

fn reply_combined(
    cx: &mut Context<'_>,
    args: Args<'_>,
    combination: Combination,
) -> Result<(), ErrorReply> {
    let limits = cx.keyspace.encoding_limits();
    let sets = sets_at(cx.keyspace, cx.now, cx.effects, args.skip(1))?;
    if let Combination::Intersection = combination {
        let common: Vec<Member<'_>> = intersection(&sets).collect();
        cx.reply.set(common.len());
        common.iter().for_each(|member| cx.reply.bulk(member));
        return Ok(());
    }
    let combined = combine(&sets, combination, &limits);
    cx.reply.set(combined.len());
    combined.iter().for_each(|member| cx.reply.bulk(&member));
    Ok(())
}

fn store_combined(
    cx: &mut Context<'_>,
    args: Args<'_>,
    combination: Combination,
) -> Result<(), ErrorReply> {
    let destination = args.at(1);
    let limits = cx.keyspace.encoding_limits();
    let sets = sets_at(cx.keyspace, cx.now, cx.effects, args.skip(2))?;
    let combined = combine(&sets, combination, &limits);
    let before = cx.keyspace.remove(destination, cx.now, cx.effects);
    if before {
        cx.effects.emit(&[b"DEL", destination]);
    }
    combined.emit_rebuild(destination, cx.effects);
    cx.reply.length(combined.len());
    let now = cx
        .keyspace
        .set_collection(destination, combined, cx.now, cx.effects);
    let event = (EventClasses::SET, combination.store_event());
    cx.keyspace.note_stored(event, destination, (before, now));
    Ok(())
}

/// `numkeys key [key ...] [LIMIT limit]`.
fn sintercard(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let count = parse_i64(args.at(1)).and_then(|count| usize::try_from(count).ok());
    let count = count
        .filter(|&count| count > 0)
        .ok_or(ErrorReply::text("ERR numkeys should be greater than 0"))?;
    if count > args.len() - 2 {
        return Err(ErrorReply::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let mut limit = 0;
    for at in (2 + count..args.len()).step_by(2) {
        let value = args.get(at + 1).filter(|_| is_option(args, at, "limit"));
        let value = parse_i64(value.ok_or(ErrorReply::Syntax)?);
        limit = value
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or(ErrorReply::text("ERR LIMIT can't be negative"))?;
    }
    let keys: Vec<&[u8]> = args.skip(2).iter().take(count).collect();
    let sets = sets_of(cx.keyspace, cx.now, cx.effects, &keys)?;
    let most = if limit == 0 { usize::MAX } else { limit };
    cx.reply.length(intersection(&sets).take(most).count());
    Ok(())
}

fn sets_at<'k>(
    keyspace: &'k mut Keyspace,
    now: Now,
    effects: &mut Effects,
    keys: Args<'_>,
) -> Result<Vec<Option<&'k Set>>, ErrorReply> {
    let keys: Vec<&[u8]> = keys.iter().collect();
    sets_of(keyspace, now, effects, &keys)
}

/// The sets at `keys`; `None` where there is no key.
fn sets_of<'k>(
    keyspace: &'k mut Keyspace,
    now: Now,
    effects: &mut Effects,
    keys: &[&[u8]],
) -> Result<Vec<Option<&'k Set>>, ErrorReply> {
    let mut visible = Vec::with_capacity(keys.len());
    for key in keys {
        visible.push(keyspace.collection::<Set>(key, now, effects)?.is_some());
    }
    let keyspace = &*keyspace;
    let sets = keys.iter().zip(visible).map(|(key, is_visible)| {
        let entry = keyspace.held(key).filter(|_| is_visible)?;
        match entry {
            Entry::Object(object) => Set::view(object.value()),
            Entry::String(_) => None,
        }
    });
    Ok(sets.collect())
}

fn combine(sets: &[Option<&Set>], combination: Combination, limits: &EncodingLimits) -> Set {
    let mut combined = Set::default();
    match combination {
        Combination::Intersection => intersection(sets).for_each(|member| {
            combined.add(&member, limits);
        }),
        Combination::Union => {
            let members = sets.iter().flatten().flat_map(|set| set.iter());
            members.for_each(|member| {
                combined.add(&member, limits);
            });
        }
        Combination::Difference => return difference(sets, limits),
    }
    combined
}

/// The members that all sets have, those of the smallest one looked up in the others.
fn intersection<'k>(sets: &[Option<&'k Set>]) -> impl Iterator<Item = Member<'k>> {
    let mut present: Vec<&'k Set> = sets.iter().copied().flatten().collect();
    if present.len() < sets.len() {
        present.clear();
    }
    present.sort_by_key(|set| set.len());
    let smallest = present.first().copied();
    let others = present.into_iter().skip(1);
    let others: Vec<&Set> = others.collect();
    smallest
        .into_iter()
        .flat_map(Set::iter)
        .filter(move |member| others.iter().all(|set| set.contains(member)))
}

/// The members of the first set that no other set has: by looking each up in the others, or by removing those of the
/// others, whichever is less work.
fn difference(sets: &[Option<&Set>], limits: &EncodingLimits) -> Set {
    let Some((Some(first), others)) = sets.split_first() else {
        return Set::default();
    };
    let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
    let removals: usize = others.iter().map(|set| set.len()).sum();
    let lookups = first.len() * others.len();
    let mut left = Set::default();
    // Most lookups end at the first set that has the member.
    if lookups / 2 <= first.len() + removals {
        others.sort_by_key(|set| core::cmp::Reverse(set.len()));
        let kept = first
            .iter()
            .filter(|member| !others.iter().any(|set| set.contains(member)));
        kept.for_each(|member| {
            left.add(&member, limits);
        });
        return left;
    }
    first.iter().for_each(|member| {
        left.add(&member, limits);
    });
    for member in others.into_iter().flat_map(Set::iter) {
        left.remove(&member);
    }
    left
}
