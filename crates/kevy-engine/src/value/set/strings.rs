//! A small set of strings, one behind the other.
//!
//! ```text
//! [0][number of strings: 2 bytes, little-endian][length: varint][string] ..in the order of insertion
//! ```
//!
//! The first byte tells them from [`Ints`](super::ints::Ints), where it is the width.

use crate::varint::{push_varint, read_varint, varint_len};
use alloc::boxed::Box;
use core::ops::Range;

/// Bytes before the first string.
const HEAD_BYTES: usize = 3;

/// The most strings.
pub(super) const MOST: usize = u16::MAX as usize;

/// The strings that some bytes hold.
#[derive(Clone, Copy)]
pub(super) struct Strings<'a> {
    count: u16,
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    /// The strings in `bytes`; empty bytes hold none.
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        match bytes {
            [_, low, high, data @ ..] => Self {
                count: u16::from_le_bytes([*low, *high]),
                data,
            },
            _ => Self {
                count: 0,
                data: &[],
            },
        }
    }

    /// Number of strings.
    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.count)
    }

    /// All strings, in the order of insertion.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let data = self.data;
        self.places().map(move |place| &data[place.string])
    }

    /// Where `string` is.
    pub(super) fn find(self, string: &[u8]) -> Option<Place> {
        let data = self.data;
        self.places()
            .find(|place| data[place.string.clone()] == *string)
    }

    fn places(self) -> impl Iterator<Item = Place> + use<'a> {
        let data = self.data;
        let mut start = 0;
        (0..self.count).map(move |_| {
            let (length, head) = read_varint(&data[start..]);
            let place = Place {
                start,
                string: start + head..start + head + length,
            };
            start = place.string.end;
            place
        })
    }
}

/// Where a string is in the data.
pub(super) struct Place {
    /// Where its length begins.
    start: usize,
    string: Range<usize>,
}

/// Adds `string`, which is not in `bytes`.
pub(super) fn push(bytes: &mut Box<[u8]>, string: &[u8]) {
    let count = Strings::of(bytes).count + 1;
    let mut changed = core::mem::take(bytes).into_vec();
    let head = if changed.is_empty() { HEAD_BYTES } else { 0 };
    changed.reserve_exact(head + varint_len(string.len()) + string.len());
    changed.resize(changed.len() + head, 0);
    push_varint(&mut changed, string.len());
    changed.extend_from_slice(string);
    changed[1..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
    *bytes = changed.into_boxed_slice();
}

/// Removes `string` from `bytes`; says whether it was there.
pub(super) fn remove(bytes: &mut Box<[u8]>, string: &[u8]) -> bool {
    let strings = Strings::of(bytes);
    let count = strings.count;
    let Some(place) = strings.find(string) else {
        return false;
    };
    let mut changed = core::mem::take(bytes).into_vec();
    changed.drain(HEAD_BYTES + place.start..HEAD_BYTES + place.string.end);
    if count > 1 {
        changed[1..HEAD_BYTES].copy_from_slice(&(count - 1).to_le_bytes());
        *bytes = changed.into_boxed_slice();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn strings_come_and_go() {
        let mut bytes = Box::default();
        let long = vec![b'x'; 300];
        for string in [&b""[..], b"a", &long, b"b"] {
            assert!(Strings::of(&bytes).find(string).is_none());
            push(&mut bytes, string);
            assert!(Strings::of(&bytes).find(string).is_some());
        }
        assert_eq!(bytes.len(), 3 + 1 + 2 + 302 + 2);
        assert!(remove(&mut bytes, b"a"));
        assert!(!remove(&mut bytes, b"a"));
        assert!(Strings::of(&bytes).iter().eq([&b""[..], &long, b"b"]));
        for string in [&b""[..], b"b", &long] {
            assert!(remove(&mut bytes, string));
        }
        assert!(bytes.is_empty());
    }
}
