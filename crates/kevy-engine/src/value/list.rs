//! Lists: elements in order, cheap at both ends.
//!
//! A small list is one [`Packed`]; beyond `list-max-listpack-size` it becomes [`Chunks`], a deque of such pieces. As in
//! Redis 7.2 a list that has shrunk to half of the limit, and to one piece, becomes small again: the distance keeps a list
//! at the limit from changing back and forth.

mod chunks;
pub(in crate::value) mod packed;
#[cfg(test)]
mod tests;

use super::batch::emit_in_batches;
use super::{Collection, EncodingLimits};
use crate::Effects;
use crate::keyspace::{Encoding, Value};
use alloc::boxed::Box;
use chunks::Chunks;
use core::ops::Range;
use packed::Packed;

/// One of the ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head: index 0.
    Left,
    /// The tail: index -1.
    Right,
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Small(Packed),
    Large(Box<Chunks>),
}

impl Default for List {
    fn default() -> Self {
        Self {
            form: Form::Small(Packed::default()),
        }
    }
}

impl List {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Small(packed) => packed.len(),
            Form::Large(chunks) => chunks.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements from left to right.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.pieces().flat_map(Packed::iter)
    }

    /// The elements from one end to the other.
    pub fn iter_from(&self, end: End) -> impl Iterator<Item = &[u8]> {
        let mut elements = self.iter();
        core::iter::from_fn(move || match end {
            End::Left => elements.next(),
            End::Right => elements.next_back(),
        })
    }

    /// The elements of `range`, which must lie within the list.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let (piece, index) = self.locate(range.start);
        let elements = self.pieces().skip(piece).flat_map(Packed::iter);
        elements.skip(index).take(range.len())
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.len() {
            return None;
        }
        let (piece, index) = self.locate(index);
        self.pieces().nth(piece)?.get(index)
    }

    /// Adds elements at one end, one after the other.
    pub fn push<'a>(
        &mut self,
        end: End,
        elements: impl Iterator<Item = &'a [u8]> + Clone,
        limits: &EncodingLimits,
    ) {
        let limit = Limit::of(limits);
        self.grow(elements.clone(), limit);
        for element in elements {
            match (&mut self.form, end) {
                (Form::Small(packed), End::Left) => packed.push_front(element),
                (Form::Small(packed), End::Right) => packed.push_back(element),
                (Form::Large(chunks), end) => chunks.push(end, element, limit),
            }
        }
    }

    /// Removes `count` elements from one end, or all if there are no more.
    pub fn pop(&mut self, end: End, count: usize, limits: &EncodingLimits) {
        self.remove_at_end(end, count);
        self.shrink(limits);
    }

    /// Moves one element from one end to the other.
    pub fn rotate(&mut self, from: End, limits: &EncodingLimits) {
        let Some(element) = self.iter_from(from).next().map(<[u8]>::to_vec) else {
            return;
        };
        let to = match from {
            End::Left => End::Right,
            End::Right => End::Left,
        };
        self.remove_at_end(from, 1);
        self.push(to, core::iter::once(element.as_slice()), limits);
        self.shrink(limits);
    }

    /// Puts `element` in the place of the one at `index`; says whether there is one.
    pub fn set(&mut self, index: usize, element: &[u8], limits: &EncodingLimits) -> bool {
        if index >= self.len() {
            return false;
        }
        let limit = Limit::of(limits);
        self.grow(core::iter::once(element), limit);
        match &mut self.form {
            Form::Small(packed) => packed.replace(index, element),
            Form::Large(chunks) => chunks.replace(index, element, limit),
        }
        self.shrink(limits);
        true
    }

    /// Adds `element` at the side of `pivot` that is nearer to `side`, by the first `pivot` there is; says whether there is
    /// one.
    pub fn insert(
        &mut self,
        side: End,
        pivot: &[u8],
        element: &[u8],
        limits: &EncodingLimits,
    ) -> bool {
        let found = self.pieces().enumerate().find_map(|(number, piece)| {
            let index = piece.iter().position(|e| e == pivot)?;
            Some((number, index))
        });
        let Some((number, index)) = found else {
            return false;
        };
        let index = match side {
            End::Left => index,
            End::Right => index + 1,
        };
        let limit = Limit::of(limits);
        // What becomes large is one piece first: the place stays.
        self.grow(core::iter::once(element), limit);
        match &mut self.form {
            Form::Small(packed) => packed.insert(index, element),
            Form::Large(chunks) => chunks.insert(number, index, element, limit),
        }
        true
    }

    /// Removes elements equal to `element` from one end on, at most `most`; says how many.
    pub fn remove_equal(
        &mut self,
        from: End,
        element: &[u8],
        most: usize,
        limits: &EncodingLimits,
    ) -> usize {
        let removed = match &mut self.form {
            Form::Small(packed) => remove_equal(packed, from, element, most),
            Form::Large(chunks) => chunks.remove_equal(from, element, most),
        };
        self.shrink(limits);
        removed
    }

    /// Removes all elements but those of `kept`, which must lie within the list.
    pub fn trim(&mut self, kept: Range<usize>, limits: &EncodingLimits) {
        self.remove_at_end(End::Right, self.len() - kept.end);
        self.remove_at_end(End::Left, kept.start);
        self.shrink(limits);
    }

    fn remove_at_end(&mut self, end: End, count: usize) {
        let count = count.min(self.len());
        let first = match end {
            End::Left => 0,
            End::Right => self.len() - count,
        };
        match &mut self.form {
            Form::Small(packed) => packed.remove(first, count),
            Form::Large(chunks) => chunks.remove(first..first + count),
        }
    }

    /// The elements from left to right, in the runs that lie together.
    pub(crate) fn runs(&self) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
        self.pieces().map(Packed::iter)
    }

    fn pieces(&self) -> impl DoubleEndedIterator<Item = &Packed> {
        let (first, second) = match &self.form {
            Form::Small(packed) => (core::slice::from_ref(packed), [].as_slice()),
            Form::Large(chunks) => chunks.pieces(),
        };
        first.iter().chain(second)
    }

    fn locate(&self, index: usize) -> (usize, usize) {
        match &self.form {
            Form::Small(_) => (0, index),
            Form::Large(chunks) => chunks.locate(index),
        }
    }

    /// Becomes large if `more` may not fit: by Redis's estimate, which adds up bare lengths.
    fn grow<'a>(&mut self, more: impl Iterator<Item = &'a [u8]>, limit: Limit) {
        let Form::Small(packed) = &mut self.form else {
            return;
        };
        let (mut bytes, mut count) = (packed.listpack_bytes(), packed.len());
        for element in more {
            bytes += element.len() as u64;
            count += 1;
        }
        if limit.is_exceeded_by(bytes, count) {
            let chunks = Chunks::of(core::mem::take(packed));
            self.form = Form::Large(Box::new(chunks));
        }
    }

    /// Becomes small if it is far enough below the limit.
    fn shrink(&mut self, limits: &EncodingLimits) {
        let Form::Large(chunks) = &mut self.form else {
            return;
        };
        let limit = Limit::of(limits);
        let is_small = chunks
            .only()
            .is_some_and(|piece| limit.has_half_left(piece.listpack_bytes(), piece.len()));
        if is_small {
            self.form = Form::Small(chunks.take_first());
        }
    }
}

