//! The table from hash to entry: extendible hashing over small segments.
//!
//! ```text
//! hash (64 bits) = [directory index: depth bits][...][bits that choose bucket and tag inside the segment]
//! directory[index] -> segment: a small open-addressing table; several indices may share one segment
//! ```
//!
//! A full segment splits in two by the next bit of the hash; if it was as deep as the directory, the directory doubles
//! (a copy of small numbers). So an insertion never moves more entries than one segment holds, memory grows smoothly,
//! and segments in directory order hold entries in hash order: `SCAN` walks the hash, whatever splits and merges.

use super::Entry;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};
use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// The most buckets of a segment.
pub(super) const SEGMENT_BUCKETS: usize = 512;
/// The most entries of a segment: its buckets at the open-addressing table's full load of 7/8.
pub(super) const SEGMENT_ENTRIES: usize = SEGMENT_BUCKETS / 8 * 7;
/// A full segment with more entries than this splits; with fewer (many removals left marks) it is rebuilt.
const SPLIT_ABOVE: usize = SEGMENT_ENTRIES / 8 * 7;
/// Two neighbours with at most this many entries together become one.
const MERGE_BELOW: usize = SEGMENT_ENTRIES / 4;
/// A segment with fewer entries than an eighth of its buckets is rebuilt smaller, down to this many buckets.
const SHRINK_DOWN_TO_BUCKETS: usize = 16;
/// The most bits of a hash that the directory uses; beyond, segments grow. 2^30 segments are more than memory holds.
const MAX_DEPTH: u32 = 30;
/// Bits of a hash that are its position in `SCAN` order.
pub(super) const POSITION_BITS: u32 = 40;
/// Positions are below this.
pub(super) const POSITIONS: u64 = 1 << POSITION_BITS;

/// Where an entry is; valid until the table's next insertion or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    segment: u32,
    bucket: u32,
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
    moved: u64,
}

