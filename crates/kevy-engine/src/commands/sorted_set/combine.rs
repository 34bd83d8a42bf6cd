//! Several sorted sets that become one: `ZUNION ZINTER ZDIFF`, stored or not, and `ZINTERCARD`.

use super::source::Source;
use super::{reply_elements, store};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::EncodingLimits;
use crate::value::sorted_set::Accumulator;
use crate::{Command, Context, double};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zunion",
        arity: -3,
        flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 1,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "6.2.0",
        complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
        summary: "Add multiple sorted sets",
        run: zunion,
        subcommands: &[],
    },
    Row {
        name: "zinter",
        arity: -3,
        flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 1,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "6.2.0",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
        summary: "Intersect multiple sorted sets",
        run: zinter,
        subcommands: &[],
    },
    Row {
        name: "zdiff",
        arity: -3,
        flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 1,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "6.2.0",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
        summary: "Subtract multiple sorted sets",
        run: zdiff,
        subcommands: &[],
    },
    Row {
        name: "zunionstore",
        arity: -4,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 2,
            extra_first: 1,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.0.0",
        complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
        summary: "Add multiple sorted sets and store the resulting sorted set in a new key",
        run: zunionstore,
        subcommands: &[],
    },
    Row {
        name: "zinterstore",
        arity: -4,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 2,
            extra_first: 1,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.0.0",
        complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
        summary: "Intersect multiple sorted sets and store the resulting sorted set in a new key",
        run: zinterstore,
        subcommands: &[],
    },
    Row {
        name: "zdiffstore",
        arity: -4,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 2,
            extra_first: 1,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "6.2.0",
        complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
        summary: "Subtract multiple sorted sets and store the resulting sorted set in a new key",
        run: zdiffstore,
        subcommands: &[],
    },
    Row {
        name: "zintercard",
        arity: -3,
        flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 1,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "sorted-set",
        since: "7.0.0",
        complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.",
        summary: "Intersect multiple sorted sets and return the cardinality of the result",
        run: zintercard,
        subcommands: &[],
    },
];

/// How sets become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What a command is and where its keys are counted.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    operation: Operation,
    count_at: usize,
    /// Only the number of members is wanted.
    cardinality: bool,
}

const UNION: Form = Form {
    name: "zunion",
    operation: Operation::Union,
    count_at: 1,
    cardinality: false,
};
const INTERSECTION: Form = Form {
    name: "zinter",
    operation: Operation::Intersection,
    ..UNION
};
const DIFFERENCE: Form = Form {
    name: "zdiff",
    operation: Operation::Difference,
    ..UNION
};

fn zunion(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_combined(cx, args, UNION)
}

fn zinter(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_combined(cx, args, INTERSECTION)
}

fn zdiff(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    reply_combined(cx, args, DIFFERENCE)
}

fn zunionstore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    store_combined(cx, args, "zunionstore", UNION)
}

fn zinterstore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    store_combined(cx, args, "zinterstore", INTERSECTION)
}

fn zdiffstore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    store_combined(cx, args, "zdiffstore", DIFFERENCE)
}

fn reply_combined(cx: &mut Context<'_>, args: Args<'_>, form: Form) -> Result<(), ErrorReply> {
    let limits = cx.keyspace.encoding_limits();
    let (inputs, options) = read(cx, args, form)?;
    let result = combine(form.operation, inputs, options.aggregate, &limits).into_large();
    reply_elements(
        &mut cx.reply,
        result.len(),
        result.elements(),
        options.with_scores,
    );
    Ok(())
}

fn store_combined(
    cx: &mut Context<'_>,
    args: Args<'_>,
    name: &'static str,
    form: Form,
) -> Result<(), ErrorReply> {
    let form = Form {
        name,
        count_at: 2,
        ..form
    };
    let limits = cx.keyspace.encoding_limits();
    let (inputs, options) = read(cx, args, form)?;
    let result = combine(form.operation, inputs, options.aggregate, &limits).into_set();
    let count = store(cx, args.at(1), result, name);
    cx.reply.length(count);
    Ok(())
}

fn zintercard(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let form = Form {
        name: "zintercard",
        cardinality: true,
        ..INTERSECTION
    };
    let (mut inputs, options) = read(cx, args, form)?;
    inputs.sort_by_key(|input| input.source.len());
    let (first, others) = inputs.split_first().ok_or(ErrorReply::Syntax)?;
    let mut count = 0;
    first.source.each(|member, _| {
        let is_common = others
            .iter()
            .all(|input| input.source.score(member).is_some());
        count += usize::from(is_common);
        options.limit == 0 || count < options.limit
    });
    cx.reply.length(count);
    Ok(())
}

/// A source and what its scores are multiplied by.
#[derive(Clone, Copy)]
struct Input<'a> {
    source: Source<'a>,
    weight: f64,
}

impl Input<'_> {
    /// A score as this input gives it; what is no number (infinity times 0) is 0.
    fn weighted(&self, score: f64) -> f64 {
        let weighted = self.weight * score;
        if weighted.is_nan() { 0.0 } else { weighted }
    }
}

/// How two scores of a member become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn apply(self, old: f64, new: f64) -> f64 {
        match self {
            Self::Sum => {
                let sum = old + new;
                // Infinity minus infinity is 0 here.
                if sum.is_nan() { 0.0 } else { sum }
            }
            Self::Min if new < old => new,
            Self::Max if new > old => new,
            Self::Min | Self::Max => old,
        }
    }
}

/// What is said after the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Stop counting at it; 0 for never.
    limit: usize,
}

