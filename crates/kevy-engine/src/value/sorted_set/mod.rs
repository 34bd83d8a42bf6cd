//! Sorted sets: members with scores, in the order of score and then member.
//!
//! A small one is [`packed`]: one allocation. A large one is a table of [`members`] beside a [`ranking`] of their ids:
//! a member is found in constant time, a rank or a bound in logarithmic time. A set grows into the large form at Redis's
//! thresholds and stays there.
//!
//! Positions in the order are *ranks*, counted from 0; all ranges are ranges of ranks. Scores are never NaN.

mod accumulator;
mod additions;
mod chunked;
mod large;
mod members;
mod packed;
mod ranking;
mod score;

pub use accumulator::Accumulator;
pub use additions::{emit_additions, emit_removals};

use super::{Collection, EncodingLimits};
use crate::Effects;
use crate::keyspace::{Encoding, Value};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use large::Large;
use packed::Packed;

/// Members with scores in order.
#[derive(Clone, Debug, Default)]
pub struct SortedSet {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Large(Box<Large>),
}

impl Default for Form {
    fn default() -> Self {
        Self::Packed(Packed::default())
    }
}

/// How a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u32);

impl Cursor {
    /// Reads a cursor as clients hold it; one that was never given out is at the end.
    pub fn from_external(external: u64) -> Option<Self> {
        u32::try_from(external).ok().map(Self)
    }

    /// The cursor as clients hold it: 0 for the start.
    pub fn external(self) -> u64 {
        u64::from(self.0)
    }
}

impl SortedSet {
    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.len(),
            Form::Large(large) => large.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.form {
            Form::Packed(packed) => packed.find(member).map(|(_, score)| score),
            Form::Large(large) => large.score(member),
        }
    }

    /// The rank and the score of a member.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.form {
            Form::Packed(packed) => packed.find(member),
            Form::Large(large) => large.find(member),
        }
    }

    /// How many elements come first whose scores are `before` something: true for a beginning of the order.
    pub fn position_by_score(&self, before: impl Fn(f64) -> bool) -> usize {
        match &self.form {
            Form::Packed(packed) => packed
                .iter()
                .take_while(|(_, score)| before(*score))
                .count(),
            Form::Large(large) => large.position_by_score(before),
        }
    }

    /// How many elements come first whose members are `before` something. Means something if all scores are equal.
    pub fn position_by_member(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        match &self.form {
            Form::Packed(packed) => packed
                .iter()
                .take_while(|(member, _)| before(member))
                .count(),
            Form::Large(large) => large.position_by_member(before),
        }
    }

    /// The element at `rank`, if there is one.
    pub fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        match &self.form {
            Form::Packed(packed) => packed.iter().nth(rank),
            Form::Large(large) => large.at(rank),
        }
    }

    /// The elements of these ranks, the highest first if `reverse`.
    pub fn range(&self, ranks: Range<usize>, reverse: bool) -> Elements<'_> {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        match &self.form {
            Form::Packed(packed) => {
                let found = packed.iter().skip(ranks.start).take(ranks.len());
                if reverse {
                    let mut listed: Vec<(&[u8], f64)> = found.collect();
                    listed.reverse();
                    Elements(Walk::Listed(listed.into_iter()))
                } else {
                    Elements(Walk::Packed(found))
                }
            }
            Form::Large(large) if reverse => Elements(Walk::Backwards(large.range(ranks).rev())),
            Form::Large(large) => Elements(Walk::Large(large.range(ranks))),
        }
    }

    /// All elements in order.
    pub fn elements(&self) -> Elements<'_> {
        self.range(0..self.len(), false)
    }

    /// Gives a member the score that `decide` makes of its old one, `None` if it is missing. `None` from `decide` leaves
    /// everything as it is, and so does a score equal to the old one.
    pub fn update(
        &mut self,
        member: &[u8],
        limits: &EncodingLimits,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) {
        match &mut self.form {
            Form::Packed(packed) => {
                let old = packed.find(member).map(|(_, score)| score);
                let Some(new) = decide(old).and_then(|new| to_store(old, new)) else {
                    return;
                };
                if old.is_some() {
                    packed.remove(member);
                    packed.insert(member, new);
                } else if packed.len() < limits.zset_max_listpack_entries
                    && member.len() <= limits.zset_max_listpack_value
                {
                    packed.insert(member, new);
                } else {
                    let mut large = enlarged(packed, limits);
                    large.insert(member, new);
                    self.form = Form::Large(Box::new(large));
                }
            }
            Form::Large(large) => {
                large.update(member, |old| decide(old).and_then(|new| to_store(old, new)));
            }
        }
    }

    /// Gives a member a score, adding it if it is missing.
    pub fn set(&mut self, member: &[u8], score: f64, limits: &EncodingLimits) {
        self.update(member, limits, |_| Some(score));
    }

    /// Takes out a member; gives its score if it was there.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.form {
            Form::Packed(packed) => {
                let (_, score) = packed.find(member)?;
                packed.remove(member);
                Some(score)
            }
            Form::Large(large) => large.remove(member),
        }
    }

    /// Takes out the elements of these ranks.
    pub fn remove_range(&mut self, ranks: Range<usize>) {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        match &mut self.form {
            Form::Packed(packed) => packed.remove_range(&ranks),
            Form::Large(large) => large.remove_range(&ranks),
        }
    }

    /// One step of a scan: gives about `count` elements to `visit` and returns where to go on; `None` at the end. An
    /// element that is there from the first step to the last is met at least once. A small set is met as a whole.
    pub fn scan<'a>(
        &'a self,
        from: Cursor,
        count: usize,
        mut visit: impl FnMut(&'a [u8], f64),
    ) -> Option<Cursor> {
        match &self.form {
            Form::Packed(packed) => {
                packed
                    .iter()
                    .for_each(|(member, score)| visit(member, score));
                None
            }
            Form::Large(large) => large.members().scan(from.0, count, visit).map(Cursor),
        }
    }
}

