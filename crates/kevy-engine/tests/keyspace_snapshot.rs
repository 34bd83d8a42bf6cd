//! A snapshot holds what was there when it began, whatever happens while it is taken; with the effects of what happened
//! since it gives the state now.

use bytes::BytesMut;
use kevy_engine::commands::families;
use kevy_engine::keyspace::{ExpiryMode, SnapshotProgress};
use kevy_engine::rdb::Encoded;
use kevy_engine::{Command, Context, Effects, Keyspace};
use kevy_proto::resp::{Args, Encoder, RequestBuffer, RespVersion};
use kevy_proto::rng::Rng;
use kevy_proto::time::{Instant, Now, UnixMillis};
use std::collections::BTreeMap;

const NOW: Now = Now {
    monotonic: Instant::from_nanos(0),
    unix: UnixMillis(1_700_000_000_000),
};

fn run(keyspace: &mut Keyspace, effects: &mut Effects, args: Args<'_>) {
    let name = args.at(0).to_ascii_lowercase();
    let mut rows = families().flatten();
    let is_named = |row: &&Command| row.name.as_bytes() == name;
    let mut command = rows.find(is_named).expect("a command");
    if let Some(found) = args.get(1).and_then(|second| {
        let second = second.to_ascii_lowercase();
        let mut rows = command.subcommands.iter();
        rows.find(|row| row.name.as_bytes() == second)
    }) {
        command = found;
    }
    let mut out = BytesMut::new();
    let mut context = Context {
        keyspace,
        reply: Encoder::new(&mut out, RespVersion::V2),
        effects,
        now: NOW,
        wait: None,
    };
    let _ = context.run(command, args);
}

fn replay<'a>(keyspace: &mut Keyspace, effects: impl Iterator<Item = Args<'a>>) {
    effects.for_each(|effect| run(keyspace, &mut Effects::off(), effect));
}

fn empty() -> Keyspace {
    let mut keyspace = Keyspace::new(7);
    keyspace.set_expiry_mode(ExpiryMode::Ignore);
    keyspace
}

/// Every key with what `DUMP` says, of sets and hashes the elements in order, and its deadline.
fn state(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, (Vec<u8>, Option<UnixMillis>)> {
    let entries = keyspace.iter().map(|entry| {
        let encoded = Encoded::of(entry, NOW.unix.0).expect("no entry is vacant");
        let mut payload = encoded.into_payload();
        if ["set", "hash"].contains(&entry.type_name()) {
            payload.truncate(payload.len() - 10);
            payload.sort_unstable();
        }
        (entry.key().to_vec(), (payload.clone(), entry.deadline()))
    });
    entries.collect()
}

fn random_request(rng: &mut Rng) -> RequestBuffer {
    let kind = rng.below(14);
    let key = format!(
        "{}{}",
        ["s", "l", "h", "z", "t", "x"][rng.below(6) as usize],
        rng.below(60)
    );
    let text = format!("{}", rng.below(1000));
    let (key, text) = (key.as_str(), text.as_str());
    let long = "y".repeat(rng.below(100) as usize);
    let words: Vec<&str> = match (kind, &key[..1]) {
        (0, _) => vec!["DEL", key],
        (1, _) => vec!["PEXPIREAT", key, "1800000000000"],
        (2, _) => vec!["PERSIST", key],
        (3, "s") => vec!["APPEND", key, &long],
        (4, _) => vec!["RENAME", key, "s1"],
        (5, "l") => vec!["LPOP", key],
        (6, "h") => vec!["HPEXPIREAT", key, "1800000000000", "FIELDS", "1", text],
        (_, "s") => vec!["SET", key, text],
        (_, "l") => vec!["RPUSH", key, text, &long],
        (_, "h") => vec!["HSET", key, text, &long],
        (_, "z") => vec!["ZADD", key, text, &long],
        (_, "t") => vec!["SADD", key, text],
        (_, _) => vec!["XADD", key, "*", text, &long],
    };
    RequestBuffer::from_slices(words.iter().map(|word| word.as_bytes()))
}

#[test]
fn a_snapshot_is_of_one_moment_and_the_effects_since_lead_to_the_next() {
    for seed in 0..150 {
        let mut rng = Rng::from_seed(seed);
        let mut keyspace = Keyspace::new(seed);
        for _ in 0..rng.below(400) {
            run(
                &mut keyspace,
                &mut Effects::off(),
                random_request(&mut rng).args(),
            );
        }
        let before = state(&keyspace);
        keyspace.begin_snapshot();
        let mut restored = empty();
        let mut since = Effects::on();
        loop {
            for _ in 0..rng.below(20) {
                run(&mut keyspace, &mut since, random_request(&mut rng).args());
            }
            let mut effects = Effects::on();
            let progress = keyspace.advance_snapshot(1 + rng.below(20) as usize, &mut effects);
            replay(&mut restored, effects.iter());
            match progress {
                SnapshotProgress::Running => {}
                SnapshotProgress::Complete(entries) => {
                    assert_eq!(entries, before.len() as u64, "seed {seed}");
                    break;
                }
                SnapshotProgress::Gone => panic!("nobody gave it up"),
            }
        }
        assert!(!keyspace.has_snapshot());
        assert_eq!(state(&restored), before, "seed {seed}");
        replay(&mut restored, since.iter());
        assert_eq!(state(&restored), state(&keyspace), "seed {seed}");
    }
}

#[test]
fn a_snapshot_ends_with_the_keys_it_was_of() {
    let mut keyspace = Keyspace::new(1);
    for _ in 0..100 {
        run(
            &mut keyspace,
            &mut Effects::off(),
            random_request(&mut Rng::from_seed(1)).args(),
        );
    }
    keyspace.begin_snapshot();
    keyspace.clear();
    let progress = keyspace.advance_snapshot(10, &mut Effects::on());
    assert_eq!(progress, SnapshotProgress::Gone);
}
