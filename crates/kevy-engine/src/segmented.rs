//! A table from hash to entry, for the keys of a shard and for what large values hold: extendible hashing over small
//! segments.
//!
//! ```text
//! hash (64 bits) = [directory index: depth bits][...][tag and home inside the segment: low bits]
//! directory[index] -> segment; several indices may share one segment
//! ```
//!
//! A full segment splits in two by the next bit of the hash; if it was as deep as the directory, the directory doubles
//! (a copy of small numbers). So an insertion never moves more entries than one segment holds, memory grows smoothly,
//! and segments in directory order hold entries in hash order: `SCAN` walks the hash, whatever splits and merges.

mod segment;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use foldhash::quality::FixedState;
use kevy_proto::rng::Rng;
use segment::{SEGMENT_ENTRIES, Segment, hash_of};

/// A full segment with more entries than this splits; with fewer (many removals left marks) its index is rebuilt.
const SPLIT_ABOVE: usize = SEGMENT_ENTRIES / 8 * 7;
/// Two neighbours with at most this many entries together become one.
const MERGE_BELOW: usize = SEGMENT_ENTRIES / 4;
/// The directory may be this many times as long as full segments would need. With an even hash a quarter of it is never
/// exceeded; without this limit, keys chosen to share a hash prefix could make it as long as memory.
const DIRECTORY_SLACK: usize = 64;
/// Bits of a hash that are its position in `SCAN` order.
const POSITION_BITS: u32 = 40;
/// Positions are below this.
pub(crate) const POSITIONS: u64 = 1 << POSITION_BITS;
/// The most bits of a hash that the directory uses: more segments than memory holds.
const MAX_DEPTH: u32 = 32;

/// The most segments that one step of a scan looks into for each entry wanted: a bound where most are empty.
const SEGMENTS_PER_ENTRY: usize = 10;
/// How many random places are tried before any entry will do. Half of all places are taken or more; after mass deletions
/// an eighth.
const RANDOM_TRIES: usize = 1000;

/// Where an entry is; valid until the table's next insertion or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    segment: u32,
    position: u32,
}

/// What a table finds its entries by.
pub(crate) trait Keyed {
    /// The key.
    fn key(&self) -> &[u8];
}

impl<const N: usize> Keyed for [u8; N] {
    fn key(&self) -> &[u8] {
        self
    }
}

impl Keyed for Box<[u8]> {
    fn key(&self) -> &[u8] {
        self
    }
}

/// All entries, by hash. Several entries may have the same hash; the caller keeps keys unique.
#[derive(Clone, Debug)]
pub(crate) struct SegmentedTable<E> {
    hasher: FixedState,
    /// Bits of the hash that index the directory: `1..=MAX_DEPTH`.
    depth: u32,
    /// Invariant: `2^depth` numbers of segments.
    directory: Vec<u32>,
    segments: Vec<Segment<E>>,
    /// Numbers of segments that merges left unused.
    unused: Vec<u32>,
    /// Invariant: how many used segments there are of each depth up to the directory's.
    of_depth: Vec<u32>,
    len: usize,
    /// Entries moved by splits, merges and rebuilds since the start.
    #[cfg(test)]
    moved: usize,
}

impl<E: Keyed> SegmentedTable<E> {
    /// An empty table; `seed` decides its hash function.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            depth: 1,
            directory: vec![0, 0],
            segments: vec![Segment::new(0)],
            unused: Vec::new(),
            of_depth: vec![1, 0],
            len: 0,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// The hash of `key`: seeded, so that nobody outside can choose it.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_of(&self.hasher, key)
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry with `hash` for which `is_it` says yes.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<Place> {
        let segment = self.segment_of(hash);
        let position = self.segments[segment as usize].find(hash, is_it)?;
        Some(Place {
            segment,
            position: position as u32,
        })
    }

