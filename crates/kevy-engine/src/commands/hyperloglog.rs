//! `PFADD PFCOUNT PFMERGE PFDEBUG`: counting different elements in strings.

use super::expiry::is;
use crate::hyperloglog::{self, Corrupted, Encoding, Observation, REGISTERS};
use crate::keyspace::{self, Expiry, ExpiryMode, KeyAccess};
use crate::{Command, Context, EventClasses};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use kevy_proto::command::{ALL_KEYS, Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "pfadd",
        arity: -2,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "hyperloglog",
        since: "2.8.9",
        complexity: "O(1) to add every element.",
        summary: "Adds elements to a HyperLogLog; says whether its count may have changed.",
        run: pfadd,
        subcommands: &[],
    },
    Row {
        name: "pfcount",
        arity: -2,
        flags: Flags::READONLY.with(Flags::MAY_REPLICATE),
        keys: ALL_KEYS,
        placement: Placement::Together,
        group: "hyperloglog",
        since: "2.8.9",
        complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, and much bigger constant times, when called with multiple keys.",
        summary: "Estimates how many different elements HyperLogLogs hold together.",
        run: pfcount,
        subcommands: &[],
    },
    Row {
        name: "pfmerge",
        arity: -2,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ALL_KEYS,
        placement: Placement::Together,
        group: "hyperloglog",
        since: "2.8.9",
        complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
        summary: "Adds the elements of HyperLogLogs to the first of them.",
        run: pfmerge,
        subcommands: &[],
    },
    Row {
        name: "pfdebug",
        arity: 3,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::ADMIN),
        keys: Keys::Range {
            first: 2,
            last: 2,
            step: 1,
        },
        placement: Placement::Together,
        group: "hyperloglog",
        since: "2.8.9",
        complexity: "N/A",
        summary: "Shows the inside of a HyperLogLog: ENCODING, GETREG, DECODE; or makes it dense: TODENSE.",
        run: pfdebug,
        subcommands: &[],
    },
    Row {
        name: "pfselftest",
        arity: 1,
        flags: Flags::ADMIN,
        keys: Keys::None,
        placement: Placement::Together,
        group: "hyperloglog",
        since: "2.8.9",
        complexity: "N/A",
        summary: "Counts known numbers of elements and says whether the estimates are near.",
        run: pfselftest,
        subcommands: &[],
    },
];

const NOT_VALID: ErrorReply =
    ErrorReply::text("WRONGTYPE Key is not a valid HyperLogLog string value.");

fn corrupted(_: Corrupted) -> ErrorReply {
    ErrorReply::text("INVALIDOBJ Corrupted HLL object detected")
}

fn encoding(bytes: &[u8]) -> Result<Encoding, ErrorReply> {
    hyperloglog::encoding(bytes).ok_or(NOT_VALID)
}

fn pfadd(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let limit = cx.keyspace.encoding_limits().hll_sparse_max_bytes;
    let observations = args.skip(2).iter().map(Observation::of);
    let access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
    let found = access.string()?;
    let changed = match found.map(encoding).transpose()? {
        Some(Encoding::Dense) => add_dense(access, observations)?,
        Some(Encoding::Sparse) | None => add_sparse(access, observations, limit)?,
    };
    if changed {
        let request: Vec<&[u8]> = [&b"PFADD"[..], key]
            .into_iter()
            .chain(args.skip(2).iter())
            .collect();
        cx.effects.emit(&request);
        cx.keyspace.note_event(EventClasses::STRING, "pfadd", key);
    }
    cx.reply.integer(i64::from(changed));
    Ok(())
}

/// Adds to a dense one where it stands.
fn add_dense(
    access: KeyAccess<'_>,
    observations: impl Iterator<Item = Observation>,
) -> Result<bool, ErrorReply> {
    let mut string = access.string_mut(0)?;
    let bytes = string.bytes_mut();
    let mut changed = false;
    for observation in observations {
        changed |= hyperloglog::raise_dense(bytes, observation);
    }
    if changed {
        hyperloglog::forget_count(bytes);
    }
    Ok(changed)
}

/// Adds to a sparse one, or to a new one; it may become dense.
fn add_sparse(
    mut access: KeyAccess<'_>,
    observations: impl Iterator<Item = Observation>,
    limit: usize,
) -> Result<bool, ErrorReply> {
    let mut changed = !access.exists();
    let mut bytes = access
        .string()?
        .map_or_else(hyperloglog::empty, <[u8]>::to_vec);
    for observation in observations {
        changed |= hyperloglog::raise(&mut bytes, observation, limit).map_err(corrupted)?;
    }
    if changed {
        hyperloglog::forget_count(&mut bytes);
        store(&mut access, &bytes);
    }
    Ok(changed)
}

/// Keeps `bytes` as Redis does: a raw string, its expiry as it was.
fn store(access: &mut KeyAccess<'_>, bytes: &[u8]) {
    access.set_encoded(bytes, keyspace::Encoding::Raw, Expiry::Keep);
}

fn pfcount(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let count = if args.len() == 2 {
        count_one(cx, args.at(1))?
    } else {
        hyperloglog::count_registers(&union(cx, args.skip(1))?.registers)
    };
    cx.reply.integer(count);
    Ok(())
}

