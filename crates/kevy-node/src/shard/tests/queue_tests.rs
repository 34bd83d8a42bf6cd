//! Producers and consumers at random: nothing is lost, nothing comes twice.

use super::*;

/// A request that adds the elements `one` and `one + 1`.
fn push(kind: u64, a: &str, b: &str, one: u64) -> String {
    let two = one + 1;
    match kind {
        0..2 => format!("RPUSH {a} {one} {two}\r\n"),
        2 => format!("MULTI\r\nRPUSH {a} {one}\r\nRPUSH {b} {two}\r\nEXEC\r\n"),
        _ => format!(
            "RPUSH new{one} {one} {two}\r\nRENAMENX new{one} {a}\r\nLMOVE new{one} {a} LEFT RIGHT\r\n\
             LMOVE new{one} {a} LEFT RIGHT\r\n"
        ),
    }
}

/// Producers, consumers of all kinds, consumers that go: every element is delivered once, or still there.
#[test]
fn nothing_is_lost_and_nothing_is_delivered_twice() {
    let (mut offers, mut in_order) = (0, 0);
    for seed in 0..300 {
        let shards = 1 + (seed % 4) as u16;
        let mut process = Process::new(shards, 1000 + seed);
        let keys: Vec<String> = (0..4)
            .map(|n| key_on(&format!("q{n}-"), n % shards, shards))
            .collect();
        let connect =
            |process: &mut Process, n: u32| process.connect(n as u16 % shards, n, Door::Main);
        let producers: Vec<Client> = (0..2).map(|n| connect(&mut process, n)).collect();
        let mut consumers: Vec<Client> = (2..8).map(|n| connect(&mut process, n)).collect();
        let mut next_slot = 8;
        let mut pushed = 0;
        for _ in 0..150 {
            let pick = |rng: &mut Rng| keys[rng.below(4) as usize].clone();
            let (a, b) = (pick(&mut process.rng), pick(&mut process.rng));
            let producer = producers[process.rng.below(2) as usize];
            let index = process.rng.below(consumers.len() as u64) as usize;
            let consumer = consumers[index];
            let kind = process.rng.below(10);
            if kind < 4 {
                let request = push(kind, &a, &b, pushed);
                pushed += 2;
                process.send(producer, request.as_bytes());
            } else {
                let request = match kind {
                    4 | 5 => format!("BLPOP {a} {b} 0.01"),
                    6 => format!("BRPOP {b} {a} 0"),
                    7 => format!("BLMOVE {a} {b} LEFT RIGHT 0"),
                    8 => format!("BLMPOP 0 2 {a} {b} RIGHT COUNT 2"),
                    _ => {
                        process.disconnect(consumer);
                        consumers[index] = connect(&mut process, next_slot);
                        next_slot += 1;
                        continue;
                    }
                };
                process.send(consumer, format!("{request}\r\n").as_bytes());
            }
            process.stir_well(6);
            if process.rng.below(10) == 0 {
                process.advance(20);
            }
        }
        process.settle();
        for &consumer in &consumers {
            process.disconnect(consumer);
            process.settle();
        }
        process.received.remove(&producers[0]);
        process.received.remove(&producers[1]);
        let mut left = String::new();
        for key in &keys {
            left += &process.ask(producers[0], &format!("LRANGE {key} 0 -1"));
        }
        process.assert_nobody_waits();
        let lines = left.lines().filter_map(|line| line.parse().ok());
        let mut seen: Vec<u64> = lines.collect();
        for client in process.received.keys().copied().collect::<Vec<_>>() {
            seen.extend(popped(&process.heard(client)));
        }
        seen.sort_unstable();
        let all: Vec<u64> = (0..pushed).collect();
        assert_eq!(seen, all, "seed {seed}; left: {left:?}");
        for shard in &process.shards {
            offers += shard.stats.offers;
            in_order += shard.stats.transactions_in_order;
        }
    }
    assert!(offers > 1000 && in_order > 100, "{offers}, {in_order}");
}

/// The elements that a consumer has popped for good: those that came with their keys. One that was moved comes again.
fn popped(replies: &str) -> Vec<u64> {
    let mut lines = replies.lines();
    let mut popped = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') {
            lines.next();
        }
        if line != "*2" {
            continue;
        }
        let mut next = || lines.nth(1);
        next();
        let many = lines.clone().next().and_then(|line| line.strip_prefix('*'));
        let count = many.map_or(1, |count| count.parse().expect("a count"));
        if many.is_some() {
            lines.next();
        }
        popped.extend((0..count).filter_map(|_| lines.nth(1)?.parse::<u64>().ok()));
    }
    popped
}
