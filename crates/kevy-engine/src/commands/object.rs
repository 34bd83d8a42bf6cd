//! `OBJECT`: how a value is stored and when it was used.

use crate::keyspace::{AccessTracking, Entry};
use crate::{Command, Context};
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[Row {
    name: "object",
    arity: -2,
    flags: Flags::NONE,
    keys: Keys::None,
    placement: Placement::Together,
    group: "generic",
    since: "2.2.3",
    complexity: "Depends on subcommand.",
    summary: "A container for object introspection commands.",
    run: help,
    subcommands: &[
        row(
            "encoding",
            "2.2.3",
            "Returns the internal encoding of a value.",
            encoding,
        ),
        row(
            "freq",
            "4.0.0",
            "Returns the logarithmic access frequency counter of a key.",
            freq,
        ),
        Row {
            name: "help",
            arity: 2,
            flags: Flags::LOADING.with(Flags::STALE),
            keys: Keys::None,
            placement: Placement::Together,
            ..row(
                "help",
                "6.2.0",
                "Returns helpful text about the different subcommands.",
                help,
            )
        },
        row(
            "idletime",
            "2.2.3",
            "Returns the time since the last access of a key.",
            idletime,
        ),
        row(
            "refcount",
            "2.2.3",
            "Returns the number of references to the value of a key.",
            refcount,
        ),
    ],
}];

const fn row(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: crate::Run,
) -> Command {
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
        group: "generic",
        since,
        complexity: "O(1)",
        summary,
        run,
        subcommands: &[],
    }
}

fn encoding(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let entry = cx.keyspace.inspect(args.at(2), cx.now, cx.effects);
    let name = entry.map(|entry| entry.encoding().name().as_bytes());
    cx.reply.bulk_or_null(name);
    Ok(())
}

fn freq(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let tracking = cx.keyspace.access_tracking();
    let Some(entry) = cx.keyspace.inspect(args.at(2), cx.now, cx.effects) else {
        cx.reply.null();
        return Ok(());
    };
    match tracking {
        AccessTracking::Lfu => cx.reply.integer(i64::from(entry.frequency(cx.now))),
        AccessTracking::Lru => {
            return Err(ErrorReply::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    }
    Ok(())
}

fn idletime(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let tracking = cx.keyspace.access_tracking();
    let Some(entry) = cx.keyspace.inspect(args.at(2), cx.now, cx.effects) else {
        cx.reply.null();
        return Ok(());
    };
    match tracking {
        AccessTracking::Lru => cx.reply.integer(i64::from(entry.idle_seconds(cx.now))),
        AccessTracking::Lfu => {
            return Err(ErrorReply::text(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    }
    Ok(())
}

fn refcount(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    // Values are never shared.
    let references = |_: &Entry| 1;
    match cx
        .keyspace
        .inspect(args.at(2), cx.now, cx.effects)
        .map(references)
    {
        Some(count) => cx.reply.integer(count),
        None => cx.reply.null(),
    }
    Ok(())
}

fn help(cx: &mut Context<'_>, _args: Args<'_>) -> Result<(), ErrorReply> {
    const LINES: [&str; 15] = [
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
        "HELP",
        "    Prints this help.",
    ];
    cx.reply.array(LINES.len());
    for line in LINES {
        cx.reply.simple(line);
    }
    Ok(())
}
