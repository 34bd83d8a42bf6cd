//! Consumer groups: `XGROUP`, and `XACK`.

use super::{
    GroupName, bad_subcommand, emit_progress, emit_with_tail, id, no_group_in_key,
    note_consumer_created,
};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::EncodingLimits;
use crate::value::stream::{Group, IdText, Stream, StreamId};
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "xgroup",
        arity: -2,
        flags: Flags::NONE,
        keys: Keys::None,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for consumer groups commands",
        run: help,
        subcommands: SUBCOMMANDS,
    },
    Row {
        name: "xack",
        arity: -4,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(1) for each message ID processed.",
        summary: "Marks a pending message as correctly processed, effectively removing it from the pending entries \
            list of the consumer group. Return value of the command is the number of messages successfully \
            acknowledged, that is, the IDs we were actually able to resolve in the PEL.",
        run: xack,
        subcommands: &[],
    },
];

const SUBCOMMANDS: &[Command] = &[
    Row {
        arity: -5,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        ..row("create", "Create a consumer group.", create)
    },
    Row {
        flags: Flags::WRITE.with(Flags::DENYOOM),
        since: "6.2.0",
        ..row(
            "createconsumer",
            "Create a consumer in a consumer group.",
            create_consumer,
        )
    },
    row(
        "delconsumer",
        "Delete a consumer from a consumer group.",
        delete_consumer,
    ),
    Row {
        arity: 4,
        complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
        ..row("destroy", "Destroy a consumer group.", destroy)
    },
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
        arity: -5,
        ..row(
            "setid",
            "Set a consumer group to an arbitrary last delivered ID value.",
            set_id,
        )
    },
];

const fn row(name: &'static str, summary: &'static str, run: crate::Run) -> Command {
    Row {
        name,
        arity: 5,
        flags: Flags::WRITE,
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

const NO_KEY: ErrorReply = ErrorReply::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
     to create an empty stream automatically.",
);

/// The options behind the id.
#[derive(Debug, Default)]
struct Options {
    mkstream: bool,
    entries_read: Option<i64>,
}

impl Options {
    fn parse(args: Args<'_>, creates: bool) -> Result<Self, ErrorReply> {
        let mut options = Self::default();
        let mut at = 5;
        while at < args.len() {
            if creates && is_option(args, at, "mkstream") {
                options.mkstream = true;
                at += 1;
            } else if is_option(args, at, "entriesread") && at + 1 < args.len() {
                options.entries_read = match integer(args.at(at + 1))? {
                    -1 => None,
                    ..0 => {
                        return Err(ErrorReply::text(
                            "ERR value for ENTRIESREAD must be positive or -1",
                        ));
                    }
                    count => Some(count),
                };
                at += 2;
            } else {
                return Err(bad_subcommand(args.at(1), "XGROUP"));
            }
        }
        Ok(options)
    }
}

/// `XGROUP CREATE key group id MKSTREAM ENTRIESREAD n`.
const LONGEST_CREATE: usize = 8;
/// `XGROUP SETID key group id ENTRIESREAD n`.
const LONGEST_SETID: usize = 7;

/// Options may be repeated, but not beyond the length of each of them once; Redis notices after the key and the group.
fn limit_repetition(args: Args<'_>, longest: usize) -> Result<(), ErrorReply> {
    if args.len() > longest {
        return Err(bad_subcommand(args.at(1), "XGROUP"));
    }
    Ok(())
}

fn create(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let options = Options::parse(args, true)?;
    let (key, name) = (args.at(2), args.at(3));
    let is_there = cx.keyspace.is_alive(key, cx.now, cx.effects);
    let stream = if is_there {
        cx.keyspace.collection::<Stream>(key, cx.now, cx.effects)?
    } else {
        None
    };
    if stream.is_none() && !options.mkstream {
        return Err(NO_KEY);
    }
    limit_repetition(args, LONGEST_CREATE)?;
    let last_id = match args.at(4) {
        b"$" => last_id(stream),
        text => id::parse(text)?,
    };
    if stream.is_some_and(|stream| stream.group(name).is_some()) {
        return Err(ErrorReply::text(
            "BUSYGROUP Consumer Group name already exists",
        ));
    }
    let create = |stream: &mut Stream, _: &EncodingLimits| {
        stream.create_group(name, Group::new(last_id, options.entries_read))
    };
    cx.keyspace
        .edit_or_create(key, cx.now, cx.effects, create)?;
    let mut digits = itoa::Buffer::new();
    cx.effects.emit(&[
        b"XGROUP",
        b"CREATE",
        key,
        name,
        last_id.text().as_bytes(),
        b"MKSTREAM",
        b"ENTRIESREAD",
        digits.format(options.entries_read.unwrap_or(-1)).as_bytes(),
    ]);
    cx.keyspace
        .note_event(EventClasses::STREAM, "xgroup-create", key);
    cx.reply.ok();
    Ok(())
}

fn last_id(stream: Option<&Stream>) -> StreamId {
    stream.map_or(StreamId::MIN, |stream| stream.entries().last_id())
}

fn set_id(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let options = Options::parse(args, false)?;
    let group = GroupName {
        key: args.at(2),
        name: args.at(3),
    };
    let changed = edit_group(cx, group, |stream, _| {
        limit_repetition(args, LONGEST_SETID)?;
        let last_id = match args.at(4) {
            b"$" => last_id(Some(stream)),
            text => id::parse_bound(text, 0)?,
        };
        let changed = stream.edit_group(group.name, |_, group| {
            let before = (group.last_id, group.entries_read);
            group.last_id = last_id;
            group.entries_read = options.entries_read;
            before != (last_id, options.entries_read)
        });
        Ok((changed == Some(true)).then_some(last_id))
    })??;
    if let Some(last_id) = changed {
        emit_progress(group, last_id, options.entries_read, cx.effects);
    }
    cx.keyspace
        .note_event(EventClasses::STREAM, "xgroup-setid", group.key);
    cx.reply.ok();
    Ok(())
}

fn destroy(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name) = (args.at(2), args.at(3));
    let destroy = |stream: &mut Stream, _: &EncodingLimits| stream.destroy_group(name);
    let destroyed = cx.keyspace.edit(key, cx.now, cx.effects, destroy)?;
    let destroyed = destroyed.ok_or(NO_KEY)?;
    if destroyed {
        cx.effects.emit(&[b"XGROUP", b"DESTROY", key, name]);
        cx.keyspace
            .note_event(EventClasses::STREAM, "xgroup-destroy", key);
    }
    cx.reply.integer(i64::from(destroyed));
    Ok(())
}

