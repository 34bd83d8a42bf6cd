//! Members at random: `ZRANDMEMBER`.

use super::reply_elements;
use crate::commands::is_option;
use crate::number::integer;
use crate::value::SortedSet;
use crate::{Command, Context};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::rng::Rng;

/// The most members that one reply repeats (a negative count): beyond, a small request would fill the memory.
const MAX_REPEATED: u64 = 1 << 24;

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[Row {
    name: "zrandmember",
    arity: -2,
    flags: Flags::READONLY,
    keys: ONE_KEY,
    placement: Placement::Together,
    group: "sorted-set",
    since: "6.2.0",
    complexity: "O(N) where N is the number of elements returned",
    summary: "Get one or multiple random elements from a sorted set",
    run: zrandmember,
    subcommands: &[],
}];

fn zrandmember(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    if args.len() > 2 {
        return many(cx, args);
    }
    let mut rng = cx.keyspace.rng().clone();
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let chosen = set.and_then(|set| set.at(rng.below(set.len() as u64) as usize));
    cx.reply.bulk_or_null(chosen.map(|(member, _)| member));
    *cx.keyspace.rng() = rng;
    Ok(())
}

/// `key count [WITHSCORES]`: up to `count` different members, or `-count` that may repeat.
fn many(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (count, with_scores) = options(args)?;
    let mut rng = cx.keyspace.rng().clone();
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let Some(set) = set.filter(|_| count != 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let wanted = count.unsigned_abs();
    if count > 0 && wanted >= set.len() as u64 {
        // All of them, in the order in which Redis walks over them.
        let elements = set.range(0..set.len(), true);
        reply_elements(&mut cx.reply, set.len(), elements, with_scores);
        return Ok(());
    }
    let ranks = if count > 0 {
        different(&mut rng, set.len() as u64, wanted)
    } else if wanted <= MAX_REPEATED {
        let mut one = || rng.below(set.len() as u64) as usize;
        (0..wanted).map(|_| one()).collect()
    } else {
        return Err(OUT_OF_RANGE);
    };
    let elements = ranks.iter().filter_map(|&rank| set.at(rank));
    reply_elements(&mut cx.reply, ranks.len(), elements, with_scores);
    *cx.keyspace.rng() = rng;
    Ok(())
}

const OUT_OF_RANGE: ErrorReply = ErrorReply::text("ERR value is out of range");

fn options(args: Args<'_>) -> Result<(i64, bool), ErrorReply> {
    let count = integer(args.at(2))?;
    if count == i64::MIN {
        return Err(ErrorReply::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let with_scores = args.len() == 4 && is_option(args, 3, "withscores");
    if args.len() > 3 && !with_scores {
        return Err(ErrorReply::Syntax);
    }
    if with_scores && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(OUT_OF_RANGE);
    }
    Ok((count, with_scores))
}

/// `count` different numbers below `bound`, which is greater, each choice equally likely, in random order (Floyd).
fn different(rng: &mut Rng, bound: u64, count: u64) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let mut chosen = Vec::with_capacity(count as usize);
    for last in bound - count..bound {
        let number = rng.below(last + 1);
        let number = if seen.insert(number) { number } else { last };
        seen.insert(number);
        let at = rng.below(chosen.len() as u64 + 1) as usize;
        chosen.push(number as usize);
        let end = chosen.len() - 1;
        chosen.swap(at, end);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_numbers_are_equally_likely() {
        let mut rng = Rng::from_seed(1);
        let mut counts = [0_u32; 8];
        let mut firsts = [0_u32; 8];
        for _ in 0..8000 {
            let chosen = different(&mut rng, 8, 5);
            let distinct: BTreeSet<usize> = chosen.iter().copied().collect();
            assert_eq!(distinct.len(), 5);
            firsts[chosen[0]] += 1;
            chosen.into_iter().for_each(|number| counts[number] += 1);
        }
        assert!(
            counts.iter().all(|count| (4700..5300).contains(count)),
            "{counts:?}"
        );
        assert!(
            firsts.iter().all(|count| (850..1150).contains(count)),
            "{firsts:?}"
        );
    }
}
