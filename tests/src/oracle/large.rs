//! Commands that carry a collection over the size at which its encoding changes, and back.

use fastrand::Rng;

use super::args;
use super::words::key;
use crate::connection::Args;

/// Number of elements around the thresholds of Redis's default settings (128 and 512).
const SIZES: [usize; 6] = [127, 128, 129, 511, 512, 513];

/// What makes or empties a large collection.
pub(super) fn burst(rng: &mut Rng) -> Vec<Args> {
    let size = SIZES[rng.usize(..SIZES.len())];
    match rng.u8(..12) {
        0 | 1 => vec![list(rng, size)],
        2 | 3 => vec![with(args!["SADD", key(rng, "set")], size, |n| {
            vec![number(n)]
        })],
        4 => vec![with(args!["SADD", key(rng, "set")], size, |n| {
            vec![member(n)]
        })],
        5 => vec![with(args!["HSET", key(rng, "hash")], size, |n| {
            vec![member(n), number(n)]
        })],
        6 | 7 => vec![with(args!["ZADD", key(rng, "sorted-set")], size, |n| {
            vec![number(n / 3), member(n)]
        })],
        8 => vec![with(
            args!["PFADD", key(rng, "hyperloglog")],
            4 * size,
            |n| vec![member(n)],
        )],
        9 => entries(rng, size.min(129)),
        10 => vec![args!["LTRIM", key(rng, "list"), "0", "3"]],
        _ => vec![args!["ZREMRANGEBYRANK", key(rng, "sorted-set"), "4", "-1"]],
    }
}

/// A listpack of a list holds 8 KiB.
fn list(rng: &mut Rng, size: usize) -> Args {
    let element = vec![b'e'; rng.usize(1..70)];
    let name = if rng.bool() { "RPUSH" } else { "LPUSH" };
    with(args![name, key(rng, "list")], size, |n| {
        vec![[&element[..], &number(n)].concat()]
    })
}

/// Entries enough for more than one node, some with other fields than the first one.
fn entries(rng: &mut Rng, count: usize) -> Vec<Args> {
    let key = key(rng, "stream");
    let entry = |n: usize| {
        let field = if n % 10 == 9 { "g" } else { "f" };
        args!["XADD", key.clone(), "1-*", field, number(n)]
    };
    (0..count).map(entry).collect()
}

fn with(mut args: Args, count: usize, words: impl Fn(usize) -> Args) -> Args {
    args.extend((0..count).flat_map(words));
    args
}

fn number(n: usize) -> Vec<u8> {
    n.to_string().into_bytes()
}

fn member(n: usize) -> Vec<u8> {
    format!("member:{n}").into_bytes()
}