    /// The entry at `place`.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<&E> {
        self.segments[place.segment as usize].get(place.position as usize)
    }

    /// The entry at `place`, to be changed; its key must stay.
    #[inline]
    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut E> {
        self.segments[place.segment as usize].get_mut(place.position as usize)
    }

    /// Adds an entry whose key, with hash `hash`, is not in the table, and says where it is.
    pub(crate) fn insert(&mut self, hash: u64, entry: E) -> Place {
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
    pub(crate) fn remove(&mut self, hash: u64, place: Place) -> Option<E> {
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

    /// The place of the entry with `key`, and the hash.
    pub(crate) fn place_of(&self, key: &[u8]) -> (u64, Option<Place>) {
        let hash = self.hash(key);
        (hash, self.find(hash, |entry| entry.key() == key))
    }

    /// The entry with `key`.
    pub(crate) fn get_by_key(&self, key: &[u8]) -> Option<&E> {
        self.get(self.place_of(key).1?)
    }

    /// Takes out the entry with `key`.
    pub(crate) fn remove_by_key(&mut self, key: &[u8]) -> Option<E> {
        let (hash, place) = self.place_of(key);
        self.remove(hash, place?)
    }

    /// Bytes that the table takes on the heap without what its entries point to: an estimate in constant time.
    pub(crate) fn heap_bytes(&self) -> usize {
        /// Two bytes in an index that is two thirds full, and what an allocation has to spare.
        const SHARE_BYTES: usize = 4;
        self.len * (size_of::<E>() + SHARE_BYTES)
            + self.segments.len() * size_of::<Segment<E>>()
            + self.directory.len() * size_of::<u32>()
    }

    /// One step of a scan: about `count` entries from position `from` on, in hash order, and the position to go on from
    /// (`None` at the end). An entry that is present from the first step, which starts at 0, to the last is met at least
    /// once, whatever comes and goes meanwhile.
    pub(crate) fn scan(&self, from: u64, count: usize) -> (Vec<&E>, Option<u64>) {
        let mut found = Vec::new();
        let count = count.max(1);
        let mut next = from;
        for _ in 0..count.saturating_mul(SEGMENTS_PER_ENTRY) {
            if next >= POSITIONS {
                return (found, None);
            }
            let (mut here, after) = self.segment_from(next);
            let wanted = count - found.len();
            next = after;
            if here.len() > wanted {
                next = cut(&mut here, wanted, after);
            }
            found.extend(here.into_iter().map(|(_, entry)| entry));
            if found.len() >= count {
                break;
            }
        }
        (found, Some(next).filter(|&next| next < POSITIONS))
    }

    /// The entries from position `from` to the end of its segment, sorted, and the position after the segment.
    fn segment_from(&self, from: u64) -> (Vec<(u64, &E)>, u64) {
        let (entries, after) = self.segment_at(from);
        let mut here: Vec<(u64, &E)> = entries
            .iter()
            .map(|entry| (position(self.hash(entry.key())), entry))
            .filter(|(position, _)| *position >= from)
            .collect();
        here.sort_unstable_by_key(|(position, _)| *position);
        (here, after)
    }

    /// The place of a random entry; all are equally likely.
    pub(crate) fn random(&self, rng: &mut Rng) -> Option<Place> {
        if self.len == 0 {
            return None;
        }
        for _ in 0..RANDOM_TRIES {
            if let Some(place) = self.draw(rng) {
                return Some(place);
            }
        }
        let segment = self
            .directory
            .iter()
            .find(|&&number| self.segments[number as usize].len() > 0)?;
        Some(Place {
            segment: *segment,
            position: 0,
        })
    }

    /// Draws a place of the directory's range, which may be free. A segment with a wide range is drawn more often and
    /// refused as much more often.
    fn draw(&self, rng: &mut Rng) -> Option<Place> {
        let mut pick = |bound: usize| rng.below(bound as u64) as usize;
        let alone = self.segments.len() - self.unused.len() == 1;
        let segment = self.directory[pick(self.directory.len())];
        let found = &self.segments[segment as usize];
        let places = if alone {
            found.len()
        } else {
            found.len().max(SEGMENT_ENTRIES) << (self.depth - found.depth)
        };
        let position = pick(places);
        (position < found.len()).then_some(Place {
            segment,
            position: position as u32,
        })
    }

    /// `count` different random entries in random order, or all if there are no more. Takes time and memory like `count`, or
    /// like the number of entries if that is less than three times as many.
    pub(crate) fn sample(&self, count: usize, rng: &mut Rng) -> Vec<&E> {
        if count.saturating_mul(3) >= self.len {
            let mut all: Vec<&E> = self.iter().collect();
            draw_to_front(&mut all, count, rng);
            return all;
        }
        let mut chosen = BTreeSet::new();
        let mut order = Vec::with_capacity(count);
        for _ in 0..count.saturating_mul(RANDOM_TRIES) {
            if order.len() == count {
                break;
            }
            let place = self.random(rng);
            order.extend(place.filter(|&place| chosen.insert(place)));
        }
        order
            .into_iter()
            .filter_map(|place| self.get(place))
            .collect()
    }

    /// The entries of the segment that holds `position`, in no order, and the first position after the segment.
    fn segment_at(&self, position: u64) -> (&[E], u64) {
        let index = (position >> (POSITION_BITS - self.depth)) as usize;
        let segment = &self.segments[self.directory[index] as usize];
        let span = 1 << (self.depth - segment.depth);
        let after = ((index & !(span - 1)) + span) as u64;
        (segment.entries(), after << (POSITION_BITS - self.depth))
    }

    /// All entries, segments in hash order and entries within one in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
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
        let is_upper = |entry: &E| hash_of(hasher, entry.key()) >> (63 - depth) & 1 == 1;
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

    fn add_segment(&mut self, segment: Segment<E>) -> u32 {
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
        self.of_depth.push(0);
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
            self.of_depth.pop();
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

/// Keeps `count` of `all`, chosen at random and in random order.
pub(crate) fn draw_to_front<T>(all: &mut Vec<T>, count: usize, rng: &mut Rng) {
    let count = count.min(all.len());
    for at in 0..count {
        let other = at + rng.below((all.len() - at) as u64) as usize;
        all.swap(at, other);
    }
    all.truncate(count);
}

/// Keeps the first `wanted` of `here` and those at the same position as the last of these; says what comes next.
fn cut<E>(here: &mut Vec<(u64, &E)>, wanted: usize, after: u64) -> u64 {
    let last = here[wanted.saturating_sub(1)].0;
    let keep = here.partition_point(|(position, _)| *position <= last);
    let next = here.get(keep).map_or(after, |(position, _)| *position);
    here.truncate(keep);
    next
}

/// The position of a hash in `SCAN` order.
pub(crate) fn position(hash: u64) -> u64 {
    hash >> (64 - POSITION_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entry = [u8; 16];
    type Table = SegmentedTable<Entry>;

    fn overhead(table: &Table) -> usize {
        let segments: usize = table
            .segments
            .iter()
            .map(Segment::<Entry>::overhead_bytes)
            .sum();
        segments
            + table.directory.len() * 4
            + table.segments.capacity() * size_of::<Segment<Entry>>()
    }

    fn add(table: &mut Table, number: u32) {
        let key = u128::from(number).to_be_bytes();
        table.insert(table.hash(&key), key);
    }

    fn place(table: &Table, number: u32) -> Option<(u64, Place)> {
        let key = u128::from(number).to_be_bytes();
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

    #[test]
    fn all_entries_are_drawn_equally_often() {
        let mut rng = Rng::from_seed(5);
        for (added, removed) in [(1_u32, 0_u32), (40, 30), (1_000, 0), (20_000, 19_000)] {
            let mut table = Table::new(9);
            (0..added).for_each(|number| add(&mut table, number));
            for number in 0..removed {
                let key = u128::from(number).to_be_bytes();
                assert!(table.remove_by_key(&key).is_some());
            }
            let mut drawn = alloc::collections::BTreeMap::new();
            for _ in 0..100 * table.len() {
                let place = table.random(&mut rng).unwrap();
                *drawn.entry(*table.get(place).unwrap()).or_insert(0) += 1;
            }
            assert_eq!(drawn.len(), table.len());
            assert!(drawn.values().all(|count| (50..=160).contains(count)));
        }
        assert!(Table::new(9).random(&mut rng).is_none());
    }

    #[test]
    fn samples_hold_no_entry_twice() {
        let mut rng = Rng::from_seed(5);
        let mut table = Table::new(9);
        (0..3_000).for_each(|number| add(&mut table, number));
        for count in [0, 1, 10, 900, 1_100, 2_999, 3_000, usize::MAX] {
            let sample = table.sample(count, &mut rng);
            assert_eq!(sample.len(), count.min(3_000));
            let different: BTreeSet<&Entry> = sample.iter().copied().collect();
            assert_eq!(different.len(), sample.len());
        }
    }

    #[test]
    fn a_scan_meets_all_that_stays() {
        let mut table = Table::new(2);
        (0..20_000).for_each(|number| add(&mut table, number));
        let mut seen = BTreeSet::new();
        let (mut next, mut number) = (Some(0), 0_u32);
        while let Some(from) = next {
            let (found, after) = table.scan(from, 10);
            seen.extend(found.into_iter().copied());
            next = after;
            // Meanwhile nine of ten go, and the table merges.
            for _ in 0..30 {
                let key = u128::from(number).to_be_bytes();
                if number < 20_000 && number % 10 != 0 {
                    assert!(table.remove_by_key(&key).is_some());
                }
                number += 1;
            }
        }
        for number in (0..20_000_u128).step_by(10) {
            assert!(seen.contains(&number.to_be_bytes()));
        }
        assert_eq!(table.scan(u64::MAX, 10).1, None);
    }
}
