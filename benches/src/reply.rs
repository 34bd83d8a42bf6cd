//! The reply skipper: walks a stream of RESP replies without copying or keeping them.
//!
//! A load generator must check every reply and yet be cheaper than the server it loads. So this
//! reads the line that begins a reply, steps over a bulk's bytes (checking its terminator), and
//! hands out only what the reply *is*. It takes the stream in pieces of any size. Arrays and maps
//! are refused: no request of the workloads has such a reply.

use std::fmt;

use memchr::memchr;

/// Longest line accepted (a status, an error text or a length), in bytes.
pub const MAX_LINE_BYTES: usize = 4096;
const CRLF: &[u8; 2] = b"\r\n";
const CRLF_BYTES: usize = CRLF.len();

/// What one reply was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `+text`
    Status(&'a [u8]),
    /// `-text`
    Error(&'a [u8]),
    /// `:number`
    Integer(i64),
    /// `$length`: the payload's length in bytes.
    Bulk(usize),
    /// `$-1` or RESP3's `_`
    Nil,
}

impl fmt::Display for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) => write!(f, "+{}", String::from_utf8_lossy(text)),
            Self::Error(text) => write!(f, "-{}", String::from_utf8_lossy(text)),
            Self::Integer(number) => write!(f, ":{number}"),
            Self::Bulk(length) => write!(f, "${length}"),
            Self::Nil => f.write_str("nil"),
        }
    }
}

/// The stream is not RESP as the workloads expect it; the text says where it broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed reply: {0}")]
pub struct Malformed(pub String);

/// The state between two pieces of the stream.
#[derive(Debug, Default)]
pub struct Skipper {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// A bulk in progress: its length and how many bytes of payload and CRLF are still to come.
    bulk: Option<(usize, usize)>,
}

impl Skipper {
    /// Takes the next piece and calls `each` for every reply that ends in it.
    ///
    /// # Errors
    /// [`Malformed`] when the stream breaks the protocol; the skipper is of no use afterwards.
    pub fn feed(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(Reply<'_>),
    ) -> Result<(), Malformed> {
        while !chunk.is_empty() {
            chunk = match self.bulk {
                Some((length, left)) => self.skip_bulk(chunk, length, left, &mut each)?,
                None => self.take_line(chunk, &mut each)?,
            };
        }
        Ok(())
    }

    fn skip_bulk<'a>(
        &mut self,
        chunk: &'a [u8],
        length: usize,
        left: usize,
        each: &mut impl FnMut(Reply<'_>),
    ) -> Result<&'a [u8], Malformed> {
        let take = left.min(chunk.len());
        let after = left - take;
        // The terminator is whatever lies within the last two bytes to come.
        let from = left.saturating_sub(CRLF_BYTES).min(take);
        let wanted =
            &CRLF[CRLF_BYTES - (left - from).min(CRLF_BYTES)..CRLF_BYTES - after.min(CRLF_BYTES)];
        if &chunk[from..take] != wanted {
            return Err(Malformed(format!("no CRLF after a bulk of {length} bytes")));
        }
        self.bulk = (after > 0).then_some((length, after));
        if after == 0 {
            each(Reply::Bulk(length));
        }
        Ok(&chunk[take..])
    }

    fn take_line<'a>(
        &mut self,
        chunk: &'a [u8],
        each: &mut impl FnMut(Reply<'_>),
    ) -> Result<&'a [u8], Malformed> {
        let Some(end) = memchr(b'\n', chunk) else {
            return self.keep_partial(chunk);
        };
        let (head, rest) = chunk.split_at(end + 1);
        if self.line.is_empty() {
            self.on_line(head, each)?;
        } else {
            self.keep_partial(head)?;
            let line = std::mem::take(&mut self.line);
            self.on_line(&line, each)?;
        }
        Ok(rest)
    }

    fn keep_partial<'a>(&mut self, part: &'a [u8]) -> Result<&'a [u8], Malformed> {
        if self.line.len() + part.len() > MAX_LINE_BYTES {
            return Err(Malformed(format!(
                "a line longer than {MAX_LINE_BYTES} bytes"
            )));
        }
        self.line.extend_from_slice(part);
        Ok(&part[part.len()..])
    }

    fn on_line(&mut self, line: &[u8], each: &mut impl FnMut(Reply<'_>)) -> Result<(), Malformed> {
        let bad = || Malformed(format!("{:?}", String::from_utf8_lossy(line)));
        let text = line.strip_suffix(CRLF).ok_or_else(bad)?;
        let (kind, rest) = text.split_first().ok_or_else(bad)?;
        match kind {
            b'+' => each(Reply::Status(rest)),
            b'-' => each(Reply::Error(rest)),
            b':' => each(Reply::Integer(integer(rest).ok_or_else(bad)?)),
            b'_' => each(Reply::Nil),
            b'$' => match integer(rest).ok_or_else(bad)? {
                -1 => each(Reply::Nil),
                length => {
                    let length = usize::try_from(length).map_err(|_| bad())?;
                    let left = length.checked_add(CRLF_BYTES).ok_or_else(bad)?;
                    self.bulk = Some((length, left));
                }
            },
            _ => return Err(bad()),
        }
        Ok(())
    }
}

fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pieces: &[&[u8]]) -> Result<Vec<String>, Malformed> {
        let mut skipper = Skipper::default();
        let mut seen = Vec::new();
        for piece in pieces {
            skipper.feed(piece, |reply| {
                seen.push(reply.to_string());
            })?;
        }
        Ok(seen)
    }

    const STREAM: &[u8] =
        b"+OK\r\n$5\r\nab\r\nc\r\n$0\r\n\r\n$-1\r\n-ERR no\r\n:-42\r\n_\r\n+PONG\r\n";
    const WANTED: [&str; 8] = ["+OK", "$5", "$0", "nil", "-ERR no", ":-42", "nil", "+PONG"];

    #[test]
    fn every_cut_gives_the_same_replies() {
        assert_eq!(names(&[STREAM]).unwrap(), WANTED);
        for cut in 0..STREAM.len() {
            let (left, right) = STREAM.split_at(cut);
            assert_eq!(names(&[left, right]).unwrap(), WANTED, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(names(&bytes).unwrap(), WANTED);
    }

    #[test]
    fn what_is_not_a_scalar_reply_is_refused() {
        for bad in [
            &b"*1\r\n:1\r\n"[..],
            b"OK\r\n",
            b"+OK\n",
            b"\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b":\r\n",
            b"$3\r\nabcd\r\n",
            b"$9223372036854775808\r\n",
        ] {
            assert!(names(&[bad]).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
        assert!(names(&[b"$3\r\nabc\r", b"x"]).is_err());
    }

    #[test]
    fn a_line_without_end_is_refused_at_the_limit() {
        let long = vec![b'+'; MAX_LINE_BYTES];
        assert!(names(&[&long]).is_ok());
        assert!(names(&[&long, b"x"]).is_err());
    }

    #[test]
    fn an_unfinished_reply_is_not_reported() {
        assert_eq!(names(&[b"$3\r\nabc\r"]).unwrap(), Vec::<String>::new());
    }
}
