//! One segment of the table: entries side by side, and a small index from hash to where they stand.
//!
//! ```text
//! index:   [slot: u16; power of two]      slot = tag (7 bits of the hash) | position (9 bits)
//! entries: [entry; number of entries]     dense: what is not used takes no memory
//! ```
//!
//! Measured against a segment that is one open-addressing table of entries (17 bytes per bucket, half of them unused right
//! after a split, and sizes that no allocator class fits): that took 142 bytes per key where this takes 118.

use super::Keyed;
use crate::keyspace::allocated;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};
use foldhash::quality::FixedState;

/// The most slots of a segment's index.
pub(super) const SEGMENT_BUCKETS: usize = 512;
/// The most entries that an index leads to: full load is 7/8.
pub(super) const SEGMENT_ENTRIES: usize = SEGMENT_BUCKETS / 8 * 7;
/// The least slots of an index.
const LEAST_BUCKETS: usize = 8;
/// Low bits of a slot: the position in `entries`.
const POSITION_BITS: u32 = 9;
const POSITION_MASK: u16 = (1 << POSITION_BITS) - 1;
/// A slot never used. Positions end before 510, so neither this nor `REMOVED` can be mistaken.
const FREE: u16 = u16::MAX;
/// A slot whose entry went while others may stand behind it.
const REMOVED: u16 = u16::MAX - 1;

/// Entries whose hashes share their first `depth` bits.
#[derive(Clone, Debug)]
pub(super) struct Segment<E> {
    /// Bits of the hash that all entries share.
    pub(super) depth: u32,
    /// Slots that are `REMOVED`.
    removed: u32,
    /// Invariant: a power of two, and at least one slot is `FREE`.
    index: Box<[u16]>,
    /// Invariant: the first `SEGMENT_ENTRIES` are in the index. More only if the table may not split any more (nobody can
    /// bring that about without knowing the seed); those are found by looking at each.
    entries: Vec<E>,
}

impl<E: Keyed> Segment<E> {
    /// An empty segment.
    pub(super) fn new(depth: u32) -> Self {
        Self::with_entries(depth, Vec::new(), &FixedState::with_seed(0))
    }

    /// A segment of `entries`.
    pub(super) fn with_entries(depth: u32, entries: Vec<E>, hasher: &FixedState) -> Self {
        let mut segment = Self {
            depth,
            removed: 0,
            index: Box::default(),
            entries,
        };
        segment.rebuild(hasher);
        segment
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries, in no order.
    pub(super) fn entries(&self) -> &[E] {
        &self.entries
    }

    /// Takes all entries out; the segment must not be used any more.
    pub(super) fn take_entries(&mut self) -> Vec<E> {
        core::mem::take(&mut self.entries)
    }

    /// Bytes of the segment without what its entries point to.
    #[cfg(test)]
    pub(super) fn overhead_bytes(&self) -> usize {
        allocated(self.index.len() * size_of::<u16>())
            + allocated(self.entries.capacity() * size_of::<E>())
    }

    /// The position of the entry with `hash` for which `is_it` says yes.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(&E) -> bool) -> Option<usize> {
        let tag = tag(hash);
        let mask = self.index.len() - 1;
        let mut at = home(hash) & mask;
        loop {
            let slot = *self.index.get(at)?;
            if slot & !POSITION_MASK == tag {
                let position = usize::from(slot & POSITION_MASK);
                if self.entries.get(position).is_some_and(&mut is_it) {
                    return Some(position);
                }
            }
            if slot == FREE {
                break;
            }
            at = (at + 1) & mask;
        }
        let rest = self.entries.get(SEGMENT_ENTRIES..)?;
        Some(SEGMENT_ENTRIES + rest.iter().position(is_it)?)
    }

    /// The entry at `position`.
    #[inline]
    pub(super) fn get(&self, position: usize) -> Option<&E> {
        self.entries.get(position)
    }

    /// The entry at `position`, to be changed; its key must stay.
    #[inline]
    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut E> {
        self.entries.get_mut(position)
    }

