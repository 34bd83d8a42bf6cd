//! What values are made of: lengths, strings, numbers.
//!
//! ```text
//! string = [length][bytes]                    length: 00xxxxxx | 01xxxxxx +1 | 10000000 +4 | 10000001 +8 (big endian)
//!        | 11000000 +1 | 11000001 +2 | 11000010 +4       an integer, little endian
//!        | 11000011 [length packed][length plain][LZF]
//! ```

use super::lzf;
use crate::double;
use crate::number::parse_i64;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// The longest string that is tried as an integer, as in Redis: the longest 32-bit integer.
const INTEGER_CHARS: usize = 11;

/// Reads one thing after the other; `None` says that the bytes are damaged.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// One byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }

    /// A length or another unsigned number.
    pub fn length(&mut self) -> Option<u64> {
        let first = self.byte()?;
        match first {
            0x00..=0x3f => Some(u64::from(first)),
            0x40..=0x7f => Some(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            0x80 => Some(u32::from_be_bytes(self.array()?).into()),
            0x81 => Some(u64::from_be_bytes(self.array()?)),
            0x82..=0xff => None,
        }
    }

    /// A string, however it is written.
    pub fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        let whole = self.rest;
        match self.byte()? {
            0xc0 => Some(decimal(i8::from_le_bytes(self.array()?).into())),
            0xc1 => Some(decimal(i16::from_le_bytes(self.array()?).into())),
            0xc2 => Some(decimal(i32::from_le_bytes(self.array()?).into())),
            0xc3 => {
                let (packed, plain) = (self.length()?, self.length()?);
                let packed = self.bytes(packed)?;
                lzf::decompress(packed, usize::try_from(plain).ok()?).map(Cow::Owned)
            }
            _ => {
                self.rest = whole;
                let length = self.length()?;
                self.bytes(length).map(Cow::Borrowed)
            }
        }
    }

    /// A double in binary that is a number.
    pub(super) fn double(&mut self) -> Option<f64> {
        let number = f64::from_le_bytes(self.array()?);
        (!number.is_nan()).then_some(number)
    }

    /// A double as text that is a number.
    pub(super) fn double_text(&mut self) -> Option<f64> {
        match self.byte()? {
            255 => Some(f64::NEG_INFINITY),
            254 => Some(f64::INFINITY),
            253 => None,
            length => double::parse(self.bytes(length.into())?),
        }
    }

    /// A time in milliseconds.
    pub(super) fn milliseconds(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}

fn decimal(number: i64) -> Cow<'static, [u8]> {
    Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec())
}

/// Appends a string; one that is a 32-bit integer as that.
pub fn put_string(out: &mut Vec<u8>, value: &[u8]) {
    let short = (value.len() <= INTEGER_CHARS).then_some(value);
    let integer = short
        .and_then(parse_i64)
        .and_then(|n| i32::try_from(n).ok());
    match integer {
        Some(integer) => put_integer(out, integer),
        None => put_bytes(out, value),
    }
}

fn put_integer(out: &mut Vec<u8>, integer: i32) {
    if let Ok(integer) = i8::try_from(integer) {
        out.push(0xc0);
        out.extend_from_slice(&integer.to_le_bytes());
    } else if let Ok(integer) = i16::try_from(integer) {
        out.push(0xc1);
        out.extend_from_slice(&integer.to_le_bytes());
    } else {
        out.push(0xc2);
        out.extend_from_slice(&integer.to_le_bytes());
    }
}

/// Appends a string as it is.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length or another unsigned number.
pub fn put_length(out: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    } else if let Ok(length) = u32::try_from(length) {
        out.push(0x80);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_length_comes_back() {
        for length in [
            0,
            63,
            64,
            16_383,
            16_384,
            u64::from(u32::MAX),
            1 << 32,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            put_length(&mut bytes, length);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.length(), Some(length));
            assert_eq!(reader.rest(), b"");
        }
    }

    #[test]
    fn strings_come_back() {
        let long = vec![b'x'; 100_000];
        for text in [&b""[..], b"-128", b"32767", b"2147483648", b"012", &long] {
            let mut bytes = Vec::new();
            put_string(&mut bytes, text);
            assert_eq!(Reader::new(&bytes).string().as_deref(), Some(text));
            for cut in 0..bytes.len().min(20) {
                assert_eq!(Reader::new(&bytes[..cut]).string(), None);
            }
        }
    }

    #[test]
    fn damage_is_found() {
        for bytes in [
            &b"\x03ab"[..],
            b"\xc4\x0c",
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xffa",
            b"\xc3\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00a",
        ] {
            assert_eq!(Reader::new(bytes).string(), None, "{bytes:?}");
        }
    }

    #[test]
    fn doubles_are_read() {
        assert_eq!(Reader::new(b"\x031.5").double_text(), Some(1.5));
        assert_eq!(Reader::new(b"\xff").double_text(), Some(f64::NEG_INFINITY));
        assert_eq!(Reader::new(b"\xfd").double_text(), None);
        assert_eq!(Reader::new(b"\x03nan").double_text(), None);
        let nan = f64::NAN.to_le_bytes();
        assert_eq!(Reader::new(&nan).double(), None);
    }
}
