//! Values that are collections: what a key may hold besides a string.
//!
//! Each type is a [`Collection`]: commands reach it through [`Keyspace::collection`](crate::Keyspace::collection) (to read),
//! [`Keyspace::edit`](crate::Keyspace::edit) (to change what is there) and
//! [`Keyspace::edit_or_create`](crate::Keyspace::edit_or_create). A collection that a change leaves empty goes with its key.

mod batch;

pub mod hash;
pub mod list;
pub mod set;
pub mod sorted_set;
pub mod stream;

pub(crate) use batch::emit_in_batches;
pub use hash::Hash;
pub use list::{End, List};
pub use set::{Member, Set};
pub use sorted_set::SortedSet;
pub use stream::Stream;

use crate::Effects;
use crate::keyspace::{Encoding, Value};

/// A type of value that is a collection.
pub trait Collection: Sized {
    /// The collection in `value`, if it is of this type.
    fn view(value: &Value) -> Option<&Self>;

    /// As [`Collection::view`], to be changed.
    fn view_mut(value: &mut Value) -> Option<&mut Self>;

    /// The value that holds this collection.
    fn into_value(self) -> Value;

    /// Whether it has no elements: then its key goes (a stream never says so: it may be empty).
    fn is_vacant(&self) -> bool;

    /// How it is stored, as `OBJECT ENCODING` says.
    fn encoding(&self) -> Encoding;

    /// Bytes it holds on the heap, an estimate in constant time.
    fn heap_bytes(&self) -> usize;

    /// The earliest deadline of a part of it (a field of a hash), in Unix milliseconds; in constant time but for small
    /// collections.
    fn next_deadline(&self) -> Option<i64> {
        None
    }

    /// Emits canonical requests that rebuild it under `key`, which holds nothing then.
    fn emit_rebuild(&self, key: &[u8], effects: &mut Effects);
}

/// Up to which sizes collections are stored compactly: Redis's directives of the same names, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// `list-max-listpack-size`: positive: elements; -1 to -5: 4, 8, 16, 32, 64 KiB.
    pub list_max_listpack_size: i64,
    /// `hash-max-listpack-entries`.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`, bytes.
    pub hash_max_listpack_value: usize,
    /// `set-max-intset-entries`.
    pub set_max_intset_entries: usize,
    /// `set-max-listpack-entries`.
    pub set_max_listpack_entries: usize,
    /// `set-max-listpack-value`, bytes.
    pub set_max_listpack_value: usize,
    /// `zset-max-listpack-entries`.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`, bytes.
    pub zset_max_listpack_value: usize,
    /// `hll-sparse-max-bytes`.
    pub hll_sparse_max_bytes: usize,
    /// `stream-node-max-bytes`.
    pub stream_node_max_bytes: usize,
    /// `stream-node-max-entries`.
    pub stream_node_max_entries: usize,
    /// What the hash functions of large values are seeded with: the keyspace sets it to its own seed.
    pub hash_seed: u64,
}

impl Default for EncodingLimits {
    fn default() -> Self {
        Self {
            list_max_listpack_size: -2,
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            hll_sparse_max_bytes: 3000,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
            hash_seed: 0,
        }
    }
}
