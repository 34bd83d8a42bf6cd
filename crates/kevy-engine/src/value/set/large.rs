//! A large set: a table of members.

use crate::keyspace::allocated;
use crate::segmented::SegmentedTable;
use alloc::boxed::Box;
use alloc::vec::Vec;
use kevy_proto::rng::Rng;

/// A large set.
#[derive(Clone, Debug)]
pub(super) struct Large {
    table: SegmentedTable<Box<[u8]>>,
    /// The sum of the members' allocations.
    member_bytes: usize,
}

impl Large {
    /// An empty set whose hash function `seed` decides.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            table: SegmentedTable::new(seed),
            member_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes on the heap, those of this struct included.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.table.heap_bytes() + self.member_bytes
    }

    pub(super) fn contains(&self, member: &[u8]) -> bool {
        self.table.get_by_key(member).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.table.iter().map(|member| &**member)
    }

    /// Adds a member; says whether it is new.
    pub(super) fn add(&mut self, member: &[u8]) -> bool {
        let (hash, place) = self.table.place_of(member);
        if place.is_some() {
            return false;
        }
        self.member_bytes += allocated(member.len());
        self.table.insert(hash, Box::from(member));
        true
    }

    /// Removes a member; says whether it was there.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let removed = self.table.remove_by_key(member).is_some();
        if removed {
            self.member_bytes -= allocated(member.len());
        }
        removed
    }

    pub(super) fn random(&self, rng: &mut Rng) -> Option<&[u8]> {
        let place = self.table.random(rng)?;
        self.table.get(place).map(|member| &**member)
    }

    /// Different random members, as [`SegmentedTable::sample`].
    pub(super) fn sample(&self, count: usize, rng: &mut Rng) -> Vec<&[u8]> {
        let chosen = self.table.sample(count, rng).into_iter();
        chosen.map(|member| &**member).collect()
    }

    /// One step of a scan, as [`SegmentedTable::scan`].
    pub(super) fn scan(&self, from: u64, count: usize) -> (Vec<&[u8]>, Option<u64>) {
        let (found, next) = self.table.scan(from, count);
        (found.into_iter().map(|member| &**member).collect(), next)
    }
}
