//! A ziplist: what listpacks were before Redis 7.0.
//!
//! ```text
//! [bytes of all of it: 4][offset of the last entry: 4][number of entries: 2][entry]..[ff]          little endian
//! entry  = [length of the entry before: 1, or fe and 4][form][data]
//! strings  00xxxxxx: up to 63 bytes | 01xxxxxx +1: up to 16383 | 10000000 +4 (both big endian)
//! integers c0 +2 | d0 +4 | e0 +8 | f0 +3 | fe +1 (little endian) | f1..fd: 0 to 12
//! ```
//!
//! 65535 for the number says that there are as many or more.

use super::element::Element;

/// Bytes before the first entry.
const HEAD_BYTES: usize = 10;
/// Ends a ziplist.
const END: u8 = 0xff;
/// Says that the length of the entry before follows in four bytes.
const LONG_BEFORE: u8 = 0xfe;
/// A number of entries that says nothing.
const UNCOUNTED: u16 = u16::MAX;

/// The entries of `bytes`, all of which were looked at; `None` if they are no ziplist.
pub(super) fn open(bytes: &[u8]) -> Option<Entries<'_>> {
    let (total, rest) = bytes.split_first_chunk::<4>()?;
    let (tail, rest) = rest.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    let (&end, entries) = rest.split_last()?;
    let count = u16::from_le_bytes(*count);
    let whole = u32::from_le_bytes(*total) as usize == bytes.len() && end == END;
    let entries = Entries { rest: entries };
    let (found, last) = entries.clone().check()?;
    let counted = count == UNCOUNTED || usize::from(count) == found;
    let tail_is_last = u32::from_le_bytes(*tail) as usize == HEAD_BYTES + last;
    (whole && counted && tail_is_last).then_some(entries)
}

/// The entries of a ziplist, in order.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Counts the entries and says where the last one begins; `None` if one of them is damaged.
    fn check(mut self) -> Option<(usize, usize)> {
        let whole = self.rest.len();
        let (mut count, mut last) = (0, 0);
        while !self.rest.is_empty() {
            let start = whole - self.rest.len();
            let (before, _) = self.step()?;
            if before != start - last {
                return None;
            }
            last = start;
            count += 1;
        }
        Some((count, last))
    }

    /// The length of the entry before, and this one.
    fn step(&mut self) -> Option<(usize, Element<'a>)> {
        let (&before, rest) = self.rest.split_first()?;
        let (before, rest) = if before == LONG_BEFORE {
            let (long, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*long) as usize, rest)
        } else {
            (usize::from(before), rest)
        };
        let (element, rest) = read(rest)?;
        self.rest = rest;
        Some((before, element))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        self.step().map(|(_, element)| element)
    }
}

/// An entry without the length before it, and what follows.
fn read(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&form, rest) = bytes.split_first()?;
    match form {
        0x00..=0x3f => string(rest, usize::from(form)),
        0x40..=0x7f => {
            let (&low, rest) = rest.split_first()?;
            string(rest, usize::from(form & 0x3f) << 8 | usize::from(low))
        }
        0x80 => {
            let (length, rest) = rest.split_first_chunk()?;
            string(rest, u32::from_be_bytes(*length) as usize)
        }
        0xc0 => integer(rest, 2),
        0xd0 => integer(rest, 4),
        0xe0 => integer(rest, 8),
        0xf0 => integer(rest, 3),
        0xfe => integer(rest, 1),
        0xf1..=0xfd => Some((Element::Integer(i64::from(form) - 0xf1), rest)),
        _ => None,
    }
}

fn string(bytes: &[u8], length: usize) -> Option<(Element<'_>, &[u8])> {
    let (string, rest) = bytes.split_at_checked(length)?;
    Some((Element::Bytes(string), rest))
}

fn integer(bytes: &[u8], length: usize) -> Option<(Element<'_>, &[u8])> {
    let (number, rest) = bytes.split_at_checked(length)?;
    let mut wide = [0; 8];
    wide[8 - length..].copy_from_slice(number);
    let number = i64::from_le_bytes(wide) >> (64 - 8 * length);
    Some((Element::Integer(number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The example of the format's public description: "2", "5" and then "Hello World".
    const EXAMPLE: &[u8] = b"\x1c\0\0\0\x0e\0\0\0\x03\0\0\xf3\x02\xf6\x02\x0bHello World\xff";

    #[test]
    fn the_example_is_read() {
        let expected = [
            Element::Integer(2),
            Element::Integer(5),
            Element::Bytes(b"Hello World"),
        ];
        assert!(open(EXAMPLE).unwrap().eq(expected));
        assert_eq!(open(b"\x0b\0\0\0\x0a\0\0\0\0\0\xff").unwrap().count(), 0);
    }

    #[test]
    fn integers_of_every_width_are_read() {
        for (bytes, number) in [
            (&b"\xfe\x80"[..], -128),
            (b"\xc0\x00\x80", -32_768),
            (b"\xf0\xff\xff\x7f", 8_388_607),
            (b"\xd0\xff\xff\xff\xff", -1),
            (b"\xe0\0\0\0\0\0\0\0\x80", i64::MIN),
            (b"\xf1", 0),
            (b"\xfd", 12),
        ] {
            assert_eq!(read(bytes), Some((Element::Integer(number), &[][..])));
        }
        assert_eq!(read(b"\xc1\0\0"), None);
    }

    #[test]
    fn long_strings_are_read() {
        for (head, length) in [(&b"\x41\x2c"[..], 300), (b"\x80\0\0\x4e\x20", 20_000)] {
            let bytes = [head, &vec![b'x'; length]].concat();
            let (element, rest) = read(&bytes).unwrap();
            assert_eq!(
                (element, rest.len()),
                (Element::Bytes(&vec![b'x'; length]), 0)
            );
        }
    }

    #[test]
    fn damage_is_found() {
        for cut in 0..EXAMPLE.len() {
            assert!(open(&EXAMPLE[..cut]).is_none(), "cut at {cut}");
        }
        // The frame, and the lengths that lead back.
        for at in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14] {
            let mut damaged = Vec::from(EXAMPLE);
            damaged[at] ^= 0x01;
            assert!(open(&damaged).is_none(), "byte {at}");
        }
    }
}
