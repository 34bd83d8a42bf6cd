//! Headers: the lines that announce how many arguments or elements follow (`*3`), or how many bytes (`$16`).

use super::ProtocolError;

/// Longest header that is accepted without a look at [`super::Limits::header_bytes`]: its kind and ten digits.
pub(super) const USUAL_HEADER_BYTES: usize = 1 + USUAL_DIGITS;
const USUAL_DIGITS: usize = 10;
/// A header's line end. Redis looks at the first of its bytes only.
pub(super) const LINE_END_BYTES: usize = 2;

#[derive(Clone, Copy)]
pub(super) enum HeaderKind {
    Count,
    Bulk,
}

impl HeaderKind {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Count => b'*',
            Self::Bulk => b'$',
        }
    }

    pub(super) fn invalid(self) -> ProtocolError {
        match self {
            Self::Count => ProtocolError::InvalidMultibulkLength,
            Self::Bulk => ProtocolError::InvalidBulkLength,
        }
    }

    pub(super) fn too_long(self) -> ProtocolError {
        match self {
            Self::Count => ProtocolError::TooBigMultibulkCount,
            Self::Bulk => ProtocolError::TooBigBulkCount,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) number: usize,
    /// Bytes of the header with its line end.
    pub(super) length_bytes: usize,
}

/// A whole header with a short number that is not negative: all that honest clients send. `None` means: look closer.
#[inline]
pub(super) fn usual_header(line: &[u8], kind: u8) -> Option<Header> {
    // Almost every header has one or two digits: their bytes are looked at together, before any loop.
    let (number, length_bytes) = match *line {
        [first, digit @ b'0'..=b'9', b'\r', _, ..] if first == kind => {
            (usize::from(digit - b'0'), 4)
        }
        [first, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] if first == kind => {
            (usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), 5)
        }
        [first, ref digits @ ..] if first == kind => {
            let (number, length) = unsigned(digits)?;
            // The kind, the digits, and a line end of which the second byte only has to be there.
            let length_bytes = 1 + length + LINE_END_BYTES;
            (length_bytes <= line.len()).then_some((number, length_bytes))?
        }
        _ => return None,
    };
    Some(Header {
        number,
        length_bytes,
    })
}

/// A number of few digits before a CR, and how many digits it has.
fn unsigned(digits: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0_usize;
    for (at, byte) in digits.iter().enumerate().take(USUAL_DIGITS + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (*byte == b'\r' && at > 0).then_some((number, at));
        }
        // Leading zeros are wrong.
        if at > 0 && number == 0 {
            return None;
        }
        number = number * 10 + usize::from(digit);
    }
    None
}

/// A number as Redis reads it: no plus, no leading zeros, no `-0`, within 64 bits.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let negative = digits.len() < text.len();
    let canonical = match digits {
        [b'0'] => !negative,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = core::str::from_utf8(text).ok()?;
    canonical.then(|| text.parse().ok()).flatten()
}
