//! Hash: fields with values, and for each field perhaps a deadline of its own.
//!
//! A small hash is one allocation that is searched from its start ([`packed`]); a large one is a table ([`large`]). A small
//! hash becomes large at Redis's limits and stays so.
//!
//! A field whose deadline has passed is hidden: every reader says what time it is by its clock (`now_ms`, Unix
//! milliseconds; see [`Keyspace::fields_now_ms`](crate::Keyspace::fields_now_ms)), and what is due then does not exist for
//! it. It is removed when the hash is next changed or by the keyspace's active expiry ([`Hash::remove_due`]).

mod field;
mod large;
mod packed;

pub use field::{Field, LATEST_DEADLINE_MS};

use super::{Collection, EncodingLimits};
use crate::Effects;
use crate::keyspace::{Encoding, Value};
use crate::segmented::draw_to_front;
use alloc::boxed::Box;
use alloc::vec::Vec;
use kevy_proto::rng::Rng;
use large::Large;
use packed::Packed;

/// The most fields of one request that rebuilds a hash.
const REBUILD_FIELDS: usize = 128;
/// The size that a request that rebuilds a hash stays near, in bytes.
const REBUILD_BYTES: usize = 64 * 1024;
/// How often a random field is drawn again because its time has come, before all that are left are looked at.
const RANDOM_TRIES: usize = 20;

/// A hash.
#[derive(Clone, Debug)]
pub struct Hash(Form);

#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Large(Box<Large>),
}

impl Default for Hash {
    fn default() -> Self {
        Self(Form::Packed(Packed::default()))
    }
}

impl Hash {
    /// Number of fields.
    pub fn len(&self, now_ms: i64) -> usize {
        match &self.0 {
            Form::Packed(packed) if packed.has_deadlines() => self.fields(now_ms).count(),
            Form::Packed(packed) => packed.len(),
            Form::Large(large) => large.len() - large.due_len(now_ms),
        }
    }

    /// The field called `name`.
    pub fn get(&self, name: &[u8], now_ms: i64) -> Option<Field<'_>> {
        let found = match &self.0 {
            Form::Packed(packed) => packed.get(name),
            Form::Large(large) => large.get(name),
        };
        found.filter(|field| !field.is_due(now_ms))
    }

    /// All fields: of a small hash in the order of insertion, of a large one in no order.
    pub fn fields(&self, now_ms: i64) -> impl Iterator<Item = Field<'_>> {
        let (packed, large) = match &self.0 {
            Form::Packed(packed) => (Some(packed), None),
            Form::Large(large) => (None, Some(large)),
        };
        let small = packed.into_iter().flat_map(Packed::iter);
        let many = large.into_iter().flat_map(|large| large.iter());
        small.chain(many).filter(move |field| !field.is_due(now_ms))
    }

    /// Adds `field` or replaces the one of its name, deadline included; says whether it is new.
    pub fn set(&mut self, field: Field<'_>, now_ms: i64, limits: &EncodingLimits) -> bool {
        self.fit([field.name, field.value], limits);
        let hidden = self.has_due(now_ms) && self.get(field.name, now_ms).is_none();
        let is_new = match &mut self.0 {
            Form::Packed(packed) => packed.set(field),
            Form::Large(large) => large.set(field),
        };
        if let Form::Packed(packed) = &self.0
            && packed.len() > limits.hash_max_listpack_entries
        {
            self.enlarge(limits);
        }
        is_new || hidden
    }

    /// Makes the hash large if any of `strings` is too long for a small one.
    pub fn fit<'a>(
        &mut self,
        strings: impl IntoIterator<Item = &'a [u8]>,
        limits: &EncodingLimits,
    ) {
        let is_long = |string: &[u8]| string.len() > limits.hash_max_listpack_value;
        if matches!(self.0, Form::Packed(_)) && strings.into_iter().any(is_long) {
            self.enlarge(limits);
        }
    }

    /// Removes the field called `name`; says whether it was there. One whose time has come is left as it is.
    pub fn remove(&mut self, name: &[u8], now_ms: i64) -> bool {
        if self.has_due(now_ms) && self.get(name, now_ms).is_none() {
            return false;
        }
        match &mut self.0 {
            Form::Packed(packed) => packed.remove(name),
            Form::Large(large) => large.remove(name),
        }
    }

    /// Makes the field called `name` go at `deadline`, or stay.
    pub fn set_deadline(&mut self, name: &[u8], deadline: Option<i64>, now_ms: i64) {
        let Some(field) = self.get(name, now_ms) else {
            return;
        };
        let value = field.value.to_vec();
        let changed = Field {
            name,
            value: &value,
            deadline,
        };
        match &mut self.0 {
            Form::Packed(packed) => packed.set(changed),
            Form::Large(large) => large.set(changed),
        };
    }

    /// Removes up to `budget` fields whose time has come; returns their names.
    pub fn remove_due(&mut self, now_ms: i64, budget: usize) -> Vec<Vec<u8>> {
        match &mut self.0 {
            Form::Packed(packed) => packed.remove_due(now_ms, budget),
            Form::Large(large) => large.remove_due(now_ms, budget),
        }
    }

    /// One step of a scan from `from`, which is 0 at first: about `count` fields, and where to go on, if there is more. A
    /// small hash gives everything at once. A field present from the first step to the last is met at least once.
    pub fn scan(&self, from: u64, count: usize, now_ms: i64) -> (Vec<Field<'_>>, Option<u64>) {
        match &self.0 {
            Form::Packed(_) => (self.fields(now_ms).collect(), None),
            Form::Large(large) => {
                let (mut found, next) = large.scan(from, count);
                found.retain(|field| !field.is_due(now_ms));
                (found, next)
            }
        }
    }

    /// A random field; all are equally likely.
    pub fn random(&self, now_ms: i64, rng: &mut Rng) -> Option<Field<'_>> {
        if let Form::Large(large) = &self.0 {
            for _ in 0..RANDOM_TRIES {
                let field = large.random(rng)?;
                if !field.is_due(now_ms) {
                    return Some(field);
                }
            }
        }
        let all: Vec<Field<'_>> = self.fields(now_ms).collect();
        all.get(rng.below(all.len() as u64) as usize).copied()
    }

    /// `count` different random fields, or all if there are no more.
    pub fn sample(&self, count: usize, now_ms: i64, rng: &mut Rng) -> Vec<Field<'_>> {
        match &self.0 {
            Form::Large(large) if large.due_len(now_ms) == 0 => large.sample(count, rng),
            Form::Packed(_) | Form::Large(_) => {
                let mut all: Vec<Field<'_>> = self.fields(now_ms).collect();
                draw_to_front(&mut all, count, rng);
                all
            }
        }
    }

    /// Gives `each` a random field `count` times, independent of those before. Nothing if there is no field.
    pub fn draw<'a>(
        &'a self,
        count: usize,
        now_ms: i64,
        rng: &mut Rng,
        mut each: impl FnMut(Field<'a>),
    ) {
        match &self.0 {
            Form::Large(large) if large.due_len(now_ms) == 0 => {
                (0..count).for_each(|_| large.random(rng).into_iter().for_each(&mut each));
            }
            Form::Packed(_) | Form::Large(_) => {
                let all: Vec<Field<'_>> = self.fields(now_ms).collect();
                for _ in 0..count {
                    let at = rng.below(all.len() as u64) as usize;
                    all.get(at).copied().into_iter().for_each(&mut each);
                }
            }
        }
    }

    /// Whether any field's time has come.
    fn has_due(&self, now_ms: i64) -> bool {
        self.next_deadline().is_some_and(|first| now_ms > first)
    }

    fn enlarge(&mut self, limits: &EncodingLimits) {
        let Form::Packed(packed) = &self.0 else {
            return;
        };
        let mut large = Large::new(limits.hash_seed);
        for field in packed.iter() {
            large.set(field);
        }
        self.0 = Form::Large(Box::new(large));
    }
}