#[derive(Debug, Default)]
struct Segment {
    entries: HashTable<Entry>,
    /// Bits of the hash that all its entries share; at most the directory's depth.
    depth: u32,
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
            segments: vec![Segment::default()],
            unused: Vec::new(),
            of_depth,
            len: 0,
            moved: 0,
        }
    }

    /// The hash of `key`: seeded, so that nobody outside can choose it.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        hash(&self.hasher, key)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of segments.
    #[cfg(test)]
    pub(super) fn segments(&self) -> usize {
        self.segments.len() - self.unused.len()
    }

    /// Entries moved by splits, merges and rebuilds since the start.
    #[cfg(test)]
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// Bytes of the table itself, without what its entries point to.
    #[cfg(test)]
    pub(super) fn overhead_bytes(&self) -> usize {
        let tables: usize = self
            .segments
            .iter()
            .map(|s| s.entries.allocation_size())
            .sum();
        tables + self.directory.capacity() * 4 + self.segments.capacity() * size_of::<Segment>()
    }

    /// The entry with `hash` for which `is_it` says yes.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl FnMut(&Entry) -> bool) -> Option<Place> {
        let segment = self.segment_of(hash);
        let bucket = self.segments[segment as usize]
            .entries
            .find_bucket_index(local(hash), is_it)?;
        Some(Place {
            segment,
            bucket: bucket as u32,
        })
    }

    /// The entry at `place`.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<&Entry> {
        self.segments[place.segment as usize]
            .entries
            .get_bucket(place.bucket as usize)
    }

    /// The entry at `place`, to be changed; its key must stay.
    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.segments[place.segment as usize]
            .entries
            .get_bucket_mut(place.bucket as usize)
    }

    /// Adds an entry whose key, with hash `hash`, is not in the table, and says where it is.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry) -> Place {
        let mut segment = self.segment_of(hash);
        while self.segments[segment as usize].is_full() {
            self.make_room(segment, hash);
            segment = self.segment_of(hash);
        }
        self.len += 1;
        let hasher = &self.hasher;
        let bucket = self.segments[segment as usize]
            .entries
            .insert_unique(local(hash), entry, |e| local(self::hash(hasher, e.key())))
            .bucket_index();
        Place {
            segment,
            bucket: bucket as u32,
        }
    }

    /// Takes out the entry at `place`, whose key's hash is `hash`.
    pub(super) fn remove(&mut self, hash: u64, place: Place) -> Option<Entry> {
        let entries = &mut self.segments[place.segment as usize].entries;
        let (entry, _) = entries
            .get_bucket_entry(place.bucket as usize)
            .ok()?
            .remove();
        self.len -= 1;
        let (len, buckets) = (entries.len(), entries.num_buckets());
        if len <= MERGE_BELOW {
            if self.merge(hash) {
                return Some(entry);
            }
            if len < buckets / 8 && buckets > SHRINK_DOWN_TO_BUCKETS {
                self.rebuild(place.segment, len * 2);
            }
        }
        Some(entry)
    }

    /// The entries of the segment that holds `position`, in no order, and the first position after the segment.
    pub(super) fn segment_at(&self, position: u64) -> (impl Iterator<Item = &Entry>, u64) {
        let index = (position >> (POSITION_BITS - self.depth)) as usize;
        let segment = &self.segments[self.directory[index] as usize];
        let span = 1 << (self.depth - segment.depth);
        let after = ((index & !(span - 1)) + span) as u64;
        (
            segment.entries.iter(),
            after << (POSITION_BITS - self.depth),
        )
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

    fn make_room(&mut self, segment: u32, hash: u64) {
        let full = &self.segments[segment as usize];
        let len = full.entries.len();
        if len > SPLIT_ABOVE && full.depth < MAX_DEPTH {
            self.split(segment, hash);
        } else {
            self.rebuild(segment, len + len / 16 + 1);
        }
    }

    /// Moves a segment's entries to a table for `capacity` entries.
    fn rebuild(&mut self, segment: u32, capacity: usize) {
        let hasher = &self.hasher.clone();
        let old = &mut self.segments[segment as usize].entries;
        self.moved += old.len() as u64;
        let mut entries = HashTable::with_capacity(capacity.max(old.len()));
        for entry in old.drain() {
            insert_entry(&mut entries, hasher, entry);
        }
        *old = entries;
    }

    fn split(&mut self, segment: u32, hash: u64) {
        let depth = self.segments[segment as usize].depth;
        if depth == self.depth {
            self.double_directory();
        }
        let hasher = &self.hasher.clone();
        let mut entries = core::mem::take(&mut self.segments[segment as usize].entries);
        self.moved += entries.len() as u64;
        let is_upper = |entry: &Entry| self::hash(hasher, entry.key()) >> (63 - depth) & 1 == 1;
        let (upper, lower): (Vec<Entry>, Vec<Entry>) = entries.drain().partition(is_upper);
        drop(entries);

        self.segments[segment as usize] = Segment::with_entries(hasher, depth + 1, lower);
        let new = self.add_segment(Segment::with_entries(hasher, depth + 1, upper));
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
        if together.iter().any(|segment| segment.depth != depth)
            || together.iter().map(|s| s.entries.len()).sum::<usize>() > MERGE_BELOW
        {
            return false;
        }
        let hasher = &self.hasher.clone();
        let left = core::mem::take(&mut self.segments[leave as usize]).entries;
        self.moved += left.len() as u64;
        let kept = &mut self.segments[keep as usize];
        kept.depth = depth - 1;
        kept.entries
            .reserve(left.len(), |e| local(self::hash(hasher, e.key())));
        for entry in left {
            insert_entry(&mut kept.entries, hasher, entry);
        }
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
}

impl Segment {
    fn with_entries(hasher: &FixedState, depth: u32, list: Vec<Entry>) -> Self {
        let mut entries = HashTable::with_capacity(list.len() + 1);
        for entry in list {
            insert_entry(&mut entries, hasher, entry);
        }
        Self { entries, depth }
    }

    fn is_full(&self) -> bool {
        self.entries.len() == self.entries.capacity()
    }
}

fn insert_entry(entries: &mut HashTable<Entry>, hasher: &FixedState, entry: Entry) {
    let hash = local(hash(hasher, entry.key()));
    entries.insert_unique(hash, entry, |e| local(self::hash(hasher, e.key())));
}

#[inline]
fn hash(hasher: &FixedState, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(key);
    state.finish()
}

/// The position of a hash in `SCAN` order.
pub(super) fn position(hash: u64) -> u64 {
    hash >> (64 - POSITION_BITS)
}

/// What a segment's table takes for the hash: the bits below the directory's choose the bucket, and those below these
/// the tag, so that neither repeats what all entries of the segment share.
#[inline]
fn local(hash: u64) -> u64 {
    hash.rotate_left(MAX_DEPTH + 10)
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
            let before = table.moved();
            add(&mut table, number);
            worst = worst.max(table.moved() - before);
        }
        assert_eq!(table.len(), 1_100_000);
        assert!(worst <= SEGMENT_ENTRIES as u64, "{worst}");
        assert!(table.moved() < 5 * 1_100_000, "{}", table.moved());
        assert!(
            table.overhead_bytes() < 40 * 1_100_000,
            "{}",
            table.overhead_bytes()
        );
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
            let before = table.moved();
            let (hash, place) = place(&table, number).unwrap();
            table.remove(hash, place).unwrap();
            worst = worst.max(table.moved() - before);
        }
        assert!(worst <= SEGMENT_ENTRIES as u64, "{worst}");
        assert_eq!(table.len(), 10);
        assert!(table.segments() <= 2, "{}", table.segments());
        assert!(table.depth <= 2);
        for number in 299_990..300_000 {
            assert!(place(&table, number).is_some());
        }
    }

    #[test]
    fn steady_churn_costs_little() {
        let mut table = Table::new(3);
        (0..10_000).for_each(|number| add(&mut table, number));
        let before = table.moved();
        for number in 0..200_000 {
            let (hash, place) = place(&table, number).unwrap();
            table.remove(hash, place).unwrap();
            add(&mut table, number + 10_000);
        }
        let moved = table.moved() - before;
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
