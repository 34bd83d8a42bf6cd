//! Writes replies. One encoder serves RESP2 and RESP3: a command says what it means (a map, a double, nothing) and the
//! encoder says it in the client's version, as Redis does.

use super::{DoubleBuffer, ErrorReply};
use bytes::{BufMut, BytesMut};

/// The protocol version a client speaks; RESP2 until it sends `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// RESP2: strings, errors, integers, bulks, arrays.
    #[default]
    V2,
    /// RESP3: also maps, sets, doubles, booleans, nulls, pushes.
    V3,
}

/// Appends replies to a buffer.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut BytesMut,
    version: RespVersion,
}

impl<'a> Encoder<'a> {
    /// Writes to the end of `out` in `version`.
    pub fn new(out: &'a mut BytesMut, version: RespVersion) -> Self {
        Self { out, version }
    }

    /// The version replies are written in.
    pub fn version(&self) -> RespVersion {
        self.version
    }

    /// Bytes in the buffer: a mark to go back to with [`Encoder::truncate`].
    pub fn mark(&self) -> usize {
        self.out.len()
    }

    /// Takes back everything written since `mark`.
    pub fn truncate(&mut self, mark: usize) {
        self.out.truncate(mark);
    }

    /// Appends bytes that are RESP already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A simple string; `text` must not hold CR or LF.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, on one line whatever it quotes.
    pub fn error(&mut self, error: &ErrorReply) {
        self.out.put_u8(b'-');
        error.render(self.out);
        self.raw(b"\r\n");
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// A length as an integer.
    pub fn length(&mut self, length: usize) {
        self.integer(length as i64);
    }

    /// A binary-safe string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        put_bulk(self.out, b'$', bytes);
    }

    /// A number as a bulk string.
    pub fn bulk_integer(&mut self, number: i64) {
        let mut digits = itoa::Buffer::new();
        self.bulk(digits.format(number).as_bytes());
    }

    /// A bulk string, or null if there is none.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// No value (`$-1` in RESP2).
    pub fn null(&mut self) {
        match self.version {
            RespVersion::V2 => self.raw(b"$-1\r\n"),
            RespVersion::V3 => self.raw(b"_\r\n"),
        }
    }

    /// No array (`*-1` in RESP2).
    pub fn null_array(&mut self) {
        match self.version {
            RespVersion::V2 => self.raw(b"*-1\r\n"),
            RespVersion::V3 => self.raw(b"_\r\n"),
        }
    }

    /// Starts an array of `length` elements, which the caller writes next.
    pub fn array(&mut self, length: usize) {
        self.header(b'*', length as i64);
    }

