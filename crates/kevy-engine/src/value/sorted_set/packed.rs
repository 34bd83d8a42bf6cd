//! The compact form: all elements in one allocation, in order of score and member.
//!
//! ```text
//! element ...   each: length of the member (a varint), member, packed score
//! ```
//!
//! Everything is a walk from the start; Redis's limits keep the walk short. The last bytes hold the number of elements.

use super::score::{self, PackedScore, compare};
use crate::varint::{push_varint, read_varint};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

/// Bytes of the number of elements, at the end.
const COUNT_BYTES: usize = 4;

/// A small sorted set.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed(Box<[u8]>);

/// One element, and where it lies.
struct Element<'a> {
    start: usize,
    end: usize,
    member: &'a [u8],
    score: f64,
}

impl Packed {
    /// Packs elements that are in order.
    pub(super) fn from_ordered<'a>(elements: impl Iterator<Item = (&'a [u8], f64)>) -> Self {
        let mut bytes = Vec::new();
        let mut count = 0;
        for (member, score) in elements {
            put_element(&mut bytes, member, score);
            count += 1;
        }
        Self::finish(bytes, count)
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        match self.0.split_last_chunk::<COUNT_BYTES>() {
            Some((_, count)) => u32::from_le_bytes(*count) as usize,
            None => 0,
        }
    }

    /// Bytes of the allocation.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.len()
    }

    /// All elements in order.
    pub(super) fn iter(&self) -> Elements<'_> {
        Elements {
            bytes: &self.0[..self.0.len().saturating_sub(COUNT_BYTES)],
            at: 0,
        }
    }

    /// The rank and the score of a member.
    pub(super) fn find(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (rank, (_, score)) = self
            .iter()
            .enumerate()
            .find(|(_, (found, _))| *found == member)?;
        Some((rank, score))
    }

    /// Adds a member that is not there.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) {
        let (at, count) = (self.place_of(member, score), self.len());
        let mut element = Vec::with_capacity(member.len() + 12);
        put_element(&mut element, member, score);
        self.splice(at..at, &element, count + 1);
    }

    /// Takes out a member that is there.
    pub(super) fn remove(&mut self, member: &[u8]) {
        let found = self.walk().find(|element| element.member == member);
        if let Some(Element { start, end, .. }) = found {
            self.splice(start..end, &[], self.len() - 1);
        }
    }

    /// Takes out the elements of these ranks.
    pub(super) fn remove_range(&mut self, ranks: &Range<usize>) {
        let mut elements = self.walk().skip(ranks.start).take(ranks.len());
        let Some(first) = elements.next() else {
            return;
        };
        let end = elements.last().map_or(first.end, |last| last.end);
        self.splice(first.start..end, &[], self.len() - ranks.len());
    }

    /// Where the element belongs.
    fn place_of(&self, member: &[u8], score: f64) -> usize {
        let order = |e: &Element<'_>| compare(e.score, score).then_with(|| e.member.cmp(member));
        self.walk()
            .find(|element| order(element) == Ordering::Greater)
            .map_or(self.0.len().saturating_sub(COUNT_BYTES), |e| e.start)
    }

    /// Replaces the bytes of `range`.
    fn splice(&mut self, range: Range<usize>, with: &[u8], count: usize) {
        let mut bytes = core::mem::take(&mut self.0).into_vec();
        bytes.truncate(bytes.len().saturating_sub(COUNT_BYTES));
        bytes.reserve_exact(with.len() + COUNT_BYTES);
        bytes.splice(range, with.iter().copied());
        *self = Self::finish(bytes, count);
    }

    fn finish(mut bytes: Vec<u8>, count: usize) -> Self {
        if count == 0 {
            return Self::default();
        }
        bytes.extend_from_slice(&(count as u32).to_le_bytes());
        Self(bytes.into_boxed_slice())
    }

    fn walk(&self) -> impl Iterator<Item = Element<'_>> {
        let mut elements = self.iter();
        core::iter::from_fn(move || elements.step())
    }
}

fn put_element(bytes: &mut Vec<u8>, member: &[u8], score: f64) {
    push_varint(bytes, member.len());
    bytes.extend_from_slice(member);
    bytes.extend_from_slice(PackedScore::new(score).as_bytes());
}

/// A walk over elements.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    fn step(&mut self) -> Option<Element<'a>> {
        let start = self.at;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let (length, taken) = read_varint(rest);
        let (member, packed) = rest[taken..].split_at(length);
        self.at += taken + length + score::packed_length(packed[0]);
        Some(Element {
            start,
            end: self.at,
            member,
            score: score::unpack(packed),
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|element| (element.member, element.score))
    }
}
