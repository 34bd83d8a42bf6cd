//! Reads requests: RESP arrays of bulk strings, and lines that a person types ("inline commands").
//!
//! The decoder copies nothing. It looks at the connection's buffer, remembers how far it has understood the request
//! that starts there, and answers with the places of its arguments. A request may arrive in any number of pieces: no byte
//! is examined twice but for the few of one header, so the work is linear in the bytes received however they are cut, and
//! the outcome never depends on the cuts.
//!
//! Accepts and refuses what Redis 7.0.15 accepts and refuses, in the same words (see `tests/redis_table.rs`), but for three
//! cases. Redis stops searching for a line's end at a zero byte, and so never answers such a line: here a zero byte is like
//! any other. Redis accepts a line longer than [`Limits::inline_bytes`] if all of it arrived in one read: here it is refused
//! however it arrived. Redis accepts up to 2^31 - 1 arguments: here it is [`Limits::arguments`].

use super::header::{Header, HeaderKind, LINE_END_BYTES, USUAL_HEADER_BYTES, signed, usual_header};
use super::inline::Line;
use super::{Args, ProtocolError, Span};
use alloc::vec::Vec;
use core::num::NonZeroUsize;

/// Longest argument, in bytes (Redis's `proto-max-bulk-len`).
pub const MAX_BULK_BYTES: usize = 512 * 1024 * 1024;
/// Most arguments of one request, its name included.
pub const MAX_ARGUMENTS: usize = 1024 * 1024;
/// Longest inline command, in bytes without its line feed.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;
/// Longest header line (`*3`, `$16`), in bytes without its line end.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Spans kept between requests, so that a connection which once sent a huge request does not hold its memory for ever.
const KEPT_SPANS: usize = 256;
/// Unescaped bytes kept between requests.
const KEPT_SCRATCH_BYTES: usize = 4096;

/// What a request may measure at most. A request beyond a limit is refused before its bytes are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one argument.
    pub bulk_bytes: usize,
    /// Arguments of one request.
    pub arguments: usize,
    /// Bytes of an inline command.
    pub inline_bytes: usize,
    /// Bytes of a header line; at least 11.
    pub header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_bytes: MAX_BULK_BYTES,
            arguments: MAX_ARGUMENTS,
            inline_bytes: MAX_INLINE_BYTES,
            header_bytes: MAX_HEADER_BYTES,
        }
    }
}

/// What stands at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A whole request. Its arguments (at least one) are [`Decoder::args`] of the same buffer until the next decode.
    Request {
        /// Bytes to drop from the buffer once the arguments are no longer needed.
        consumed: usize,
    },
    /// Nothing to run: an empty line, `*0`, `*-1`.
    Nothing {
        /// Bytes to drop from the buffer.
        consumed: usize,
    },
    /// The beginning of a request. Decode again when more bytes have been appended to the same beginning.
    Incomplete,
}

/// Finds requests in the bytes of one connection.
///
/// After [`Decoded::Incomplete`] the next call must see the same bytes again, with more appended. After
/// [`Decoded::Request`] and [`Decoded::Nothing`] the caller drops the consumed bytes and the decoder starts anew. After an
/// error the connection is to be closed; a decoder used on regardless starts anew at the buffer's start.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    limits: Limits,
    /// The arguments found so far.
    spans: Vec<Span>,
    /// The arguments of an inline command with quotes, without their quotes.
    scratch: Vec<u8>,
    /// Whether `spans` lie in `scratch` and not in the buffer.
    unescaped: bool,
    /// Whether `spans` are a whole request: the answer to the last decode.
    complete: bool,
    /// Arguments still missing; none while the count itself is unknown.
    missing: Option<NonZeroUsize>,
    /// Bytes of the buffer that are understood: the start of the next header.
    understood_bytes: usize,
    /// Bytes of the buffer searched for a line end without success.
    searched_bytes: usize,
}

