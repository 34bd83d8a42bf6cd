//! One key and what it holds, in as few bytes as safe code allows.

use super::access;
use super::blob::{Blob, Parts};
use super::growable::grow;
use super::object::Object;
use crate::Effects;
use crate::value::{Collection, Hash, List, Set, SortedSet, Stream};
use alloc::boxed::Box;
use alloc::vec::Vec;
use kevy_proto::resp::ErrorReply;
use kevy_proto::time::{Now, UnixMillis};

/// The longest string that Redis keeps beside its header (`OBJ_ENCODING_EMBSTR_SIZE_LIMIT`), in bytes.
pub const EMBSTR_LIMIT_BYTES: usize = 44;

/// How a value is stored, by the names that `OBJECT ENCODING` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string that is a 64-bit integer in its canonical form.
    Int,
    /// A string of at most 44 bytes, set whole.
    Embstr,
    /// Any other string.
    Raw,
    /// A small collection in one allocation.
    Listpack,
    /// A small set of integers in one allocation.
    Intset,
    /// A large set or hash.
    Hashtable,
    /// A large list.
    Quicklist,
    /// A large sorted set.
    Skiplist,
    /// A stream.
    Stream,
}

impl Encoding {
    /// What Redis chooses for a string that is set whole.
    pub fn of_string(value: &[u8]) -> Self {
        if value.len() > EMBSTR_LIMIT_BYTES {
            Self::Raw
        } else if crate::number::parse_i64(value).is_some() {
            Self::Int
        } else {
            Self::Embstr
        }
    }

    /// The name that `OBJECT ENCODING` replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Embstr => "embstr",
            Self::Raw => "raw",
            Self::Listpack => "listpack",
            Self::Intset => "intset",
            Self::Hashtable => "hashtable",
            Self::Quicklist => "quicklist",
            Self::Skiplist => "skiplist",
            Self::Stream => "stream",
        }
    }
}

/// One key and what it holds: 16 bytes and what they point to.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A string that was set whole: header, key and value in one allocation.
    String(Blob),
    /// Everything that grows in place.
    Object(Box<Object>),
}

/// A value that grows in place.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string that `APPEND`, `SETRANGE` or `SETBIT` made.
    String(Vec<u8>),
    /// A list.
    List(Box<List>),
    /// A hash.
    Hash(Hash),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A stream.
    Stream(Box<Stream>),
}

/// Calls a method of [`Collection`] on whatever collection `$value` is; a string gives `$string`.
macro_rules! on_collection {
    ($value:expr, $bytes:ident => $string:expr, $found:ident => $call:expr) => {
        match $value {
            Value::String($bytes) => $string,
            Value::List($found) => $call,
            Value::Hash($found) => $call,
            Value::Set($found) => $call,
            Value::SortedSet($found) => $call,
            Value::Stream($found) => $call,
        }
    };
}

impl Value {
    /// The name that `TYPE` replies.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
            Self::Stream(_) => "stream",
        }
    }

    /// How it is stored.
    pub fn encoding(&self) -> Encoding {
        on_collection!(self, _bytes => Encoding::Raw, found => found.encoding())
    }

    /// Bytes it holds on the heap, an estimate.
    fn heap_bytes(&self) -> usize {
        on_collection!(self, bytes => bytes.capacity(), found => found.heap_bytes())
    }
}

impl Entry {
    /// An entry for a string that is set whole.
    pub(super) fn string_from(parts: Parts<'_>) -> Self {
        Self::String(Blob::new(parts))
    }