/// Reads keys and options in Redis's order: the types of the keys are checked before the options.
fn read<'a>(
    cx: &'a mut Context<'_>,
    args: Args<'_>,
    form: Form,
) -> Result<(Vec<Input<'a>>, Options), ErrorReply> {
    let count = key_count(args, form)?;
    let keys = args.skip(form.count_at + 1).iter().take(count);
    let mut present = Vec::with_capacity(count);
    for key in keys.clone() {
        let entry = cx.keyspace.lookup(key, cx.now, cx.effects);
        Source::of(entry)?;
        present.push(entry.is_some());
    }
    let options = Options::parse(args, form, count)?;
    let keyspace = &*cx.keyspace;
    let inputs = keys.zip(present).zip(&options.weights);
    let inputs: Result<Vec<Input<'_>>, ErrorReply> = inputs
        .map(|((key, present), &weight)| {
            let entry = keyspace.held(key).filter(|_| present);
            let source = Source::of(entry)?;
            Ok(Input { source, weight })
        })
        .collect();
    Ok((inputs?, options))
}

fn key_count(args: Args<'_>, form: Form) -> Result<usize, ErrorReply> {
    let count = integer(args.at(form.count_at))?;
    if count < 1 {
        let text = format!(
            "ERR at least 1 input key is needed for '{}' command",
            form.name
        );
        return Err(ErrorReply::Other(text.into()));
    }
    usize::try_from(count)
        .ok()
        .filter(|&count| count < args.len() - form.count_at)
        .ok_or(ErrorReply::Syntax)
}

impl Options {
    fn parse(args: Args<'_>, form: Form, keys: usize) -> Result<Self, ErrorReply> {
        let weighted = form.operation != Operation::Difference && !form.cardinality;
        let replies = form.count_at == 1 && !form.cardinality;
        let mut options = Self {
            weights: vec![1.0; keys],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        let mut at = form.count_at + 1 + keys;
        while at < args.len() {
            let (is, left) = (|name| is_option(args, at, name), args.len() - at - 1);
            if weighted && is("weights") && left >= keys {
                options.weights = weights(args.skip(at + 1), keys)?;
                at += keys;
            } else if weighted && is("aggregate") && left >= 1 {
                options.aggregate = aggregate(args, at + 1)?;
                at += 1;
            } else if replies && is("withscores") {
                options.with_scores = true;
            } else if form.cardinality && is("limit") && left >= 1 {
                let limit = integer(args.at(at + 1)).ok();
                let limit = limit.and_then(|limit| usize::try_from(limit).ok());
                options.limit = limit.ok_or(ErrorReply::text("ERR LIMIT can't be negative"))?;
                at += 1;
            } else {
                return Err(ErrorReply::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }
}

fn weights(args: Args<'_>, count: usize) -> Result<Vec<f64>, ErrorReply> {
    let texts = args.iter().take(count);
    texts
        .map(|text| double::parse(text).ok_or(ErrorReply::text("ERR weight value is not a float")))
        .collect()
}

fn aggregate(args: Args<'_>, at: usize) -> Result<Aggregate, ErrorReply> {
    if is_option(args, at, "sum") {
        Ok(Aggregate::Sum)
    } else if is_option(args, at, "min") {
        Ok(Aggregate::Min)
    } else if is_option(args, at, "max") {
        Ok(Aggregate::Max)
    } else {
        Err(ErrorReply::Syntax)
    }
}

fn combine(
    operation: Operation,
    mut inputs: Vec<Input<'_>>,
    aggregate: Aggregate,
    limits: &EncodingLimits,
) -> Accumulator {
    let result = Accumulator::new(limits);
    if operation != Operation::Difference {
        // Also decides in which order scores are added.
        inputs.sort_by_key(|input| input.source.len());
    }
    match operation {
        Operation::Union => union(&inputs, aggregate, result),
        Operation::Intersection => intersection(&inputs, aggregate, result),
        Operation::Difference => difference(&inputs, result),
    }
}

fn union(inputs: &[Input<'_>], aggregate: Aggregate, mut result: Accumulator) -> Accumulator {
    for input in inputs {
        input.source.each(|member, score| {
            let score = input.weighted(score);
            result.add(member, score, |old, new| aggregate.apply(old, new));
            true
        });
    }
    result
}

/// The members of the smallest input that are in all others.
fn intersection(
    inputs: &[Input<'_>],
    aggregate: Aggregate,
    mut result: Accumulator,
) -> Accumulator {
    let Some((first, others)) = inputs.split_first() else {
        return result;
    };
    first.source.each(|member, score| {
        let common = others.iter().try_fold(first.weighted(score), |sum, input| {
            let score = input.source.score(member)?;
            Some(aggregate.apply(sum, score * input.weight))
        });
        if let Some(score) = common {
            result.add(member, score, |_, new| new);
        }
        true
    });
    result
}

fn difference(inputs: &[Input<'_>], mut result: Accumulator) -> Accumulator {
    let Some((first, others)) = inputs.split_first() else {
        return result;
    };
    let others_len: usize = others.iter().map(|input| input.source.len()).sum();
    // Whichever touches fewer members: seek those of the first in the others, or take away those of the others.
    let seek = first.source.len().saturating_mul(others.len()) / 2 <= others_len;
    first.source.each(|member, score| {
        let is_in = |input: &Input<'_>| input.source.score(member).is_some();
        if !(seek && others.iter().any(is_in)) {
            result.add(member, score, |_, new| new);
        }
        true
    });
    if !seek {
        for input in others {
            input.source.each(|member, _| {
                result.remove(member);
                !result.is_empty()
            });
        }
    }
    result
}
