//! A small set of integers, in order.
//!
//! ```text
//! [width: 1 byte: 2, 4 or 8][integer: width bytes, little-endian] ..ascending
//! ```
//!
//! All integers are as wide as the widest one was: a wider one widens all.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of the width.
const HEAD_BYTES: usize = 1;

/// The integers that some bytes hold.
#[derive(Clone, Copy)]
pub(super) struct Ints<'a> {
    width: usize,
    data: &'a [u8],
}

impl<'a> Ints<'a> {
    /// Whether `bytes` hold integers.
    #[inline]
    pub(super) fn are_in(bytes: &[u8]) -> bool {
        bytes.first().is_none_or(|&width| width > 0)
    }

    /// The integers in `bytes`; empty bytes hold none.
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        match bytes.split_first() {
            Some((&width, data)) => Self {
                width: usize::from(width),
                data,
            },
            None => Self {
                width: 2,
                data: &[],
            },
        }
    }

    /// Number of integers.
    #[inline]
    pub(super) fn len(self) -> usize {
        self.data.len() / self.width
    }

    /// The integer at `index` of their order.
    #[inline]
    pub(super) fn get(self, index: usize) -> Option<i64> {
        let data = self.data.get(index * self.width..)?;
        match self.width {
            2 => data.first_chunk().map(|&b| i16::from_le_bytes(b).into()),
            4 => data.first_chunk().map(|&b| i32::from_le_bytes(b).into()),
            _ => data.first_chunk().map(|&b| i64::from_le_bytes(b)),
        }
    }

    /// Where `number` is, or where it would be.
    pub(super) fn find(self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle) {
                Some(found) if found == number => return Ok(middle),
                Some(found) if found < number => low = middle + 1,
                _ => high = middle,
            }
        }
        Err(low)
    }

    /// All integers, ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = i64> + use<'a> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }
}

/// Adds `number` to the integers in `bytes`; says whether it is new.
pub(super) fn add(bytes: &mut Box<[u8]>, number: i64) -> bool {
    let ints = Ints::of(bytes);
    let Err(index) = ints.find(number) else {
        return false;
    };
    let width = ints.width.max(width_of(number));
    let mut changed;
    if bytes.is_empty() || width > ints.width {
        changed = Vec::with_capacity(HEAD_BYTES + (ints.len() + 1) * width);
        changed.push(width as u8);
        for number in ints.iter() {
            changed.extend_from_slice(&number.to_le_bytes()[..width]);
        }
    } else {
        changed = core::mem::take(bytes).into_vec();
        changed.reserve_exact(width);
    }
    let at = HEAD_BYTES + index * width;
    let end = changed.len();
    changed.resize(end + width, 0);
    changed.copy_within(at..end, at + width);
    changed[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
    *bytes = changed.into_boxed_slice();
    true
}

/// Removes `number` from the integers in `bytes`; says whether it was there.
pub(super) fn remove(bytes: &mut Box<[u8]>, number: i64) -> bool {
    let ints = Ints::of(bytes);
    let (Ok(index), width) = (ints.find(number), ints.width) else {
        return false;
    };
    let mut changed = core::mem::take(bytes).into_vec();
    let at = HEAD_BYTES + index * width;
    changed.drain(at..at + width);
    if changed.len() > HEAD_BYTES {
        *bytes = changed.into_boxed_slice();
    }
    true
}

fn width_of(number: i64) -> usize {
    if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_numbers_widen_all() {
        let mut bytes = Box::default();
        for (number, length) in [
            (5, 3),
            (-3, 5),
            (32_768, 1 + 3 * 4),
            (i64::MIN, 1 + 4 * 8),
            (i64::MAX, 1 + 5 * 8),
        ] {
            assert!(add(&mut bytes, number));
            assert!(!add(&mut bytes, number));
            assert_eq!(bytes.len(), length);
        }
        let numbers = [i64::MIN, -3, 5, 32_768, i64::MAX];
        assert!(Ints::of(&bytes).iter().eq(numbers));
        assert_eq!(Ints::of(&bytes).find(6), Err(3));
        for number in numbers {
            assert!(remove(&mut bytes, number));
            assert!(!remove(&mut bytes, number));
        }
        assert!(bytes.is_empty());
    }
}
