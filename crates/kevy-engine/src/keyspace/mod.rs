//! The keys of one shard: a table from key to entry, with absolute expiry.
//!
//! Every access takes the current time and treats an entry whose deadline has passed as absent (and removes it: lazy
//! expiry); [`Keyspace::expire_due`] removes the rest in the order of their deadlines (active expiry).

mod entry;

pub use entry::{Encoding, Entry};

use alloc::collections::BTreeSet;
use core::hash::{BuildHasher, Hasher};
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use kevy_proto::rng::Rng;
use kevy_proto::time::UnixMillis;

/// What a change does to the expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key stays for ever (plain `SET`).
    Never,
    /// What was, stays (`SET .. KEEPTTL`, `APPEND`).
    Keep,
    /// The key goes at this moment.
    At(UnixMillis),
}

/// Counters of a keyspace since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys removed because their time had come.
    pub expired: u64,
}

/// The keys of one shard.
#[derive(Debug)]
pub struct Keyspace {
    hasher: FixedState,
    table: HashTable<Entry>,
    /// Invariant: holds `(deadline, hash)` exactly for the entries that have a deadline.
    deadlines: BTreeSet<(i64, u64)>,
    stats: KeyspaceStats,
    rng: Rng,
}

impl Keyspace {
    /// An empty keyspace. `seed` decides hashing and random choices: the same seed, the same behaviour.
    pub fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            table: HashTable::new(),
            deadlines: BTreeSet::new(),
            stats: KeyspaceStats::default(),
            rng: Rng::from_seed(seed),
        }
    }
}
