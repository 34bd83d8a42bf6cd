//! The table from hash to entry: extendible hashing over small segments.
//!
//! ```text
//! hash (64 bits) = [directory index: depth bits][...][tag and home inside the segment: low bits]
//! directory[index] -> segment; several indices may share one segment
//! ```
//!
//! A full segment splits in two by the next bit of the hash; if it was as deep as the directory, the directory doubles
//! (a copy of small numbers). So an insertion never moves more entries than one segment holds, memory grows smoothly,
//! and segments in directory order hold entries in hash order: `SCAN` walks the hash, whatever splits and merges.

use super::Entry;
use super::segment::{SEGMENT_ENTRIES, Segment, hash_of};
use alloc::vec;
use alloc::vec::Vec;
use foldhash::quality::FixedState;

/// A full segment with more entries than this splits; with fewer (many removals left marks) its index is rebuilt.
const SPLIT_ABOVE: usize = SEGMENT_ENTRIES / 8 * 7;
/// Two neighbours with at most this many entries together become one.
const MERGE_BELOW: usize = SEGMENT_ENTRIES / 4;
/// The directory may be this many times as long as full segments would need. With an even hash a quarter of it is never
/// exceeded; without this limit, keys chosen to share a hash prefix could make it as long as memory.
const DIRECTORY_SLACK: usize = 64;
/// Bits of a hash that are its position in `SCAN` order.
pub(super) const POSITION_BITS: u32 = 40;
/// Positions are below this.
pub(super) const POSITIONS: u64 = 1 << POSITION_BITS;
/// The most bits of a hash that the directory uses: more segments than memory holds.
const MAX_DEPTH: u32 = 32;

/// Where an entry is; valid until the table's next insertion or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    segment: u32,
    position: u32,
}

/// All entries, by hash. Several entries may have the same hash; the caller keeps keys unique.
#[derive(Debug)]
pub(super) struct Table {
    hasher: FixedState,
    /// Bits of the hash that index the directory: `1..=MAX_DEPTH`.
    depth: u32,
    /// Invariant: `2^depth` numbers of segments.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    /// Numbers of segments that merges left unused.
    unused: Vec<u32>,
    /// How many used segments there are of each depth.
    of_depth: [u32; MAX_DEPTH as usize + 1],
    len: usize,
    /// Entries moved by splits, merges and rebuilds since the start.
    #[cfg(test)]
    moved: usize,
}

impl Table {
    /// An empty table; `seed` decides its hash function.
    pub(super) fn new(seed: u64) -> Self {
        let mut of_depth = [0; MAX_DEPTH as usize + 1];
        of_depth[0] = 1;
        Self {
            hasher: FixedState::with_seed(seed),
            depth: 1,
            directory: vec![0, 0],
            segments: vec![Segment::new(0)],
            unused: Vec::new(),
            of_depth,
            len: 0,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// The hash of `key`: seeded, so that nobody outside can choose it.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        hash_of(&self.hasher, key)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entry with `hash` for which `is_it` says yes.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(&Entry) -> bool) -> Option<Place> {
        let segment = self.segment_of(hash);
        let position = self.segments[segment as usize].find(hash, is_it)?;
        Some(Place {
            segment,
            position: position as u32,
        })
    }

    /// The entry at `place`.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<&Entry> {
        self.segments[place.segment as usize].get(place.position as usize)
    }

