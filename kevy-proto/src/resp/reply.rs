//! A reply as a value that owns its bytes: what a client receives, and what a shard sends to the shard that asked it.

use super::encode::{put_bulk, put_header};
use super::{Encoder, RespVersion};
use alloc::vec::Vec;
use bytes::{BufMut, Bytes, BytesMut};

/// One reply of RESP2 or RESP3. Cloning shares the bytes of strings.
///
/// Attributes are no part of it: RESP3 lets a receiver skip them, and [`super::ReplyDecoder`] does.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A line of text without CR and LF: `+OK`.
    Simple(Bytes),
    /// An error, its code first: `-ERR ...`, or RESP3's `!` if it has several lines.
    Error(Bytes),
    /// `:1`
    Integer(i64),
    /// `,1.5`
    Double(f64),
    /// `#t`
    Boolean(bool),
    /// An integer of any size, in digits: `(12345678901234567890`.
    BigNumber(Bytes),
    /// A binary-safe string: `$2`.
    Bulk(Bytes),
    /// Text with a format, as `txt` or `mkd`: `=6`.
    Verbatim {
        /// The three letters.
        format: [u8; 3],
        /// The text.
        text: Bytes,
    },
    /// No value: RESP2's `$-1` and RESP3's `_`.
    Null,
    /// RESP2's `*-1`. RESP3 has one null only.
    NullArray,
    /// `*2`
    Array(Vec<Reply>),
    /// Keys and values in the order they were sent in: `%1`.
    Map(Vec<(Reply, Reply)>),
    /// `~2`
    Set(Vec<Reply>),
    /// An out-of-band message, its kind first: `>2`.
    Push(Vec<Reply>),
}

impl Reply {
    /// `+OK`.
    pub const OK: Self = Self::Simple(Bytes::from_static(b"OK"));

    /// Appends the reply in its own form, so that decoding gives an equal value: a map stays a map, `Null` is `$-1`, which
    /// receivers of both versions know.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Null => out.extend_from_slice(b"$-1\r\n"),
            Self::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Self::Error(text) if memchr::memchr2(b'\r', b'\n', text).is_some() => {
                put_bulk(out, b'!', text);
            }
            Self::Error(text) => put_line(out, b'-', text),
            Self::Array(items) => encode_all(out, b'*', items),
            Self::Set(items) => encode_all(out, b'~', items),
            Self::Push(items) => encode_all(out, b'>', items),
            Self::Map(pairs) => {
                put_header(out, b'%', pairs.len() as i64);
                for (key, value) in pairs {
                    key.encode(out);
                    value.encode(out);
                }
            }
            Self::Simple(_)
            | Self::Integer(_)
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::BigNumber(_)
            | Self::Bulk(_)
            | Self::Verbatim { .. } => self.write(&mut Encoder::new(out, RespVersion::V3)),
        }
    }

    /// Writes the reply in the encoder's version: a map becomes an array in RESP2, and an error is always one line.
    pub fn write(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Simple(text) => encoder.line(b'+', text),
            Self::Error(text) => encoder.error_line(text),
            Self::Integer(number) => encoder.integer(*number),
            Self::Double(number) => encoder.double(*number),
            Self::Boolean(value) => encoder.boolean(*value),
            Self::BigNumber(digits) => encoder.big_number_bytes(digits),
            Self::Bulk(bytes) => encoder.bulk(bytes),
            Self::Verbatim { format, text } => encoder.verbatim(format, text),
            Self::Null => encoder.null(),
            Self::NullArray => encoder.null_array(),
            Self::Array(items) => {
                encoder.array(items.len());
                write_all(items, encoder);
            }
            Self::Set(items) => {
                encoder.set(items.len());
                write_all(items, encoder);
            }
            Self::Push(items) => {
                encoder.push(items.len());
                write_all(items, encoder);
            }
            Self::Map(pairs) => {
                encoder.map(pairs.len());
                for (key, value) in pairs {
                    key.write(encoder);
                    value.write(encoder);
                }
            }
        }
    }

    /// The bytes of a string of any kind: simple, bulk or verbatim.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Simple(text) | Self::Bulk(text) | Self::Verbatim { text, .. } => Some(text),
            Self::Error(_)
            | Self::Integer(_)
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::BigNumber(_)
            | Self::Null
            | Self::NullArray
            | Self::Array(_)
            | Self::Map(_)
            | Self::Set(_)
            | Self::Push(_) => None,
        }
    }
}

fn put_line(out: &mut BytesMut, kind: u8, text: &[u8]) {
    out.put_u8(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn encode_all(out: &mut BytesMut, kind: u8, items: &[Reply]) {
    put_header(out, kind, items.len() as i64);
    for item in items {
        item.encode(out);
    }
}

fn write_all(items: &[Reply], encoder: &mut Encoder<'_>) {
    for item in items {
        item.write(encoder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn resp2_clients_get_the_resp2_form() {
        let reply = Reply::Map(vec![
            (Reply::Bulk(Bytes::from_static(b"k")), Reply::Double(0.5)),
            (Reply::Null, Reply::Boolean(true)),
            (
                Reply::Error(Bytes::from_static(b"ERR a\r\nb")),
                Reply::NullArray,
            ),
        ]);
        let mut out = BytesMut::new();
        reply.write(&mut Encoder::new(&mut out, RespVersion::V2));
        let expected = b"*6\r\n$1\r\nk\r\n$3\r\n0.5\r\n$-1\r\n:1\r\n-ERR a  b\r\n*-1\r\n";
        assert_eq!(out, expected[..]);

        out.clear();
        reply.encode(&mut out);
        let expected = b"%3\r\n$1\r\nk\r\n,0.5\r\n$-1\r\n#t\r\n!8\r\nERR a\r\nb\r\n*-1\r\n";
        assert_eq!(out, expected[..]);
    }
}