    /// Starts a map of `pairs` keys and values (an array of twice as many elements in RESP2).
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            RespVersion::V2 => self.array(pairs * 2),
            RespVersion::V3 => self.header(b'%', pairs as i64),
        }
    }

    /// Starts a set of `length` elements.
    pub fn set(&mut self, length: usize) {
        match self.version {
            RespVersion::V2 => self.array(length),
            RespVersion::V3 => self.header(b'~', length as i64),
        }
    }

    /// Starts an out-of-band message of `length` elements.
    pub fn push(&mut self, length: usize) {
        match self.version {
            RespVersion::V2 => self.array(length),
            RespVersion::V3 => self.header(b'>', length as i64),
        }
    }

    /// True or false (1 or 0 in RESP2).
    pub fn boolean(&mut self, value: bool) {
        match (self.version, value) {
            (RespVersion::V2, _) => self.integer(i64::from(value)),
            (RespVersion::V3, true) => self.raw(b"#t\r\n"),
            (RespVersion::V3, false) => self.raw(b"#f\r\n"),
        }
    }

    /// A double (a bulk string in RESP2), written as [`DoubleBuffer`] writes it.
    pub fn double(&mut self, number: f64) {
        let mut buffer = DoubleBuffer::new();
        let text = buffer.format(number).as_bytes();
        match self.version {
            RespVersion::V2 => self.bulk(text),
            RespVersion::V3 => self.line(b',', text),
        }
    }

    /// An integer of any size, `digits` with an optional minus (a bulk string in RESP2).
    pub fn big_number(&mut self, digits: &str) {
        debug_assert!(!digits.contains(['\r', '\n']), "a big number is one line");
        match self.version {
            RespVersion::V2 => self.bulk(digits.as_bytes()),
            RespVersion::V3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Text with a three-letter format (`txt`, `mkd`); a bulk string in RESP2.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.version {
            RespVersion::V2 => self.bulk(text),
            RespVersion::V3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.raw(format);
                self.out.put_u8(b':');
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    pub(super) fn big_number_bytes(&mut self, digits: &[u8]) {
        match self.version {
            RespVersion::V2 => self.bulk(digits),
            RespVersion::V3 => self.line(b'(', digits),
        }
    }

    /// An error whose text is given; on one line whatever that holds.
    pub(super) fn error_line(&mut self, text: &[u8]) {
        self.out.put_u8(b'-');
        put_on_one_line(self.out, text);
        self.raw(b"\r\n");
    }

    pub(super) fn line(&mut self, kind: u8, text: &[u8]) {
        debug_assert!(
            memchr::memchr2(b'\r', b'\n', text).is_none(),
            "this type is one line"
        );
        self.out.reserve(text.len() + 3);
        self.out.put_u8(kind);
        self.raw(text);
        self.raw(b"\r\n");
    }

    fn header(&mut self, kind: u8, number: i64) {
        put_header(self.out, kind, number);
    }
}

/// Appends a request: an array of bulk strings, the command's name first.
pub fn encode_request<'a, A>(args: A, out: &mut BytesMut)
where
    A: IntoIterator<Item = &'a [u8], IntoIter: ExactSizeIterator>,
{
    let args = args.into_iter();
    put_header(out, b'*', args.len() as i64);
    args.for_each(|arg| put_bulk(out, b'$', arg));
}

/// Appends a binary-safe string of `kind`.
#[inline]
pub(super) fn put_bulk(out: &mut BytesMut, kind: u8, bytes: &[u8]) {
    out.reserve(bytes.len() + MAX_HEADER_BYTES + 2);
    put_header(out, kind, bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// A kind, the digits of an `i64` with its sign, CR LF; rounded up so that it is copied in words.
const MAX_HEADER_BYTES: usize = 24;

/// Appends `text` with a space for each CR and LF, as Redis does in errors.
pub(super) fn put_on_one_line(out: &mut BytesMut, text: &[u8]) {
    let mut rest = text;
    while let Some(end) = memchr::memchr2(b'\r', b'\n', rest) {
        out.extend_from_slice(&rest[..end]);
        out.put_u8(b' ');
        rest = &rest[end + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends `kind`, `number` and a line end.
#[inline]
pub(super) fn put_header(out: &mut BytesMut, kind: u8, number: i64) {
    // Most numbers are short, and this is on the path of every reply.
    match number {
        0..=9 => out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
        10..=99 => {
            let (tens, ones) = (number as u8 / 10, number as u8 % 10);
            out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        _ => put_long_header(out, kind, number),
    }
}

fn put_long_header(out: &mut BytesMut, kind: u8, number: i64) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    let mut line = [0_u8; MAX_HEADER_BYTES];
    line[0] = kind;
    line[1..=digits.len()].copy_from_slice(digits);
    line[digits.len() + 1] = b'\r';
    line[digits.len() + 2] = b'\n';
    out.extend_from_slice(&line[..digits.len() + 3]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(version: RespVersion, write: impl FnOnce(&mut Encoder<'_>)) -> BytesMut {
        let mut out = BytesMut::new();
        write(&mut Encoder::new(&mut out, version));
        out
    }

    #[test]
    fn each_type_has_its_form_in_both_versions() {
        type Write = fn(&mut Encoder<'_>);
        let cases: [(Write, &[u8], &[u8]); 15] = [
            (|e| e.ok(), b"+OK\r\n", b"+OK\r\n"),
            (
                |e| e.integer(i64::MIN),
                b":-9223372036854775808\r\n",
                b":-9223372036854775808\r\n",
            ),
            (
                |e| e.bulk(b"a\r\nb"),
                b"$4\r\na\r\nb\r\n",
                b"$4\r\na\r\nb\r\n",
            ),
            (|e| e.bulk_integer(-7), b"$2\r\n-7\r\n", b"$2\r\n-7\r\n"),
            (|e| e.null(), b"$-1\r\n", b"_\r\n"),
            (|e| e.null_array(), b"*-1\r\n", b"_\r\n"),
            (|e| e.double(1.5), b"$3\r\n1.5\r\n", b",1.5\r\n"),
            (
                |e| e.double(f64::NEG_INFINITY),
                b"$4\r\n-inf\r\n",
                b",-inf\r\n",
            ),
            (|e| e.big_number("-12"), b"$3\r\n-12\r\n", b"(-12\r\n"),
            (|e| e.map(2), b"*4\r\n", b"%2\r\n"),
            (|e| e.set(2), b"*2\r\n", b"~2\r\n"),
            (|e| e.push(3), b"*3\r\n", b">3\r\n"),
            (|e| e.boolean(true), b":1\r\n", b"#t\r\n"),
            (
                |e| e.verbatim(b"txt", b"hi"),
                b"$2\r\nhi\r\n",
                b"=6\r\ntxt:hi\r\n",
            ),
            (
                |e| e.error(&ErrorReply::WrongType),
                b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
                b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            ),
        ];
        for (write, v2, v3) in cases {
            assert_eq!(encoded(RespVersion::V2, write), v2);
            assert_eq!(encoded(RespVersion::V3, write), v3);
        }
    }

    #[test]
    fn requests_are_arrays_of_bulks() {
        let mut out = BytesMut::new();
        encode_request([&b"GET"[..], b"a\r\n"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n"[..]);
    }

    #[test]
    fn numbers_of_every_length_are_written() {
        for number in [0, 9, 10, 42, 99, 100, 12345, i64::MAX, -1, -10, i64::MIN] {
            let out = encoded(RespVersion::V2, |encoder| encoder.integer(number));
            assert_eq!(out, alloc::format!(":{number}\r\n"));
        }
    }
}