    /// The entry at `place`, to be changed; its key must stay.
    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.segments[place.segment as usize].get_mut(place.position as usize)
    }

    /// Adds an entry whose key, with hash `hash`, is not in the table, and says where it is.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry) -> Place {
        let mut segment = self.segment_of(hash);
        while !self.segments[segment as usize].has_room() && self.make_room(segment, hash) {
            segment = self.segment_of(hash);
        }
        self.len += 1;
        let position = self.segments[segment as usize].insert(hash, entry);
        Place {
            segment,
            position: position as u32,
        }
    }

    /// Takes out the entry at `place`, whose key's hash is `hash`.
    pub(super) fn remove(&mut self, hash: u64, place: Place) -> Option<Entry> {
        let segment = &mut self.segments[place.segment as usize];
        let entry = segment.remove(hash, place.position as usize, &self.hasher)?;
        self.len -= 1;
        if segment.len() <= MERGE_BELOW && !self.merge(hash) {
            let segment = &mut self.segments[place.segment as usize];
            if segment.shrink(&self.hasher) {
                let moved = segment.len();
                self.count_moved(moved);
            }
        }
        Some(entry)
    }

    /// The entries of the segment that holds `position`, in no order, and the first position after the segment.
    pub(super) fn segment_at(&self, position: u64) -> (&[Entry], u64) {
        let index = (position >> (POSITION_BITS - self.depth)) as usize;
        let segment = &self.segments[self.directory[index] as usize];
        let span = 1 << (self.depth - segment.depth);
        let after = ((index & !(span - 1)) + span) as u64;
        (segment.entries(), after << (POSITION_BITS - self.depth))
    }

    /// All entries, segments in hash order and entries within one in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let mut next = 0;
        core::iter::from_fn(move || {
            if next >= POSITIONS {
                return None;
            }
            let (entries, after) = self.segment_at(next);
            next = after;
            Some(entries)
        })
        .flatten()
    }

    #[inline]
    fn segment_of(&self, hash: u64) -> u32 {
        self.directory[(hash >> (64 - self.depth)) as usize]
    }

    /// The directory's indices that lead to the segment of `hash`: first and number.
    fn indices_of(&self, hash: u64, segment_depth: u32) -> (usize, usize) {
        let index = (hash >> (64 - self.depth)) as usize;
        let span = 1 << (self.depth - segment_depth);
        (index & !(span - 1), span)
    }

    /// Splits a segment without room or rebuilds its index; `false` if neither is possible.
    fn make_room(&mut self, segment: u32, hash: u64) -> bool {
        let full = &mut self.segments[segment as usize];
        let len = full.len();
        if len > SPLIT_ABOVE && (full.depth < self.depth || self.may_double_directory()) {
            self.count_moved(len);
            self.split(segment, hash);
            return true;
        }
        if len >= SEGMENT_ENTRIES {
            return false;
        }
        self.segments[segment as usize].rebuild(&self.hasher);
        self.count_moved(len);
        true
    }

    fn split(&mut self, segment: u32, hash: u64) {
        let depth = self.segments[segment as usize].depth;
        if depth == self.depth {
            self.double_directory();
        }
        let hasher = &self.hasher;
        let is_upper = |entry: &Entry| hash_of(hasher, entry.key()) >> (63 - depth) & 1 == 1;
        let entries = self.segments[segment as usize].take_entries();
        let half = entries.len() / 2;
        let mut lower = Vec::with_capacity(half + half / 8);
        let mut upper = Vec::with_capacity(half + half / 8);
        for entry in entries {
            let side = if is_upper(&entry) {
                &mut upper
            } else {
                &mut lower
            };
            side.push(entry);
        }
        self.segments[segment as usize] = Segment::with_entries(depth + 1, lower, hasher);
        let new = Segment::with_entries(depth + 1, upper, hasher);
        let new = self.add_segment(new);
        self.of_depth[depth as usize] -= 1;
        self.of_depth[depth as usize + 1] += 2;
        let (first, span) = self.indices_of(hash, depth);
        self.directory[first + span / 2..first + span].fill(new);
    }

    fn add_segment(&mut self, segment: Segment) -> u32 {
        if let Some(number) = self.unused.pop() {
            self.segments[number as usize] = segment;
            return number;
        }
        self.segments.push(segment);
        self.segments.len() as u32 - 1
    }

    fn may_double_directory(&self) -> bool {
        let segments_needed = self.len / SEGMENT_ENTRIES + 1;
        self.depth < MAX_DEPTH && self.directory.len() < DIRECTORY_SLACK * segments_needed
    }

    fn double_directory(&mut self) {
        let doubled = self
            .directory
            .iter()
            .flat_map(|&segment| [segment, segment]);
        self.directory = doubled.collect();
        self.depth += 1;
    }

    /// Joins the segment of `hash` with its neighbour if both are nearly empty; says whether it did.
    fn merge(&mut self, hash: u64) -> bool {
        let depth = self.segments[self.segment_of(hash) as usize].depth;
        if depth == 0 {
            return false;
        }
        let (first, span) = self.indices_of(hash, depth - 1);
        let keep = self.directory[first];
        let leave = self.directory[first + span / 2];
        let together = [keep, leave].map(|number| &self.segments[number as usize]);
        let len: usize = together.iter().map(|segment| segment.len()).sum();
        if len > MERGE_BELOW || together.iter().any(|segment| segment.depth != depth) {
            return false;
        }
        let left = self.segments[leave as usize].take_entries();
        let mut entries = self.segments[keep as usize].take_entries();
        entries.extend(left);
        self.segments[keep as usize] = Segment::with_entries(depth - 1, entries, &self.hasher);
        self.segments[leave as usize] = Segment::new(0);
        self.count_moved(len);
        self.unused.push(leave);
        self.of_depth[depth as usize] -= 2;
        self.of_depth[depth as usize - 1] += 1;
        self.directory[first..first + span].fill(keep);
        self.halve_directory();
        true
    }

    /// Shortens the directory as long as no segment needs its last bit.
    fn halve_directory(&mut self) {
        while self.depth > 1 && self.of_depth[self.depth as usize] == 0 {
            self.directory = self.directory.iter().step_by(2).copied().collect();
            self.depth -= 1;
        }
    }

    #[cfg(test)]
    fn count_moved(&mut self, entries: usize) {
        self.moved += entries;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "only tests count")]
    fn count_moved(&mut self, _entries: usize) {}
}

