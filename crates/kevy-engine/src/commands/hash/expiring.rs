//! `HGETEX HSETEX HGETDEL` of Redis 8.0: values of fields that are read or written together with their expiry, or read and
//! removed.

use super::field_expiry::{deadline_of, fields, shown_fields};
use super::{GROW, WRITE, edit, edit_or_create, emit_for_fields, row};
use crate::commands::expiry::{Given, is};
use crate::keyspace::ExpiryMode;
use crate::value::hash::Field;
use crate::value::{EncodingLimits, Hash};
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::UnixMillis;

const PER_FIELD: &str = "O(N) where N is the number of specified fields";
const SINCE: &str = "8.0.0";

/// The commands of this file.
#[rustfmt::skip]
pub(in crate::commands) const COMMANDS: &[Command] = &[
    row("hgetdel", -5, WRITE, SINCE, PER_FIELD, "Returns the values of fields of a hash and deletes the fields.", hgetdel),
    row("hgetex", -5, WRITE, SINCE, PER_FIELD, "Returns the values of fields of a hash and optionally sets their expiry.", hgetex),
    row("hsetex", -6, GROW, SINCE, PER_FIELD, "Sets fields of a hash and optionally their expiry.", hsetex),
];

/// What happens to the expiry of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// No option: `HGETEX` leaves it, `HSETEX` removes it.
    Unsaid,
    /// `PERSIST`.
    Persist,
    /// `KEEPTTL`.
    Keep,
    /// The fields go at this time.
    At(UnixMillis),
}

impl Wish {
    /// Reads `EX|PX|EXAT|PXAT time` or `lone` at `at`; says how many arguments that are, 0 if it is something else.
    fn read(
        cx: &Context<'_>,
        args: Args<'_>,
        at: usize,
        (lone, meaning): (&str, Self),
    ) -> Result<(Self, usize), ErrorReply> {
        const TIMES: [(&str, Given); 4] = [
            ("ex", Given::SECONDS_FROM_NOW),
            ("px", Given::MILLIS_FROM_NOW),
            ("exat", Given::UNIX_SECONDS),
            ("pxat", Given::UNIX_MILLIS),
        ];
        let word = args.at(at);
        if is(word, lone) {
            return Ok((meaning, 1));
        }
        let Some((_, given)) = TIMES.iter().find(|(name, _)| is(word, name)) else {
            return Ok((Self::Unsaid, 0));
        };
        let time = args.get(at + 1).ok_or(ErrorReply::Syntax)?;
        Ok((Self::At(deadline_of(cx, args, time, *given)?), 2))
    }

    /// Whether the fields go at once. Applied from a log or a primary they stay: their `HDEL` follows.
    fn has_passed(self, cx: &Context<'_>) -> bool {
        match self {
            Self::At(at) => at <= cx.now.unix && cx.keyspace.expiry_mode() != ExpiryMode::Ignore,
            Self::Unsaid | Self::Persist | Self::Keep => false,
        }
    }
}

/// `HGETDEL key FIELDS count field ...`
fn hgetdel(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    edit(cx, key, |_, _, _| ())?;
    let names = shown_fields(args)?;
    let values = edit(cx, key, |hash, now_ms, _| {
        let take = |name: &[u8]| {
            let value = hash.get(name, now_ms)?.value.to_vec();
            hash.remove(name, now_ms);
            Some(value)
        };
        names.iter().map(take).collect::<Vec<_>>()
    })?
    .unwrap_or_default();
    emit_removed(cx, key, names, |at| {
        values.get(at).is_some_and(Option::is_some)
    });
    reply_values(cx, names.len(), &values);
    Ok(())
}