fn create_consumer(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name, consumer) = (args.at(2), args.at(3), args.at(4));
    let now_ms = cx.now.unix.0;
    let created = edit_group(cx, GroupName { key, name }, |stream, _| {
        stream.edit_group(name, |_, group| {
            group.find(consumer).is_none() && group.see(consumer, now_ms).1
        })
    })?;
    let created = created == Some(true);
    if created {
        cx.effects
            .emit(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
        note_consumer_created(cx.keyspace, key);
    }
    cx.reply.integer(i64::from(created));
    Ok(())
}

fn delete_consumer(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name, consumer) = (args.at(2), args.at(3), args.at(4));
    let pending = edit_group(cx, GroupName { key, name }, |stream, _| {
        stream.edit_group(name, |_, group| group.remove_consumer(consumer))
    })?;
    let pending = pending.flatten();
    if pending.is_some() {
        cx.effects
            .emit(&[b"XGROUP", b"DELCONSUMER", key, name, consumer]);
        cx.keyspace
            .note_event(EventClasses::STREAM, "xgroup-delconsumer", key);
    }
    cx.reply.length(pending.unwrap_or(0));
    Ok(())
}

/// Changes a stream that must have the group.
fn edit_group<R>(
    cx: &mut Context<'_>,
    GroupName { key, name }: GroupName<'_>,
    change: impl FnOnce(&mut Stream, &EncodingLimits) -> R,
) -> Result<R, ErrorReply> {
    let change = |stream: &mut Stream, limits: &EncodingLimits| {
        let known = stream.group(name).is_some();
        known.then(|| change(stream, limits))
    };
    let changed = cx.keyspace.edit(key, cx.now, cx.effects, change)?;
    changed
        .ok_or(NO_KEY)?
        .ok_or_else(|| no_group_in_key(key, name))
}

fn help(cx: &mut Context<'_>, _args: Args<'_>) -> Result<(), ErrorReply> {
    const LINES: [&str; 17] = [
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
        "HELP",
        "    Prints this help.",
    ];
    cx.reply.array(LINES.len());
    for line in LINES {
        cx.reply.simple(line);
    }
    Ok(())
}

fn xack(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name) = (args.at(1), args.at(2));
    let acknowledge = |stream: &mut Stream, _: &EncodingLimits| {
        let acknowledged = stream.edit_group(name, |_, group| {
            let ids: Result<Vec<StreamId>, _> = args.skip(3).iter().map(id::parse).collect();
            let mut ids = ids?;
            ids.retain(|id| group.release(*id));
            Ok(ids)
        });
        acknowledged.unwrap_or(Ok(Vec::new()))
    };
    let acknowledged = cx.keyspace.edit(key, cx.now, cx.effects, acknowledge)?;
    if acknowledged.is_none() {
        cx.keyspace.note_miss(key);
    }
    let acknowledged = acknowledged.transpose()?.unwrap_or_default();
    if !acknowledged.is_empty() {
        let texts: Vec<IdText> = acknowledged.iter().map(|id| id.text()).collect();
        let ids = texts.iter().map(IdText::as_bytes);
        emit_with_tail(cx.effects, &[b"XACK", key, name], ids);
    }
    cx.reply.length(acknowledged.len());
    Ok(())
}
