//! The members of a large sorted set and their scores: a table that finds a member in constant time.
//!
//! Members lie densely in slots; a member's slot number is its *id*, which the ranking uses. Slots are chained into
//! buckets by *linear hashing*: with each member more one more bucket splits, with each member less one joins its
//! neighbour again. So no insertion or removal moves more than one chain.
//!
//! ```text
//! n buckets, 2^level <= n < 2^(level+1); r = the hash with its bits reversed
//! bucket of a hash = r mod 2^(level+1) if that is below n, else r mod 2^level
//! ```
//!
//! Because the bits are reversed, each bucket holds one interval of hashes: a scan walks the hashes in order, and meets a
//! member that stays at least once, however buckets split and join meanwhile.

use super::chunked::Chunked;
use alloc::boxed::Box;
use core::hash::{BuildHasher, Hasher};
use foldhash::quality::FixedState;

/// Ends a chain.
const NONE: u32 = u32::MAX;
/// A scan step looks into at most this many buckets for each element wanted: a bound where most are empty.
const BUCKETS_PER_ELEMENT: usize = 10;

/// One member.
#[derive(Clone, Debug)]
struct Slot {
    member: Box<[u8]>,
    score: f64,
    hash: u32,
    /// The next slot of the same bucket.
    next: u32,
}

/// Members with their scores; fewer than 2^32.
#[derive(Clone, Debug)]
pub(super) struct Members {
    hasher: FixedState,
    slots: Chunked<Slot>,
    /// The first slot of each bucket.
    buckets: Chunked<u32>,
    /// Bytes of the members themselves, as an allocator rounds them.
    member_bytes: usize,
}

impl Members {
    /// No members; `seed` decides the hash function.
    pub(super) fn new(seed: u64) -> Self {
        let mut buckets = Chunked::default();
        buckets.push(NONE);
        Self {
            hasher: FixedState::with_seed(seed),
            slots: Chunked::default(),
            buckets,
            member_bytes: 0,
        }
    }

    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.buckets.heap_bytes() + self.member_bytes
    }

    /// The id of a member.
    pub(super) fn find(&self, member: &[u8]) -> Option<u32> {
        let hash = self.hash(member);
        let mut id = self.buckets[self.bucket_of(hash)];
        while id != NONE {
            let slot = &self.slots[id as usize];
            if slot.hash == hash && *slot.member == *member {
                return Some(id);
            }
            id = slot.next;
        }
        None
    }

    /// The member with this id, which exists.
    #[inline]
    pub(super) fn member(&self, id: u32) -> &[u8] {
        &self.slots[id as usize].member
    }

    /// The score of the member with this id, which exists.
    #[inline]
    pub(super) fn score(&self, id: u32) -> f64 {
        self.slots[id as usize].score
    }

    /// Changes the score of the member with this id, which exists.
    pub(super) fn set_score(&mut self, id: u32, score: f64) {
        self.slots[id as usize].score = score;
    }

    /// All members with their scores, by id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.slots.iter().map(|slot| (&*slot.member, slot.score))
    }

    /// Adds a member that is not there; gives its id: the number of members before.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> u32 {
        let hash = self.hash(member);
        let (id, bucket) = (self.slots.len() as u32, self.bucket_of(hash));
        self.member_bytes += allocated(member.len());
        self.slots.push(Slot {
            member: Box::from(member),
            score,
            hash,
            next: self.buckets[bucket],
        });
        self.buckets[bucket] = id;
        if self.slots.len() > self.buckets.len() {
            self.split_bucket();
        }
        id
    }

    /// Takes out the member with this id, which exists. The last member, if it is another, gets its id: gives the id
    /// that this one had.
    pub(super) fn remove(&mut self, id: u32) -> Option<u32> {
        let last = self.slots.len() as u32 - 1;
        let next = self.slots[id as usize].next;
        self.redirect(id, next);
        if id != last {
            self.redirect(last, id);
        }
        let mut removed = self.slots.pop()?;
        if id != last {
            core::mem::swap(&mut removed, &mut self.slots[id as usize]);
        }
        self.member_bytes -= allocated(removed.member.len());
        if self.slots.len() < self.buckets.len() / 2 {
            self.join_bucket();
            self.join_bucket();
        }
        (id != last).then_some(last)
    }

    /// One step of a scan: gives about `count` members whose hashes are at least `from` to `visit`, in chains of equal
    /// interval. Returns where to go on; `None` at the end.
    pub(super) fn scan<'a>(
        &'a self,
        from: u32,
        count: usize,
        mut visit: impl FnMut(&'a [u8], f64),
    ) -> Option<u32> {
        let (mut from, mut seen) = (from, 0);
        for _ in 0..count.saturating_mul(BUCKETS_PER_ELEMENT) {
            let bucket = self.bucket_of(from);
            let mut id = self.buckets[bucket];
            while id != NONE {
                let slot = &self.slots[id as usize];
                if slot.hash >= from {
                    visit(&slot.member, slot.score);
                    seen += 1;
                }
                id = slot.next;
            }
            from = self.end_of(from, bucket)?;
            if seen >= count {
                break;
            }
        }
        Some(from)
    }

    fn hash(&self, member: &[u8]) -> u32 {
        let mut state = self.hasher.build_hasher();
        state.write(member);
        (state.finish() >> 32) as u32
    }

    fn bucket_of(&self, hash: u32) -> usize {
        let (count, reversed) = (self.buckets.len(), hash.reverse_bits() as usize);
        let half = 1 << count.ilog2();
        let bucket = reversed & (2 * half - 1);
        if bucket < count {
            bucket
        } else {
            reversed & (half - 1)
        }
    }

    /// The first hash after the interval of `bucket`, which holds `hash`; `None` after the last.
    fn end_of(&self, hash: u32, bucket: usize) -> Option<u32> {
        let (count, level) = (self.buckets.len(), self.buckets.len().ilog2());
        let half = 1 << level;
        let split = bucket >= half || bucket < count - half;
        let length = 1_u64 << (u32::BITS - level - u32::from(split));
        u32::try_from((u64::from(hash) / length + 1) * length).ok()
    }

    /// Adds a bucket: the members that belong there leave its sibling.
    fn split_bucket(&mut self) {
        let new = self.buckets.len();
        let sibling = new - (1 << new.ilog2());
        let mut id = self.buckets[sibling];
        self.buckets[sibling] = NONE;
        self.buckets.push(NONE);
        while id != NONE {
            let (hash, next) = {
                let slot = &self.slots[id as usize];
                (slot.hash, slot.next)
            };
            let bucket = self.bucket_of(hash);
            self.slots[id as usize].next = self.buckets[bucket];
            self.buckets[bucket] = id;
            id = next;
        }
    }

    /// Removes the last bucket: its members go to its sibling.
    fn join_bucket(&mut self) {
        if self.buckets.len() == 1 {
            return;
        }
        let Some(first) = self.buckets.pop() else {
            return;
        };
        let gone = self.buckets.len();
        let sibling = gone - (1 << gone.ilog2());
        let mut id = first;
        while id != NONE {
            let next = self.slots[id as usize].next;
            self.slots[id as usize].next = self.buckets[sibling];
            self.buckets[sibling] = id;
            id = next;
        }
    }

    /// What led to slot `id` leads to `to` instead.
    fn redirect(&mut self, id: u32, to: u32) {
        let bucket = self.bucket_of(self.slots[id as usize].hash);
        let mut before = self.buckets[bucket];
        if before == id {
            self.buckets[bucket] = to;
            return;
        }
        while before != NONE && self.slots[before as usize].next != id {
            before = self.slots[before as usize].next;
        }
        if before != NONE {
            self.slots[before as usize].next = to;
        }
    }
}

