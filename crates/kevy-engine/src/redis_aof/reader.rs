//! The requests of an append-only file.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use kevy_proto::resp::{Args, Decoded, Decoder, Limits, ProtocolError, RequestBuffer};

/// The most that the requests of one transaction may hold: all of them are in memory until its end is seen.
pub const LONGEST_TRANSACTION_BYTES: usize = 4 << 30;

/// The longest annotation; Redis's have less than 30 bytes.
const LONGEST_ANNOTATION_BYTES: usize = 1024;
/// Bytes of the buffer that are kept from one request to the next.
const KEPT_BYTES: usize = 1 << 20;

/// Reads an append-only file piece by piece: [`push`](Self::push) bytes, take [`next`](Self::next) until it wants more.
/// Then the file's end says what is left over ([`tail`](Self::tail)).
#[derive(Debug)]
pub struct AofReader {
    /// Bytes that have arrived; those before `start` are done with.
    buffer: Vec<u8>,
    start: usize,
    /// Where in the file `start` is.
    offset: u64,
    decoder: Decoder,
    transaction: Option<Transaction>,
    /// Requests of a whole transaction that are yet to be given, each with its place in the file.
    ready: VecDeque<(u64, RequestBuffer)>,
    given: RequestBuffer,
}

#[derive(Debug)]
struct Transaction {
    /// Where in the file its `MULTI` is.
    offset: u64,
    requests: VecDeque<(u64, RequestBuffer)>,
    bytes: usize,
}

/// What there is next.
#[derive(Clone, Copy, Debug)]
pub enum AofStep<'a> {
    /// A request, and where in the file it begins.
    Request {
        /// Byte of the file.
        offset: u64,
        /// Its words.
        args: Args<'a>,
    },
    /// More bytes are needed to tell.
    NeedsMore,
}

/// What is left over at the end of a file: the beginning of a request, or of a transaction without its end. Redis cuts it
/// off, if it is in the last file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Where in the file it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Why a file cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AofFault {
    /// A request does not begin here, but must.
    NotARequest(u64),
    /// The request that begins here is malformed.
    Malformed(u64, ProtocolError),
    /// `EXEC` without `MULTI`, or `MULTI` in a transaction.
    Transaction(u64),
    /// The transaction that begins here is longer than [`LONGEST_TRANSACTION_BYTES`].
    TooLong(u64),
}

impl fmt::Display for AofFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARequest(at) => write!(f, "at byte {at}: no request begins here"),
            Self::Malformed(at, error) => write!(f, "at byte {at}: {error}"),
            Self::Transaction(at) => write!(f, "at byte {at}: EXEC without MULTI, or MULTI twice"),
            Self::TooLong(at) => write!(
                f,
                "at byte {at}: a transaction of more than {LONGEST_TRANSACTION_BYTES} bytes"
            ),
        }
    }
}

impl core::error::Error for AofFault {}