    /// Whether an insertion needs no rebuilt index.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() + (self.removed as usize) < most_entries(self.index.len())
    }

    /// Adds an entry and returns its position. Needs room, unless the table may neither split nor rebuild.
    pub(super) fn insert(&mut self, hash: u64, entry: E) -> usize {
        let position = self.entries.len();
        if position == self.entries.capacity() {
            self.entries
                .reserve_exact(fitting::<E>(position + 1) - position);
        }
        self.entries.push(entry);
        if position < SEGMENT_ENTRIES {
            self.link(hash, position);
        }
        position
    }

    /// Takes out the entry at `position`, whose key's hash is `hash`; the last entry takes its place.
    pub(super) fn remove(&mut self, hash: u64, position: usize, hasher: &FixedState) -> Option<E> {
        if position >= self.entries.len() {
            return None;
        }
        if let Some(at) = self.slot_of(hash, position) {
            self.unlink(at);
        }
        let entry = self.entries.swap_remove(position);
        let last = self.entries.len();
        if let Some(moved) = self.entries.get(position) {
            let hash = hash_of(hasher, moved.key());
            match self.slot_of(hash, last) {
                Some(at) => self.index[at] = tag(hash) | position as u16,
                // One of those beyond the index came into its reach. Linking it could use up the last free slot.
                None if position < SEGMENT_ENTRIES => self.rebuild(hasher),
                None => {}
            }
        }
        Some(entry)
    }

    /// Builds the index anew, with room for some more entries and without slots that were removed.
    pub(super) fn rebuild(&mut self, hasher: &FixedState) {
        let wanted = self.entries.len() + self.entries.len() / 16 + 1;
        let mut buckets = LEAST_BUCKETS;
        while most_entries(buckets) < wanted && buckets < SEGMENT_BUCKETS {
            buckets *= 2;
        }
        self.index = vec![FREE; buckets].into_boxed_slice();
        self.removed = 0;
        for position in 0..self.entries.len().min(SEGMENT_ENTRIES) {
            let hash = hash_of(hasher, self.entries[position].key());
            self.link(hash, position);
        }
    }

    /// Gives memory back if much is unused; says whether it moved the entries.
    pub(super) fn shrink(&mut self, hasher: &FixedState) -> bool {
        let fits = fitting::<E>(self.entries.len() + 1);
        if self.entries.capacity() <= 2 * fits {
            return false;
        }
        self.entries.shrink_to(fits);
        self.rebuild(hasher);
        true
    }

    fn link(&mut self, hash: u64, position: usize) {
        let mask = self.index.len() - 1;
        let mut at = home(hash) & mask;
        while self.index[at] < REMOVED {
            at = (at + 1) & mask;
        }
        self.removed -= u32::from(self.index[at] == REMOVED);
        self.index[at] = tag(hash) | position as u16;
    }

    /// Frees the slot `at`, and those removed before it if nothing stands behind them.
    fn unlink(&mut self, mut at: usize) {
        let mask = self.index.len() - 1;
        if self.index[(at + 1) & mask] != FREE {
            self.index[at] = REMOVED;
            self.removed += 1;
            return;
        }
        self.index[at] = FREE;
        loop {
            at = at.wrapping_sub(1) & mask;
            if self.index[at] != REMOVED {
                return;
            }
            self.index[at] = FREE;
            self.removed -= 1;
        }
    }

    /// The slot that leads to `position`, if one does.
    fn slot_of(&self, hash: u64, position: usize) -> Option<usize> {
        if position >= SEGMENT_ENTRIES {
            return None;
        }
        let wanted = tag(hash) | position as u16;
        let mask = self.index.len() - 1;
        let mut at = home(hash) & mask;
        while self.index[at] != wanted {
            if self.index[at] == FREE {
                return None;
            }
            at = (at + 1) & mask;
        }
        Some(at)
    }
}

/// The hash of `key`.
#[inline]
pub(super) fn hash_of(hasher: &FixedState, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(key);
    state.finish()
}

/// The first slot to look at: the lowest bits of the hash, of which the directory uses the highest.
#[inline]
fn home(hash: u64) -> usize {
    hash as usize
}

/// Seven more bits, in the place that a slot has for them.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> 16) as u16 & !POSITION_MASK
}

fn most_entries(buckets: usize) -> usize {
    buckets / 8 * 7
}

/// The number of entries that an allocation for `count` entries holds anyway, by the allocator's size classes.
fn fitting<E>(count: usize) -> usize {
    allocated(count * size_of::<E>()) / size_of::<E>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use kevy_proto::rng::Rng;

    type Entry = [u8; 8];

    /// A segment that may not split, and what it must hold.
    struct Filled {
        hasher: FixedState,
        segment: Segment<Entry>,
        held: BTreeSet<u64>,
    }

    impl Filled {
        fn new() -> Self {
            Self {
                hasher: FixedState::with_seed(1),
                segment: Segment::new(0),
                held: BTreeSet::new(),
            }
        }

        fn find(&self, number: u64) -> Option<(u64, usize)> {
            let key = number.to_be_bytes();
            let hash = hash_of(&self.hasher, &key);
            Some((hash, self.segment.find(hash, |e| e.key() == key)?))
        }

        fn toggle(&mut self, number: u64) {
            if let Some((hash, position)) = self.find(number) {
                let removed = self.segment.remove(hash, position, &self.hasher).unwrap();
                assert_eq!(removed.key(), number.to_be_bytes());
                assert!(self.held.remove(&number));
                return;
            }
            if !self.segment.has_room() && self.segment.len() < SEGMENT_ENTRIES {
                self.segment.rebuild(&self.hasher);
            }
            let key = number.to_be_bytes();
            self.segment.insert(hash_of(&self.hasher, &key), key);
            assert!(self.held.insert(number));
        }
    }

    #[test]
    fn entries_come_and_go_also_beyond_what_the_index_holds() {
        let mut rng = Rng::from_seed(3);
        for most in [4, 20, 300, 447, 900, 1500] {
            let mut filled = Filled::new();
            for _ in 0..20_000 {
                filled.toggle(rng.below(most));
                if rng.below(100) == 0 {
                    filled.segment.shrink(&filled.hasher);
                }
            }
            assert_eq!(filled.segment.len(), filled.held.len());
            for number in 0..most {
                assert_eq!(filled.find(number).is_some(), filled.held.contains(&number));
            }
        }
    }

    #[test]
    fn marks_of_removals_do_not_pile_up() {
        let mut filled = Filled::new();
        (0..200).for_each(|number| filled.toggle(number));
        (0..200).for_each(|number| filled.toggle(number));
        assert_eq!(filled.segment.len(), 0);
        assert!(filled.segment.removed < 200);
        assert!(filled.segment.shrink(&filled.hasher));
        assert_eq!(filled.segment.overhead_bytes(), 16 + 16);
    }
}
