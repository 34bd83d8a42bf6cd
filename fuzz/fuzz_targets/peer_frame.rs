//! Bytes from a stranger on a replication link, in pieces of any size: as what a primary sends, and as what a replica sends.
//! Never a panic, never more memory than the bytes account for, the same messages whatever the cuts, and a sink that applies
//! only what follows.
//!
//! The first byte of an input says how many of the next bytes are cuts, each a fraction of what follows.

#![no_main]

mod pieces;

use bytes::{Buf, BytesMut};
use kevy_proto::ids::ShardId;
use kevy_proto::replication::{
    Epoch, History, HistoryId, StreamFault, StreamLimits, StreamMessage, decode_message, push_entry,
};
use kevy_proto::rng::Rng;
use kevy_proto::time::Instant;
use kevy_replicate::{
    LinkId, Position, Sink, SinkConfig, SinkEffect, Source, SourceConfig, SourceEvent,
};
use libfuzzer_sys::fuzz_target;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A branch of a history is 36 bytes at least, and takes 48, in a vector that may have grown to twice its use.
const MESSAGE_GROWTH: usize = 8;
/// An effect or a request is a few hundred bytes, and may come of four.
const MACHINE_GROWTH: usize = 400;
const CONSTANT_BYTES: usize = 64 * 1024;
const LINK: LinkId = LinkId(1);

fuzz_target!(|data: &[u8]| {
    let Some((input, ends)) = pieces::cut(data) else {
        return;
    };
    let whole = messages(input, &[input.len()]);
    assert_eq!(messages(input, &ends), whole);
    assert_eq!(sink(input, &ends), sink(input, &[input.len()]));
    assert_eq!(source(input, &ends), source(input, &[input.len()]));
});

/// What is read, with each message's bytes; entries come back as they were.
fn messages(input: &[u8], ends: &[usize]) -> (Vec<(StreamMessage, usize)>, Option<StreamFault>) {
    let (mut start, mut found) = (0, Vec::new());
    for end in ends {
        loop {
            let buffer = &input[start..*end];
            let region = Region::new(ALLOCATOR);
            let outcome = decode_message(buffer, &StreamLimits::default());
            let allocated = region.change().bytes_allocated;
            assert!(allocated <= MESSAGE_GROWTH * buffer.len() + CONSTANT_BYTES);
            match outcome {
                Err(fault) => return (found, Some(fault)),
                Ok(None) => break,
                Ok(Some((message, length))) => {
                    round_trip(&message, buffer);
                    found.push((message, length));
                    start += length;
                }
            }
        }
    }
    (found, None)
}

fn round_trip(message: &StreamMessage, buffer: &[u8]) {
    let StreamMessage::Entry(frame) = message else {
        return;
    };
    let (epoch, payload) = (
        frame.epoch.unwrap_or_default(),
        &buffer[frame.payload.clone()],
    );
    let mut out = BytesMut::new();
    push_entry(&mut out, frame.offset, epoch, payload);
    let read = decode_message(&out, &StreamLimits::default());
    let Ok(Some((StreamMessage::Entry(again), length))) = read else {
        panic!("{read:?}");
    };
    assert_eq!(
        (again.offset, again.epoch, length),
        (frame.offset, Some(epoch), out.len())
    );
    assert_eq!(&out[again.payload], payload);
}

/// What a replica at offset 5 makes of it.
fn sink(input: &[u8], ends: &[usize]) -> Vec<SinkEffect> {
    let now = Instant::from_nanos(1);
    let history = History::begin(HistoryId(10), Epoch(1), 0);
    let position = Position { history, offset: 5 };
    let config = SinkConfig::new("r1", Some((ShardId(0), 2)));
    let mut sink = Sink::new(config, Some(position), Rng::from_seed(1), now);
    sink.handle_timeout(now);
    sink.handle_connected(LINK, now);
    let (mut start, mut applied, mut effects) = (0, 5, Vec::new());
    for end in ends {
        let region = Region::new(ALLOCATOR);
        sink.handle_bytes(LINK, &input[start..*end], now);
        let allocated = region.change().bytes_allocated;
        assert!(allocated <= MACHINE_GROWTH * *end + CONSTANT_BYTES);
        start = *end;
        while let Some(effect) = sink.poll_effect() {
            match &effect {
                SinkEffect::Apply(entry) => {
                    assert_eq!(entry.offset, applied + 1);
                    applied = entry.offset;
                    sink.applied(applied);
                }
                SinkEffect::SnapshotEnd(position) => {
                    applied = position.offset;
                    sink.installed(now);
                }
                _ => {}
            }
            effects.push(effect);
        }
    }
    // Entries are given out when they may be, the rest when it came: the order between the two depends on the cuts.
    effects.retain(|effect| matches!(effect, SinkEffect::Apply(_)));
    effects
}

/// What a primary with five entries makes of it: what it answers, and what it does.
fn source(input: &[u8], ends: &[usize]) -> (Vec<u8>, Vec<SourceEvent>) {
    let now = Instant::from_nanos(1);
    let mut source = Source::new(SourceConfig::new(ShardId(0), 2), History::unknown(), 0);
    source.lead(HistoryId(10), Epoch(1));
    (0..5).for_each(|_| {
        source.append(bytes::Bytes::from_static(&[1, 0]));
    });
    source.handle_open(LINK, "127.0.0.1:1", now);
    let mut start = 0;
    for end in ends {
        let region = Region::new(ALLOCATOR);
        source.handle_bytes(LINK, &input[start..*end], now);
        let allocated = region.change().bytes_allocated;
        assert!(allocated <= MACHINE_GROWTH * *end + CONSTANT_BYTES);
        start = *end;
    }
    let mut said = Vec::new();
    while let Some(mut bytes) = source.poll_transmit(LINK, 1000) {
        said.extend_from_slice(&bytes);
        bytes.advance(bytes.len());
    }
    let events = std::iter::from_fn(|| source.poll_event()).collect();
    (said, events)
}
