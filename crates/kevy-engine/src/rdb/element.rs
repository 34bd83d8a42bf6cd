//! Elements packed one after the other in bytes, to be walked in both directions.
//!
//! ```text
//! element  = [form and data][length of form and data: 1 to 5 bytes, read from the right]
//! integers   0xxxxxxx: 7 bits | 110xxxxx +1: 13 bits | f1 +2 | f2 +3 | f3 +4 | f4 +8 (signed, little endian)
//! strings    10xxxxxx: up to 63 bytes | 1110xxxx +1: up to 4095 | f0 +4 (little endian): up to 4 GiB
//! ```
//!
//! This is Redis's listpack (<https://github.com/antirez/listpack/blob/master/listpack.md>) without header and end mark.
//! The same sizes matter: `XTRIM ~` removes whole blocks, and where blocks end depends on the bytes in them.

use crate::number::parse_i64;
use alloc::vec::Vec;

/// What Redis's header and end mark add to the bytes here.
pub(crate) const FRAME_BYTES: usize = 7;

/// One element: a string whose text is a 64-bit integer is kept as that integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// An integer; its canonical text is the element's.
    Integer(i64),
    /// Any other string.
    Bytes(&'a [u8]),
}

impl Element<'_> {
    /// Whether the element's text is `text`.
    pub fn is(self, text: &[u8]) -> bool {
        match self {
            Self::Integer(number) => itoa::Buffer::new().format(number).as_bytes() == text,
            Self::Bytes(bytes) => bytes == text,
        }
    }

    /// Calls `see` with the element's text.
    pub fn with_text<R>(self, see: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Integer(number) => see(itoa::Buffer::new().format(number).as_bytes()),
            Self::Bytes(bytes) => see(bytes),
        }
    }

    /// The integer that the element is kept as.
    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }
}

/// Appends an element, its text in the form that is shortest.
pub(crate) fn push(out: &mut Vec<u8>, element: Element<'_>) {
    match element {
        Element::Integer(number) => push_integer(out, number),
        Element::Bytes(bytes) => push_bytes(out, bytes),
    }
}

/// Appends an integer.
pub(crate) fn push_integer(out: &mut Vec<u8>, number: i64) {
    let start = out.len();
    match number {
        0..=127 => out.push(number as u8),
        -4096..=4095 => out.extend_from_slice(&(0xc000 | number as u16 & 0x1fff).to_be_bytes()),
        -0x8000..=0x7fff => push_wide(out, 0xf1, number, 2),
        -0x0080_0000..=0x007f_ffff => push_wide(out, 0xf2, number, 3),
        -0x8000_0000..=0x7fff_ffff => push_wide(out, 0xf3, number, 4),
        _ => push_wide(out, 0xf4, number, 8),
    }
    push_length(out, start);
}