impl AofReader {
    /// A reader of what begins at byte `offset` of its file: behind an RDB file, if it begins with one.
    pub fn new(offset: u64) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            offset,
            decoder: Decoder::with_limits(Limits {
                // What Redis has accepted once it reads again, whatever its settings are now.
                bulk_bytes: usize::MAX / 2,
                arguments: usize::MAX / 2,
                ..Limits::default()
            }),
            transaction: None,
            ready: VecDeque::new(),
            given: RequestBuffer::new(),
        }
    }

    /// The next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..mem::take(&mut self.start));
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT_BYTES);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// What is left over if the file ends here, once all requests were taken.
    pub fn tail(&self) -> Option<Tail> {
        let open = self.transaction.as_ref().map(|open| open.offset);
        let offset = open.unwrap_or(self.offset);
        let bytes = self.offset - offset + (self.buffer.len() - self.start) as u64;
        (bytes > 0).then_some(Tail { offset, bytes })
    }

    /// The next request.
    ///
    /// # Errors
    /// The file cannot be read on.
    #[expect(
        clippy::should_implement_trait,
        reason = "a request borrows from the reader, which no iterator can give"
    )]
    pub fn next(&mut self) -> Result<AofStep<'_>, AofFault> {
        loop {
            if let Some((offset, request)) = self.ready.pop_front() {
                self.given = request;
                let args = self.given.args();
                return Ok(AofStep::Request { offset, args });
            }
            let (begin, offset) = (self.start, self.offset);
            match self.buffer.get(begin) {
                None => return Ok(AofStep::NeedsMore),
                Some(b'#') if self.decoder.is_idle() => {
                    if !self.annotation()? {
                        return Ok(AofStep::NeedsMore);
                    }
                    continue;
                }
                Some(b'*') => {}
                Some(_) => return Err(AofFault::NotARequest(offset)),
            }
            let decoded = self.decoder.decode(&self.buffer[begin..]);
            match decoded.map_err(|error| AofFault::Malformed(offset, error))? {
                Decoded::Incomplete => return Ok(AofStep::NeedsMore),
                Decoded::Nothing { .. } => return Err(AofFault::NotARequest(offset)),
                Decoded::Request { consumed } => {
                    self.pass(consumed);
                    let is_part = self.take_part(begin, offset)?;
                    if !is_part {
                        let args = self.decoder.args(&self.buffer[begin..]);
                        return Ok(AofStep::Request { offset, args });
                    }
                }
            }
        }
    }

    /// Passes an annotation, if all of it has arrived.
    fn annotation(&mut self) -> Result<bool, AofFault> {
        let bytes = &self.buffer[self.start..];
        let window = &bytes[..bytes.len().min(LONGEST_ANNOTATION_BYTES)];
        match memchr::memchr(b'\n', window) {
            Some(end) => {
                self.pass(end + 1);
                Ok(true)
            }
            None if window.len() == LONGEST_ANNOTATION_BYTES => {
                Err(AofFault::NotARequest(self.offset))
            }
            None => Ok(false),
        }
    }

    /// Keeps the request just decoded if it belongs to a transaction; says whether it does.
    fn take_part(&mut self, begin: usize, offset: u64) -> Result<bool, AofFault> {
        let args = self.decoder.args(&self.buffer[begin..]);
        let is = |name: &[u8]| args.at(0).eq_ignore_ascii_case(name);
        match &mut self.transaction {
            None if is(b"MULTI") => {
                self.transaction = Some(Transaction {
                    offset,
                    requests: VecDeque::new(),
                    bytes: 0,
                });
            }
            None if is(b"EXEC") => return Err(AofFault::Transaction(offset)),
            None => return Ok(false),
            Some(_) if is(b"MULTI") => return Err(AofFault::Transaction(offset)),
            Some(open) if is(b"EXEC") => {
                self.ready = mem::take(&mut open.requests);
                self.transaction = None;
            }
            Some(open) => {
                let request = RequestBuffer::from_args(args);
                open.bytes += request.len_bytes();
                if open.bytes > LONGEST_TRANSACTION_BYTES {
                    return Err(AofFault::TooLong(open.offset));
                }
                open.requests.push_back((offset, request));
            }
        }
        Ok(true)
    }

    /// Is done with so many bytes.
    fn pass(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};
    use proptest::prelude::*;

    type Seen = (Vec<String>, Result<Option<Tail>, AofFault>);

    fn read(bytes: &[u8], piece: usize) -> Seen {
        let mut reader = AofReader::new(100);
        let mut seen = Vec::new();
        for piece in bytes.chunks(piece) {
            reader.push(piece);
            loop {
                match reader.next() {
                    Err(fault) => return (seen, Err(fault)),
                    Ok(AofStep::NeedsMore) => break,
                    Ok(AofStep::Request { offset, args }) => {
                        let words: Vec<_> =
                            args.iter().map(|w| w.escape_ascii().to_string()).collect();
                        seen.push(format!("{offset}: {}", words.join(" ")));
                    }
                }
            }
        }
        let tail = reader.tail();
        (seen, Ok(tail))
    }

    fn request(line: &str) -> String {
        let words = line.split(' ');
        let texts = words
            .clone()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n", words.count()) + &texts.collect::<String>()
    }

    fn file(lines: &[&str]) -> Vec<u8> {
        lines
            .iter()
            .map(|line| request(line))
            .collect::<String>()
            .into_bytes()
    }

    #[test]
    fn requests_come_in_order_with_their_places() {
        let bytes = [&b"#TS:1700000000\r\n"[..], &file(&["SELECT 0", "SET k v"])].concat();
        let expected = ["116: SELECT 0", "139: SET k v"].map(String::from);
        for piece in [1, 5, 1000] {
            assert_eq!(read(&bytes, piece), (expected.to_vec(), Ok(None)));
        }
    }

    #[test]
    fn a_transaction_comes_whole_or_not_at_all() {
        let bytes = file(&["MULTI", "SET a 1", "INCR a", "EXEC", "DEL b"]);
        let whole = read(&bytes, 3).0;
        let expected = ["115: SET a 1", "142: INCR a", "177: DEL b"];
        assert_eq!(whole, expected);
        let open = file(&["DEL b", "MULTI", "SET a 1"]);
        let (seen, tail) = read(&open, 3);
        assert_eq!(seen, ["100: DEL b"]);
        let begin = file(&["DEL b"]).len() as u64;
        let expected = Tail {
            offset: 100 + begin,
            bytes: open.len() as u64 - begin,
        };
        assert_eq!(tail, Ok(Some(expected)));
    }

    #[test]
    fn a_cut_request_is_the_tail() {
        let bytes = file(&["SET k v"]);
        for end in 1..bytes.len() {
            let tail = Tail {
                offset: 100,
                bytes: end as u64,
            };
            assert_eq!(read(&bytes[..end], 2), (Vec::new(), Ok(Some(tail))));
        }
    }

    #[test]
    fn what_is_no_request_is_named() {
        let fault = |bytes: &[u8]| read(bytes, 4).1.unwrap_err();
        assert_eq!(fault(b"SET k v\r\n"), AofFault::NotARequest(100));
        assert_eq!(fault(b"*0\r\n"), AofFault::NotARequest(100));
        assert_eq!(fault(&[b'#'; 2000]), AofFault::NotARequest(100));
        assert_eq!(fault(&file(&["EXEC"])), AofFault::Transaction(100));
        assert_eq!(
            fault(&file(&["MULTI", "MULTI"])),
            AofFault::Transaction(115)
        );
        let malformed = fault(b"*1\r\n!3\r\nabc\r\n");
        assert!(
            matches!(malformed, AofFault::Malformed(100, _)),
            "{malformed}"
        );
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "(\\*[0-3]\r\n|\\$[0-5]\r\n|[a-z]|\r\n|#|MULTI|EXEC|\\*1\r\n\\$5\r\nMULTI\r\n|\\*1\r\n\\$4\r\nEXEC\r\n|\\*1\r\n\\$1\r\na\r\n){0,25}", piece in 1..40_usize) {
            let bytes = text.as_bytes();
            prop_assert_eq!(read(bytes, piece), read(bytes, bytes.len().max(1)));
        }
    }
}
