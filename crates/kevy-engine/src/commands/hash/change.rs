//! Commands that change fields of hashes.

use super::{edit, edit_or_create, emit_for_fields};
use crate::commands::expiry::name_of;
use crate::long_double::LongDouble;
use crate::number::{integer, parse_i64};
use crate::value::hash::Field;
use crate::{Context, EventClasses, value};
use alloc::vec::Vec;
use kevy_proto::resp::{Args, ErrorReply};

pub(super) fn hset(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let added = set_pairs(cx, args)?;
    cx.reply.length(added);
    Ok(())
}

pub(super) fn hmset(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    set_pairs(cx, args)?;
    cx.reply.ok();
    Ok(())
}

/// Sets the pairs from argument 2 on; returns how many fields are new.
fn set_pairs(cx: &mut Context<'_>, args: Args<'_>) -> Result<usize, ErrorReply> {
    if !args.len().is_multiple_of(2) {
        return Err(ErrorReply::WrongArity(name_of(args)));
    }
    let (key, pairs) = (args.at(1), args.skip(2));
    let added = edit_or_create(cx, key, |hash, now_ms, limits| {
        hash.fit(pairs.iter(), limits);
        let names = (0..pairs.len()).step_by(2);
        names
            .filter(|&at| hash.set(lasting(pairs.at(at), pairs.at(at + 1)), now_ms, limits))
            .count()
    })?;
    emit_for_fields(cx, &[b"HSET", key], pairs.iter());
    cx.keyspace.note_event(EventClasses::HASH, "hset", key);
    Ok(added)
}

/// A field that does not expire.
fn lasting<'a>(name: &'a [u8], value: &'a [u8]) -> Field<'a> {
    Field {
        name,
        value,
        deadline: None,
    }
}

pub(super) fn hsetnx(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name, value) = (args.at(1), args.at(2), args.at(3));
    let added = edit_or_create(cx, key, |hash, now_ms, limits| {
        hash.get(name, now_ms).is_none() && hash.set(lasting(name, value), now_ms, limits)
    })?;
    if added {
        cx.effects.emit(&[b"HSET", key, name, value]);
        cx.keyspace.note_event(EventClasses::HASH, "hset", key);
    }
    cx.reply.integer(i64::from(added));
    Ok(())
}

pub(super) fn hdel(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, names) = (args.at(1), args.skip(2));
    let removed: Vec<&[u8]> = edit(cx, key, |hash, now_ms, _| {
        let names = names.iter();
        names.filter(|name| hash.remove(name, now_ms)).collect()
    })?
    .unwrap_or_default();
    if !removed.is_empty() {
        emit_for_fields(cx, &[b"HDEL", key], removed.iter().copied());
        cx.keyspace.note_event(EventClasses::HASH, "hdel", key);
    }
    cx.reply.length(removed.len());
    Ok(())
}

pub(super) fn hincrby(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let by = integer(args.at(3))?;
    let text = compute(cx, args, "hincrby", |old| {
        let old = old.map_or(Some(0), parse_i64);
        let old = old.ok_or(ErrorReply::text("ERR hash value is not an integer"))?;
        let new = old.checked_add(by).ok_or(ErrorReply::IncrementOverflow)?;
        Ok(itoa::Buffer::new().format(new).as_bytes().to_vec())
    })?;
    cx.reply.integer(integer(&text)?);
    Ok(())
}

pub(super) fn hincrbyfloat(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let by = LongDouble::parse(args.at(3)).ok_or(ErrorReply::NotFloat)?;
    if by.is_infinite() {
        return Err(ErrorReply::text("ERR value is NaN or Infinity"));
    }
    let text = compute(cx, args, "hincrbyfloat", |old| {
        let old = LongDouble::parse(old.unwrap_or(b"0"));
        old.ok_or(ErrorReply::text("ERR hash value is not a float"))?
            .checked_add(by)
            .and_then(LongDouble::to_decimal)
            .ok_or(ErrorReply::IncrementNotFinite)
    })?;
    cx.reply.bulk(&text);
    Ok(())
}

/// Gives the field at arguments 1 and 2 the value that `new` makes of its old one; its expiry stays. Returns the value.
fn compute(
    cx: &mut Context<'_>,
    args: Args<'_>,
    event: &'static str,
    new: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, ErrorReply>,
) -> Result<Vec<u8>, ErrorReply> {
    let (key, name) = (args.at(1), args.at(2));
    let set = |hash: &mut value::Hash, now_ms, limits: &_| {
        let old = hash.get(name, now_ms);
        let deadline = old.and_then(|field| field.deadline);
        let value = new(old.map(|field| field.value))?;
        let field = Field {
            name,
            value: &value,
            deadline,
        };
        hash.set(field, now_ms, limits);
        Ok((value, deadline))
    };
    let (value, deadline) = edit_or_create(cx, key, set)??;
    cx.keyspace.note_event(EventClasses::HASH, event, key);
    cx.effects.emit(&[b"HSET", key, name, &value]);
    if let Some(deadline) = deadline {
        let mut digits = itoa::Buffer::new();
        let at = digits.format(deadline).as_bytes();
        cx.effects
            .emit(&[b"HPEXPIREAT", key, at, b"FIELDS", b"1", name]);
    }
    Ok(value)
}
