//! Members that get scores: `ZADD` and `ZINCRBY`.

use crate::commands::is_option;
use crate::value::sorted_set::{emit_additions, is_change};
use crate::value::{EncodingLimits, SortedSet};
use crate::{Command, Context, EventClasses, double};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zadd",
        arity: -4,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        summary: "Add one or more members to a sorted set, or update its score if it already exists",
        run: zadd,
        subcommands: &[],
    },
    Row {
        name: "zincrby",
        arity: 4,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "1.2.0",
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        summary: "Increment the score of a member in a sorted set",
        run: zincrby,
        subcommands: &[],
    },
];

/// `[NX|XX] [GT|LT] [CH] [INCR]`.
#[derive(Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are given and checked independently"
)]
pub(in crate::commands) struct Options {
    /// Add only.
    if_absent: bool,
    /// Change only.
    if_present: bool,
    /// Change only to a greater score.
    if_greater: bool,
    /// Change only to a smaller score.
    if_less: bool,
    /// Reply the number of added and changed members.
    count_changed: bool,
    /// The score is an increment, and the reply the result.
    increment: bool,
}

impl Options {
    /// Reads options from argument 2 on; gives the position after them.
    pub(in crate::commands) fn parse(args: Args<'_>, mut options: Self) -> (Self, usize) {
        for at in 2..args.len() {
            let is = |name| is_option(args, at, name);
            let option = if is("nx") {
                &mut options.if_absent
            } else if is("xx") {
                &mut options.if_present
            } else if is("gt") {
                &mut options.if_greater
            } else if is("lt") {
                &mut options.if_less
            } else if is("ch") {
                &mut options.count_changed
            } else if is("incr") {
                &mut options.increment
            } else {
                return (options, at);
            };
            *option = true;
        }
        (options, args.len())
    }

    /// Whether members would have to be absent and present.
    pub(in crate::commands) fn is_contradictory(self) -> bool {
        self.if_absent && self.if_present
    }

    fn check(self, pairs: usize) -> Result<(), ErrorReply> {
        if self.is_contradictory() {
            return Err(ErrorReply::text(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let conditions = [self.if_absent, self.if_greater, self.if_less];
        if conditions.into_iter().filter(|&given| given).count() > 1 {
            return Err(ErrorReply::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increment && pairs > 1 {
            return Err(ErrorReply::text(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    /// The score that a member gets which has `old` and is given `score`; `None` if nothing is to happen.
    fn decide(self, old: Option<f64>, score: f64) -> Result<Option<f64>, ErrorReply> {
        let Some(old) = old else {
            return Ok((!self.if_present).then_some(score));
        };
        if self.if_absent {
            return Ok(None);
        }
        let new = if self.increment { old + score } else { score };
        if new.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        let refused = self.if_less && new >= old || self.if_greater && new <= old;
        Ok((!refused).then_some(new))
    }
}

const NOT_A_NUMBER: ErrorReply = ErrorReply::text("ERR resulting score is not a number (NaN)");

/// What became of the given members.
#[derive(Default)]
struct Outcome<'a> {
    added: usize,
    updated: usize,
    /// The members that changed and their scores.
    changes: Vec<(&'a [u8], f64)>,
    /// The score of the last member that was not left alone.
    score: Option<f64>,
}

fn zadd(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    add_parsed(cx, args, Options::default())
}

fn zincrby(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let options = Options {
        increment: true,
        ..Options::default()
    };
    add_parsed(cx, args, options)
}

fn add_parsed(cx: &mut Context<'_>, args: Args<'_>, options: Options) -> Result<(), ErrorReply> {
    let (options, first) = Options::parse(args, options);
    let pairs = args.skip(first);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(ErrorReply::Syntax);
    }
    options.check(pairs.len() / 2)?;
    let scores = pairs.iter().step_by(2);
    let scores: Result<Vec<f64>, ErrorReply> = scores
        .map(|text| double::parse(text).ok_or(ErrorReply::NotFloat))
        .collect();
    let members = pairs.iter().skip(1).step_by(2);
    add(cx, args.at(1), options, members.zip(scores?))
}

/// Gives members scores and replies as `ZADD` does.
///
/// # Errors
/// [`ErrorReply::WrongType`]; an increment whose result is no number.
pub(in crate::commands) fn add<'a>(
    cx: &mut Context<'_>,
    key: &[u8],
    options: Options,
    elements: impl Iterator<Item = (&'a [u8], f64)>,
) -> Result<(), ErrorReply> {
    let change = |set: &mut SortedSet, limits: &EncodingLimits| {
        let mut outcome = Outcome::default();
        for (member, score) in elements {
            change_one(set, limits, options, (member, score), &mut outcome)?;
        }
        Ok(outcome)
    };
    let outcome = if options.if_present {
        let outcome = cx.keyspace.edit(key, cx.now, cx.effects, change)?;
        outcome.unwrap_or_else(|| Ok(Outcome::default()))?
    } else {
        cx.keyspace
            .edit_or_create(key, cx.now, cx.effects, change)??
    };
    emit_additions(key, outcome.changes.iter().copied(), cx.effects);
    if !outcome.changes.is_empty() {
        let event = if options.increment { "zincr" } else { "zadd" };
        cx.keyspace.note_event(EventClasses::SORTED_SET, event, key);
    }
    match (options.increment, outcome.score) {
        (true, Some(score)) => cx.reply.double(score),
        (true, None) => cx.reply.null(),
        (false, _) if options.count_changed => cx.reply.length(outcome.added + outcome.updated),
        (false, _) => cx.reply.length(outcome.added),
    }
    Ok(())
}

fn change_one<'a>(
    set: &mut SortedSet,
    limits: &EncodingLimits,
    options: Options,
    (member, score): (&'a [u8], f64),
    outcome: &mut Outcome<'a>,
) -> Result<(), ErrorReply> {
    let mut result = Ok(());
    set.update(member, limits, |old| {
        let new = match options.decide(old, score) {
            Ok(new) => new?,
            Err(error) => {
                result = Err(error);
                return None;
            }
        };
        outcome.score = Some(new);
        match old {
            None => outcome.added += 1,
            Some(old) if !is_change(old, new) => return None,
            Some(_) => outcome.updated += 1,
        }
        outcome.changes.push((member, new));
        Some(new)
    });
    result
}
