//! From a value to bytes.

use super::primitive::{put_bytes, put_length, put_string};
use super::{Kind, intset, listpack, payload, stream};
use crate::keyspace::{Encoding, Entry, Value};
use crate::number::parse_i64;
use crate::value::hash::Field;
use crate::value::{Collection, Hash, List, Set, SortedSet};
use alloc::vec::Vec;
use kevy_proto::resp::DoubleBuffer;

/// A value in Redis's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// How it is laid out.
    pub kind: Kind,
    /// What follows the kind.
    pub bytes: Vec<u8>,
}

impl Encoded {
    /// The value of `entry`. Fields of hashes whose time has come at `fields_now_ms` (see
    /// [`Keyspace::fields_now_ms`](crate::Keyspace::fields_now_ms)) are left out; `None` if that leaves none.
    pub fn of(entry: &Entry, fields_now_ms: i64) -> Option<Self> {
        let mut bytes = Vec::new();
        let kind = match entry {
            Entry::String(blob) => string(&mut bytes, blob.value()),
            Entry::Object(object) => match object.value() {
                Value::String(value) => string(&mut bytes, value),
                Value::List(found) => list(&mut bytes, found),
                Value::Set(found) => set(&mut bytes, found),
                Value::Hash(found) => hash(&mut bytes, found, fields_now_ms)?,
                Value::SortedSet(found) => sorted_set(&mut bytes, found),
                Value::Stream(found) => {
                    stream::encode(&mut bytes, found);
                    Kind::Stream2
                }
            },
        };
        Some(Self { kind, bytes })
    }

    /// The value as `DUMP` replies it.
    pub fn into_payload(mut self) -> Vec<u8> {
        self.bytes.insert(0, self.kind.to_byte());
        payload::seal(self.bytes, self.kind.version())
    }
}

fn string(out: &mut Vec<u8>, value: &[u8]) -> Kind {
    put_string(out, value);
    Kind::String
}

fn list(out: &mut Vec<u8>, list: &List) -> Kind {
    /// What precedes a listpack of elements.
    const PACKED: u64 = 2;
    put_length(out, list.runs().count() as u64);
    for run in list.runs() {
        let mut packed = listpack::Builder::new();
        run.for_each(|element| packed.push(element));
        put_length(out, PACKED);
        put_bytes(out, &packed.finish());
    }
    Kind::ListListpacks
}

fn set(out: &mut Vec<u8>, set: &Set) -> Kind {
    if set.encoding() == Encoding::Intset {
        let numbers: Vec<i64> = set.iter().filter_map(|member| parse_i64(&member)).collect();
        put_bytes(out, &intset::build(&numbers));
        return Kind::SetIntset;
    }
    put_length(out, set.len() as u64);
    set.iter().for_each(|member| put_string(out, &member));
    Kind::Set
}

fn hash(out: &mut Vec<u8>, hash: &Hash, now_ms: i64) -> Option<Kind> {
    let count = hash.len(now_ms);
    let first = hash.fields(now_ms).filter_map(|field| field.deadline).min();
    let small = hash.encoding() == Encoding::Listpack && fits_listpack(hash);
    if count == 0 {
        return None;
    }
    if let Some(first) = first {
        out.extend_from_slice(&first.to_le_bytes());
    }
    if small {
        let mut packed = listpack::Builder::new();
        let mut fields: Vec<Field<'_>> = hash.fields(now_ms).collect();
        // Redis looks for the earliest deadline at the start.
        fields.sort_by_key(|field| field.deadline.unwrap_or(i64::MAX));
        for field in fields {
            packed.push(field.name);
            packed.push(field.value);
            if first.is_some() {
                packed.push_integer(field.deadline.unwrap_or(0));
            }
        }
        put_bytes(out, &packed.finish());
    } else {
        put_length(out, count as u64);
        for field in hash.fields(now_ms) {
            if let Some(first) = first {
                // One more than the distance from the first; 0 says that there is no deadline.
                let after = field.deadline.map_or(0, |at| at.abs_diff(first) + 1);
                put_length(out, after);
            }
            put_string(out, field.name);
            put_string(out, field.value);
        }
    }
    Some(match (small, first) {
        (true, None) => Kind::HashListpack,
        (true, Some(_)) => Kind::HashDeadlinesListpack,
        (false, None) => Kind::Hash,
        (false, Some(_)) => Kind::HashDeadlines,
    })
}

fn sorted_set(out: &mut Vec<u8>, set: &SortedSet) -> Kind {
    if set.encoding() == Encoding::Listpack && fits_listpack(set) {
        let mut packed = listpack::Builder::new();
        let mut text = DoubleBuffer::new();
        for (member, score) in set.elements() {
            packed.push(member);
            packed.push(text.format(score).as_bytes());
        }
        put_bytes(out, &packed.finish());
        return Kind::SortedSetListpack;
    }
    put_length(out, set.len() as u64);
    // The highest first, as Redis writes them.
    for (member, score) in set.range(0..set.len(), true) {
        put_string(out, member);
        out.extend_from_slice(&score.to_le_bytes());
    }
    Kind::SortedSet
}

/// Whether a small collection is well below the 4 GiB of a listpack: its limits are settings.
fn fits_listpack(collection: &impl Collection) -> bool {
    const MOST_BYTES: usize = 1 << 30;
    collection.heap_bytes() < MOST_BYTES
}
