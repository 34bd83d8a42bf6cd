//! Strings as rows of bits.

mod bits;

use super::string::{clamped_range, is_backwards, is_raw};
use crate::keyspace::{Encoding, Expiry};
use crate::{Command, Context, EventClasses, number};
use alloc::vec::Vec;
use bits::Operation;
use core::ops::Range;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

const BAD_OFFSET: ErrorReply = ErrorReply::text("ERR bit offset is not an integer or out of range");

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "setbit",
        arity: 4,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "bitmap",
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Sets or clears the bit at offset in the string value stored at key",
        run: setbit,
        subcommands: &[],
    },
    Row {
        name: "getbit",
        arity: 3,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "bitmap",
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Returns the bit value at offset in the string value stored at key",
        run: getbit,
        subcommands: &[],
    },
    Row {
        name: "bitcount",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "bitmap",
        since: "2.6.0",
        complexity: "O(N)",
        summary: "Count set bits in a string",
        run: bitcount,
        subcommands: &[],
    },
    Row {
        name: "bitpos",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "bitmap",
        since: "2.8.7",
        complexity: "O(N)",
        summary: "Find first bit set or clear in a string",
        run: bitpos,
        subcommands: &[],
    },
    Row {
        name: "bitop",
        arity: -4,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: Keys::Range {
            first: 2,
            last: -1,
            step: 1,
        },
        placement: Placement::Together,
        group: "bitmap",
        since: "2.6.0",
        complexity: "O(N)",
        summary: "Perform bitwise operations between strings",
        run: bitop,
        subcommands: &[],
    },
];

/// The offset of a bit that `text` says; the unit is `unit_bits` bits after a `#`. It
/// must lie within a string of `longest_bytes`.
pub(super) fn bit_offset(
    text: &[u8],
    unit_bits: Option<u32>,
    longest_bytes: usize,
) -> Result<usize, ErrorReply> {
    let offset = match (text, unit_bits) {
        // Redis multiplies without a check for overflow, so that some huge offsets come out small.
        ([b'#', number @ ..], Some(bits)) => {
            number::parse_i64(number).map(|number| number.wrapping_mul(i64::from(bits)))
        }
        (number, Some(_) | None) => number::parse_i64(number),
    };
    offset
        .filter(|offset| usize::try_from(offset >> 3).is_ok_and(|byte| byte < longest_bytes))
        .map(|offset| offset as usize)
        .ok_or(BAD_OFFSET)
}

fn bit_at(bytes: &[u8], offset: usize) -> bool {
    bytes
        .get(offset / 8)
        .is_some_and(|byte| byte << (offset % 8) & 0x80 != 0)
}

fn setbit(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let offset = bit_offset(args.at(2), None, ctx.keyspace.longest_string_bytes())?;
    let bit = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => {
            return Err(ErrorReply::text(
                "ERR bit is not an integer or out of range",
            ));
        }
    };
    let access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    let bytes = access.string()?.unwrap_or_default();
    let (old, length) = (bit_at(bytes, offset), bytes.len());
    ctx.reply.integer(i64::from(old));
    if old == bit && offset / 8 < length && is_raw(&access) {
        return Ok(());
    }
    let end = offset / 8 + 1;
    let mut string = access.string_mut(end.saturating_sub(length))?;
    string.extend_to(end);
    let byte = &mut string.bytes_mut()[offset / 8];
    let mask = 0x80 >> (offset % 8);
    *byte = if bit { *byte | mask } else { *byte & !mask };
    drop(string);
    ctx.effects.emit(&[b"SETBIT", key, args.at(2), args.at(3)]);
    // What only changes how the string is held is none.
    if old != bit || end > length {
        ctx.keyspace.note_event(EventClasses::STRING, "setbit", key);
    }
    Ok(())
}

fn getbit(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let offset = bit_offset(args.at(2), None, ctx.keyspace.longest_string_bytes())?;
    let value = ctx.keyspace.string(args.at(1), ctx.now, ctx.effects)?;
    let bit = bit_at(value.unwrap_or_default(), offset);
    ctx.reply.integer(i64::from(bit));
    Ok(())
}

/// How many bits one step of a range has: 1 after `BIT`, 8 after `BYTE` or nothing.
fn parse_unit(unit: Option<&[u8]>) -> Result<usize, ErrorReply> {
    match unit {
        None => Ok(8),
        Some(unit) if unit.eq_ignore_ascii_case(b"BYTE") => Ok(8),
        Some(unit) if unit.eq_ignore_ascii_case(b"BIT") => Ok(1),
        Some(_) => Err(ErrorReply::Syntax),
    }
}

