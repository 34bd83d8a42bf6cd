//! Generators of the string, counter and bitmap commands.

use fastrand::Rng;

use super::args;
use super::generator::Row;
use super::values::{
    absolute, bit_offset, float, index, integer, key, keys, offset, relative, value, word,
};
use crate::connection::Args;

/// How often each command comes, and what makes it.
pub(super) const ROWS: &[Row] = &[
    (16, set),
    (6, |rng| args!["GET", key(rng)]),
    (5, getex),
    (2, |rng| args!["GETDEL", key(rng)]),
    (2, |rng| args!["GETSET", key(rng), value(rng)]),
    (2, |rng| args!["SETNX", key(rng), value(rng)]),
    (2, |rng| {
        args!["SETEX", key(rng), relative(rng, 1), value(rng)]
    }),
    (2, |rng| {
        args!["PSETEX", key(rng), relative(rng, 1000), value(rng)]
    }),
    (5, |rng| args!["APPEND", key(rng), value(rng)]),
    (2, |rng| args!["STRLEN", key(rng)]),
    (4, |rng| args!["GETRANGE", key(rng), index(rng), index(rng)]),
    (1, |rng| args!["SUBSTR", key(rng), index(rng), index(rng)]),
    (4, |rng| {
        args!["SETRANGE", key(rng), offset(rng), value(rng)]
    }),
    (3, |rng| args!["INCR", key(rng)]),
    (3, |rng| args!["DECR", key(rng)]),
    (4, |rng| args!["INCRBY", key(rng), integer(rng)]),
    (4, |rng| args!["DECRBY", key(rng), integer(rng)]),
    (4, |rng| args!["INCRBYFLOAT", key(rng), float(rng)]),
    (3, |rng| with_keys("MGET", keys(rng))),
    (4, |rng| with_pairs("MSET", rng)),
    (3, |rng| with_pairs("MSETNX", rng)),
    (4, lcs),
    (5, |rng| {
        args![
            "SETBIT",
            key(rng),
            bit_offset(rng),
            word(rng, &["0", "1", "1", "2"])
        ]
    }),
    (4, |rng| args!["GETBIT", key(rng), bit_offset(rng)]),
    (5, bitcount),
    (5, bitpos),
    (4, bitop),
    (6, |rng| bitfield(rng, "BITFIELD")),
    (2, |rng| bitfield(rng, "BITFIELD_RO")),
];

fn with_keys(name: &str, keys: Args) -> Args {
    let mut args = args![name];
    args.extend(keys);
    args
}

fn with_pairs(name: &str, rng: &mut Rng) -> Args {
    let pairs = keys(rng).into_iter().flat_map(|key| [key, value(rng)]);
    let pairs: Args = pairs.collect();
    with_keys(name, pairs)
}

fn set(rng: &mut Rng) -> Args {
    let mut args = args!["SET", key(rng), value(rng)];
    for _ in 0..rng.u8(..3) {
        match rng.u8(..10) {
            0 | 1 => args.push(b"NX".to_vec()),
            2 | 3 => args.push(b"XX".to_vec()),
            4 => args.push(b"GET".to_vec()),
            5 => args.push(b"KEEPTTL".to_vec()),
            _ => args.extend(expiry(rng)),
        }
    }
    args
}

fn expiry(rng: &mut Rng) -> Args {
    match rng.u8(..4) {
        0 => args!["EX", relative(rng, 1)],
        1 => args!["PX", relative(rng, 1000)],
        2 => args!["EXAT", absolute(rng, 1)],
        _ => args!["PXAT", absolute(rng, 1000)],
    }
}

fn getex(rng: &mut Rng) -> Args {
    let mut args = args!["GETEX", key(rng)];
    match rng.u8(..6) {
        0 => {}
        1 => args.push(b"PERSIST".to_vec()),
        _ => args.extend(expiry(rng)),
    }
    args
}

fn lcs(rng: &mut Rng) -> Args {
    let mut args = args!["LCS", key(rng), key(rng)];
    for _ in 0..rng.u8(..4) {
        match rng.u8(..4) {
            0 => args.push(b"LEN".to_vec()),
            1 => args.push(b"IDX".to_vec()),
            2 => args.push(b"WITHMATCHLEN".to_vec()),
            _ => args.extend(args!["MINMATCHLEN", index(rng)]),
        }
    }
    args
}

fn unit(rng: &mut Rng) -> Vec<u8> {
    word(rng, &["BYTE", "BIT", "BITS"])
}

fn bitcount(rng: &mut Rng) -> Args {
    let mut args = args!["BITCOUNT", key(rng)];
    match rng.u8(..4) {
        0 => {}
        1 => args.extend(args![index(rng), index(rng)]),
        2 => args.extend(args![index(rng), index(rng), unit(rng)]),
        _ => args.push(index(rng)),
    }
    args
}

fn bitpos(rng: &mut Rng) -> Args {
    let mut args = args!["BITPOS", key(rng), word(rng, &["0", "1", "1", "0", "2"])];
    match rng.u8(..4) {
        0 => {}
        1 => args.push(index(rng)),
        2 => args.extend(args![index(rng), index(rng)]),
        _ => args.extend(args![index(rng), index(rng), unit(rng)]),
    }
    args
}

fn bitop(rng: &mut Rng) -> Args {
    let operation = word(rng, &["AND", "OR", "XOR", "NOT", "NAND"]);
    let sources = if operation == b"NOT" && rng.u8(..4) != 0 {
        vec![key(rng)]
    } else {
        keys(rng)
    };
    let mut args = args!["BITOP", operation, key(rng)];
    args.extend(sources);
    args
}

fn bitfield(rng: &mut Rng, name: &str) -> Args {
    let mut args = args![name, key(rng)];
    let only_reads = name == "BITFIELD_RO" && rng.u8(..8) != 0;
    for _ in 0..rng.u8(..4) {
        let operation = if only_reads { 0 } else { rng.u8(..4) };
        args.extend(match operation {
            0 => args!["GET", field_type(rng), field_offset(rng)],
            1 => args!["SET", field_type(rng), field_offset(rng), integer(rng)],
            2 => args!["INCRBY", field_type(rng), field_offset(rng), integer(rng)],
            _ => args!["OVERFLOW", word(rng, &["WRAP", "SAT", "FAIL", "NO"])],
        });
    }
    args
}

/// A type of BITFIELD.
pub(super) fn field_type(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0 => word(rng, &["u64", "i65", "i0", "u0", "x8", "8", "", "i-1"]),
        1 => word(rng, &["i64", "u63", "u1", "i1"]),
        n if n % 2 == 0 => format!("u{}", rng.u8(1..64)).into_bytes(),
        _ => format!("i{}", rng.u8(1..65)).into_bytes(),
    }
}

fn field_offset(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0 => word(rng, &["-1", "#-1", "4294967296", "#4294967296", "#", "x"]),
        1..5 => format!("#{}", rng.u8(..12)).into_bytes(),
        _ => rng.u8(..200).to_string().into_bytes(),
    }
}