    /// An entry for a value that grows in place.
    pub(super) fn of_value(key: &[u8], value: Value, deadline: Option<i64>, clock: u32) -> Self {
        Self::Object(Box::new(Object::new(key, value, deadline, clock)))
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::String(blob) => blob.key(),
            Self::Object(object) => object.key(),
        }
    }

    /// The bytes of a string.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if it is no string.
    #[inline]
    pub fn string(&self) -> Result<&[u8], ErrorReply> {
        match self {
            Self::String(blob) => Ok(blob.value()),
            Self::Object(object) => {
                if let Value::String(bytes) = &object.value {
                    Ok(bytes)
                } else {
                    Err(ErrorReply::WrongType)
                }
            }
        }
    }

    /// When the key goes, if ever.
    pub fn deadline(&self) -> Option<UnixMillis> {
        self.deadline_ms().map(UnixMillis)
    }

    /// The name that `TYPE` replies.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Object(object) => object.value.type_name(),
        }
    }

    /// How the value is stored.
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::String(blob) => blob.encoding(),
            Self::Object(object) => object.value.encoding(),
        }
    }

    /// Seconds since the last access; means something under [`AccessTracking::Lru`](super::AccessTracking::Lru).
    pub fn idle_seconds(&self, now: Now) -> u32 {
        access::idle_seconds(self.clock(), now)
    }

    /// The logarithmic access counter; means something under [`AccessTracking::Lfu`](super::AccessTracking::Lfu).
    pub fn frequency(&self, now: Now) -> u8 {
        access::frequency(self.clock(), now)
    }

    /// An estimate of the memory that the key takes, its share of the table included.
    pub fn memory_bytes(&self) -> usize {
        /// An entry, some slack and its share of a segment's index.
        const TABLE_SHARE_BYTES: usize = 21;
        let heap = match self {
            Self::String(blob) => allocated(blob.len_bytes()),
            Self::Object(object) => {
                allocated(size_of::<Object>())
                    + allocated(object.head_bytes())
                    + allocated(object.value.heap_bytes())
            }
        };
        TABLE_SHARE_BYTES + heap
    }

    /// Emits the effects that rebuild this entry, whatever its key held before.
    pub(super) fn emit_effects(&self, effects: &mut Effects) {
        let mut digits = itoa::Buffer::new();
        let deadline = self.deadline_ms().map(|at| digits.format(at).as_bytes());
        match self.string() {
            // `SET` alone would make a short string compact again.
            Ok(value) if self.encoding() == Encoding::Raw && value.len() <= EMBSTR_LIMIT_BYTES => {
                emit_set(effects, self.key(), b"", deadline);
                effects.emit(&[b"APPEND", self.key(), value]);
            }
            Ok(value) => emit_set(effects, self.key(), value, deadline),
            Err(_) => self.emit_collection(effects, deadline),
        }
    }

    fn emit_collection(&self, effects: &mut Effects, deadline: Option<&[u8]>) {
        let Self::Object(object) = self else { return };
        effects.emit(&[b"DEL", object.key()]);
        on_collection!(&object.value, _bytes => {}, found => found.emit_rebuild(object.key(), effects));
        if let Some(at) = deadline {
            effects.emit(&[b"PEXPIREAT", object.key(), at]);
        }
    }

    /// When the first part of the value goes by itself, if one will: a hash's earliest field deadline.
    #[inline]
    pub(super) fn part_deadline_ms(&self) -> Option<i64> {
        match self {
            Self::String(_) => None,
            Self::Object(object) => {
                on_collection!(&object.value, _bytes => None, found => found.next_deadline())
            }
        }
    }

    #[inline]
    pub(super) fn deadline_ms(&self) -> Option<i64> {
        match self {
            Self::String(blob) => blob.deadline(),
            Self::Object(object) => object.deadline(),
        }
    }

    pub(super) fn set_deadline_ms(&mut self, deadline: Option<i64>) {
        match self {
            Self::String(blob) => blob.set_deadline(deadline),
            Self::Object(object) => object.set_deadline(deadline),
        }
    }

    #[inline]
    pub(super) fn clock(&self) -> u32 {
        match self {
            Self::String(blob) => blob.clock(),
            Self::Object(object) => object.clock,
        }
    }

    #[inline]
    pub(super) fn set_clock(&mut self, clock: u32) {
        match self {
            Self::String(blob) => blob.set_clock(clock),
            Self::Object(object) => object.clock = clock,
        }
    }

    /// Replaces the value by a string; the key stays.
    pub(super) fn overwrite_string(&mut self, parts: Parts<'_>) {
        match self {
            Self::String(blob) => blob.overwrite(parts),
            Self::Object(_) => *self = Self::string_from(parts),
        }
    }

    /// The same value under another key.
    pub(super) fn with_key(self, key: &[u8]) -> Self {
        match self {
            Self::String(blob) => Self::string_from(Parts {
                key,
                ..blob.parts()
            }),
            Self::Object(mut object) => {
                object.set_key(key);
                Self::Object(object)
            }
        }
    }

    /// The bytes of a string as a vector that can grow; they move there the first time.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if it is no string.
    pub(super) fn growable(&mut self, more_bytes: usize) -> Result<&mut Vec<u8>, ErrorReply> {
        if let Self::String(blob) = self {
            let parts = blob.parts();
            let mut bytes = Vec::new();
            grow(&mut bytes, parts.value.len() + more_bytes);
            bytes.extend_from_slice(parts.value);
            let value = Value::String(bytes);
            *self = Self::of_value(parts.key, value, parts.deadline, parts.clock);
        }
        match self {
            Self::Object(object) => {
                if let Value::String(bytes) = &mut object.value {
                    Ok(bytes)
                } else {
                    Err(ErrorReply::WrongType)
                }
            }
            Self::String(_) => Err(ErrorReply::WrongType),
        }
    }
}

fn emit_set(effects: &mut Effects, key: &[u8], value: &[u8], deadline: Option<&[u8]>) {
    match deadline {
        Some(at) => effects.emit(&[b"SET", key, value, b"PXAT", at]),
        None => effects.emit(&[b"SET", key, value]),
    }
}

/// What an allocator with four size classes to a doubling (mimalloc) spends on `bytes`.
pub(crate) fn allocated(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_sixteen_bytes() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn encodings_are_those_of_redis() {
        for (value, encoding) in [
            (&b"12"[..], "int"),
            (b"-9223372036854775808", "int"),
            (b"9223372036854775808", "embstr"),
            (b"012", "embstr"),
            (b"", "embstr"),
            (&[b'x'; 44], "embstr"),
            (&[b'x'; 45], "raw"),
        ] {
            assert_eq!(Encoding::of_string(value).name(), encoding);
        }
    }

    #[test]
    fn size_classes_are_a_quarter_apart() {
        assert_eq!(allocated(0), 0);
        assert_eq!(allocated(85), 96);
        assert_eq!(allocated(1000), 1024);
        assert_eq!(allocated(1025), 1280);
        assert_eq!(allocated(4096), 4096);
    }
}
