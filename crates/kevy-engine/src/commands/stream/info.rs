//! Looking into streams: `XINFO`.

use super::{bad_subcommand, no_group_in_key, reply_entry, reply_id, reply_range};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::stream::{Consumer, Entries, Entry, Group, Stream, StreamId};
use crate::{Command, Context};
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[Row {
    name: "xinfo",
    arity: -2,
    flags: Flags::NONE,
    keys: Keys::None,
    placement: Placement::Together,
    group: "stream",
    since: "5.0.0",
    complexity: "Depends on subcommand.",
    summary: "A container for stream introspection commands",
    run: help,
    subcommands: &[
        Row {
            arity: 4,
            ..row(
                "consumers",
                "List the consumers in a consumer group",
                consumers,
            )
        },
        row("groups", "List the consumer groups of a stream", groups),
        Row {
            arity: 2,
            flags: Flags::LOADING.with(Flags::STALE),
            keys: Keys::None,
            ..row(
                "help",
                "Show helpful text about the different subcommands",
                help,
            )
        },
        Row {
            arity: -3,
            ..row("stream", "Get information about a stream", stream)
        },
    ],
}];

const fn row(name: &'static str, summary: &'static str, run: crate::Run) -> Command {
    Row {
        name,
        arity: 3,
        flags: Flags::READONLY,
        keys: Keys::Range {
            first: 2,
            last: 2,
            step: 1,
        },
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(1)",
        summary,
        run,
        subcommands: &[],
    }
}

fn help(cx: &mut Context<'_>, _args: Args<'_>) -> Result<(), ErrorReply> {
    const LINES: [&str; 9] = [
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
        "HELP",
        "    Prints this help.",
    ];
    cx.reply.array(LINES.len());
    for line in LINES {
        cx.reply.simple(line);
    }
    Ok(())
}

fn consumers(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name) = (args.at(2), args.at(3));
    let group = cx
        .keyspace
        .collection::<Stream>(key, cx.now, cx.effects)?
        .ok_or(ErrorReply::NoSuchKey)?
        .group(name)
        .ok_or_else(|| no_group_in_key(key, name))?;
    cx.reply.array(group.consumers_len());
    for consumer in group.consumers() {
        cx.reply.map(3);
        cx.reply.bulk(b"name");
        cx.reply.bulk(consumer.name());
        cx.reply.bulk(b"pending");
        cx.reply.length(consumer.pending_len());
        cx.reply.bulk(b"idle");
        let idle_ms = cx.now.unix.0.saturating_sub(consumer.seen_ms).max(0);
        cx.reply.integer(idle_ms);
    }
    Ok(())
}

fn groups(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let stream = cx
        .keyspace
        .collection::<Stream>(args.at(2), cx.now, cx.effects)?
        .ok_or(ErrorReply::NoSuchKey)?;
    let reply = &mut cx.reply;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.length(group.consumers_len());
        reply.bulk(b"pending");
        reply.length(group.pending_len());
        reply_progress(reply, group, stream.entries());
    }
    Ok(())
}

/// Three pairs of a group's map: how far it has come.
fn reply_progress(reply: &mut Encoder<'_>, group: &Group, entries: &Entries) {
    reply.bulk(b"last-delivered-id");
    reply_id(reply, group.last_id);
    reply.bulk(b"entries-read");
    integer_or_null(reply, group.entries_read);
    reply.bulk(b"lag");
    integer_or_null(reply, group.lag(entries));
}