/// The position of a hash in `SCAN` order.
pub(super) fn position(hash: u64) -> u64 {
    hash >> (64 - POSITION_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Encoding;
    use crate::keyspace::blob::Parts;
    use alloc::collections::BTreeSet;

    fn entry(key: &[u8]) -> Entry {
        Entry::string_from(Parts {
            key,
            value: b"",
            encoding: Encoding::Embstr,
            deadline: None,
            clock: 0,
        })
    }

    fn overhead(table: &Table) -> usize {
        let segments: usize = table.segments.iter().map(Segment::overhead_bytes).sum();
        segments + table.directory.len() * 4 + table.segments.capacity() * size_of::<Segment>()
    }

    fn add(table: &mut Table, number: u32) {
        let key = number.to_be_bytes();
        table.insert(table.hash(&key), entry(&key));
    }

    fn place(table: &Table, number: u32) -> Option<(u64, Place)> {
        let key = number.to_be_bytes();
        let hash = table.hash(&key);
        Some((hash, table.find(hash, |e| e.key() == key)?))
    }

    #[test]
    fn no_insertion_moves_more_than_a_segment() {
        let mut table = Table::new(7);
        let mut worst = 0;
        for number in 0..1_100_000 {
            let before = table.moved;
            add(&mut table, number);
            worst = worst.max(table.moved - before);
        }
        assert_eq!(table.len(), 1_100_000);
        assert!(worst <= SEGMENT_ENTRIES, "{worst}");
        assert!(table.moved < 5 * 1_100_000, "{}", table.moved);
        assert!(overhead(&table) < 24 * 1_100_000, "{}", overhead(&table));
        for number in 0..1_100_000 {
            assert!(place(&table, number).is_some());
        }
        assert!(place(&table, 1_100_000).is_none());
    }

    #[test]
    fn mass_deletion_gives_the_memory_back() {
        let mut table = Table::new(7);
        (0..300_000).for_each(|number| add(&mut table, number));
        let mut worst = 0;
        for number in 0..299_990 {
            let before = table.moved;
            let (hash, place) = place(&table, number).unwrap();
            table.remove(hash, place).unwrap();
            worst = worst.max(table.moved - before);
        }
        assert!(worst <= SEGMENT_ENTRIES, "{worst}");
        assert_eq!(table.len(), 10);
        assert!(
            (table.segments.len() - table.unused.len()) <= 2,
            "{}",
            (table.segments.len() - table.unused.len())
        );
        assert!(table.depth <= 2);
        for number in 299_990..300_000 {
            assert!(place(&table, number).is_some());
        }
    }

    #[test]
    fn steady_churn_costs_little() {
        let mut table = Table::new(3);
        (0..10_000).for_each(|number| add(&mut table, number));
        let before = table.moved;
        for number in 0..200_000 {
            let (hash, place) = place(&table, number).unwrap();
            table.remove(hash, place).unwrap();
            add(&mut table, number + 10_000);
        }
        let moved = table.moved - before;
        assert!(
            moved < 10 * 200_000,
            "{moved} entries moved by 200000 changes"
        );
    }

    #[test]
    fn segments_hold_the_entries_in_hash_order() {
        let mut table = Table::new(1);
        (0..50_000).for_each(|number| add(&mut table, number));
        let mut from = 0;
        let mut seen = BTreeSet::new();
        while from < POSITIONS {
            let (entries, after) = table.segment_at(from);
            for entry in entries {
                let position = position(table.hash(entry.key()));
                assert!((from..after).contains(&position));
                assert!(seen.insert(entry.key().to_vec()));
            }
            from = after;
        }
        assert_eq!(seen.len(), 50_000);
        assert_eq!(table.iter().count(), 50_000);
    }
}