fn bitcount(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let value = ctx.keyspace.string(args.at(1), ctx.now, ctx.effects)?;
    let Some(bytes) = value else {
        // Redis does not look at the range of a key that is not there.
        ctx.reply.integer(0);
        return Ok(());
    };
    let count = match args.len() {
        2 => bits::count_ones(bytes),
        4 | 5 => bits::count_range(bytes, counted_range(args, bytes.len())?),
        _ => return Err(ErrorReply::Syntax),
    };
    ctx.reply.integer(count as i64);
    Ok(())
}

/// The positions that the arguments of `BITCOUNT` name in a string of `length` bytes.
fn counted_range(args: Args<'_>, length: usize) -> Result<Range<usize>, ErrorReply> {
    let start = number::integer(args.at(2))?;
    let end = number::integer(args.at(3))?;
    if is_backwards(start, end) {
        // Redis sees this before it looks at the unit.
        return Ok(0..0);
    }
    let unit = parse_unit(args.get(4))?;
    let range = clamped_range(start, end, length * 8 / unit);
    Ok(range.start * unit..range.end * unit)
}

fn bitpos(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let bit = match number::integer(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err(ErrorReply::text("ERR The bit argument must be 1 or 0.")),
    };
    let value = ctx.keyspace.string(args.at(1), ctx.now, ctx.effects)?;
    let Some(bytes) = value else {
        // Zeros go on for ever where there is no key; Redis does not look at the range.
        ctx.reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    if args.len() > 6 {
        return Err(ErrorReply::Syntax);
    }
    let start = args.get(3).map_or(Ok(0), number::integer)?;
    let unit = parse_unit(args.get(5))?;
    let end = args.get(4).map_or(Ok(-1), number::integer)?;
    let range = clamped_range(start, end, bytes.len() * 8 / unit);
    // Without an end, zeros follow the string.
    let open = !bit && args.len() < 5 && !range.is_empty();
    let position = bits::find(bytes, bit, range.start * unit..range.end * unit)
        .or_else(|| open.then_some(bytes.len() * 8));
    ctx.reply
        .integer(position.map_or(-1, |position| position as i64));
    Ok(())
}

fn bitop(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let is = |name: &[u8]| args.at(1).eq_ignore_ascii_case(name);
    let sources = args.skip(3);
    let result = if is(b"AND") {
        combine(ctx, sources, Operation::And)?
    } else if is(b"OR") {
        combine(ctx, sources, Operation::Or)?
    } else if is(b"XOR") {
        combine(ctx, sources, Operation::Xor)?
    } else if !is(b"NOT") {
        return Err(ErrorReply::Syntax);
    } else if sources.len() != 1 {
        return Err(ErrorReply::text(
            "ERR BITOP NOT must be called with a single source key.",
        ));
    } else {
        let mut result = combine(ctx, sources, Operation::Or)?;
        bits::invert(&mut result);
        result
    };
    store(ctx, args.at(2), &result);
    ctx.reply.length(result.len());
    Ok(())
}

fn combine(
    ctx: &mut Context<'_>,
    keys: Args<'_>,
    operation: Operation,
) -> Result<Vec<u8>, ErrorReply> {
    let mut result = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let value = ctx.keyspace.string(key, ctx.now, ctx.effects)?;
        let source = value.unwrap_or_default();
        if index == 0 {
            result.extend_from_slice(source);
            continue;
        }
        if source.len() > result.len() {
            result.resize(source.len(), 0);
        }
        bits::combine(&mut result, source, operation);
    }
    Ok(result)
}

/// Sets `key` to a raw string, or removes it if there is nothing to hold, and tells the log.
fn store(ctx: &mut Context<'_>, key: &[u8], value: &[u8]) {
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    if value.is_empty() {
        if access.remove() {
            ctx.effects.emit(&[b"DEL", key]);
            access.note_event(EventClasses::GENERIC, "del");
        }
        return;
    }
    access.set_encoded(value, Encoding::Raw, Expiry::Never);
    access.note_event(EventClasses::STRING, "set");
    if Encoding::of_string(value) == Encoding::Raw {
        ctx.effects.emit(&[b"SET", key, value]);
    } else {
        // `SET` alone would make the short string compact again.
        ctx.effects.emit(&[b"SET", key, b""]);
        ctx.effects.emit(&[b"APPEND", key, value]);
    }
}