fn integer_or_null(reply: &mut Encoder<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

fn stream(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let stream = cx
        .keyspace
        .collection::<Stream>(args.at(2), cx.now, cx.effects)?
        .ok_or(ErrorReply::NoSuchKey)?;
    match full_option(args)? {
        None => reply_stream(&mut cx.reply, stream),
        Some(count) => reply_full(&mut cx.reply, stream, count),
    }
    Ok(())
}

/// Reads `[FULL [COUNT n]]`: how many of each to show in full.
fn full_option(args: Args<'_>) -> Result<Option<usize>, ErrorReply> {
    const USUAL: i64 = 10;
    let bad = || bad_subcommand(args.at(1), "XINFO");
    if args.len() == 3 {
        return Ok(None);
    }
    if !is_option(args, 3, "full") {
        return Err(bad());
    }
    let count = match args.len() {
        4 => USUAL,
        6 if is_option(args, 4, "count") => match integer(args.at(5))? {
            ..0 => USUAL,
            count => count,
        },
        _ => return Err(bad()),
    };
    Ok(Some(super::limit(count)))
}

/// Seven pairs: what is known without looking at entries.
fn reply_head(reply: &mut Encoder<'_>, entries: &Entries) {
    reply.bulk(b"length");
    reply.integer(entries.len() as i64);
    reply.bulk(b"radix-tree-keys");
    reply.length(entries.blocks());
    reply.bulk(b"radix-tree-nodes");
    reply.length(entries.radix_nodes());
    reply.bulk(b"last-generated-id");
    reply_id(reply, entries.last_id());
    reply.bulk(b"max-deleted-entry-id");
    reply_id(reply, entries.max_deleted_id());
    reply.bulk(b"entries-added");
    reply.integer(entries.added());
    reply.bulk(b"recorded-first-entry-id");
    reply_id(reply, entries.first_id());
}

fn reply_stream(reply: &mut Encoder<'_>, stream: &Stream) {
    let entries = stream.entries();
    reply.map(10);
    reply_head(reply, entries);
    reply.bulk(b"groups");
    reply.length(stream.groups().len());
    reply.bulk(b"first-entry");
    entry_or_null(reply, entries.first());
    reply.bulk(b"last-entry");
    entry_or_null(reply, entries.last());
}

fn entry_or_null(reply: &mut Encoder<'_>, entry: Option<Entry<'_>>) {
    match entry {
        Some(entry) => reply_entry(reply, &entry),
        None => reply.null(),
    }
}

fn reply_full(reply: &mut Encoder<'_>, stream: &Stream, count: usize) {
    let entries = stream.entries();
    reply.map(9);
    reply_head(reply, entries);
    reply.bulk(b"entries");
    reply_range(reply, entries, (StreamId::MIN, StreamId::MAX), count);
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        reply_progress(reply, group, entries);
        reply.bulk(b"pel-count");
        reply.length(group.pending_len());
        reply.bulk(b"pending");
        reply_pending(reply, group, count);
        reply.bulk(b"consumers");
        reply.array(group.consumers_len());
        for consumer in group.consumers() {
            reply_consumer(reply, group, consumer, count);
        }
    }
}

fn reply_pending(reply: &mut Encoder<'_>, group: &Group, count: usize) {
    let count = group.pending_len().min(count);
    reply.array(count);
    let pending = group.pending_range(StreamId::MIN, StreamId::MAX);
    for (id, pending) in pending.take(count) {
        reply.array(4);
        reply_id(reply, id);
        let consumer = group.consumer(pending.consumer);
        reply.bulk(consumer.map_or(b"", Consumer::name));
        reply.integer(pending.delivered_ms);
        reply.integer(pending.deliveries);
    }
}

fn reply_consumer(reply: &mut Encoder<'_>, group: &Group, consumer: &Consumer, count: usize) {
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen_ms);
    reply.bulk(b"pel-count");
    reply.length(consumer.pending_len());
    reply.bulk(b"pending");
    let count = consumer.pending_len().min(count);
    reply.array(count);
    let number = group.find(consumer.name());
    let pending = number
        .into_iter()
        .flat_map(|number| group.pending_of(number, StreamId::MIN, StreamId::MAX));
    for (id, pending) in pending.take(count) {
        reply.array(3);
        reply_id(reply, id);
        reply.integer(pending.delivered_ms);
        reply.integer(pending.deliveries);
    }
}
