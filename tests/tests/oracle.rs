//! kevy answers random commands as Redis does, byte for byte (`kevy_tests::oracle`).
//!
//! `KEVY_ORACLE_SEED` chooses the commands and `KEVY_ORACLE_COMMANDS` their number, for longer runs than
//! the one that every change goes through:
//! `KEVY_ORACLE_SEED=$RANDOM KEVY_ORACLE_COMMANDS=1000000 cargo test -p kevy-tests --test oracle`.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use kevy_tests::connection::Args;
use kevy_tests::oracle::{Generator, Pair, report, shrink};

const SEED: u64 = 6004;
const COMMANDS: u64 = 120_000;
/// Commands from one empty keyspace to the next.
const SEQUENCE: u64 = 250;
/// Kinds of differences that are worth reporting at once.
const REPORTED: usize = 10;
/// A run of so many sequences has seen each command do something.
const ENOUGH: u64 = 100;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number")),
        Err(_) => default,
    }
}

/// Runs a quarter of all commands: there are four combinations of shards and protocol.
///
/// Each sequence has a seed of its own, one more than the one before: the one that fails can be run alone.
fn same_replies(test: &str, shards: u16, protocol: u8) {
    let seed = setting("KEVY_ORACLE_SEED", SEED);
    let sequences = setting("KEVY_ORACLE_COMMANDS", COMMANDS).div_ceil(4 * SEQUENCE);
    println!("KEVY_ORACLE_SEED={seed} shards={shards} protocol={protocol} sequences={sequences}");
    let pair = Pair::start(shards, protocol);
    let grammar = pair.grammar();
    let (mut found, mut kinds) = (Vec::new(), BTreeSet::new());
    for own_seed in (0..sequences).map(|index| seed.wrapping_add(index)) {
        let mixed = own_seed ^ u64::from(shards) << 32 ^ u64::from(protocol) << 48;
        let commands = Generator::new(&grammar, mixed).sequence(SEQUENCE as usize);
        let difference = pair.first_difference(&commands);
        if let Some(difference) = difference.filter(|found| kinds.insert(found.kind())) {
            let differs = |part: &[Args]| pair.first_difference(part);
            let (commands, difference) = shrink(commands, difference, differs);
            let again = format!(
                "KEVY_ORACLE_SEED={own_seed} KEVY_ORACLE_COMMANDS=1 cargo test -p kevy-tests --test oracle {test}"
            );
            found.push(format!("{again}\n{}", report(&commands, &difference)));
        }
        if found.len() == REPORTED {
            break;
        }
    }
    assert!(
        found.is_empty(),
        "{} differences, {shards} shards, RESP{protocol}:\n{}",
        found.len(),
        found.join("\n\n")
    );
    let idle = pair.never_succeeded(&grammar);
    assert!(
        sequences < ENOUGH || idle.is_empty(),
        "only errors from {idle:?}"
    );
}

#[test]
fn one_shard_resp2() {
    same_replies("one_shard_resp2", 1, 2);
}

#[test]
fn one_shard_resp3() {
    same_replies("one_shard_resp3", 1, 3);
}

#[test]
fn four_shards_resp2() {
    same_replies("four_shards_resp2", 4, 2);
}

#[test]
fn four_shards_resp3() {
    same_replies("four_shards_resp3", 4, 3);
}