impl Collection for Hash {
    fn view(value: &Value) -> Option<&Self> {
        if let Value::Hash(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn view_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Hash(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn into_value(self) -> Value {
        Value::Hash(self)
    }

    fn is_vacant(&self) -> bool {
        match &self.0 {
            Form::Packed(packed) => packed.len() == 0,
            Form::Large(large) => large.len() == 0,
        }
    }

    fn encoding(&self) -> Encoding {
        match &self.0 {
            Form::Packed(_) => Encoding::Listpack,
            Form::Large(_) => Encoding::Hashtable,
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.len_bytes(),
            Form::Large(large) => large.heap_bytes(),
        }
    }

    fn next_deadline(&self) -> Option<i64> {
        match &self.0 {
            Form::Packed(packed) => packed.next_deadline(),
            Form::Large(large) => large.next_deadline(),
        }
    }

    fn emit_rebuild(&self, key: &[u8], effects: &mut Effects) {
        let mut request: Vec<&[u8]> = Vec::new();
        let mut bytes = 0;
        for field in self.fields(i64::MIN) {
            if request.is_empty() {
                request.extend([b"HSET", key]);
            }
            request.extend([field.name, field.value]);
            bytes += field.name.len() + field.value.len();
            if request.len() >= 2 * REBUILD_FIELDS || bytes >= REBUILD_BYTES {
                effects.emit(&request);
                request.clear();
                bytes = 0;
            }
        }
        if !request.is_empty() {
            effects.emit(&request);
        }
        let mut digits = itoa::Buffer::new();
        for field in self.fields(i64::MIN) {
            if let Some(deadline) = field.deadline {
                let at = digits.format(deadline).as_bytes();
                effects.emit(&[b"HPEXPIREAT", key, at, b"FIELDS", b"1", field.name]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_takes_sixteen_bytes_beside_its_fields() {
        assert_eq!(size_of::<Hash>(), 16);
        assert_eq!(size_of::<Value>(), 24);
    }
}
