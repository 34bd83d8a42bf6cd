//! A whole listpack.
//!
//! ```text
//! [bytes of all of it: 4, little endian][number of elements: 2, little endian][element]..[ff]
//! ```
//!
//! 65535 for the number says that there are as many or more: then they must be counted.

use super::element::{self, Element};
use alloc::vec::Vec;

/// Bytes before the first element.
const HEAD_BYTES: usize = 6;
/// Ends a listpack.
const END: u8 = 0xff;
/// A number of elements that says nothing.
const UNCOUNTED: u16 = u16::MAX;

/// The elements of `bytes`, all of which were looked at; `None` if they are no listpack.
pub(super) fn open(bytes: &[u8]) -> Option<Elements<'_>> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let (&end, elements) = rest.split_last()?;
    let count = u16::from_le_bytes(*count);
    let whole = u32::from_le_bytes(*head) as usize == bytes.len() && end == END;
    let elements = Elements { rest: elements };
    let found = elements.clone().check()?;
    let counted = count == UNCOUNTED || usize::from(count) == found;
    (whole && counted).then_some(elements)
}

/// The elements of a listpack, in order.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    rest: &'a [u8],
}

impl Elements<'_> {
    /// Counts the elements; `None` if one of them is damaged.
    fn check(mut self) -> Option<usize> {
        let mut count = 0;
        while !self.rest.is_empty() {
            let (_, next) = element::read(self.rest, 0)?;
            // From the right it must be the same element.
            let (element, rest) = self.rest.split_at_checked(next)?;
            if element::before(element, next)? != 0 {
                return None;
            }
            self.rest = rest;
            count += 1;
        }
        Some(count)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (element, next) = element::read(self.rest, 0)?;
        self.rest = self.rest.get(next..)?;
        Some(element)
    }
}

/// Makes a listpack.
#[derive(Debug)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Builder {
    /// A listpack without elements.
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; HEAD_BYTES].to_vec(),
            count: 0,
        }
    }

    /// Appends the element whose text this is.
    pub(super) fn push(&mut self, text: &[u8]) {
        element::push_bytes(&mut self.bytes, text);
        self.count += 1;
    }

    /// Appends an integer.
    pub(super) fn push_integer(&mut self, number: i64) {
        element::push_integer(&mut self.bytes, number);
        self.count += 1;
    }

    /// Appends elements that are packed already.
    pub(super) fn push_packed(&mut self, packed: &[u8]) {
        let mut at = 0;
        while let Some((_, next)) = element::read(packed, at) {
            self.count += 1;
            at = next;
        }
        self.bytes.extend_from_slice(packed);
    }

    /// The whole listpack.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let total = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.count).unwrap_or(UNCOUNTED).to_le_bytes();
        self.bytes[..4].copy_from_slice(&total);
        self.bytes[4..HEAD_BYTES].copy_from_slice(&count);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(texts: &[&[u8]]) -> Vec<u8> {
        let mut builder = Builder::new();
        texts.iter().for_each(|text| builder.push(text));
        builder.finish()
    }

    #[test]
    fn what_is_built_is_read() {
        let bytes = packed(&[b"a", b"12", b""]);
        assert_eq!(bytes, b"\x0e\0\0\0\x03\0\x81a\x02\x0c\x01\x80\x01\xff");
        let elements = [
            Element::Bytes(b"a"),
            Element::Integer(12),
            Element::Bytes(b""),
        ];
        assert!(open(&bytes).unwrap().eq(elements));
        assert_eq!(open(&packed(&[])).unwrap().count(), 0);
    }

    #[test]
    fn more_elements_than_the_head_can_count_are_read() {
        let many = alloc::vec![&b"x"[..]; 70_000];
        let bytes = packed(&many);
        assert_eq!(bytes[4..6], [0xff, 0xff]);
        assert_eq!(open(&bytes).unwrap().count(), 70_000);
    }

    #[test]
    fn every_change_of_the_frame_is_found() {
        let bytes = packed(&[b"a", b"1000", b"long enough to be a string"]);
        for at in (0..HEAD_BYTES).chain([bytes.len() - 1]) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(open(&damaged).is_none(), "byte {at}");
        }
        for cut in 0..bytes.len() {
            assert!(open(&bytes[..cut]).is_none(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(at in 0..40_usize, byte: u8) {
            let mut bytes = packed(&[b"a", b"1000", b"long enough to be a string"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Some(elements) = open(&bytes) {
                prop_assert!(elements.count() <= 3);
            }
        }
    }
}
