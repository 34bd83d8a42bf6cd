//! `DUMP` and `RESTORE`: keys that travel to and from Redis.

use super::is_option;
use crate::keyspace::{Expiry, ExpiryMode};
use crate::number::integer;
use crate::rdb::{Decoded, Encoded, Kind, Reader, decode, payload};
use crate::value::EncodingLimits;
use crate::{Command, Context, EventClasses};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::UnixMillis;

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "dump",
        arity: 2,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "generic",
        since: "2.6.0",
        complexity: "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
        summary: "Returns a serialized form of the value that a key holds.",
        run: dump,
        subcommands: &[],
    },
    RESTORE,
    Row {
        name: "restore-asking",
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::ASKING),
        group: "server",
        since: "3.0.0",
        summary: "Creates a key from the serialized form of a value while its slot moves.",
        ..RESTORE
    },
];

const RESTORE: Command = Row {
    name: "restore",
    arity: -4,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: ONE_KEY,
    placement: Placement::Together,
    group: "generic",
    since: "2.6.0",
    complexity: "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).",
    summary: "Creates a key from the serialized form of a value.",
    run: restore,
    subcommands: &[],
};

fn dump(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let fields_now_ms = cx.keyspace.fields_now_ms(cx.now);
    let entry = cx.keyspace.lookup(args.at(1), cx.now, cx.effects);
    match entry.and_then(|entry| Encoded::of(entry, fields_now_ms)) {
        Some(encoded) => cx.reply.bulk(&encoded.into_payload()),
        None => cx.reply.null(),
    }
    Ok(())
}

fn restore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let options = Options::read(args)?;
    let key = args.at(1);
    let exists = cx.keyspace.peek(key, cx.now, cx.effects).is_some();
    if exists && !options.replace {
        return Err(ErrorReply::text("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = integer(args.at(2))?;
    if ttl_ms < 0 {
        return Err(ErrorReply::text("ERR Invalid TTL value, must be >= 0"));
    }
    let value = decode_payload(payload::open(args.at(3))?, &cx.keyspace.encoding_limits())?;
    let deadline = options.deadline(ttl_ms, cx.now.unix);
    let passed = deadline.is_some_and(|at| at <= cx.now.unix)
        && cx.keyspace.expiry_mode() != ExpiryMode::Ignore;
    if passed {
        remove(cx, key);
    } else {
        let mut access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
        let text = match value {
            Decoded::String(text) => {
                if exists {
                    // To Redis it is another key.
                    access.note_event(EventClasses::NEW, "new");
                }
                access.set_string(&text, deadline.map_or(Expiry::Never, Expiry::At));
                Some(text)
            }
            Decoded::Collection(value) => {
                access.set_value(value, deadline);
                None
            }
        };
        access.set_access(options.idle_seconds, options.frequency);
        access.note_event(EventClasses::GENERIC, "restore");
        emit_effects(cx, args, text.as_deref(), deadline);
    }
    cx.reply.ok();
    Ok(())
}

/// The value in a payload without footer. Bytes after the value are ignored, as Redis ignores them.
fn decode_payload<'a>(bytes: &'a [u8], limits: &EncodingLimits) -> Result<Decoded<'a>, ErrorReply> {
    let mut reader = Reader::new(bytes);
    let kind = reader.byte().and_then(Kind::from_byte);
    kind.and_then(|kind| decode(kind, &mut reader, limits))
        .ok_or(ErrorReply::text("ERR Bad data format"))
}

fn remove(cx: &mut Context<'_>, key: &[u8]) {
    if cx.keyspace.remove(key, cx.now, cx.effects) {
        cx.effects.emit(&[b"DEL", key]);
        cx.keyspace.note_event(EventClasses::GENERIC, "del", key);
    }
}

/// Emits what sets the key: a string, if it is one, in the open; anything else by its payload.
fn emit_effects(
    cx: &mut Context<'_>,
    args: Args<'_>,
    text: Option<&[u8]>,
    deadline: Option<UnixMillis>,
) {
    let (key, payload) = (args.at(1), args.at(3));
    let mut digits = itoa::Buffer::new();
    let at = digits.format(deadline.map_or(0, |at| at.0)).as_bytes();
    match (text, deadline) {
        (Some(text), Some(_)) => cx.effects.emit(&[b"SET", key, text, b"PXAT", at]),
        (Some(text), None) => cx.effects.emit(&[b"SET", key, text]),
        (None, _) => {
            let request = [&b"RESTORE"[..], key, at, payload, b"REPLACE", b"ABSTTL"];
            cx.effects.emit(&request);
        }
    }
}

/// `[REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`; the last two exclude each other.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_seconds: u32,
    has_idle: bool,
    frequency: Option<u8>,
}

impl Options {
    fn read(args: Args<'_>) -> Result<Self, ErrorReply> {
        let mut options = Self::default();
        let mut at = 4;
        while at < args.len() {
            let value = args.get(at + 1);
            match value {
                _ if is_option(args, at, "replace") => options.replace = true,
                _ if is_option(args, at, "absttl") => options.absolute = true,
                Some(value) if is_option(args, at, "idletime") && options.frequency.is_none() => {
                    options.idle_seconds = idle_seconds(value)?;
                    options.has_idle = true;
                    at += 1;
                }
                Some(value) if is_option(args, at, "freq") && !options.has_idle => {
                    options.frequency = Some(frequency(value)?);
                    at += 1;
                }
                Some(_) | None => return Err(ErrorReply::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }

    fn deadline(&self, ttl_ms: i64, now: UnixMillis) -> Option<UnixMillis> {
        let base = if self.absolute { 0 } else { now.0 };
        (ttl_ms > 0).then(|| UnixMillis(base.saturating_add(ttl_ms)))
    }
}

fn idle_seconds(text: &[u8]) -> Result<u32, ErrorReply> {
    let seconds = integer(text)?;
    if seconds < 0 {
        return Err(ErrorReply::text("ERR Invalid IDLETIME value, must be >= 0"));
    }
    Ok(u32::try_from(seconds).unwrap_or(u32::MAX))
}

fn frequency(text: &[u8]) -> Result<u8, ErrorReply> {
    u8::try_from(integer(text)?)
        .map_err(|_| ErrorReply::text("ERR Invalid FREQ value, must be >= 0 and <= 255"))
}
