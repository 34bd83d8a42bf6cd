//! What it costs to read a request and to write a reply: the part of a command's time that is spent on every command.
//!
//! `cargo bench -p kevy-benches --bench resp`

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kevy_proto::resp::{
    Decoded, Decoder, Encoder, ErrorReply, ReplyDecoder, RespVersion, encode_request, reply_length,
};
use std::hint::black_box;
use std::time::Duration;

const KEY: &[u8; 16] = b"key:000000000042";
const VALUE: &[u8; 64] = &[b'x'; 64];
const PIPELINE: usize = 64;
/// Replies after which the output buffer is emptied, as the network would.
const FLUSH_BYTES: usize = 64 * 1024;

fn request(args: &[&[u8]]) -> BytesMut {
    let mut out = BytesMut::new();
    encode_request(args.iter().copied(), &mut out);
    out
}

/// Decodes all of `input` and looks at each first argument, as the session does.
fn decode_all(decoder: &mut Decoder, mut input: &[u8]) -> usize {
    let mut bytes = 0;
    while let Ok(Decoded::Request { consumed }) = decoder.decode(input) {
        bytes += black_box(decoder.args(input).at(0)).len();
        input = &input[consumed..];
    }
    bytes
}

fn decode(criterion: &mut Criterion) {
    let set = request(&[b"SET", KEY, VALUE]);
    let get = request(&[b"GET", KEY]);
    let large = request(&[b"SET", KEY, &[b'x'; 16 * 1024]]);
    let inputs = [
        ("set", 1, set.to_vec()),
        ("get", 1, get.to_vec()),
        ("set_16k", 1, large.to_vec()),
        ("set_pipelined", PIPELINE, set.repeat(PIPELINE)),
        ("get_pipelined", PIPELINE, get.repeat(PIPELINE)),
        ("inline", 1, b"SET key:000000000042 value\r\n".to_vec()),
        (
            "inline_quoted",
            1,
            b"SET 'key 42' \"a\\x20b\\r\\n\"\r\n".to_vec(),
        ),
    ];
    let mut group = criterion.benchmark_group("decode");
    for (name, requests, input) in inputs {
        let mut decoder = Decoder::new();
        assert!(decode_all(&mut decoder, &input) == 3 * requests);
        group.throughput(Throughput::Elements(requests as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| decode_all(&mut decoder, black_box(&input)));
        });
    }
    group.finish();
}

fn decode_in_pieces(criterion: &mut Criterion) {
    const PIECE_BYTES: usize = 16 * 1024;
    let large = request(&[b"SET", KEY, &vec![b'x'; 1024 * 1024]]);
    let mut group = criterion.benchmark_group("decode_in_pieces");
    group.throughput(Throughput::Bytes(large.len() as u64));
    group.bench_function("set_1m", |bencher| {
        let mut decoder = Decoder::new();
        bencher.iter(|| {
            let ends = (0..large.len()).step_by(PIECE_BYTES).chain([large.len()]);
            ends.map(|end| decoder.decode(&large[..end])).last()
        });
    });
    group.finish();
}

fn encode(criterion: &mut Criterion) {
    type Write = fn(&mut Encoder<'_>);
    let writes: [(&str, Write); 7] = [
        ("ok", |encoder| encoder.ok()),
        ("integer", |encoder| encoder.integer(black_box(1_234_567))),
        ("bulk_64", |encoder| encoder.bulk(black_box(VALUE))),
        ("null", |encoder| encoder.null()),
        ("double", |encoder| encoder.double(black_box(0.125))),
        ("error", |encoder| encoder.error(&ErrorReply::WrongType)),
        ("array_of_10_bulks", |encoder| {
            encoder.array(10);
            (0..10).for_each(|_| encoder.bulk(black_box(KEY)));
        }),
    ];
    let mut group = criterion.benchmark_group("encode");
    for (name, write) in writes {
        let mut out = BytesMut::with_capacity(2 * FLUSH_BYTES);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                if out.len() > FLUSH_BYTES {
                    out.clear();
                }
                write(&mut Encoder::new(&mut out, RespVersion::V2));
            });
        });
    }
    group.finish();
}

fn replies(criterion: &mut Criterion) {
    let mut array = BytesMut::new();
    let mut encoder = Encoder::new(&mut array, RespVersion::V2);
    encoder.array(100);
    (0..100).for_each(|_| encoder.bulk(KEY));
    let mut group = criterion.benchmark_group("reply");
    group.throughput(Throughput::Elements(100));
    group.bench_function("decode_array_of_100", |bencher| {
        bencher.iter_batched(
            ReplyDecoder::new,
            |mut decoder| decoder.decode(black_box(&array)),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("length_of_array_of_100", |bencher| {
        bencher.iter(|| reply_length(black_box(&array)));
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
}

criterion_group! {
    name = resp;
    config = short();
    targets = decode, decode_in_pieces, encode, replies
}
criterion_main!(resp);
