//! `BITFIELD`: integers of any width at any bit of a string.

mod field;

use super::bitmap::bit_offset;
use super::string::is_raw;
use crate::keyspace::StringMut;
use crate::{Command, Context, EventClasses, number};
use alloc::vec::Vec;
use field::{Field, Overflow};
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

const BAD_TYPE: ErrorReply = ErrorReply::text(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "bitfield",
        arity: -2,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "bitmap",
        since: "3.2.0",
        complexity: "O(1) for each subcommand specified",
        summary: "Perform arbitrary bitfield integer operations on strings",
        run: bitfield,
        subcommands: &[],
    },
    Row {
        name: "bitfield_ro",
        arity: -2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "bitmap",
        since: "6.0.0",
        complexity: "O(1) for each subcommand specified",
        summary: "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD",
        run: bitfield_ro,
        subcommands: &[],
    },
];

/// One operation on one field.
#[derive(Clone, Copy)]
struct Step {
    field: Field,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

fn bitfield(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let steps = parse(args.skip(2), ctx.keyspace.longest_string_bytes())?;
    let Some(end) = written_end(&steps) else {
        return read_all(ctx, key, &steps);
    };
    let access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let length = access.string()?.map_or(0, <[u8]>::len);
    let becomes_raw = !is_raw(&access);
    let mut changed = length < end;
    let mut string = access.string_mut(end.saturating_sub(length))?;
    // Even if every write fails by overflow, as in Redis.
    string.extend_to(end);
    ctx.reply.array(steps.len());
    for step in steps {
        changed |= apply(step, &mut string, &mut ctx.reply);
    }
    drop(string);
    if changed {
        ctx.keyspace.note_event(EventClasses::STRING, "setbit", key);
    }
    if changed || becomes_raw {
        let effect: Vec<&[u8]> = args.iter().collect();
        ctx.effects.emit(&effect);
    }
    Ok(())
}

fn bitfield_ro(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let steps = parse(args.skip(2), ctx.keyspace.longest_string_bytes())?;
    if written_end(&steps).is_some() {
        return Err(ErrorReply::text(
            "ERR BITFIELD_RO only supports the GET subcommand",
        ));
    }
    read_all(ctx, args.at(1), &steps)
}

fn read_all(ctx: &mut Context<'_>, key: &[u8], steps: &[Step]) -> Result<(), ErrorReply> {
    let value = ctx.keyspace.string(key, ctx.now, ctx.effects)?;
    let bytes = value.unwrap_or_default();
    ctx.reply.array(steps.len());
    for step in steps {
        ctx.reply.integer(step.field.read(bytes));
    }
    Ok(())
}

/// The length that the string must have for all writes, in bytes; `None` if nothing is written.
fn written_end(steps: &[Step]) -> Option<usize> {
    steps
        .iter()
        .filter(|step| !matches!(step.action, Action::Get))
        .map(|step| step.field.end_bytes())
        .max()
}

/// Takes one step and replies; says whether it changed the string.
fn apply(step: Step, string: &mut StringMut<'_>, reply: &mut Encoder<'_>) -> bool {
    let field = step.field;
    let old = field.read(string.bytes());
    let (new, answer) = match step.action {
        Action::Get => (None, Some(old)),
        Action::Set(value, overflow) => {
            let new = field.fit(value, overflow);
            (new, new.map(|_| old))
        }
        Action::Increment(by, overflow) => {
            let new = field.increment(old, by, overflow);
            (new, new)
        }
    };
    match answer {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
    let Some(new) = new else {
        return false;
    };
    field.write(string.bytes_mut(), new);
    new != old
}

fn parse(args: Args<'_>, longest_bytes: usize) -> Result<Vec<Step>, ErrorReply> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 0;
    while let Some(name) = args.get(at) {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        let has = |more: usize| at + more < args.len();
        if is(b"OVERFLOW") && has(1) {
            overflow = parse_overflow(args.at(at + 1))?;
            at += 2;
        } else if is(b"GET") && has(2) {
            let field = parse_field(args.skip(at + 1), longest_bytes)?;
            steps.push(Step {
                field,
                action: Action::Get,
            });
            at += 3;
        } else if (is(b"SET") || is(b"INCRBY")) && has(3) {
            let field = parse_field(args.skip(at + 1), longest_bytes)?;
            let value = number::integer(args.at(at + 3))?;
            let action = if is(b"SET") {
                Action::Set(value, overflow)
            } else {
                Action::Increment(value, overflow)
            };
            steps.push(Step { field, action });
            at += 4;
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok(steps)
}

fn parse_overflow(text: &[u8]) -> Result<Overflow, ErrorReply> {
    const NAMES: [(&[u8], Overflow); 3] = [
        (b"WRAP", Overflow::Wrap),
        (b"SAT", Overflow::Saturate),
        (b"FAIL", Overflow::Fail),
    ];
    NAMES
        .into_iter()
        .find(|(name, _)| text.eq_ignore_ascii_case(name))
        .map(|(_, overflow)| overflow)
        .ok_or(ErrorReply::text("ERR Invalid OVERFLOW type specified"))
}

/// The field that a type and an offset describe.
fn parse_field(args: Args<'_>, longest_bytes: usize) -> Result<Field, ErrorReply> {
    let (signed, bits) = match args.at(0) {
        [b'i', bits @ ..] => (true, bits),
        [b'u', bits @ ..] => (false, bits),
        _ => return Err(BAD_TYPE),
    };
    let widest = if signed { 64 } else { 63 };
    let bits = number::parse_i64(bits)
        .filter(|bits| (1..=widest).contains(bits))
        .ok_or(BAD_TYPE)? as u32;
    let offset = bit_offset(args.at(1), Some(bits), longest_bytes)?;
    Ok(Field {
        signed,
        bits,
        offset,
    })
}
