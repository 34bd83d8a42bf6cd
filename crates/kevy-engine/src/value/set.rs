//! Sets: members without order, each once.
//!
//! As in Redis 7.2 a small set is one allocation: integers in order ([`ints`]), or strings one behind the other
//! ([`strings`]). A large one is a table ([`large`]). A set moves on to the next form when it outgrows the one it has, and
//! never back.

mod ints;
mod large;
mod member;
mod strings;
#[cfg(test)]
mod tests;

pub use member::Member;

use super::batch::emit_in_batches;
use super::{Collection, EncodingLimits};
use crate::Effects;
use crate::keyspace::{Encoding, Value};
use crate::number::parse_i64;
use crate::segmented::draw_to_front;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ints::Ints;
use kevy_proto::rng::Rng;
use large::Large;
use strings::Strings;

/// A set.
#[derive(Clone, Debug)]
pub struct Set {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// [`Ints`] or [`Strings`], by the first byte; nothing at all for the empty set.
    Small(Box<[u8]>),
    Large(Box<Large>),
}

/// A set as it is stored.
enum View<'a> {
    Ints(Ints<'a>),
    Strings(Strings<'a>),
    Large(&'a Large),
}

impl Default for Set {
    fn default() -> Self {
        Self {
            form: Form::Small(Box::default()),
        }
    }
}

impl Set {
    /// Number of members.
    pub fn len(&self) -> usize {
        match self.view() {
            View::Ints(ints) => ints.len(),
            View::Strings(strings) => strings.len(),
            View::Large(large) => large.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `member` is in the set.
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.view() {
            View::Ints(ints) => parse_i64(member).is_some_and(|number| ints.find(number).is_ok()),
            View::Strings(strings) => strings.find(member).is_some(),
            View::Large(large) => large.contains(member),
        }
    }

    /// All members: of a set of integers in ascending order, of a small set in the order of insertion, of a large one in no
    /// order.
    pub fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        let (ints, strings, large) = match self.view() {
            View::Ints(ints) => (Some(ints), None, None),
            View::Strings(strings) => (None, Some(strings), None),
            View::Large(large) => (None, None, Some(large)),
        };
        let numbers = ints.into_iter().flat_map(Ints::iter).map(Member::from);
        let texts = strings.into_iter().flat_map(Strings::iter);
        let many = large.into_iter().flat_map(Large::iter);
        numbers.chain(texts.chain(many).map(Member::from))
    }

    /// Adds a member; says whether it is new.
    pub fn add(&mut self, member: &[u8], limits: &EncodingLimits) -> bool {
        match &mut self.form {
            Form::Large(large) => large.add(member),
            Form::Small(bytes) if bytes.is_empty() => {
                self.add_first(member, limits);
                true
            }
            Form::Small(bytes) if Ints::are_in(bytes) => match parse_i64(member) {
                Some(number) => self.add_number(number, limits),
                None => self.add_string_to_ints(member, limits),
            },
            Form::Small(bytes) => {
                if Strings::of(bytes).find(member).is_some() {
                    return false;
                }
                if may_be_string(member, Strings::of(bytes).len(), limits) {
                    strings::push(bytes, member);
                    return true;
                }
                self.enlarge(limits);
                self.add(member, limits)
            }
        }
    }

    /// Removes a member; says whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Large(large) => large.remove(member),
            Form::Small(bytes) if bytes.is_empty() => false,
            Form::Small(bytes) if Ints::are_in(bytes) => {
                parse_i64(member).is_some_and(|number| ints::remove(bytes, number))
            }
            Form::Small(bytes) => strings::remove(bytes, member),
        }
    }

    /// A random member; all are equally likely.
    pub fn random(&self, rng: &mut Rng) -> Option<Member<'_>> {
        let mut pick = |length: usize| rng.below(length as u64) as usize;
        match self.view() {
            View::Ints(ints) => ints.get(pick(ints.len())).map(Member::from),
            View::Strings(strings) => strings.iter().nth(pick(strings.len())).map(Member::from),
            View::Large(large) => large.random(rng).map(Member::from),
        }
    }

    /// `count` different random members in random order, or all if there are no more.
    pub fn sample(&self, count: usize, rng: &mut Rng) -> Vec<Member<'_>> {
        if let Form::Large(large) = &self.form {
            let chosen = large.sample(count, rng).into_iter();
            return chosen.map(Member::from).collect();
        }
        let mut all: Vec<Member<'_>> = self.iter().collect();
        draw_to_front(&mut all, count, rng);
        all
    }

    /// One step of a scan: about `count` members from position `from` on, and the position to go on from (`None` at the
    /// end). A member that is there from the first step, which starts at 0, to the last is met at least once.
    pub fn scan(&self, from: u64, count: usize) -> (Vec<Member<'_>>, Option<u64>) {
        let Form::Large(large) = &self.form else {
            return (self.iter().collect(), None);
        };
        let (found, next) = large.scan(from, count);
        (found.into_iter().map(Member::from).collect(), next)
    }

    fn view(&self) -> View<'_> {
        match &self.form {
            Form::Large(large) => View::Large(large),
            Form::Small(bytes) if Ints::are_in(bytes) => View::Ints(Ints::of(bytes)),
            Form::Small(bytes) => View::Strings(Strings::of(bytes)),
        }
    }

    fn add_first(&mut self, member: &[u8], limits: &EncodingLimits) {
        let mut bytes = Box::default();
        match parse_i64(member) {
            Some(number) if limits.set_max_intset_entries > 0 => {
                ints::add(&mut bytes, number);
            }
            _ if may_be_string(member, 0, limits) => strings::push(&mut bytes, member),
            _ => {
                self.enlarge(limits);
                self.add(member, limits);
                return;
            }
        }
        self.form = Form::Small(bytes);
    }

    fn add_number(&mut self, number: i64, limits: &EncodingLimits) -> bool {
        let Form::Small(bytes) = &mut self.form else {
            return false;
        };
        if !ints::add(bytes, number) {
            return false;
        }
        if Ints::of(bytes).len() > limits.set_max_intset_entries {
            self.enlarge(limits);
        }
        true
    }

    /// Adds a member that is no integer to a set that holds integers only. Always new.
    fn add_string_to_ints(&mut self, member: &[u8], limits: &EncodingLimits) -> bool {
        let numbers_fit = self
            .iter()
            .all(|number| number.len() <= limits.set_max_listpack_value);
        if numbers_fit && may_be_string(member, self.len(), limits) {
            let mut bytes = Box::default();
            self.iter()
                .for_each(|number| strings::push(&mut bytes, &number));
            strings::push(&mut bytes, member);
            self.form = Form::Small(bytes);
            return true;
        }
        self.enlarge(limits);
        self.add(member, limits)
    }

    /// Makes a small set large.
    fn enlarge(&mut self, limits: &EncodingLimits) {
        let mut large = Large::new(limits.hash_seed);
        self.iter().for_each(|member| {
            large.add(&member);
        });
        self.form = Form::Large(Box::new(large));
    }
}

/// Whether a set of `length` strings takes `member` and stays small.
fn may_be_string(member: &[u8], length: usize, limits: &EncodingLimits) -> bool {
    length < limits.set_max_listpack_entries.min(strings::MOST)
        && member.len() <= limits.set_max_listpack_value
}

impl Collection for Set {
    fn view(value: &Value) -> Option<&Self> {
        if let Value::Set(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn view_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Set(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn into_value(self) -> Value {
        Value::Set(self)
    }

    fn is_vacant(&self) -> bool {
        self.is_empty()
    }

    fn encoding(&self) -> Encoding {
        match self.view() {
            View::Ints(_) => Encoding::Intset,
            View::Strings(_) => Encoding::Listpack,
            View::Large(_) => Encoding::Hashtable,
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Small(bytes) => bytes.len(),
            Form::Large(large) => large.heap_bytes(),
        }
    }

    fn emit_rebuild(&self, key: &[u8], effects: &mut Effects) {
        let members: Vec<Member<'_>> = self.iter().collect();
        emit_in_batches(
            effects,
            b"SADD",
            key,
            members.iter().map(|member| &**member),
        );
    }
}
