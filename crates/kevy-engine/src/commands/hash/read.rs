//! Commands that look at fields of hashes.

use crate::Context;
use crate::commands::element_scan::{ElementScan, cursor, reply_head, reply_missing};
use crate::value::Hash;
use crate::value::hash::Field;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// Gives `reply` the field at arguments 1 and 2, if there is such a field.
fn with_field(
    cx: &mut Context<'_>,
    args: Args<'_>,
    reply: impl FnOnce(&mut Encoder<'_>, Option<Field<'_>>),
) -> Result<(), ErrorReply> {
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let hash: Option<&Hash> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let field = hash.and_then(|hash| hash.get(args.at(2), now_ms));
    reply(&mut cx.reply, field);
    Ok(())
}

pub(super) fn hget(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_field(cx, args, |reply, field| {
        reply.bulk_or_null(field.map(|field| field.value));
    })
}

pub(super) fn hstrlen(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_field(cx, args, |reply, field| {
        reply.length(field.map_or(0, |field| field.value.len()));
    })
}

pub(super) fn hexists(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_field(cx, args, |reply, field| {
        reply.integer(i64::from(field.is_some()));
    })
}

pub(super) fn hmget(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let hash: Option<&Hash> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let names = args.skip(2);
    cx.reply.array(names.len());
    for name in names.iter() {
        let field = hash.and_then(|hash| hash.get(name, now_ms));
        cx.reply.bulk_or_null(field.map(|field| field.value));
    }
    Ok(())
}

pub(super) fn hlen(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_hash(cx, args, |reply, len, _| reply.length(len))
}

pub(super) fn hkeys(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_hash(cx, args, |reply, len, fields| {
        reply.array(len);
        fields.for_each(|field| reply.bulk(field.name));
    })
}

pub(super) fn hvals(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_hash(cx, args, |reply, len, fields| {
        reply.array(len);
        fields.for_each(|field| reply.bulk(field.value));
    })
}

pub(super) fn hgetall(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    with_hash(cx, args, |reply, len, fields| {
        reply.map(len);
        fields.for_each(|field| reply_pair(reply, field));
    })
}

/// Gives `reply` the number of fields of the hash at argument 1, and its fields; a missing hash has none.
fn with_hash(
    cx: &mut Context<'_>,
    args: Args<'_>,
    reply: impl FnOnce(&mut Encoder<'_>, usize, &mut dyn Iterator<Item = Field<'_>>),
) -> Result<(), ErrorReply> {
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let hash: Option<&Hash> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let len = hash.map_or(0, |hash| hash.len(now_ms));
    let mut fields = hash.into_iter().flat_map(|hash| hash.fields(now_ms));
    reply(&mut cx.reply, len, &mut fields);
    Ok(())
}

fn reply_pair(reply: &mut Encoder<'_>, field: Field<'_>) {
    reply.bulk(field.name);
    reply.bulk(field.value);
}

pub(super) fn hscan(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let from = cursor(args)?;
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let hash: Option<&Hash> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let Some(hash) = hash else {
        reply_missing(&mut cx.reply);
        return Ok(());
    };
    let options = ElementScan::read(args, true)?;
    let (mut found, next) = hash.scan(from, options.count, now_ms);
    found.retain(|field| options.accepts(field.name));
    reply_head(&mut cx.reply, next);
    if options.values {
        cx.reply.array(2 * found.len());
        found
            .into_iter()
            .for_each(|field| reply_pair(&mut cx.reply, field));
    } else {
        cx.reply.array(found.len());
        found
            .into_iter()
            .for_each(|field| cx.reply.bulk(field.name));
    }
    Ok(())
}