impl Decoder {
    /// A decoder with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder that refuses requests beyond `limits`.
    pub fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Changes the longest argument that is accepted, from the next header on.
    pub fn set_bulk_limit(&mut self, bulk_bytes: usize) {
        self.limits.bulk_bytes = bulk_bytes;
    }

    /// Looks for a request at the start of `buffer`.
    ///
    /// # Errors
    ///
    /// When the bytes can never become a request: to be sent to the client, and its connection closed.
    pub fn decode(&mut self, buffer: &[u8]) -> Result<Decoded, ProtocolError> {
        if self.is_idle() {
            self.forget();
        }
        let outcome = match buffer.first() {
            None => return Ok(Decoded::Incomplete),
            Some(b'*') => self.decode_array(buffer),
            Some(_) => self.decode_line(buffer),
        };
        if outcome != Ok(Decoded::Incomplete) {
            self.missing = None;
            self.understood_bytes = 0;
            self.searched_bytes = 0;
        }
        outcome
    }

    /// The arguments of the request that the last decode found in `buffer`; none if it found none.
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        match (self.complete, self.unescaped) {
            (false, _) => Args::new(buffer, &[]),
            (true, false) => Args::new(buffer, &self.spans),
            (true, true) => Args::new(&self.scratch, &self.spans),
        }
    }

    /// Whether no request has begun to arrive that is not yet whole.
    pub fn is_idle(&self) -> bool {
        self.understood_bytes == 0 && self.searched_bytes == 0
    }

    fn forget(&mut self) {
        self.complete = false;
        self.unescaped = false;
        self.spans.clear();
        self.spans.shrink_to(KEPT_SPANS);
        self.scratch.clear();
        self.scratch.shrink_to(KEPT_SCRATCH_BYTES);
    }

    fn decode_array(&mut self, buffer: &[u8]) -> Result<Decoded, ProtocolError> {
        let mut missing = match self.missing {
            Some(missing) => missing.get(),
            None => match self.count(buffer)? {
                None => return Ok(Decoded::Incomplete),
                Some(0) => {
                    let consumed = self.understood_bytes;
                    return Ok(Decoded::Nothing { consumed });
                }
                Some(count) => count,
            },
        };
        while missing > 0 {
            let Some(span) = self.bulk(buffer)? else {
                self.missing = NonZeroUsize::new(missing);
                return Ok(Decoded::Incomplete);
            };
            self.spans.push(span);
            self.understood_bytes = span.start + span.length + LINE_END_BYTES;
            missing -= 1;
        }
        self.complete = true;
        let consumed = self.understood_bytes;
        Ok(Decoded::Request { consumed })
    }

    /// The number of arguments that the array's header announces.
    #[inline]
    fn count(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let header = match usual_header(buffer, b'*') {
            Some(header) => header,
            None => match self.unusual_header(buffer, HeaderKind::Count)? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        self.understood_bytes = header.length_bytes;
        if header.number > self.limits.arguments {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        Ok(Some(header.number))
    }

    /// The next argument, if it has arrived with its line end. Redis does not look at that line end, nor does kevy.
    #[inline]
    fn bulk(&mut self, buffer: &[u8]) -> Result<Option<Span>, ProtocolError> {
        let line = buffer.get(self.understood_bytes..).unwrap_or_default();
        let header = match usual_header(line, b'$') {
            Some(header) => header,
            None => match self.unusual_header(line, HeaderKind::Bulk)? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        let length = header.number;
        if length > self.limits.bulk_bytes {
            return Err(ProtocolError::InvalidBulkLength);
        }
        let arrived = line.len() - header.length_bytes;
        // `length` is below the largest limit, yet a caller may choose that limit.
        let whole = length.saturating_add(LINE_END_BYTES) <= arrived;
        let start = self.understood_bytes + header.length_bytes;
        Ok(whole.then_some(Span { start, length }))
    }

    /// Any header: one that has not arrived whole, one that is wrong, a negative one.
    #[cold]
    fn unusual_header(
        &mut self,
        line: &[u8],
        kind: HeaderKind,
    ) -> Result<Option<Header>, ProtocolError> {
        let limit = self.limits.header_bytes.max(USUAL_HEADER_BYTES);
        let searched = self.searched_bytes.saturating_sub(self.understood_bytes);
        let window = &line[..line.len().min(limit.saturating_add(1))];
        let fresh = window.get(searched..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\r', fresh).map(|at| searched + at) else {
            self.searched_bytes = self.understood_bytes + window.len();
            return if line.len() > limit {
                Err(kind.too_long())
            } else {
                Ok(None)
            };
        };
        if end + 1 == line.len() {
            self.searched_bytes = self.understood_bytes + end;
            return Ok(None);
        }
        if line[0] != kind.byte() {
            return Err(ProtocolError::ExpectedBulk(line[0]));
        }
        let number = signed(&line[1..end]).ok_or(kind.invalid())?;
        let number = match (usize::try_from(number), kind) {
            (Ok(number), _) => number,
            // Redis treats every negative count as it treats zero.
            (Err(_), HeaderKind::Count) => 0,
            (Err(_), HeaderKind::Bulk) => return Err(ProtocolError::InvalidBulkLength),
        };
        Ok(Some(Header {
            number,
            length_bytes: end + LINE_END_BYTES,
        }))
    }

    fn decode_line(&mut self, buffer: &[u8]) -> Result<Decoded, ProtocolError> {
        let limit = self.limits.inline_bytes;
        let window = &buffer[..buffer.len().min(limit.saturating_add(1))];
        let fresh = window.get(self.searched_bytes..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', fresh).map(|at| self.searched_bytes + at) else {
            self.searched_bytes = window.len();
            return if buffer.len() > limit {
                Err(ProtocolError::TooBigInlineRequest)
            } else {
                Ok(Decoded::Incomplete)
            };
        };
        let line = &buffer[..end];
        let line = Line::new(line.strip_suffix(b"\r").unwrap_or(line));
        if line.has_quotes() {
            line.unquote(&mut self.spans, &mut self.scratch)?;
            self.unescaped = true;
        } else {
            line.split(&mut self.spans);
        }
        let consumed = end + 1;
        self.complete = !self.spans.is_empty();
        Ok(if self.complete {
            Decoded::Request { consumed }
        } else {
            Decoded::Nothing { consumed }
        })
    }
}

/// Whether a request is a line of HTTP: a browser was lured into talking to the server, and what follows may be written by
/// an attacker. Redis closes such a connection without an answer.
pub fn is_cross_protocol(args: Args<'_>) -> bool {
    let name = args.at(0);
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    /// All requests of `input`, given in pieces that end at `cuts`, as the session would read them.
    fn requests(input: &[u8], cuts: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        let mut decoder = Decoder::new();
        let (mut start, mut found) = (0, Vec::new());
        for cut in cuts.iter().copied().chain([input.len()]) {
            loop {
                let buffer = &input[start..cut.max(start)];
                match decoder.decode(buffer) {
                    Err(error) => return (found, Some(error)),
                    Ok(Decoded::Incomplete) => break,
                    Ok(Decoded::Nothing { consumed }) => start += consumed,
                    Ok(Decoded::Request { consumed }) => {
                        let args = decoder.args(buffer);
                        found.push(args.iter().map(<[u8]>::to_vec).collect());
                        start += consumed;
                    }
                }
            }
        }
        (found, None)
    }

    fn one(input: &[u8]) -> Vec<Vec<u8>> {
        let (found, error) = requests(input, &[]);
        assert_eq!(error, None);
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap()
    }

    fn refusal(input: &[u8]) -> ProtocolError {
        requests(input, &[]).1.unwrap()
    }

    #[test]
    fn arrays_and_lines_are_requests() {
        assert_eq!(
            one(b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"),
            [&b"GET"[..], b"a\r\nb"]
        );
        assert_eq!(one(b"*1\r\n$0\r\n\r\n"), [b""]);
        assert_eq!(one(b"  set  k \tv \r\n"), [&b"set"[..], b"k", b"v"]);
        assert_eq!(one(b"echo \"\\x41 \\n\"\n"), [&b"echo"[..], b"A \n"]);
    }

    #[test]
    fn empty_requests_are_skipped() {
        for input in [
            &b"\r\nPING\r\n"[..],
            b"*0\r\nPING\n",
            b"*-1\r\n*-7\r\n \nPING\n",
        ] {
            assert_eq!(one(input), [b"PING"]);
        }
    }

    #[test]
    fn broken_requests_are_refused_as_redis_refuses_them() {
        let long = [b"*".as_slice(), &vec![b'1'; MAX_HEADER_BYTES]].concat();
        assert_eq!(refusal(&long), ProtocolError::TooBigMultibulkCount);
        let long = [b"*1\r\n$".as_slice(), &vec![b'1'; MAX_HEADER_BYTES]].concat();
        assert_eq!(refusal(&long), ProtocolError::TooBigBulkCount);
        let long = vec![b'a'; MAX_INLINE_BYTES + 1];
        assert_eq!(refusal(&long), ProtocolError::TooBigInlineRequest);
        assert_eq!(requests(&long[1..], &[]), (vec![], None));
        assert_eq!(
            refusal(b"*1048577\r\n"),
            ProtocolError::InvalidMultibulkLength
        );
        assert_eq!(
            refusal(b"*1\r\n$536870913\r\n"),
            ProtocolError::InvalidBulkLength
        );
        assert_eq!(
            refusal(b"*1\r\n\r\n").to_string(),
            "Protocol error: expected '$', got ' '"
        );
    }

    #[test]
    fn every_cut_gives_the_same_requests() {
        let input = b"*2\r\n$4\r\nECHO\r\n$12\r\n0123456789\r\n\r\n\r\n*0\r\nPING 'a b' \r\n*-1\r\n*1\r\n$4\r\nQUIT\r\n*1\r\n+";
        let whole = requests(input, &[]);
        for first in 0..input.len() {
            for second in first..input.len() {
                assert_eq!(requests(input, &[first, second]), whole);
            }
        }
        let each: Vec<usize> = (0..input.len()).collect();
        assert_eq!(requests(input, &each), whole);
    }

    #[test]
    fn announcing_allocates_nothing_and_one_huge_request_is_forgotten() {
        let mut decoder = Decoder::new();
        assert_eq!(
            decoder.decode(b"*1048576\r\n$536870912\r\n"),
            Ok(Decoded::Incomplete)
        );
        assert_eq!(decoder.spans.capacity(), 0);
        assert!(!decoder.is_idle());

        let mut decoder = Decoder::new();
        let huge = [b"*5000\r\n".as_slice(), &b"$1\r\nx\r\n".repeat(5000)].concat();
        decoder.decode(&huge).unwrap();
        assert_eq!(decoder.args(&huge).len(), 5000);
        decoder.decode(b"PING\r\n").unwrap();
        assert!(decoder.is_idle());
        assert!(decoder.spans.capacity() <= KEPT_SPANS);
    }

    #[test]
    fn lines_of_http_are_recognized() {
        for (line, is_http) in [
            (&b"POST / HTTP/1.1\r\n"[..], true),
            (b"post /\r\n", true),
            (b"*1\r\n$5\r\nHOST:\r\n", true),
            (b"Host: example.org\r\n", true),
            (b"GET / HTTP/1.1\r\n", false),
            (b"Host\r\n", false),
        ] {
            let mut decoder = Decoder::new();
            decoder.decode(line).unwrap();
            assert_eq!(is_cross_protocol(decoder.args(line)), is_http, "{line:?}");
        }
    }
}