/// `HGETEX key [EX time|PX time|EXAT time|PXAT time|PERSIST] FIELDS count field ...`
fn hgetex(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    edit(cx, key, |_, _, _| ())?;
    let (wish, taken) = Wish::read(cx, args, 2, ("persist", Wish::Persist))?;
    let names = fields(
        args,
        2 + taken,
        "ERR Number of fields must be a positive integer",
    )?;
    let passed = wish.has_passed(cx);
    let mut changed = Vec::new();
    let values = edit(cx, key, |hash, now_ms, _| {
        let get = |name| {
            let field = hash.get(name, now_ms)?;
            let value = field.value.to_vec();
            let (had, deadline) = (field.deadline.is_some(), wish_for(wish));
            if passed {
                hash.remove(name, now_ms);
            } else if deadline.is_some() || wish == Wish::Persist && had {
                hash.set_deadline(name, deadline, now_ms);
            } else {
                return Some(value);
            }
            changed.push(name);
            Some(value)
        };
        names.iter().map(get).collect::<Vec<_>>()
    })?
    .unwrap_or_default();
    if passed {
        emit_removed(cx, key, names, |at| {
            values.get(at).is_some_and(Option::is_some)
        });
    } else if !changed.is_empty() {
        emit_deadline(cx, key, wish_for(wish), changed);
        let event = match wish {
            Wish::At(_) => "hexpire",
            Wish::Persist | Wish::Keep | Wish::Unsaid => "hpersist",
        };
        cx.keyspace.note_event(EventClasses::HASH, event, key);
    }
    reply_values(cx, names.len(), &values);
    Ok(())
}

fn wish_for(wish: Wish) -> Option<i64> {
    match wish {
        Wish::At(at) => Some(at.0),
        Wish::Unsaid | Wish::Persist | Wish::Keep => None,
    }
}

/// What `HSETEX` is asked for.
struct Order<'a> {
    /// Whether all of the fields must be there (`FXX`), or none (`FNX`).
    must_exist: Option<bool>,
    wish: Wish,
    /// Names and values in turn.
    pairs: Args<'a>,
}

impl<'a> Order<'a> {
    /// Reads `[FNX|FXX] [EX time|PX time|EXAT time|PXAT time|KEEPTTL] FIELDS count field value ...`
    fn read(cx: &Context<'_>, args: Args<'a>) -> Result<Self, ErrorReply> {
        let (mut must_exist, mut wish, mut at) = (None, Wish::Unsaid, 2);
        while at < args.len() && !is(args.at(at), "fields") {
            let exist = [("fxx", true), ("fnx", false)]
                .into_iter()
                .find(|(name, _)| is(args.at(at), name));
            if let Some((_, exist)) = exist {
                if must_exist.replace(exist).is_some() {
                    return Err(ErrorReply::text(
                        "ERR Only one of FXX or FNX arguments can be specified",
                    ));
                }
                at += 1;
                continue;
            }
            let (found, taken) = Wish::read(cx, args, at, ("keepttl", Wish::Keep))?;
            if taken == 0 {
                break;
            }
            if wish != Wish::Unsaid {
                return Err(ErrorReply::text(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                ));
            }
            wish = found;
            at += taken;
        }
        Ok(Self {
            must_exist,
            wish,
            pairs: field_pairs(args, at)?,
        })
    }

    /// Whether the fields are there or not as they must be.
    fn permits(&self, hash: &Hash, now_ms: i64) -> bool {
        let Some(exist) = self.must_exist else {
            return true;
        };
        names(self.pairs).all(|name| hash.get(name, now_ms).is_some() == exist)
    }

    /// Sets the fields; gives the deadline of each.
    fn apply(&self, hash: &mut Hash, now_ms: i64, limits: &EncodingLimits) -> Vec<Option<i64>> {
        hash.fit(self.pairs.iter(), limits);
        let set = |at: usize| {
            let name = self.pairs.at(at);
            let kept = hash.get(name, now_ms).and_then(|field| field.deadline);
            let deadline = if self.wish == Wish::Keep {
                kept
            } else {
                wish_for(self.wish)
            };
            let field = Field {
                name,
                value: self.pairs.at(at + 1),
                deadline,
            };
            hash.set(field, now_ms, limits);
            deadline
        };
        (0..self.pairs.len()).step_by(2).map(set).collect()
    }
}

