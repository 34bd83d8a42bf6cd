//! Bytes from a stranger as a value in Redis's format: never a panic, never more memory than the bytes account for, and
//! what is accepted is a sound value: it is dumped, restored again, rebuilt from effects and changed.
//!
//! The first byte of an input is the kind, modulo the number of kinds.

#![no_main]

mod engine;

use engine::{Engine, LOW_LIMITS};
use kevy_engine::Effects;
use kevy_engine::rdb::{Kind, Reader, decode, payload};
use libfuzzer_sys::fuzz_target;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Kinds have numbers below this.
const KINDS: u8 = 26;
/// A compressed byte may become 88, and each two bytes of these an element with a place in a table.
const GROWTH: usize = 88 * 64;
const CONSTANT_BYTES: usize = 64 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let Some(kind) = Kind::from_byte(first % KINDS) else {
        return;
    };
    let region = Region::new(ALLOCATOR);
    let decoded = decode(kind, &mut Reader::new(body), &LOW_LIMITS);
    let allocated = region.change().bytes_allocated;
    assert!(allocated <= GROWTH * body.len() + CONSTANT_BYTES);
    if decoded.is_some() {
        check(&payload::seal([&[kind.to_byte()], body].concat(), 12));
    }
});

fn check(payload: &[u8]) {
    let mut first = Engine::new();
    assert_eq!(restore(&mut first, payload), b"+OK\r\n");
    // Fields whose time has come stay behind: perhaps nothing is left to dump, or little enough for a compact form.
    if let Some(dumped) = dump(&mut first) {
        let again = dump_of(&dumped);
        assert_eq!(dump_of(&again).len(), again.len());
    }
    let mut replica = first.replayed();
    assert_eq!(seen(&mut replica), seen(&mut first));
    rebuild(&mut first);
    change(&mut first);
    first.replayed();
}

fn restore(engine: &mut Engine, payload: &[u8]) -> Vec<u8> {
    engine.run(&[b"RESTORE", b"k", b"0", payload])
}

/// What is dumped of a value that was restored from `payload`.
fn dump_of(payload: &[u8]) -> Vec<u8> {
    let mut engine = Engine::new();
    assert_eq!(restore(&mut engine, payload), b"+OK\r\n");
    dump(&mut engine).expect("what was restored is there")
}

fn dump(engine: &mut Engine) -> Option<Vec<u8>> {
    let reply = engine.run(&[b"DUMP", b"k"]);
    let text = reply.strip_prefix(b"$")?;
    let end = text.iter().position(|&byte| byte == b'\r')?;
    if text[0] == b'-' {
        return None;
    }
    Some(text[end + 2..text.len() - 2].to_vec())
}

/// What readers see of `k`.
fn seen(engine: &mut Engine) -> Vec<Vec<u8>> {
    let looks: &[&[&[u8]]] = match &engine.run(&[b"TYPE", b"k"])[..] {
        b"+string\r\n" => &[&[b"GET", b"k"]],
        b"+list\r\n" => &[&[b"LRANGE", b"k", b"0", b"-1"]],
        b"+set\r\n" => &[&[b"SMEMBERS", b"k"]],
        b"+hash\r\n" => &[&[b"HGETALL", b"k"]],
        b"+zset\r\n" => &[&[b"ZRANGE", b"k", b"0", b"-1", b"WITHSCORES"]],
        b"+stream\r\n" => &[
            &[b"XRANGE", b"k", b"-", b"+"],
            &[b"XREVRANGE", b"k", b"+", b"-"],
            &[b"XINFO", b"STREAM", b"k", b"FULL", b"COUNT", b"0"],
        ],
        _ => &[],
    };
    looks.iter().map(|look| engine.run(look)).collect()
}

/// The effects that rebuild a value are commands that succeed.
fn rebuild(engine: &mut Engine) {
    let copy = engine.keyspace.copy_as(b"k", b"copy");
    let mut effects = Effects::on();
    copy.expect("the key is there").emit_effects(&mut effects);
    for effect in effects.iter() {
        let words: Vec<&[u8]> = effect.iter().collect();
        let reply = engine.run(&words);
        assert_ne!(reply[0], b'-', "{words:?}");
    }
}

/// One change after another; those for other types are refused.
fn change(engine: &mut Engine) {
    let changes: &[&[&[u8]]] = &[
        &[b"APPEND", b"k", b"x"],
        &[b"LINSERT", b"k", b"BEFORE", b"a", b"x"],
        &[b"LREM", b"k", b"0", b"a"],
        &[b"RPOP", b"k"],
        &[b"SADD", b"k", b"12", b"x"],
        &[b"SPOP", b"k"],
        &[b"HSET", b"k", b"x", b"y"],
        &[b"HDEL", b"k", b"a"],
        &[b"HRANDFIELD", b"k", b"3"],
        &[b"ZADD", b"k", b"1.5", b"x"],
        &[b"ZRANK", b"k", b"x"],
        &[b"ZPOPMIN", b"k"],
        &[b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"k", b">"],
        &[b"XAUTOCLAIM", b"k", b"g", b"c", b"0", b"0"],
        &[b"XADD", b"k", b"*", b"x", b"y"],
        &[b"XTRIM", b"k", b"MAXLEN", b"2"],
        &[b"XINFO", b"GROUPS", b"k"],
        &[b"XDEL", b"k", b"0-1", b"1-1"],
    ];
    for change in changes {
        engine.run(change);
    }
}
