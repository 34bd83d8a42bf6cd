//! A small hash in one allocation, in the order of insertion.
//!
//! ```text
//! [number of fields * 2 + whether any has a deadline: 4][field][field]...
//! ```
//!
//! A hash without fields has no bytes at all.

use super::field::Field;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes before the first field.
const HEAD_BYTES: usize = 4;

/// A small hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed(
    /// Invariant: empty, or laid out as the module describes.
    Box<[u8]>,
);

impl Packed {
    /// Number of fields.
    pub(super) fn len(&self) -> usize {
        (self.head() >> 1) as usize
    }

    /// Whether any field has a deadline.
    pub(super) fn has_deadlines(&self) -> bool {
        self.head() & 1 == 1
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> Fields<'_> {
        Fields(self.0.get(HEAD_BYTES..).unwrap_or_default())
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.iter().find(|field| field.name == name)
    }

    /// Adds a field or replaces it where it stands; says whether it is new.
    pub(super) fn set(&mut self, field: Field<'_>) -> bool {
        let place = self.place_of(field.name);
        let is_new = place.is_none();
        let end = self.0.len().max(HEAD_BYTES);
        self.splice(place.unwrap_or(end..end), Some(field));
        is_new
    }

    /// Removes a field; says whether it was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let place = self.place_of(name);
        let found = place.is_some();
        if let Some(place) = place {
            self.splice(place, None);
        }
        found
    }

    /// Removes up to `budget` fields whose time has come; returns their names.
    pub(super) fn remove_due(&mut self, now_ms: i64, budget: usize) -> Vec<Vec<u8>> {
        if !self.has_deadlines() {
            return Vec::new();
        }
        let due = self.iter().filter(|field| field.is_due(now_ms));
        let names: Vec<Vec<u8>> = due.take(budget).map(|field| field.name.to_vec()).collect();
        for name in &names {
            self.remove(name);
        }
        names
    }

    /// The earliest deadline of a field: a walk over all of them if any has one.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        if !self.has_deadlines() {
            return None;
        }
        self.iter().filter_map(|field| field.deadline).min()
    }

    fn head(&self) -> u32 {
        self.0
            .first_chunk()
            .map_or(0, |head| u32::from_le_bytes(*head))
    }

    /// Where the field called `name` lies.
    fn place_of(&self, name: &[u8]) -> Option<Range<usize>> {
        let mut fields = self.iter();
        loop {
            let left = fields.0.len();
            if fields.next()?.name == name {
                let end = self.0.len();
                return Some(end - left..end - fields.0.len());
            }
        }
    }

    /// Puts `field` in the place of `range`, which holds one field or lies empty at the end.
    fn splice(&mut self, range: Range<usize>, field: Option<Field<'_>>) {
        let len = self.len() + usize::from(field.is_some()) - usize::from(!range.is_empty());
        let lost_deadlines = self.has_deadlines() && !range.is_empty();
        let mut has_deadlines =
            self.has_deadlines() || field.is_some_and(|field| field.deadline.is_some());
        if len == 0 {
            self.0 = Box::default();
            return;
        }
        let new = field.map(Field::to_bytes).unwrap_or_default();
        if range.is_empty() {
            self.append(&new);
        } else if new.len() == range.len() {
            self.0[range].copy_from_slice(&new);
        } else {
            self.0 = [&self.0[..range.start], &new, &self.0[range.end..]]
                .concat()
                .into_boxed_slice();
        }
        if lost_deadlines {
            has_deadlines = self.iter().any(|field| field.deadline.is_some());
        }
        let head = (len as u32) << 1 | u32::from(has_deadlines);
        self.0[..HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
    }

    fn append(&mut self, new: &[u8]) {
        let mut bytes = core::mem::take(&mut self.0).into_vec();
        let end = bytes.len().max(HEAD_BYTES);
        bytes.reserve_exact(end + new.len() - bytes.len());
        bytes.resize(end, 0);
        bytes.extend_from_slice(new);
        self.0 = bytes.into_boxed_slice();
    }
}

/// The fields of a small hash, in the order of insertion.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        let (field, rest) = Field::read(self.0)?;
        self.0 = rest;
        Some(field)
    }
}