/// Removes elements equal to `element` from one end of a piece on, at most `most`; says how many.
fn remove_equal(piece: &mut Packed, from: End, element: &[u8], most: usize) -> usize {
    let found = piece.iter().filter(|&e| e == element).count();
    if found == 0 {
        return 0;
    }
    let most = most.min(found);
    let skip = match from {
        End::Left => 0,
        End::Right => found - most,
    };
    piece.remove_equal(element, skip, most)
}

impl Collection for List {
    fn view(value: &Value) -> Option<&Self> {
        if let Value::List(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn view_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::List(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn into_value(self) -> Value {
        Value::List(Box::new(self))
    }

    fn is_vacant(&self) -> bool {
        self.is_empty()
    }

    fn encoding(&self) -> Encoding {
        match self.form {
            Form::Small(_) => Encoding::Listpack,
            Form::Large(_) => Encoding::Quicklist,
        }
    }

    fn heap_bytes(&self) -> usize {
        let form = match &self.form {
            Form::Small(packed) => packed.heap_bytes(),
            Form::Large(chunks) => size_of::<Chunks>() + chunks.heap_bytes(),
        };
        size_of::<Self>() + form
    }

    fn emit_rebuild(&self, key: &[u8], effects: &mut Effects) {
        emit_in_batches(effects, b"RPUSH", key, self.iter());
    }
}

/// How much one piece may hold, by `list-max-listpack-size`: bytes of a listpack or a number of elements.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Bytes(u64),
    Count(usize),
}

impl Limit {
    /// A piece limited by its count never has more bytes (Redis: `SIZE_SAFETY_LIMIT`).
    const MOST_BYTES: u64 = 8192;

    fn of(limits: &EncodingLimits) -> Self {
        match limits.list_max_listpack_size {
            count @ 1.. => Self::Count(count as usize),
            // Redis lets at least one element be.
            0 => Self::Count(1),
            -1 => Self::Bytes(4 << 10),
            -2 => Self::Bytes(8 << 10),
            -3 => Self::Bytes(16 << 10),
            -4 => Self::Bytes(32 << 10),
            ..=-5 => Self::Bytes(64 << 10),
        }
    }

    fn is_exceeded_by(self, bytes: u64, count: usize) -> bool {
        match self {
            Self::Bytes(limit) => bytes > limit,
            Self::Count(limit) => bytes > Self::MOST_BYTES || count > limit,
        }
    }

    fn has_half_left(self, bytes: u64, count: usize) -> bool {
        match self {
            Self::Bytes(limit) => bytes <= limit / 2,
            Self::Count(limit) => count <= limit / 2,
        }
    }
}
