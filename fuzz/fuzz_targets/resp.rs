//! Bytes from a stranger, in pieces of any size, read as requests and as replies.
//!
//! The first byte of an input says how many of the next bytes are cuts, each a fraction of what follows.

#![no_main]

mod pieces;

use bytes::BytesMut;
use kevy_proto::resp::{
    Decoded, Decoder, ProtocolError, Reply, ReplyDecoder, encode_request, reply_length,
};
use libfuzzer_sys::fuzz_target;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// An inline word of one byte and a blank becomes a span of 16 bytes, in a vector that may have grown to twice its use.
const REQUEST_GROWTH: usize = 20;
/// A null of three bytes becomes a value of 48 bytes in such a vector, and may be moved into a pair.
const REPLY_GROWTH: usize = 80;
const CONSTANT_BYTES: usize = 16 * 1024;

type Request = Vec<Vec<u8>>;

fuzz_target!(|data: &[u8]| {
    let Some((input, ends)) = pieces::cut(data) else {
        return;
    };

    let whole = requests(input, &[input.len()]);
    assert_eq!(requests(input, &ends), whole);
    whole.0.iter().for_each(round_trip);

    let whole = replies(input, &[input.len()]);
    // Not by `==`: the reply may hold a NaN.
    assert_eq!(format!("{:?}", replies(input, &ends)), format!("{whole:?}"));
    whole.0.iter().for_each(reply_round_trip);
    let _ = reply_length(input);
});

fn requests(input: &[u8], ends: &[usize]) -> (Vec<Request>, Option<ProtocolError>) {
    let mut decoder = Decoder::new();
    let (mut start, mut found) = (0, Vec::new());
    for end in ends {
        loop {
            let buffer = &input[start..*end];
            let region = Region::new(ALLOCATOR);
            let outcome = decoder.decode(buffer);
            let allocated = region.change().bytes_allocated;
            assert!(allocated <= REQUEST_GROWTH * buffer.len() + CONSTANT_BYTES);
            start += match outcome {
                Err(error) => return (found, Some(error)),
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Nothing { consumed }) => consumed,
                Ok(Decoded::Request { consumed }) => {
                    let args = decoder.args(buffer).iter();
                    found.push(args.map(<[u8]>::to_vec).collect());
                    consumed
                }
            };
        }
    }
    (found, None)
}

fn round_trip(request: &Request) {
    let mut encoded = BytesMut::new();
    encode_request(request.iter().map(Vec::as_slice), &mut encoded);
    let decoded = requests(&encoded, &[encoded.len()]);
    assert_eq!(decoded, (vec![request.clone()], None));
}

fn replies(input: &[u8], ends: &[usize]) -> (Vec<Reply>, Option<ProtocolError>) {
    let mut decoder = ReplyDecoder::new();
    let (mut start, mut found) = (0, Vec::new());
    for end in ends {
        loop {
            let buffer = &input[start..*end];
            let region = Region::new(ALLOCATOR);
            let outcome = decoder.decode(buffer);
            let allocated = region.change().bytes_allocated;
            assert!(allocated <= REPLY_GROWTH * buffer.len() + CONSTANT_BYTES);
            match outcome {
                Err(error) => return (found, Some(error)),
                Ok(None) => break,
                Ok(Some((reply, length))) => {
                    assert_eq!(reply_length(buffer), Ok(Some(length)));
                    found.push(reply);
                    start += length;
                }
            }
        }
    }
    (found, None)
}

fn reply_round_trip(reply: &Reply) {
    let mut encoded = BytesMut::new();
    reply.encode(&mut encoded);
    let decoded = replies(&encoded, &[encoded.len()]);
    assert_eq!(
        format!("{decoded:?}"),
        format!("{:?}", (vec![reply], None::<()>))
    );
}
