//! The engine alone: what a command costs once its request is decoded, in a keyspace of a million keys.
//!
//! Keys are drawn at random, so that caches behave as under load.
#![allow(
    missing_docs,
    reason = "criterion's macros generate functions without docs"
)]

use bytes::BytesMut;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use kevy_engine::keyspace::{Expiry, Keyspace};
use kevy_engine::{Command, Context, Effects};
use kevy_proto::resp::{Args, Encoder, RequestBuffer, RespVersion};
use kevy_proto::rng::Rng;
use kevy_proto::time::{Instant, Now, UnixMillis};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keys in the keyspace.
const KEYS: u64 = 1_000_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 64;
/// Requests prepared ahead, so that preparing them is not measured.
const REQUESTS: usize = 1 << 16;

struct Shard {
    keyspace: Keyspace,
    effects: Effects,
    out: BytesMut,
    now: Now,
}

impl Shard {
    fn filled() -> Self {
        let mut shard = Self {
            keyspace: Keyspace::new(1),
            effects: Effects::off(),
            out: BytesMut::with_capacity(1 << 16),
            now: Now {
                monotonic: Instant::default(),
                unix: UnixMillis(1_700_000_000_000),
            },
        };
        for number in 0..KEYS {
            shard.set(&key(number), &[b'x'; VALUE_BYTES]);
        }
        shard
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.keyspace
            .set_string(key, value, Expiry::Never, self.now, &mut self.effects);
    }

    fn run(&mut self, command: &Command, args: Args<'_>) {
        self.out.clear();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: Encoder::new(&mut self.out, RespVersion::V2),
            effects: &mut self.effects,
            now: self.now,
            wait: None,
        };
        let _ = black_box(context.run(command, args));
    }
}

/// Sixteen bytes, as memtier's and redis-benchmark's.
fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

fn find(name: &str) -> &'static Command {
    kevy_engine::commands::families()
        .flatten()
        .find(|row| row.name == name)
        .unwrap_or_else(|| panic!("no command {name}"))
}

fn requests(name: &str, value: Option<&[u8]>, prefix: &str) -> Vec<RequestBuffer> {
    let mut rng = Rng::from_seed(2);
    (0..REQUESTS)
        .map(|_| {
            let mut key = key(rng.below(KEYS));
            key.splice(0..0, prefix.bytes());
            let args = [name.as_bytes(), &key].into_iter().chain(value);
            RequestBuffer::from_slices(args)
        })
        .collect()
}

fn hot_path(criterion: &mut Criterion) {
    let mut shard = Shard::filled();
    let mut group = criterion.benchmark_group("one million keys");
    for (title, name, value, prefix) in [
        ("GET", "get", None, ""),
        ("GET missing", "get", None, "no"),
        ("SET same size", "set", Some(&[b'y'; VALUE_BYTES][..]), ""),
        ("INCR", "incr", None, "n"),
    ] {
        let command = find(name);
        let requests = requests(name, value, prefix);
        let mut next = requests.iter().cycle();
        group.bench_function(title, |bencher| {
            bencher.iter(|| {
                if let Some(request) = next.next() {
                    shard.run(command, request.args());
                }
            });
        });
    }
    group.finish();
}

/// The average of an insertion over a growth from nothing to a million keys, splits included; and the longest single one.
fn insertion(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insertion");
    group.sample_size(10);
    group.bench_function("a million keys", |bencher| {
        bencher.iter_batched(|| (), |()| Shard::filled(), BatchSize::PerIteration);
    });
    group.finish();
    longest_insertion();
}

fn longest_insertion() {
    let mut shard = Shard::filled();
    let mut times: Vec<u128> = (KEYS..KEYS + 1_000_000)
        .map(|number| {
            let key = key(number);
            let start = std::time::Instant::now();
            shard.set(&key, &[b'x'; VALUE_BYTES]);
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "insertion, nanoseconds: p50 {} p99 {} p99.99 {} longest {}",
        at(0.5),
        at(0.99),
        at(0.9999),
        at(1.0)
    );
}

criterion_group!(benches, hot_path, insertion);
criterion_main!(benches);