fn enlarged(packed: &Packed, limits: &EncodingLimits) -> Large {
    let mut large = Large::new(limits.hash_seed);
    for (member, score) in packed.iter() {
        large.insert(member, score);
    }
    large
}

/// Whether a score is another than before: -0 and 0 are the same, as in Redis.
pub fn is_change(old: f64, new: f64) -> bool {
    score::compare(old, new).is_ne()
}

/// The score to write for `new`, if it is a change.
fn to_store(old: Option<f64>, new: f64) -> Option<f64> {
    let is_new = old.is_none_or(|old| is_change(old, new));
    is_new.then_some(score::stored(new))
}

/// A walk over neighbouring elements.
#[derive(Clone, Debug)]
pub struct Elements<'a>(Walk<'a>);

#[derive(Clone, Debug)]
enum Walk<'a> {
    Packed(core::iter::Take<core::iter::Skip<packed::Elements<'a>>>),
    Listed(vec::IntoIter<(&'a [u8], f64)>),
    Large(large::Elements<'a>),
    Backwards(core::iter::Rev<large::Elements<'a>>),
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::Packed(elements) => elements.next(),
            Walk::Listed(elements) => elements.next(),
            Walk::Large(elements) => elements.next(),
            Walk::Backwards(elements) => elements.next(),
        }
    }
}

impl Collection for SortedSet {
    fn view(value: &Value) -> Option<&Self> {
        if let Value::SortedSet(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn view_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::SortedSet(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn into_value(self) -> Value {
        Value::SortedSet(self)
    }

    fn is_vacant(&self) -> bool {
        self.is_empty()
    }

    fn encoding(&self) -> Encoding {
        match &self.form {
            Form::Packed(_) => Encoding::Listpack,
            Form::Large(_) => Encoding::Skiplist,
        }
    }

    fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Large(large) => large.heap_bytes(),
        }
    }

    fn emit_rebuild(&self, key: &[u8], effects: &mut Effects) {
        emit_additions(key, self.elements(), effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn limits() -> EncodingLimits {
        EncodingLimits {
            zset_max_listpack_entries: 20,
            zset_max_listpack_value: 8,
            ..EncodingLimits::default()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(Vec<u8>, i8),
        Remove(Vec<u8>),
        RemoveRange(usize, usize),
    }

    fn member() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(b'a'..b'd', 0..4),
            proptest::collection::vec(b'a'..b'c', 8..10),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (member(), any::<i8>()).prop_map(|(member, score)| Step::Set(member, score)),
            2 => member().prop_map(Step::Remove),
            1 => (0..50_usize, 0..5_usize).prop_map(|(at, count)| Step::RemoveRange(at, count)),
        ]
    }

    /// All members by rank.
    fn ranked(model: &BTreeMap<Vec<u8>, i8>) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<(i8, Vec<u8>)> = model.iter().map(|(m, &s)| (s, m.clone())).collect();
        all.sort();
        all.into_iter()
            .map(|(s, m)| (m, f64::from(s) / 4.0))
            .collect()
    }

    fn listed(set: &SortedSet, ranks: Range<usize>, reverse: bool) -> Vec<(Vec<u8>, f64)> {
        set.range(ranks, reverse)
            .map(|(m, s)| (m.to_vec(), s))
            .collect()
    }

    fn apply(set: &mut SortedSet, model: &mut BTreeMap<Vec<u8>, i8>, step: Step) {
        match step {
            Step::Set(member, score) => {
                set.set(&member, f64::from(score) / 4.0, &limits());
                model.insert(member, score);
            }
            Step::Remove(member) => {
                let old = model.remove(&member).map(|score| f64::from(score) / 4.0);
                assert_eq!(set.remove(&member), old);
            }
            Step::RemoveRange(start, count) => {
                let ranked = ranked(model);
                for (member, _) in ranked.iter().skip(start).take(count) {
                    model.remove(member);
                }
                set.remove_range(start..start + count);
            }
        }
    }

    proptest! {
        #[test]
        fn a_sorted_set_is_a_sorted_list(steps in proptest::collection::vec(step(), 0..300)) {
            let (mut set, mut model) = (SortedSet::default(), BTreeMap::new());
            for step in steps {
                apply(&mut set, &mut model, step);
                prop_assert_eq!(set.len(), model.len());
            }
            let ranked = ranked(&model);
            prop_assert_eq!(&listed(&set, 0..usize::MAX, false), &ranked);
            let mut part: Vec<_> = ranked.iter().skip(3).take(9).cloned().collect();
            prop_assert_eq!(&listed(&set, 3..12, false), &part);
            part.reverse();
            prop_assert_eq!(&listed(&set, 3..12, true), &part);
            for (rank, (member, score)) in ranked.iter().enumerate() {
                prop_assert_eq!(set.rank(member), Some((rank, *score)));
                prop_assert_eq!(set.score(member), Some(*score));
                prop_assert_eq!(set.at(rank), Some((&member[..], *score)));
            }
            let below = ranked.iter().filter(|(_, score)| *score < 3.0).count();
            prop_assert_eq!(set.position_by_score(|score| score < 3.0), below);
            let mut met = BTreeMap::new();
            let mut next = Some(Cursor(0));
            while let Some(from) = next {
                next = set.scan(from, 3, |member, score| {
                    met.insert(member.to_vec(), score);
                });
            }
            prop_assert_eq!(met, ranked.into_iter().collect::<BTreeMap<_, _>>());
        }

        #[test]
        fn accumulated_members_are_ranked(members in proptest::collection::vec((member(), any::<i8>()), 0..60)) {
            let (mut all, mut set) = (Accumulator::new(&limits()), SortedSet::default());
            for (member, score) in &members {
                let score = f64::from(*score);
                all.add(member, score, |a, b| a + b);
                set.update(member, &limits(), |old| Some(old.unwrap_or(0.0) + score));
            }
            let result = all.into_set();
            prop_assert_eq!(listed(&result, 0..99, false), listed(&set, 0..99, false));
            prop_assert_eq!(result.encoding(), set.encoding());
        }
    }

    #[test]
    fn a_set_grows_large_at_the_limits() {
        let mut set = SortedSet::default();
        (0..20_u8).for_each(|number| set.set(&[number], 1.0, &limits()));
        assert_eq!(set.encoding(), Encoding::Listpack);
        set.set(&[0], 2.0, &limits());
        assert_eq!(set.encoding(), Encoding::Listpack);
        set.set(&[20], 1.0, &limits());
        assert_eq!(set.encoding(), Encoding::Skiplist);
        set.remove_range(1..21);
        assert_eq!((set.len(), set.encoding()), (1, Encoding::Skiplist));

        let mut set = SortedSet::default();
        set.set(b"12345678", 1.0, &limits());
        assert_eq!(set.encoding(), Encoding::Listpack);
        set.set(b"123456789", 1.0, &limits());
        assert_eq!(set.encoding(), Encoding::Skiplist);
    }

    #[test]
    fn ten_members_take_one_small_allocation() {
        let mut set = SortedSet::default();
        for number in 0..10_u8 {
            set.set(
                &[b'm', b'0' + number],
                f64::from(number),
                &EncodingLimits::default(),
            );
        }
        assert_eq!(size_of::<SortedSet>(), 16);
        assert_eq!(set.heap_bytes(), 10 * 4 + 4);
    }

    #[test]
    fn removals_give_the_memory_back() {
        let mut set = SortedSet::default();
        for number in 0..50_000_u32 {
            set.set(&number.to_be_bytes(), f64::from(number % 977), &limits());
        }
        let full = set.heap_bytes();
        assert!(full < 50_000 * 90, "{full}");
        set.remove_range(10..49_990);
        assert!(set.heap_bytes() < 20_000, "{}", set.heap_bytes());
        assert_eq!(set.len(), 20);
    }
}