/// What an allocator spends on a member: multiples of 16 bytes.
fn allocated(bytes: usize) -> usize {
    bytes.next_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn name(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    fn filled(numbers: core::ops::Range<u32>) -> Members {
        let mut members = Members::new(3);
        for number in numbers {
            members.insert(&name(number), f64::from(number));
        }
        members
    }

    #[test]
    fn an_empty_table_finds_and_scans_nothing() {
        let members = Members::new(3);
        assert_eq!(members.find(b"a"), None);
        assert_eq!(members.scan(0, 10, |_, _| panic!("no member")), None);
    }

    #[test]
    fn chains_stay_short() {
        let members = filled(0..100_000);
        let longest = members.buckets.iter().map(|&first| {
            let next = |&id: &u32| Some(members.slots[id as usize].next).filter(|&id| id != NONE);
            core::iter::successors(Some(first).filter(|&id| id != NONE), next).count()
        });
        assert!(longest.max().unwrap() < 12);
    }

    /// Scans while `change` happens between steps; gives every name that was met.
    fn scan_all(members: &mut Members, mut change: impl FnMut(&mut Members)) -> BTreeSet<Vec<u8>> {
        let mut met = BTreeSet::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = members.scan(from, 7, |member, _| {
                met.insert(member.to_vec());
            });
            change(members);
        }
        met
    }

    #[test]
    fn a_scan_meets_all_that_stay_while_the_table_grows() {
        let mut members = filled(0..1000);
        let mut new = 1000;
        let met = scan_all(&mut members, |members| {
            for _ in 0..20 {
                members.insert(&name(new), 0.0);
                new += 1;
            }
        });
        assert!((0..1000).all(|number| met.contains(&name(number)[..])));
    }

    #[test]
    fn a_scan_meets_all_that_stay_while_the_table_shrinks() {
        let mut members = filled(0..5000);
        let mut gone = 100;
        let met = scan_all(&mut members, |members| {
            for _ in 0..200 {
                if let Some(id) = members.find(&name(gone)) {
                    members.remove(id);
                    gone += 1;
                }
            }
        });
        assert_eq!(members.len(), 100);
        assert!(members.buckets.len() <= 200);
        assert!((0..100).all(|number| met.contains(&name(number)[..])));
    }

    proptest! {
        #[test]
        fn members_are_those_of_a_map(
            steps in proptest::collection::vec((any::<bool>(), 0..200_u32), 0..600),
        ) {
            let mut members = Members::new(1);
            let mut model = BTreeMap::new();
            for (at, (add, number)) in steps.into_iter().enumerate() {
                let found = members.find(&name(number));
                prop_assert_eq!(found.map(|id| members.score(id)), model.get(&number).copied());
                match found {
                    None if add => {
                        members.insert(&name(number), at as f64);
                        model.insert(number, at as f64);
                    }
                    Some(id) if add => {
                        members.set_score(id, at as f64);
                        model.insert(number, at as f64);
                    }
                    Some(id) => {
                        members.remove(id);
                        model.remove(&number);
                    }
                    None => {}
                }
            }
            let all: BTreeMap<Vec<u8>, f64> = members.iter().map(|(m, s)| (m.to_vec(), s)).collect();
            let expected = model.iter().map(|(number, &score)| (name(*number).to_vec(), score));
            prop_assert_eq!(all, expected.collect());
            for number in model.keys() {
                prop_assert!(members.find(&name(*number)).is_some());
            }
        }
    }
}