fn push_wide(out: &mut Vec<u8>, form: u8, number: i64, bytes: usize) {
    out.push(form);
    out.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

/// Appends a string of less than 4 GiB.
pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    if let Some(number) = parse_i64(bytes) {
        return push_integer(out, number);
    }
    let start = out.len();
    match bytes.len() {
        length @ 0..64 => out.push(0x80 | length as u8),
        length @ 64..4096 => out.extend_from_slice(&(0xe000 | length as u16).to_be_bytes()),
        length => {
            out.push(0xf0);
            out.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(bytes);
    push_length(out, start);
}

/// Bytes that [`push_integer`] appends.
pub(crate) fn integer_bytes(number: i64) -> usize {
    match number {
        0..=127 => 2,
        -4096..=4095 => 3,
        -0x8000..=0x7fff => 4,
        -0x0080_0000..=0x007f_ffff => 5,
        -0x8000_0000..=0x7fff_ffff => 6,
        _ => 10,
    }
}

/// Ends the element that began at `start`: writes its length so that it is read from the right, the high bit of a byte
/// saying that more are to its left.
fn push_length(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    let bytes = length_bytes(length);
    for place in (0..bytes).rev() {
        let more = if place + 1 == bytes { 0 } else { 0x80 };
        out.push((length >> (7 * place)) as u8 & 0x7f | more);
    }
}

/// Bytes that the length `length` takes.
fn length_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// The element at `at`, and where the next one begins; `None` at the end.
pub(crate) fn read(bytes: &[u8], at: usize) -> Option<(Element<'_>, usize)> {
    let (&form, data) = bytes.get(at..)?.split_first()?;
    let (element, length) = match form {
        0..=0x7f => (Element::Integer(i64::from(form)), 1),
        0x80..=0xbf => read_bytes(data, 1, usize::from(form & 0x3f))?,
        0xc0..=0xdf => {
            let bits = u16::from(form & 0x1f) << 8 | u16::from(*data.first()?);
            // The thirteen bits' sign moves to the top and comes back.
            (Element::Integer(i64::from((bits << 3) as i16 >> 3)), 2)
        }
        0xe0..=0xef => {
            let length = usize::from(form & 0x0f) << 8 | usize::from(*data.first()?);
            read_bytes(data, 2, length)?
        }
        0xf0 => read_bytes(data, 5, u32::from_le_bytes(*data.first_chunk()?) as usize)?,
        0xf1 => (Element::Integer(read_wide(data, 2)?), 3),
        0xf2 => (Element::Integer(read_wide(data, 3)?), 4),
        0xf3 => (Element::Integer(read_wide(data, 4)?), 5),
        0xf4 => (Element::Integer(read_wide(data, 8)?), 9),
        _ => return None,
    };
    Some((element, at + length + length_bytes(length)))
}

/// A string of `length` bytes after a form of `form_bytes`, the first of which is not in `data`.
fn read_bytes(data: &[u8], form_bytes: usize, length: usize) -> Option<(Element<'_>, usize)> {
    let string = data.get(form_bytes - 1..)?.get(..length)?;
    Some((Element::Bytes(string), form_bytes + length))
}

fn read_wide(data: &[u8], bytes: usize) -> Option<i64> {
    let mut wide = [0; 8];
    wide[8 - bytes..].copy_from_slice(data.get(..bytes)?);
    Some(i64::from_le_bytes(wide) >> (64 - 8 * bytes))
}

/// The integer at `at`, and where the next element begins.
pub(crate) fn read_integer(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let (element, next) = read(bytes, at)?;
    Some((element.integer()?, next))
}

/// Where the element begins that ends at `end`; `None` at the start.
pub(crate) fn before(bytes: &[u8], end: usize) -> Option<usize> {
    let (mut length, mut shift, mut at) = (0_usize, 0, end);
    loop {
        at = at.checked_sub(1)?;
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return at.checked_sub(length);
        }
        shift += 7;
        if shift > 28 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    fn check(text: &[u8], expected_bytes: usize) {
        let mut packed = vec![5, 1];
        push_bytes(&mut packed, text);
        assert_eq!(packed.len() - 2, expected_bytes, "{}", text.len());
        let (element, next) = read(&packed, 2).unwrap();
        assert!(element.is(text), "{element:?}");
        assert_eq!(next, packed.len());
        assert_eq!(before(&packed, next), Some(2));
        assert_eq!(before(&packed, 2), Some(0));
        assert_eq!(before(&packed, 0), None);
        assert_eq!(read(&packed, next), None);
    }

    #[test]
    fn integers_take_as_many_bytes_as_in_redis() {
        for (number, bytes) in [
            (0, 2),
            (127, 2),
            (128, 3),
            (-1, 3),
            (4095, 3),
            (-4096, 3),
            (4096, 4),
            (-4097, 4),
            (32767, 4),
            (-32768, 4),
            (32768, 5),
            (-32769, 5),
            (8_388_607, 5),
            (-8_388_608, 5),
            (8_388_608, 6),
            (-8_388_609, 6),
            (2_147_483_647, 6),
            (-2_147_483_648, 6),
            (2_147_483_648, 10),
            (-2_147_483_649, 10),
            (i64::MAX, 10),
            (i64::MIN, 10),
        ] {
            check(number.to_string().as_bytes(), bytes);
            assert_eq!(integer_bytes(number), bytes);
        }
    }

    #[test]
    fn strings_take_as_many_bytes_as_in_redis() {
        for (length, bytes) in [
            (0, 2),
            (63, 65),
            (64, 67),
            (125, 128),
            (126, 130),
            (4095, 4099),
            (4096, 4103),
            (16_377, 16_384),
            (16_378, 16_386),
            (2_097_146, 2_097_155),
        ] {
            check(&vec![b'x'; length], bytes);
        }
    }

    proptest! {
        #[test]
        fn elements_come_back_in_both_directions(texts in prop::collection::vec(
            prop_oneof![any::<i64>().prop_map(|n| n.to_string().into_bytes()), prop::collection::vec(any::<u8>(), 0..200)], 0..20)) {
            let mut packed = Vec::new();
            texts.iter().for_each(|text| push_bytes(&mut packed, text));
            let mut at = 0;
            for text in &texts {
                let (element, next) = read(&packed, at).unwrap();
                prop_assert!(element.is(text));
                prop_assert!(element.with_text(|seen| seen == text));
                at = next;
            }
            for text in texts.iter().rev() {
                at = before(&packed, at).unwrap();
                prop_assert!(read(&packed, at).unwrap().0.is(text));
            }
            prop_assert_eq!(at, 0);
        }

        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0..50_usize) {
            let _ = (read(&bytes, at), before(&bytes, at));
        }
    }
}
