//! Memory follows what has arrived, never what is announced; and decoding the usual requests takes none at all.
//!
//! One test only: the counters are those of the whole process.

use kevy_proto::resp::{Decoded, Decoder, ReplyDecoder, reply_length};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated while `work` runs.
fn allocated_bytes(work: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    work();
    region.change().bytes_allocated
}

#[test]
fn announcements_and_warm_decoders_allocate_nothing() {
    assert!(allocated_bytes(|| drop(Vec::<u8>::with_capacity(4096))) >= 4096);

    let announced = b"*1048576\r\n$536870912\r\nonly this came";
    let mut decoder = Decoder::new();
    let bytes = allocated_bytes(|| {
        assert_eq!(decoder.decode(announced), Ok(Decoded::Incomplete));
    });
    assert_eq!(bytes, 0);

    let announced = b"*4294967295\r\n%4294967295\r\n$536870912\r\nonly this came";
    let mut decoder = ReplyDecoder::new();
    let bytes = allocated_bytes(|| {
        assert_eq!(decoder.decode(announced), Ok(None));
        assert_eq!(reply_length(announced), Ok(None));
    });
    assert!(bytes < 1024, "{bytes}");

    let set = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    let line = b"set 'key' \"value\\n\"\r\n";
    let mut decoder = Decoder::new();
    decoder.decode(set).unwrap();
    decoder.decode(line).unwrap();
    let bytes = allocated_bytes(|| {
        for _ in 0..1000 {
            for request in [&set[..], line] {
                let consumed = request.len();
                let expected = Ok(Decoded::Request { consumed });
                assert_eq!(decoder.decode(request), expected);
            }
        }
    });
    assert_eq!(bytes, 0);
}
