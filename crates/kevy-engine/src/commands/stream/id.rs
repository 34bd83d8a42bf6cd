//! Ids as clients write them: `ms-seq`, `ms`, and the ends of ranges `-`, `+` and `(id`.

use crate::number::parse_i64;
use crate::value::stream::StreamId;
use kevy_proto::resp::ErrorReply;

const INVALID: ErrorReply =
    ErrorReply::text("ERR Invalid stream ID specified as stream command argument");
/// The longest text that is looked at, in bytes, as in Redis.
const LONGEST_BYTES: usize = 127;

/// The id of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewId {
    /// `*`: the time, or the number after the last one.
    Auto,
    /// `ms-*`: the next one of this time.
    AutoSeq(u64),
    /// Exactly this one.
    Exact(StreamId),
}

/// An id; where the sequence number is missing it is `missing_seq`.
///
/// # Errors
/// It is none.
pub(super) fn parse_with(text: &[u8], missing_seq: u64) -> Result<StreamId, ErrorReply> {
    parse_parts(text, missing_seq).ok_or(INVALID)
}

/// An id; where the sequence number is missing it is 0.
///
/// # Errors
/// It is none.
pub(super) fn parse(text: &[u8]) -> Result<StreamId, ErrorReply> {
    parse_with(text, 0)
}

/// The id of a new entry.
///
/// # Errors
/// It is none.
pub(super) fn parse_new(text: &[u8]) -> Result<NewId, ErrorReply> {
    let text = to_zero_byte(text).ok_or(INVALID)?;
    if text == b"*" {
        return Ok(NewId::Auto);
    }
    match text.strip_suffix(b"-*") {
        Some(ms) => parse_u64(ms).map(NewId::AutoSeq).ok_or(INVALID),
        None => parse(text).map(NewId::Exact),
    }
}

/// The lowest id of a range.
///
/// # Errors
/// It is none, or there is no id above it.
pub(super) fn parse_start(text: &[u8]) -> Result<StreamId, ErrorReply> {
    match excluded(text) {
        Some(id) => parse(id)?
            .next()
            .ok_or(ErrorReply::text("ERR invalid start ID for the interval")),
        None => parse_bound(text, 0),
    }
}

/// The highest id of a range.
///
/// # Errors
/// It is none, or there is no id below it.
pub(super) fn parse_end(text: &[u8]) -> Result<StreamId, ErrorReply> {
    match excluded(text) {
        Some(id) => parse_with(id, u64::MAX)?
            .previous()
            .ok_or(ErrorReply::text("ERR invalid end ID for the interval")),
        None => parse_bound(text, u64::MAX),
    }
}

/// An id, or `-` for the lowest and `+` for the highest.
///
/// # Errors
/// It is none.
pub(super) fn parse_bound(text: &[u8], missing_seq: u64) -> Result<StreamId, ErrorReply> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => parse_with(text, missing_seq),
    }
}

fn excluded(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(").filter(|id| !id.is_empty())
}

fn parse_parts(text: &[u8], missing_seq: u64) -> Option<StreamId> {
    let text = to_zero_byte(text)?;
    match memchr::memchr(b'-', text) {
        None => Some(StreamId {
            ms: parse_u64(text)?,
            seq: missing_seq,
        }),
        Some(minus) => Some(StreamId {
            ms: parse_u64(&text[..minus])?,
            seq: parse_u64(&text[minus + 1..])?,
        }),
    }
}

/// The part before the first zero byte, unless the whole is too long.
fn to_zero_byte(text: &[u8]) -> Option<&[u8]> {
    if text.len() > LONGEST_BYTES {
        return None;
    }
    Some(&text[..memchr::memchr(0, text).unwrap_or(text.len())])
}

/// A number of 64 bits as Redis reads it here: in canonical form, or whatever C's `strtoull` takes as a whole: spaces and
/// a sign in front, leading zeros, and a minus that counts down from the highest number.
fn parse_u64(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if negative {
        number.wrapping_neg()
    } else {
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let id = |ms, seq| Some(StreamId { ms, seq });
        let max = u64::MAX;
        // Each observed on redis-server 7.0.15.
        let cases: [(&[u8], Option<StreamId>); 20] = [
            (b"5", id(5, 9)),
            (b"5-1", id(5, 1)),
            (b"007", id(7, 9)),
            (b"+8", id(8, 9)),
            (b" 11", id(11, 9)),
            (b"9-+1", id(9, 1)),
            (b"9--03", id(9, max - 2)),
            (b"10--01", id(10, max)),
            (b"18446744073709551615-18446744073709551615", id(max, max)),
            (b"5-1\0x", id(5, 1)),
            (b"9--3", None),
            (b"11-", None),
            (b"11-1-1", None),
            (b"-11", None),
            (b"18446744073709551616", None),
            (b"", None),
            (b" ", None),
            (b"+", None),
            (b"-", None),
            (b"1 ", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_with(text, 9).ok(), expected, "{text:?}");
        }
        assert_eq!(parse(&[b'0'; 128]), Err(INVALID));
        assert_eq!(parse(&[b'0'; 127]), Ok(StreamId::MIN));
    }

    #[test]
    fn ranges_may_exclude_their_ends() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(parse_start(b"-"), Ok(StreamId::MIN));
        assert_eq!(parse_start(b"(5"), Ok(id(5, 1)));
        assert_eq!(parse_end(b"5"), Ok(id(5, u64::MAX)));
        assert_eq!(parse_end(b"(5"), Ok(id(5, u64::MAX - 1)));
        assert_eq!(parse_end(b"(5-0"), Ok(id(4, u64::MAX)));
        for text in [&b"("[..], b"(-", b"(+", b"((1"] {
            assert_eq!(parse_start(text), Err(INVALID));
            assert_eq!(parse_end(text), Err(INVALID));
        }
    }

    #[test]
    fn new_entries_may_leave_the_number_open() {
        assert_eq!(parse_new(b"*"), Ok(NewId::Auto));
        assert_eq!(parse_new(b"5-*"), Ok(NewId::AutoSeq(5)));
        assert_eq!(
            parse_new(b"5-5"),
            Ok(NewId::Exact(StreamId { ms: 5, seq: 5 }))
        );
        for text in [&b"**"[..], b"-*", b"x-*", b"5-1-*", b"5-**"] {
            assert_eq!(parse_new(text), Err(INVALID), "{text:?}");
        }
    }
}
