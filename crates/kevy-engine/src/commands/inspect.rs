//! What operators and tests look at in a key: `MEMORY USAGE`, and the parts of `DEBUG` that name a key. The rest of these two
//! containers is the node's.

use crate::keyspace::{Encoding, Entry};
use crate::number::integer;
use crate::rdb::Encoded;
use crate::{Command, Context};
use alloc::format;
use alloc::string::String;
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// Bytes of a payload that are not the value: its type, the version and the checksum.
const PAYLOAD_FRAME_BYTES: usize = 1 + 2 + 8;
const ADMIN: Flags = Flags::ADMIN
    .with(Flags::NOSCRIPT)
    .with(Flags::LOADING)
    .with(Flags::STALE);

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "memory",
        arity: -2,
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "A container for memory diagnostics commands.",
        run: no_subcommand,
        subcommands: &[Row {
            name: "usage",
            arity: -3,
            flags: Flags::READONLY,
            since: "4.0.0",
            complexity: "O(N) where N is the number of samples.",
            summary: "Estimates the memory usage of a key.",
            run: usage,
            ..KEYED
        }],
        flags: Flags::NONE,
        keys: Keys::None,
        ..KEYED
    },
    Row {
        name: "debug",
        arity: -2,
        flags: ADMIN,
        keys: Keys::None,
        summary: "A container for debugging commands.",
        run: no_subcommand,
        subcommands: &[
            Row {
                name: "object",
                summary: "Tells how a key's value is stored.",
                run: debug_object,
                ..KEYED
            },
            Row {
                name: "sdslen",
                summary: "Tells how long a key and its string are.",
                run: sds_length,
                ..KEYED
            },
            Row {
                name: "listpack",
                summary: "Says whether a key's value is kept compactly.",
                run: listpack,
                ..KEYED
            },
        ],
        ..KEYED
    },
];

const KEYED: Command = Row {
    name: "",
    arity: 3,
    flags: ADMIN,
    keys: Keys::Range {
        first: 2,
        last: 2,
        step: 1,
    },
    placement: Placement::Together,
    group: "server",
    since: "1.0.0",
    complexity: "O(1)",
    summary: "",
    run: no_subcommand,
    subcommands: &[],
};

const NO_SUCH_KEY: ErrorReply = ErrorReply::NoSuchKey;

fn no_subcommand(_: &mut Context<'_>, _: Args<'_>) -> Result<(), ErrorReply> {
    Err(ErrorReply::Syntax)
}

/// `MEMORY USAGE key [SAMPLES count]`. Nothing is sampled: each value knows what it takes.
fn usage(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let mut at = 3;
    while let Some(option) = args.get(at) {
        let (true, Some(count)) = (option.eq_ignore_ascii_case(b"samples"), args.get(at + 1))
        else {
            return Err(ErrorReply::Syntax);
        };
        if integer(count)? < 0 {
            return Err(ErrorReply::Syntax);
        }
        at += 2;
    }
    match cx.keyspace.peek(args.at(2), cx.now, cx.effects) {
        Some(entry) => {
            let bytes = entry.memory_bytes();
            cx.reply.length(bytes);
        }
        None => cx.reply.null(),
    }
    Ok(())
}

/// The address is none: values move.
fn debug_object(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let fields_now_ms = cx.keyspace.fields_now_ms(cx.now);
    let (now, limits) = (cx.now, cx.keyspace.encoding_limits());
    let entry = cx
        .keyspace
        .peek(args.at(2), now, cx.effects)
        .ok_or(NO_SUCH_KEY)?;
    let payload = Encoded::of(entry, fields_now_ms).map(|encoded| encoded.into_payload().len());
    let serialized = payload
        .unwrap_or_default()
        .saturating_sub(PAYLOAD_FRAME_BYTES);
    let idle = entry.idle_seconds(now);
    let seconds = (now.unix.0 / 1000) as u32 & 0x00ff_ffff;
    let mut text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{serialized} lru:{} lru_seconds_idle:{idle}",
        entry.encoding().name(),
        seconds.wrapping_sub(idle) & 0x00ff_ffff,
    );
    if entry.encoding() == Encoding::Quicklist {
        text.push_str(&quicklist(entry, limits.list_max_listpack_size));
    }
    cx.reply.simple(&text);
    Ok(())
}

/// What Redis adds about a large list.
fn quicklist(entry: &Entry, max: i64) -> String {
    let bytes = entry.memory_bytes();
    format!(" ql_listpack_max:{max} ql_compressed:0 ql_uncompressed_size:{bytes}")
}

fn sds_length(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(2);
    let entry = cx
        .keyspace
        .peek(key, cx.now, cx.effects)
        .ok_or(NO_SUCH_KEY)?;
    let value = match (entry.encoding(), entry.string()) {
        (Encoding::Raw | Encoding::Embstr, Ok(value)) => value.len(),
        _ => return Err(ErrorReply::text("ERR Not an sds encoded string.")),
    };
    let text = format!(
        "key_sds_len:{length}, key_sds_avail:0, key_zmalloc: {length}, val_sds_len:{value}, val_sds_avail:0, val_zmalloc: {value}",
        length = key.len(),
    );
    cx.reply.simple(&text);
    Ok(())
}

fn listpack(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let entry = cx
        .keyspace
        .peek(args.at(2), cx.now, cx.effects)
        .ok_or(NO_SUCH_KEY)?;
    if entry.encoding() != Encoding::Listpack {
        return Err(ErrorReply::text("ERR Not a listpack encoded object."));
    }
    cx.reply.simple("Listpack structure printed on stdout");
    Ok(())
}
