//! An engine whose time stands still, and its commands.

use bytes::BytesMut;
use kevy_engine::commands::families;
use kevy_engine::value::EncodingLimits;
use kevy_engine::{Context, Effects, Keyspace};
use kevy_proto::resp::{Encoder, RequestBuffer, RespVersion};
use kevy_proto::time::{Instant, Now, UnixMillis};

/// Limits so low that a few elements outgrow every compact form.
pub const LOW_LIMITS: EncodingLimits = EncodingLimits {
    list_max_listpack_size: 5,
    hash_max_listpack_entries: 5,
    hash_max_listpack_value: 12,
    set_max_intset_entries: 5,
    set_max_listpack_entries: 6,
    set_max_listpack_value: 12,
    zset_max_listpack_entries: 5,
    zset_max_listpack_value: 12,
    hll_sparse_max_bytes: 3000,
    stream_node_max_bytes: 4096,
    stream_node_max_entries: 3,
    hash_seed: 0,
};

/// One shard's data.
pub struct Engine {
    /// The keys.
    pub keyspace: Keyspace,
    /// The effects of what ran.
    pub effects: Effects,
}

impl Engine {
    /// An empty one that keeps its effects.
    pub fn new() -> Self {
        let mut keyspace = Keyspace::new(1);
        keyspace.set_encoding_limits(LOW_LIMITS);
        Self {
            keyspace,
            effects: Effects::on(),
        }
    }

    /// Runs a command and gives its reply in RESP2.
    ///
    /// # Panics
    /// If there is no such command.
    pub fn run(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let request = RequestBuffer::from_slices(words.iter().copied());
        let is = |name: &str, word: &[u8]| word.eq_ignore_ascii_case(name.as_bytes());
        let mut rows = families().flatten();
        let command = rows.find(|row| is(row.name, words[0])).expect("a command");
        let second = words.get(1).copied().unwrap_or_default();
        let mut below = command.subcommands.iter();
        let command = below.find(|row| is(row.name, second)).unwrap_or(command);
        let mut out = BytesMut::new();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: Encoder::new(&mut out, RespVersion::V2),
            effects: &mut self.effects,
            now: Now {
                monotonic: Instant::from_nanos(0),
                unix: UnixMillis(1_700_000_000_000),
            },
            wait: None,
        };
        // What it says is in the reply.
        let _ = context.run(command, request.args());
        out.to_vec()
    }

    /// An engine that ran the effects only.
    ///
    /// # Panics
    /// If one of them is an error.
    pub fn replayed(&self) -> Self {
        let mut replica = Self::new();
        for effect in self.effects.iter() {
            let words: Vec<&[u8]> = effect.iter().collect();
            let reply = replica.run(&words);
            assert_ne!(reply[0], b'-', "{words:?}");
        }
        replica
    }
}
