//! Keys, values, numbers and times that lie near the edges of what commands accept.

use fastrand::Rng;

/// Few keys, so that commands meet each other's leftovers. They fall into different slots, two share a
/// hash tag, one is empty, one is binary.
const KEYS: [&[u8]; 10] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"key:1",
    b"{tag}1",
    b"{tag}2",
    b"",
    b"\x00bin\xff\r\n",
    b"100",
];

/// Values of every encoding: integers near their limits, floats, 44 and 45 bytes (the last embedded and
/// the first raw string), text that only looks like a number, binary, empty.
const VALUES: [&str; 36] = [
    "",
    "0",
    "-0",
    "1",
    "-1",
    "10",
    "9999",
    "10000",
    "127",
    "255",
    "256",
    "-129",
    "65536",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "9223372036854775806",
    "18446744073709551615",
    " 1",
    "1 ",
    "+1",
    "01",
    "0x10",
    "1.5",
    "-2.25",
    "3.0",
    "1e3",
    "inf",
    "-inf",
    "nan",
    "hello",
    "Hello World",
    "ohmytext",
    "mynewtext",
    "foobar",
];

/// Words that spoil an argument: none of them makes a command wait, allocate much, or set a TTL short
/// enough to run out during the test.
const SPOILERS: [&str; 22] = [
    "",
    "-1",
    "-2",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4294967296",
    "1.5",
    "abc",
    " 5000",
    "5000 ",
    "+5000",
    "05000",
    "0x10",
    "nan",
    "inf",
    "1e3",
    "EX",
    "nx",
    "KEEPTTL",
    "GET",
    "#",
];

/// Seconds far in the future, some equal to each other on purpose.
const FUTURE_SECONDS: [i64; 3] = [4_102_444_800, 4_102_444_801, 9_999_999_999];

/// A key.
pub(super) fn key(rng: &mut Rng) -> Vec<u8> {
    // The first keys come more often: collisions are the point.
    let bound = if rng.bool() { 4 } else { KEYS.len() };
    KEYS[rng.usize(..bound)].to_vec()
}

/// One to four keys, repetitions included.
pub(super) fn keys(rng: &mut Rng) -> Vec<Vec<u8>> {
    (0..rng.usize(1..5)).map(|_| key(rng)).collect()
}

/// A value of any kind.
pub(super) fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0 => "x".repeat(rng.usize(43..47)).into_bytes(),
        1 => (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
        2 => rng.i64(..).to_string().into_bytes(),
        3 => rng.i64(-1000..20_000).to_string().into_bytes(),
        4 => vec![*rng.choice(b"abc\x00\xff").expect("not empty"); rng.usize(..300)],
        _ => word(rng, &VALUES),
    }
}

/// A whole number, mostly small, sometimes at a limit.
pub(super) fn integer(rng: &mut Rng) -> Vec<u8> {
    let limits = [
        "9223372036854775807",
        "-9223372036854775808",
        "0",
        "-1",
        "9223372036854775806",
    ];
    if rng.u8(..6) == 0 {
        word(rng, &limits)
    } else {
        rng.i64(-100..100).to_string().into_bytes()
    }
}

/// A decimal fraction with few digits, or a word that some parsers take for a number.
pub(super) fn float(rng: &mut Rng) -> Vec<u8> {
    let special = [
        "1e3", "-1.5e-2", "0", "3.0", "5e0", "inf", "-inf", "nan", "1e400", ".5", "5.", " 1",
        "0x1p3",
    ];
    if rng.u8(..4) == 0 {
        word(rng, &special)
    } else {
        let scaled = rng.i32(-100_000..100_000);
        format!("{}", f64::from(scaled) / 100.0).into_bytes()
    }
}

/// An index into a string, from either end.
pub(super) fn index(rng: &mut Rng) -> Vec<u8> {
    let range = if rng.u8(..4) == 0 { -400..400 } else { -12..12 };
    rng.i64(range).to_string().into_bytes()
}

/// A byte offset at which a string may be written: small, for strings grow to it, or too large.
pub(super) fn offset(rng: &mut Rng) -> Vec<u8> {
    near_or_refused(
        rng,
        300,
        &["-1", "536870912", "4294967296", "9223372036854775807"],
    )
}

/// A bit offset at which a string may be written: small, for strings grow to it, or too large.
pub(super) fn bit_offset(rng: &mut Rng) -> Vec<u8> {
    near_or_refused(rng, 4000, &["-1", "4294967296", "9223372036854775807"])
}

fn near_or_refused(rng: &mut Rng, limit: i64, refused: &[&str]) -> Vec<u8> {
    if rng.u8(..10) == 0 {
        word(rng, refused)
    } else {
        rng.i64(0..limit).to_string().into_bytes()
    }
}

/// A time to live that no two commands choose alike and no test outlives, or an impossible one.
/// `unit` is how many make a second. The largest number is not among them: Redis's RESTORE adds the time of
/// day to it and overflows.
pub(super) fn relative(rng: &mut Rng, unit: i64) -> Vec<u8> {
    let odd = [
        "0",
        "-1",
        "-5000",
        "9223372036854775",
        "-9223372036854775808",
    ];
    if rng.u8(..8) == 0 {
        word(rng, &odd)
    } else {
        (rng.i64(1_000..1_000_000_000) * unit)
            .to_string()
            .into_bytes()
    }
}

/// A point in time: far in the future, long past, or impossible. `unit` is how many make a second.
pub(super) fn absolute(rng: &mut Rng, unit: i64) -> Vec<u8> {
    let odd = [
        "0",
        "1",
        "1000",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
    ];
    if rng.u8(..8) == 0 {
        word(rng, &odd)
    } else {
        let seconds = rng.choice(FUTURE_SECONDS).expect("not empty");
        (seconds * unit).to_string().into_bytes()
    }
}

/// Something that does not belong where it is put.
pub(super) fn spoiler(rng: &mut Rng) -> Vec<u8> {
    word(rng, &SPOILERS)
}

/// One of `words`.
pub(super) fn word(rng: &mut Rng, words: &[&str]) -> Vec<u8> {
    rng.choice(words).expect("not empty").as_bytes().to_vec()
}

/// `word` in upper, lower or mixed case.
pub(super) fn in_some_case(rng: &mut Rng, word: &[u8]) -> Vec<u8> {
    match rng.u8(..6) {
        0 => word.to_ascii_lowercase(),
        1 => word
            .iter()
            .map(|b| {
                if rng.bool() {
                    b.to_ascii_lowercase()
                } else {
                    *b
                }
            })
            .collect(),
        _ => word.to_vec(),
    }
}
