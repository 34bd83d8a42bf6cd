//! A large list: a deque of pieces, each a [`Packed`] of limited size.
//!
//! Every piece knows how many elements it has, so that an index is found by adding counts, from the nearer end, and
//! only one piece is walked. No piece is ever empty.

use super::packed::Packed;
use super::{End, Limit};
use alloc::collections::VecDeque;
use core::ops::Range;

/// What Redis adds to an element when it asks whether a piece has room for it, bytes.
const ESTIMATED_OVERHEAD_BYTES: u64 = 8;

/// Pieces in order.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Invariant: none is empty.
    pieces: VecDeque<Packed>,
    /// The sum of the pieces' lengths.
    len: usize,
    /// The sum of what the pieces hold on the heap.
    piece_bytes: usize,
}

impl Clone for Chunks {
    fn clone(&self) -> Self {
        let pieces = self.pieces.clone();
        // A copy has no spare room, so it is smaller.
        let piece_bytes = pieces.iter().map(Packed::heap_bytes).sum();
        Self {
            pieces,
            len: self.len,
            piece_bytes,
        }
    }
}

impl Chunks {
    /// A large list with one piece.
    pub(super) fn of(piece: Packed) -> Self {
        let mut chunks = Self::default();
        if !piece.is_empty() {
            chunks.add(0, piece);
        }
        chunks
    }

    /// The only piece, if there is but one.
    pub(super) fn only(&self) -> Option<&Packed> {
        self.pieces.front().filter(|_| self.pieces.len() == 1)
    }

    /// Takes the first piece out, or nothing if there is none.
    pub(super) fn take_first(&mut self) -> Packed {
        if self.pieces.is_empty() {
            return Packed::default();
        }
        self.take(0)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.piece_bytes + self.pieces.capacity() * size_of::<Packed>()
    }

    /// The pieces, in two runs.
    pub(super) fn pieces(&self) -> (&[Packed], &[Packed]) {
        self.pieces.as_slices()
    }

    /// The piece that holds the element at `index`, which is there, and the element's index in it.
    pub(super) fn locate(&self, index: usize) -> (usize, usize) {
        if index <= self.len / 2 {
            let mut before = 0;
            for (number, piece) in self.pieces.iter().enumerate() {
                if index < before + piece.len() {
                    return (number, index - before);
                }
                before += piece.len();
            }
        }
        let mut before = self.len;
        for (number, piece) in self.pieces.iter().enumerate().rev() {
            before -= piece.len();
            if index >= before {
                return (number, index - before);
            }
        }
        (0, 0)
    }

    pub(super) fn push(&mut self, end: End, element: &[u8], limit: Limit) {
        let number = match end {
            End::Left => 0,
            End::Right => self.pieces.len().saturating_sub(1),
        };
        let has_room = self.pieces.get(number).is_some_and(|piece| {
            let bytes = piece.listpack_bytes() + element.len() as u64 + ESTIMATED_OVERHEAD_BYTES;
            !limit.is_exceeded_by(bytes, piece.len() + 1)
        });
        if has_room {
            self.change(number, |piece| match end {
                End::Left => piece.push_front(element),
                End::Right => piece.push_back(element),
            });
            return;
        }
        // What was at the end is inside from now on and less likely to change.
        if number < self.pieces.len() {
            self.change(number, Packed::shrink_to_fit);
        }
        let mut piece = Packed::default();
        piece.push_back(element);
        match end {
            End::Left => self.add(0, piece),
            End::Right => self.add(self.pieces.len(), piece),
        }
    }

    /// Adds an element before the one at `index` of piece `number`, or after it.
    pub(super) fn insert(&mut self, number: usize, index: usize, element: &[u8], limit: Limit) {
        self.change(number, |piece| piece.insert(index, element));
        self.divide(number, index, limit);
    }

    pub(super) fn replace(&mut self, index: usize, element: &[u8], limit: Limit) {
        let (number, index) = self.locate(index);
        self.change(number, |piece| piece.replace(index, element));
        self.divide(number, index, limit);
    }

    /// Removes the elements of `range`, which are there; whole pieces at once.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        let mut left = range.len();
        if left == 0 {
            return;
        }
        let (mut number, mut index) = self.locate(range.start);
        let mut whole = number..number;
        while left > 0 {
            let here = (self.pieces[number].len() - index).min(left);
            left -= here;
            if here == self.pieces[number].len() {
                whole.end = number + 1;
            } else {
                self.change(number, |piece| piece.remove(index, here));
                if index > 0 {
                    whole = number + 1..number + 1;
                }
            }
            number += 1;
            index = 0;
        }
        self.discard(whole);
    }

    /// Removes elements equal to `element` from the given end on, at most `most`; says how many.
    pub(super) fn remove_equal(&mut self, from: End, element: &[u8], most: usize) -> usize {
        let mut removed = 0;
        let pieces = self.pieces.len();
        for step in 0..pieces {
            if removed == most {
                break;
            }
            let number = match from {
                End::Left => step,
                End::Right => pieces - 1 - step,
            };
            removed += self.change(number, |piece| {
                let removed = super::remove_equal(piece, from, element, most - removed);
                if piece.is_empty() {
                    *piece = Packed::default();
                }
                removed
            });
        }
        self.pieces.retain(|piece| !piece.is_empty());
        removed
    }

    /// Splits piece `number`, changed at `index`, until it keeps to the limit: an element too large for any piece
    /// stands alone.
    fn divide(&mut self, number: usize, index: usize, limit: Limit) {
        let piece = &self.pieces[number];
        let exceeds = |piece: &Packed| limit.is_exceeded_by(piece.listpack_bytes(), piece.len());
        if piece.len() == 1 || !exceeds(piece) {
            return;
        }
        let is_large = piece
            .get(index)
            .is_some_and(|element| limit.is_exceeded_by(2 * element.len() as u64, 1));
        if !is_large {
            let half = self.pieces[number].len() / 2;
            let upper = self.change(number, |piece| piece.split_off(half));
            self.add(number + 1, upper);
            return;
        }
        let after = self.change(number, |piece| piece.split_off(index + 1));
        let alone = self.change(number, |piece| piece.split_off(index));
        for piece in [after, alone] {
            if !piece.is_empty() {
                self.add(number + 1, piece);
            }
        }
        if self.pieces[number].is_empty() {
            self.discard(number..number + 1);
        }
    }

    /// Changes piece `number` and keeps the sums.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Packed) -> R) -> R {
        let piece = &mut self.pieces[number];
        self.len -= piece.len();
        self.piece_bytes -= piece.heap_bytes();
        let result = change(piece);
        self.len += piece.len();
        self.piece_bytes += piece.heap_bytes();
        result
    }

    fn add(&mut self, number: usize, piece: Packed) {
        self.len += piece.len();
        self.piece_bytes += piece.heap_bytes();
        self.pieces.insert(number, piece);
    }

    fn take(&mut self, number: usize) -> Packed {
        let piece = self.change(number, core::mem::take);
        self.pieces.remove(number);
        piece
    }

    fn discard(&mut self, numbers: Range<usize>) {
        for piece in self.pieces.drain(numbers) {
            self.len -= piece.len();
            self.piece_bytes -= piece.heap_bytes();
        }
        if self.pieces.len() < self.pieces.capacity() / 4 {
            self.pieces.shrink_to(self.pieces.len() * 2);
        }
    }
}
