//! A large hash: a table of fields, and the deadlines of those that have one in their order.

use super::field::{Field, OwnField};
use crate::keyspace::allocated;
use crate::segmented::SegmentedTable;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use kevy_proto::rng::Rng;

/// A large hash.
#[derive(Clone, Debug)]
pub(super) struct Large {
    table: SegmentedTable<OwnField>,
    /// Invariant: holds `(deadline, hash of the name)` exactly for the fields that have a deadline.
    deadlines: BTreeSet<(i64, u64)>,
    /// The sum of the fields' allocations.
    fields_bytes: usize,
}

impl Large {
    /// An empty hash whose hash function `seed` decides.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            table: SegmentedTable::new(seed),
            deadlines: BTreeSet::new(),
            fields_bytes: 0,
        }
    }

    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of fields whose time has come but that were not yet removed.
    pub(super) fn due_len(&self, now_ms: i64) -> usize {
        self.deadlines.range(..(now_ms, 0)).count()
    }

    /// Bytes on the heap, those of this struct included.
    pub(super) fn heap_bytes(&self) -> usize {
        /// An element of an ordered set, its share of the tree included.
        const DEADLINE_BYTES: usize = 24;
        size_of::<Self>()
            + self.table.heap_bytes()
            + self.fields_bytes
            + self.deadlines.len() * DEADLINE_BYTES
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.table.iter().map(OwnField::field)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.table.get_by_key(name).map(OwnField::field)
    }

    /// Adds a field or replaces it; says whether it is new.
    pub(super) fn set(&mut self, field: Field<'_>) -> bool {
        let (hash, place) = self.table.place_of(field.name);
        let Some(own) = place.and_then(|place| self.table.get_mut(place)) else {
            let own = OwnField::new(field);
            self.fields_bytes += allocated(own.len_bytes());
            self.table.insert(hash, own);
            self.deadlines
                .extend(field.deadline.map(|deadline| (deadline, hash)));
            return true;
        };
        let before = own.field().deadline;
        self.fields_bytes -= allocated(own.len_bytes());
        own.replace(field);
        self.fields_bytes += allocated(own.len_bytes());
        if before != field.deadline {
            self.forget_deadline(before, hash);
            self.deadlines
                .extend(field.deadline.map(|deadline| (deadline, hash)));
        }
        false
    }

    /// Removes a field; says whether it was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(own) = self.table.remove_by_key(name) else {
            return false;
        };
        self.fields_bytes -= allocated(own.len_bytes());
        self.forget_deadline(own.field().deadline, self.table.hash(name));
        true
    }

    /// Removes up to `budget` fields whose time has come, the earliest first; returns their names.
    pub(super) fn remove_due(&mut self, now_ms: i64, budget: usize) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        while names.len() < budget {
            let Some(&(deadline, hash)) = self.deadlines.first().filter(|first| now_ms > first.0)
            else {
                break;
            };
            match self.with_deadline(deadline, hash) {
                Some(name) => {
                    self.remove(&name);
                    names.push(name);
                }
                None => {
                    self.deadlines.remove(&(deadline, hash));
                }
            }
        }
        names
    }

    /// The earliest deadline of a field.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|first| first.0)
    }

    /// One step of a scan, as [`SegmentedTable::scan`].
    pub(super) fn scan(&self, from: u64, count: usize) -> (Vec<Field<'_>>, Option<u64>) {
        let (found, next) = self.table.scan(from, count);
        (found.into_iter().map(OwnField::field).collect(), next)
    }

    /// A random field.
    pub(super) fn random(&self, rng: &mut Rng) -> Option<Field<'_>> {
        let place = self.table.random(rng)?;
        self.table.get(place).map(OwnField::field)
    }

    /// Different random fields, as [`SegmentedTable::sample`].
    pub(super) fn sample(&self, count: usize, rng: &mut Rng) -> Vec<Field<'_>> {
        let chosen = self.table.sample(count, rng);
        chosen.into_iter().map(OwnField::field).collect()
    }

    /// Forgets a deadline that a field had, unless another one with the same hash has the same.
    fn forget_deadline(&mut self, deadline: Option<i64>, hash: u64) {
        if let Some(deadline) = deadline
            && self.with_deadline(deadline, hash).is_none()
        {
            self.deadlines.remove(&(deadline, hash));
        }
    }

    fn with_deadline(&self, deadline: i64, hash: u64) -> Option<Vec<u8>> {
        let place = self.table.find(hash, |own| {
            let field = own.field();
            field.deadline == Some(deadline) && self.table.hash(field.name) == hash
        })?;
        Some(self.table.get(place)?.field().name.to_vec())
    }
}
