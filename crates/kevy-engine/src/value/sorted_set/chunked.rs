//! A vector in pieces: it grows without ever moving more than one piece.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Items of a piece.
const PIECE: usize = 1024;
/// A piece that is not full grows by this many items.
const GROWTH: usize = 128;

/// A vector that may become long. Indexing beyond its length panics, as with a slice.
#[derive(Clone, Debug)]
pub(super) struct Chunked<T> {
    /// Invariant: all but the last hold [`PIECE`] items, the last at least one.
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> Chunked<T> {
    /// Number of items.
    pub(super) fn len(&self) -> usize {
        match self.pieces.last() {
            Some(last) => (self.pieces.len() - 1) * PIECE + last.len(),
            None => 0,
        }
    }

    /// Bytes of the pieces.
    pub(super) fn heap_bytes(&self) -> usize {
        let last = self.pieces.last().map_or(0, Vec::capacity);
        let full = self.pieces.len().saturating_sub(1) * PIECE;
        (full + last) * size_of::<T>() + self.pieces.capacity() * size_of::<Vec<T>>()
    }

    /// Appends an item.
    pub(super) fn push(&mut self, item: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => {
                if last.len() == last.capacity() {
                    last.reserve_exact(GROWTH);
                }
                last.push(item);
            }
            Some(_) | None => {
                let mut piece = Vec::with_capacity(GROWTH);
                piece.push(item);
                self.pieces.push(piece);
            }
        }
    }

    /// Takes the last item.
    pub(super) fn pop(&mut self) -> Option<T> {
        let last = self.pieces.last_mut()?;
        let item = last.pop();
        if last.is_empty() {
            self.pieces.pop();
        } else if last.capacity() - last.len() > 2 * GROWTH {
            last.shrink_to(last.len() + GROWTH);
        }
        item
    }

    /// All items in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.pieces[index / PIECE][index % PIECE]
    }
}

impl<T> IndexMut<usize> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.pieces[index / PIECE][index % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_order() {
        let mut numbers = Chunked::default();
        (0..5000).for_each(|number| numbers.push(number));
        assert_eq!(numbers.len(), 5000);
        assert!(numbers.iter().copied().eq(0..5000));
        assert!((0..5000).all(|number| numbers[number] == number));
        for number in (0..5000).rev() {
            assert_eq!(numbers.pop(), Some(number));
        }
        assert_eq!(numbers.pop(), None);
        assert_eq!(numbers.len(), 0);
    }
}
