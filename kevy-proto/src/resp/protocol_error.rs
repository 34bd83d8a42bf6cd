//! What is wrong with bytes that are no RESP. There is no way to find the next request or reply after such bytes: whoever
//! sees one of these errors closes the connection.

use bytes::{BufMut, BytesMut};
use core::fmt;

/// A peer broke the rules of RESP. The first seven are clients' errors, in Redis's words; the rest are found in replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is no number, or beyond its limit.
    InvalidMultibulkLength,
    /// The length of an argument is no number, negative, or beyond its limit.
    InvalidBulkLength,
    /// An argument starts with this byte instead of `$`.
    ExpectedBulk(u8),
    /// An inline command has a quote without end, or a word right after a closing quote.
    UnbalancedQuotes,
    /// An inline command is beyond its limit.
    TooBigInlineRequest,
    /// The line with the number of arguments is beyond its limit.
    TooBigMultibulkCount,
    /// The line with an argument's length is beyond its limit.
    TooBigBulkCount,
    /// A reply starts with this byte, which is no type of RESP2 or RESP3.
    UnknownType(u8),
    /// A reply's line is not what its type says: no number, no boolean, no double.
    InvalidLine,
    /// A reply's string does not end with CR LF.
    MissingLineEnd,
    /// A reply's length is negative or beyond its limit.
    InvalidLength,
    /// A reply's arrays are nested beyond their limit.
    TooDeep,
}

impl ProtocolError {
    /// Appends the error as a reply: `-ERR Protocol error: ...` with its line end.
    pub fn encode(self, out: &mut BytesMut) {
        out.extend_from_slice(b"-ERR Protocol error: ");
        let (before, quoted, after) = self.parts();
        out.extend_from_slice(before.as_bytes());
        if let Some(byte) = quoted {
            out.put_u8(on_one_line(byte));
        }
        out.extend_from_slice(after.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    /// The text before a quoted byte, that byte, the text after it.
    fn parts(self) -> (&'static str, Option<u8>, &'static str) {
        match self {
            Self::InvalidMultibulkLength => ("invalid multibulk length", None, ""),
            Self::InvalidBulkLength => ("invalid bulk length", None, ""),
            Self::ExpectedBulk(byte) => ("expected '$', got '", Some(byte), "'"),
            Self::UnbalancedQuotes => ("unbalanced quotes in request", None, ""),
            Self::TooBigInlineRequest => ("too big inline request", None, ""),
            Self::TooBigMultibulkCount => ("too big mbulk count string", None, ""),
            Self::TooBigBulkCount => ("too big bulk count string", None, ""),
            Self::UnknownType(byte) => ("unknown type '", Some(byte), "' in reply"),
            Self::InvalidLine => ("invalid line in reply", None, ""),
            Self::MissingLineEnd => ("missing line end in reply", None, ""),
            Self::InvalidLength => ("invalid length in reply", None, ""),
            Self::TooDeep => ("reply is nested too deeply", None, ""),
        }
    }
}

/// An error reply is one line whatever it quotes.
fn on_one_line(byte: u8) -> u8 {
    match byte {
        b'\r' | b'\n' => b' ',
        other => other,
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, quoted, after) = self.parts();
        write!(f, "Protocol error: {before}")?;
        if let Some(byte) = quoted {
            write!(f, "{}", on_one_line(byte).escape_ascii())?;
        }
        f.write_str(after)
    }
}

impl core::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_line_quotes_the_byte_itself_and_the_text_escapes_it() {
        for (byte, line, text) in [
            (b'x', &b"'x'"[..], "'x'"),
            (b'\r', b"' '", "' '"),
            (0xff, b"'\xff'", "'\\xff'"),
        ] {
            let mut out = BytesMut::new();
            ProtocolError::ExpectedBulk(byte).encode(&mut out);
            let expected = [b"-ERR Protocol error: expected '$', got ", line, b"\r\n"].concat();
            assert_eq!(out, expected);
            let display = ProtocolError::ExpectedBulk(byte).to_string();
            assert_eq!(
                display,
                alloc::format!("Protocol error: expected '$', got {text}")
            );
        }
    }
}
