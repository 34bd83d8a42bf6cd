//! Whole keys, whatever they hold: `DEL UNLINK EXISTS TOUCH TYPE RENAME RENAMENX COPY`.

use super::is_option;
use crate::keyspace::Detached;
use crate::number::database;
use crate::{Command, Context, EventClasses};
use kevy_proto::command::{ALL_KEYS, Flags, Join, ONE_KEY, Placement, Row, TWO_KEYS};
use kevy_proto::resp::{Args, ErrorReply};

const SAME_OBJECT: ErrorReply = ErrorReply::text("ERR source and destination objects are the same");

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "del",
        arity: -2,
        flags: Flags::WRITE,
        keys: ALL_KEYS,
        placement: Placement::Split(Join::Sum),
        group: "generic",
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).",
        summary: "Deletes one or more keys.",
        run: del,
        subcommands: &[],
    },
    Row {
        name: "unlink",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ALL_KEYS,
        placement: Placement::Split(Join::Sum),
        group: "generic",
        since: "4.0.0",
        complexity: "O(1) for each key removed regardless of its size. Then the command does O(N) work to reclaim memory, where N is the number of allocations the deleted objects were composed of.",
        summary: "Deletes one or more keys; here the same as DEL.",
        run: del,
        subcommands: &[],
    },
    Row {
        name: "exists",
        arity: -2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ALL_KEYS,
        placement: Placement::Split(Join::Sum),
        group: "generic",
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys to check.",
        summary: "Counts how many of the given keys exist, each as often as it is given.",
        run: exists,
        subcommands: &[],
    },
    Row {
        name: "touch",
        arity: -2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ALL_KEYS,
        placement: Placement::Split(Join::Sum),
        group: "generic",
        since: "3.2.1",
        complexity: "O(N) where N is the number of keys that will be touched.",
        summary: "Notes an access of the given keys and counts those that exist.",
        run: touch,
        subcommands: &[],
    },
    Row {
        name: "type",
        arity: 2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "generic",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the type of the value that a key holds.",
        run: type_of,
        subcommands: &[],
    },
    Row {
        name: "rename",
        arity: 3,
        flags: Flags::WRITE,
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "generic",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Renames a key, in the place of what the new name held.",
        run: rename,
        subcommands: &[],
    },
    Row {
        name: "renamenx",
        arity: 3,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "generic",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Renames a key, only if the new name does not exist.",
        run: renamenx,
        subcommands: &[],
    },
    Row {
        name: "copy",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "generic",
        since: "6.2.0",
        complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
        summary: "Copies the value of a key to a new key.",
        run: copy,
        subcommands: &[],
    },
    Row {
        name: "move",
        arity: 3,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "generic",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Moves a key to another database: an error, for there is one only.",
        run: move_to_database,
        subcommands: &[],
    },
];

fn del(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let mut removed = 0;
    for key in args.skip(1).iter() {
        if cx.keyspace.remove(key, cx.now, cx.effects) {
            cx.effects.emit(&[b"DEL", key]);
            cx.keyspace.note_event(EventClasses::GENERIC, "del", key);
            removed += 1;
        }
    }
    cx.reply.length(removed);
    Ok(())
}

fn exists(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let keys = args.skip(1).iter();
    let found = keys.filter(|key| cx.keyspace.peek(key, cx.now, cx.effects).is_some());
    let count = found.count();
    cx.reply.length(count);
    Ok(())
}

fn touch(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let keys = args.skip(1).iter();
    let found = keys.filter(|key| cx.keyspace.lookup(key, cx.now, cx.effects).is_some());
    let count = found.count();
    cx.reply.length(count);
    Ok(())
}

fn type_of(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let entry = cx.keyspace.peek(args.at(1), cx.now, cx.effects);
    cx.reply.simple(entry.map_or("none", |e| e.type_name()));
    Ok(())
}

fn rename(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (args.at(1), args.at(2));
    require_key(cx, from)?;
    if from != to {
        move_key(cx, from, to);
    }
    cx.reply.ok();
    Ok(())
}

fn renamenx(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (args.at(1), args.at(2));
    require_key(cx, from)?;
    let free = !cx
        .keyspace
        .lookup_for_write(to, cx.now, cx.effects)
        .exists();
    if free {
        move_key(cx, from, to);
    }
    cx.reply.integer(i64::from(free));
    Ok(())
}

fn require_key(cx: &mut Context<'_>, key: &[u8]) -> Result<(), ErrorReply> {
    if cx
        .keyspace
        .lookup_for_write(key, cx.now, cx.effects)
        .exists()
    {
        Ok(())
    } else {
        Err(ErrorReply::NoSuchKey)
    }
}

/// Gives the entry at `from`, which exists, the name `to`.
fn move_key(cx: &mut Context<'_>, from: &[u8], to: &[u8]) {
    let Some(moved) = cx.keyspace.take(from) else {
        return;
    };
    cx.effects.emit(&[b"DEL", from]);
    place(cx, moved.with_key(to));
    cx.keyspace
        .note_event(EventClasses::GENERIC, "rename_from", from);
    cx.keyspace
        .note_event(EventClasses::GENERIC, "rename_to", to);
}

/// Puts an entry in the place of what its key held, expired or not.
fn place(cx: &mut Context<'_>, entry: Detached) {
    // An expired entry in the way goes first, with its effect and count.
    cx.keyspace.remove(entry.key(), cx.now, cx.effects);
    entry.emit_effects(cx.effects);
    cx.keyspace
        .note_event(EventClasses::NEW, "new", entry.key());
    cx.keyspace.put(entry);
}

/// The only database that a key may be moved to is the one it is in.
fn move_to_database(_cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    database(args.at(2))?;
    Err(SAME_OBJECT)
}

fn copy(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (from, to) = (args.at(1), args.at(2));
    let replace = copy_options(args)?;
    if from == to {
        return Err(SAME_OBJECT);
    }
    let copied = copy_key(cx, from, to, replace);
    cx.reply.integer(i64::from(copied));
    Ok(())
}

fn copy_key(cx: &mut Context<'_>, from: &[u8], to: &[u8], replace: bool) -> bool {
    if cx.keyspace.lookup(from, cx.now, cx.effects).is_none() {
        return false;
    }
    let taken = cx
        .keyspace
        .lookup_for_write(to, cx.now, cx.effects)
        .exists();
    if taken && !replace {
        return false;
    }
    let Some(copied) = cx.keyspace.copy_as(from, to) else {
        return false;
    };
    place(cx, copied);
    // To the eviction the copy is a new key.
    let mut copy = cx.keyspace.lookup_for_write(to, cx.now, cx.effects);
    copy.set_access(0, None);
    copy.note_event(EventClasses::GENERIC, "copy_to");
    true
}

/// Reads `[DB 0] [REPLACE]`; says whether to replace.
fn copy_options(args: Args<'_>) -> Result<bool, ErrorReply> {
    let mut replace = false;
    let mut at = 3;
    while at < args.len() {
        if is_option(args, at, "replace") {
            replace = true;
            at += 1;
        } else if is_option(args, at, "db") && at + 1 < args.len() {
            database(args.at(at + 1))?;
            at += 2;
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok(replace)
}