/// Reads `FIELDS count field value ...` at `at`, to the end of the arguments.
fn field_pairs(args: Args<'_>, at: usize) -> Result<Args<'_>, ErrorReply> {
    const NO_MATCH: ErrorReply =
        ErrorReply::text("ERR The `numfields` parameter must match the number of arguments");
    if at + 2 > args.len() || !is(args.at(at), "fields") {
        return Err(ErrorReply::text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = crate::number::parse_i64(args.at(at + 1)).filter(|&count| count > 0);
    let count = count.ok_or(ErrorReply::text(
        "ERR Number of fields must be a positive integer",
    ))?;
    let pairs = args.skip(at + 2);
    let twice = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(2));
    if twice == Some(pairs.len()) {
        Ok(pairs)
    } else {
        Err(NO_MATCH)
    }
}

fn names(pairs: Args<'_>) -> impl Iterator<Item = &[u8]> {
    (0..pairs.len()).step_by(2).map(move |at| pairs.at(at))
}

/// `HSETEX key [FNX|FXX] [expiry] FIELDS count field value ...`
fn hsetex(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    edit(cx, key, |_, _, _| ())?;
    let order = Order::read(cx, args)?;
    let passed = order.wish.has_passed(cx);
    let mut removed = Vec::new();
    let deadlines = edit_or_create(cx, key, |hash, now_ms, limits| {
        if !order.permits(hash, now_ms) {
            return None;
        }
        if passed {
            removed.extend(names(order.pairs).filter(|name| hash.remove(name, now_ms)));
            return Some(Vec::new());
        }
        Some(order.apply(hash, now_ms, limits))
    })?;
    let Some(deadlines) = deadlines else {
        cx.reply.integer(0);
        return Ok(());
    };
    if !removed.is_empty() {
        emit_for_fields(cx, &[b"HDEL", key], removed);
        cx.keyspace.note_event(EventClasses::HASH, "hdel", key);
    }
    if !passed {
        emit_for_fields(cx, &[b"HSET", key], order.pairs.iter());
        cx.keyspace.note_event(EventClasses::HASH, "hset", key);
        emit_deadlines(cx, key, &order, &deadlines);
    }
    cx.reply.integer(1);
    Ok(())
}

/// Emits the deadlines of fields that were just set: one for all, or each its own.
fn emit_deadlines(cx: &mut Context<'_>, key: &[u8], order: &Order<'_>, deadlines: &[Option<i64>]) {
    match order.wish {
        Wish::At(at) => {
            let mut all: Vec<&[u8]> = names(order.pairs).collect();
            all.sort_unstable();
            all.dedup();
            emit_deadline(cx, key, Some(at.0), all);
            cx.keyspace.note_event(EventClasses::HASH, "hexpire", key);
        }
        Wish::Keep => {
            let mut seen: Vec<&[u8]> = Vec::new();
            for (name, deadline) in names(order.pairs).zip(deadlines) {
                if deadline.is_some() && !seen.contains(&name) {
                    seen.push(name);
                    emit_deadline(cx, key, *deadline, alloc::vec![name]);
                }
            }
        }
        Wish::Unsaid | Wish::Persist => {}
    }
}

/// Emits that fields go at `deadline`, or stay.
fn emit_deadline(cx: &mut Context<'_>, key: &[u8], deadline: Option<i64>, names: Vec<&[u8]>) {
    let [mut at, mut count] = [itoa::Buffer::new(); 2];
    let count = count.format(names.len()).as_bytes();
    match deadline {
        Some(deadline) => {
            let at = at.format(deadline).as_bytes();
            emit_for_fields(cx, &[b"HPEXPIREAT", key, at, b"FIELDS", count], names);
        }
        None => emit_for_fields(cx, &[b"HPERSIST", key, b"FIELDS", count], names),
    }
}

/// Emits the removal of those of `names` whose index `was_there`.
fn emit_removed(
    cx: &mut Context<'_>,
    key: &[u8],
    names: Args<'_>,
    was_there: impl Fn(usize) -> bool,
) {
    let gone = names.iter().enumerate().filter(|(at, _)| was_there(*at));
    let gone: Vec<&[u8]> = gone.map(|(_, name)| name).collect();
    if !gone.is_empty() {
        emit_for_fields(cx, &[b"HDEL", key], gone);
        cx.keyspace.note_event(EventClasses::HASH, "hdel", key);
    }
}

/// Replies `count` values; without a hash there is none.
fn reply_values(cx: &mut Context<'_>, count: usize, values: &[Option<Vec<u8>>]) {
    cx.reply.array(count);
    for at in 0..count {
        let value = values.get(at).and_then(Option::as_deref);
        cx.reply.bulk_or_null(value);
    }
}
