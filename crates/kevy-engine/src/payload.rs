//! Redis's `DUMP` payload: one value as it stands in an RDB file, with a footer.
//!
//! ```text
//! [type: 1][value][RDB version: 2, little endian][CRC-64 (Jones) of everything before: 8, little endian]
//! string = [length][bytes]                    length: 00xxxxxx | 01xxxxxx +1 | 10000000 +4 | 10000001 +8 (big endian)
//!        | 11000000 +1 | 11000001 +2 | 11000010 +4       an integer, little endian
//!        | 11000011 [length packed][length plain][LZF]
//! ```

use crate::lzf;
use crate::number::parse_i64;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use crc::{CRC_64_REDIS, Crc, Table};
use kevy_proto::resp::ErrorReply;

/// The version that `DUMP` writes: Redis 7.0's, which every later version reads.
const VERSION_WRITTEN: u16 = 10;
/// The newest version that `RESTORE` reads: Redis 7.4's. Strings look the same in all.
const VERSION_READ: u16 = 12;
/// Version and checksum.
const FOOTER_BYTES: usize = 10;
/// The type byte of a string.
const TYPE_STRING: u8 = 0;
/// The longest string that is tried as an integer, as in Redis: the longest 32-bit integer.
const INTEGER_CHARS: usize = 11;

const CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The payload of a string.
pub fn dump_string(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(value.len() + FOOTER_BYTES + 10);
    payload.push(TYPE_STRING);
    put_string(&mut payload, value);
    payload.extend_from_slice(&VERSION_WRITTEN.to_le_bytes());
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// The string in a payload whose footer was checked. Bytes after the value are ignored, as Redis ignores them.
///
/// # Errors
/// `Bad data format`: damaged, or a type that is not known.
pub fn restore_string(body: &[u8]) -> Result<Cow<'_, [u8]>, ErrorReply> {
    let bad = ErrorReply::text("ERR Bad data format");
    match body.split_first() {
        Some((&TYPE_STRING, value)) => take_string(value).ok_or(bad),
        Some(_) | None => Err(bad),
    }
}

/// The payload without its footer.
///
/// # Errors
/// The version is newer than what is known here, or the checksum is wrong.
pub fn check_footer(payload: &[u8]) -> Result<&[u8], ErrorReply> {
    const BAD: ErrorReply = ErrorReply::text("ERR DUMP payload version or checksum are wrong");
    let (covered, checksum) = payload.split_last_chunk::<8>().ok_or(BAD)?;
    let (body, version) = covered.split_last_chunk::<2>().ok_or(BAD)?;
    let whole = u16::from_le_bytes(*version) <= VERSION_READ
        && u64::from_le_bytes(*checksum) == CHECKSUM.checksum(covered);
    if whole { Ok(body) } else { Err(BAD) }
}

fn put_string(out: &mut Vec<u8>, value: &[u8]) {
    let short = (value.len() <= INTEGER_CHARS).then_some(value);
    let integer = short
        .and_then(parse_i64)
        .and_then(|n| i32::try_from(n).ok());
    if let Some(integer) = integer {
        put_integer(out, integer);
    } else {
        put_length(out, value.len());
        out.extend_from_slice(value);
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

fn put_length(out: &mut Vec<u8>, length: usize) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    } else if let Ok(length) = u32::try_from(length) {
        out.push(0x80);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}

fn take_string(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        0xc0 => Some(decimal(i8::from_le_bytes(*rest.first_chunk()?).into())),
        0xc1 => Some(decimal(i16::from_le_bytes(*rest.first_chunk()?).into())),
        0xc2 => Some(decimal(i32::from_le_bytes(*rest.first_chunk()?).into())),
        0xc3 => {
            let (packed_len, rest) = take_length(rest)?;
            let (length, rest) = take_length(rest)?;
            lzf::decompress(rest.get(..packed_len)?, length).map(Cow::Owned)
        }
        _ => {
            let (length, rest) = take_length(bytes)?;
            rest.get(..length).map(Cow::Borrowed)
        }
    }
}

fn decimal(number: i64) -> Cow<'static, [u8]> {
    Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec())
}

fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        0x00..=0x3f => Some((usize::from(first), rest)),
        0x40..=0x7f => {
            let (&low, rest) = rest.split_first()?;
            Some((usize::from(first & 0x3f) << 8 | usize::from(low), rest))
        }
        0x80 => {
            let (length, rest) = rest.split_first_chunk()?;
            Some((u32::from_be_bytes(*length) as usize, rest))
        }
        0x81 => {
            let (length, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u64::from_be_bytes(*length)).ok()?, rest))
        }
        0x82..=0xff => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Payloads that redis-server 7.0.15 made, and their strings.
    const FROM_REDIS: [(&[u8], &[u8]); 6] = [
        (b"v", b"\x00\x01v\n\x00\x91\x08\xce\xb2\x198\x8a\xce"),
        (b"12", b"\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5"),
        (b"-129", b"\x00\xc1\x7f\xff\n\x00\x17`\x82(T\x80\x84\x80"),
        (
            b"70000",
            b"\x00\xc2p\x11\x01\x00\n\x00\x01\xa4\x08\xfe\x950\x95\xa5",
        ),
        (b"012", b"\x00\x03012\n\x00\x8fTc\xe9T~\xeb\x0c"),
        (
            b"2147483648",
            b"\x00\n2147483648\n\x00\xe7\xb1)\xa3L\x1dv\xee",
        ),
    ];

    #[test]
    fn payloads_equal_those_of_redis() {
        for (value, payload) in FROM_REDIS {
            assert_eq!(dump_string(value), payload);
            let body = check_footer(payload).unwrap();
            assert_eq!(restore_string(body).unwrap(), value);
        }
    }

    #[test]
    fn compressed_strings_are_read() {
        let payload = b"\x00\xc3\x0b@\xa8\x03abca\xe0\x99\x02\x01bc\n\x00\xe6\xd7f}\xcdB?\r";
        let body = check_footer(payload).unwrap();
        assert_eq!(restore_string(body).unwrap(), b"abc".repeat(56));
    }

    #[test]
    fn every_length_comes_back() {
        for length in [0, 63, 64, 16_383, 16_384, 100_000] {
            let value = vec![b'x'; length];
            let payload = dump_string(&value);
            let body = check_footer(&payload).unwrap();
            assert_eq!(restore_string(body).unwrap(), value);
        }
    }

    #[test]
    fn damage_is_found() {
        for (_, payload) in FROM_REDIS {
            for at in 0..payload.len() {
                let mut damaged = payload.to_vec();
                damaged[at] ^= 0x10;
                assert!(check_footer(&damaged).is_err());
                assert!(check_footer(&payload[..at]).is_err());
            }
        }
        for body in [
            &b""[..],
            b"\x00",
            b"\x63\x01a",
            b"\x00\x03ab",
            b"\x00\xc4\x0c",
            b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffa",
        ] {
            assert!(restore_string(body).is_err(), "{body:?}");
        }
    }
}