/// The count of one key, cached in its value for the next time.
fn count_one(cx: &mut Context<'_>, key: &[u8]) -> Result<i64, ErrorReply> {
    let Some(bytes) = cx.keyspace.string(key, cx.now, cx.effects)? else {
        return Ok(0);
    };
    encoding(bytes)?;
    if let Some(count) = hyperloglog::cached_count(bytes) {
        return Ok(count);
    }
    let count = hyperloglog::count(bytes).map_err(corrupted)?;
    let mut cached = bytes.to_vec();
    // A replica's values are its primary's.
    if cx.keyspace.expiry_mode() != ExpiryMode::Hide {
        hyperloglog::cache_count(&mut cached, count);
        let mut access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
        store(&mut access, &cached);
        cx.effects.emit(&[b"PFCOUNT", key]);
    }
    Ok(count)
}

/// What several keys hold together.
struct Union {
    registers: Vec<u8>,
    /// Whether any of them is dense.
    dense: bool,
}

fn union(cx: &mut Context<'_>, keys: Args<'_>) -> Result<Union, ErrorReply> {
    let mut union = Union {
        registers: vec![0; REGISTERS],
        dense: false,
    };
    for key in keys.iter() {
        let Some(bytes) = cx.keyspace.string(key, cx.now, cx.effects)? else {
            continue;
        };
        union.dense |= encoding(bytes)? == Encoding::Dense;
        hyperloglog::merge_into(&mut union.registers, bytes).map_err(corrupted)?;
    }
    Ok(union)
}

fn pfmerge(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let union = union(cx, args.skip(1))?;
    let limit = cx.keyspace.encoding_limits().hll_sparse_max_bytes;
    let mut access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
    let mut bytes = access
        .string()?
        .map_or_else(hyperloglog::empty, <[u8]>::to_vec);
    if union.dense {
        hyperloglog::make_dense(&mut bytes).map_err(corrupted)?;
    }
    for (index, &count) in union.registers.iter().enumerate() {
        if count > 0 {
            hyperloglog::raise(&mut bytes, Observation { index, count }, limit)
                .map_err(corrupted)?;
        }
    }
    hyperloglog::forget_count(&mut bytes);
    store(&mut access, &bytes);
    access.note_event(EventClasses::STRING, "pfadd");
    emit_value(cx, key);
    cx.reply.ok();
    Ok(())
}

/// Emits the whole value: the keys it was made of may be elsewhere.
fn emit_value(cx: &mut Context<'_>, key: &[u8]) {
    if let Some(copy) = cx.keyspace.copy_as(key, key) {
        copy.emit_effects(cx.effects);
    }
}

/// Counts as many elements as Redis's estimates are exact enough for, in both encodings.
fn pfselftest(cx: &mut Context<'_>, _args: Args<'_>) -> Result<(), ErrorReply> {
    const ELEMENTS: u32 = 20_000;
    /// The standard error of 16384 registers is 0.81 %; this is five times as much.
    const TOLERATED: i64 = 25;
    let mut sparse = hyperloglog::empty();
    let mut dense = hyperloglog::empty();
    hyperloglog::make_dense(&mut dense).map_err(corrupted)?;
    for number in 1..=ELEMENTS {
        let observation = Observation::of(&number.to_be_bytes());
        hyperloglog::raise(&mut sparse, observation, usize::MAX).map_err(corrupted)?;
        hyperloglog::raise_dense(&mut dense, observation);
        if number.is_power_of_two() || number == ELEMENTS {
            let counts = [&sparse, &dense].map(|bytes| hyperloglog::count(bytes));
            let near =
                |count: i64| (count - i64::from(number)).abs() <= 1 + i64::from(number) / TOLERATED;
            if counts[0] != counts[1] || !counts[0].is_ok_and(near) {
                return Err(ErrorReply::text("TESTFAILED too large an error"));
            }
        }
    }
    cx.reply.ok();
    Ok(())
}

fn pfdebug(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (subcommand, key) = (args.at(1), args.at(2));
    let mut access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
    let found = access.string()?;
    let mut bytes = found
        .ok_or(ErrorReply::text("ERR The specified key does not exist"))?
        .to_vec();
    let encoding = encoding(&bytes)?;
    if is(subcommand, "encoding") {
        cx.reply.simple(match encoding {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        });
    } else if is(subcommand, "decode") {
        if encoding == Encoding::Dense {
            return Err(ErrorReply::text("ERR HLL encoding is not sparse"));
        }
        cx.reply.bulk(decoded(&bytes).as_bytes());
    } else if is(subcommand, "getreg") || is(subcommand, "todense") {
        hyperloglog::make_dense(&mut bytes).map_err(corrupted)?;
        if encoding == Encoding::Sparse {
            store(&mut access, &bytes);
            cx.effects.emit(&[b"PFDEBUG", b"TODENSE", key]);
        }
        if is(subcommand, "getreg") {
            return reply_registers(cx, &bytes);
        }
        cx.reply.integer(i64::from(encoding == Encoding::Sparse));
    } else {
        let before = "ERR Unknown PFDEBUG subcommand '";
        return Err(ErrorReply::quoting(before, subcommand, "'"));
    }
    Ok(())
}

fn reply_registers(cx: &mut Context<'_>, bytes: &[u8]) -> Result<(), ErrorReply> {
    let mut registers = vec![0; REGISTERS];
    hyperloglog::merge_into(&mut registers, bytes).map_err(corrupted)?;
    cx.reply.array(REGISTERS);
    for register in registers {
        cx.reply.integer(i64::from(register));
    }
    Ok(())
}

/// The runs of a sparse one in Redis's words: `z:` zeros, `Z:` many zeros, `v:value,` values.
fn decoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (count, length, long) in hyperloglog::sparse_runs(bytes) {
        let separator = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = match (count, long) {
            (0, true) => write!(text, "{separator}Z:{length}"),
            (0, false) => write!(text, "{separator}z:{length}"),
            (_, _) => write!(text, "{separator}v:{count},{length}"),
        };
    }
    text
}
