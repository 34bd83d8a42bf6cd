//! Replies as a simulated client reads them (RESP2).

use std::fmt;

/// A request: its arguments, the command's name first.
pub type Request = Vec<Vec<u8>>;

/// Builds a request of texts.
pub fn request<S: AsRef<[u8]>>(args: impl IntoIterator<Item = S>) -> Request {
    args.into_iter().map(|arg| arg.as_ref().to_vec()).collect()
}

/// Appends a request's bytes as a client sends them.
pub fn encode(request: &Request, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
    for arg in request {
        to.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        to.extend_from_slice(arg);
        to.extend_from_slice(b"\r\n");
    }
}

/// One reply.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// A status such as `OK`.
    Simple(Vec<u8>),
    /// An error with its code.
    Error(Vec<u8>),
    /// A number.
    Integer(i64),
    /// A string.
    Bulk(Vec<u8>),
    /// No value.
    Null,
    /// Several replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// The status `OK`.
    pub fn ok() -> Self {
        Self::Simple(b"OK".to_vec())
    }

    /// A string reply.
    pub fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    /// The number in an integer reply or in a string.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Self::Simple(_) | Self::Error(_) | Self::Null | Self::Array(_) => None,
        }
    }

    /// The elements of an array.
    pub fn elements(&self) -> Option<&[Reply]> {
        match self {
            Self::Array(elements) => Some(elements),
            Self::Simple(_) | Self::Error(_) | Self::Integer(_) | Self::Bulk(_) | Self::Null => {
                None
            }
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{}", text.escape_ascii()),
            Self::Error(text) => write!(f, "-{}", text.escape_ascii()),
            Self::Integer(number) => write!(f, ":{number}"),
            Self::Bulk(text) => write!(f, "\"{}\"", text.escape_ascii()),
            Self::Null => f.write_str("nil"),
            Self::Array(elements) => f.debug_list().entries(elements).finish(),
        }
    }
}

/// Reads the first reply in `bytes` and its length; none if it is not complete yet.
///
/// # Errors
/// What is wrong with bytes that are no reply.
pub fn decode(bytes: &[u8]) -> Result<Option<(Reply, usize)>, String> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let (head, at) = (&bytes[..end], end + 2);
    let (kind, rest) = head.split_first().ok_or("an empty line")?;
    match kind {
        b'+' => Ok(Some((Reply::Simple(rest.to_vec()), at))),
        b'-' => Ok(Some((Reply::Error(rest.to_vec()), at))),
        b':' => Ok(Some((Reply::Integer(number(rest)?), at))),
        b'$' => decode_bulk(number(rest)?, bytes, at),
        b'*' => decode_array(number(rest)?, bytes, at),
        _ => Err(format!("no reply: {}", head.escape_ascii())),
    }
}

fn number(text: &[u8]) -> Result<i64, String> {
    let parsed = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("no number: {}", text.escape_ascii()))
}

fn decode_bulk(length: i64, bytes: &[u8], at: usize) -> Result<Option<(Reply, usize)>, String> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Some((Reply::Null, at)));
    };
    let Some(content) = bytes.get(at..at + length + 2) else {
        return Ok(None);
    };
    if !content.ends_with(b"\r\n") {
        return Err("a string that does not end where it should".to_owned());
    }
    let text = content[..length].to_vec();
    Ok(Some((Reply::Bulk(text), at + length + 2)))
}

fn decode_array(
    count: i64,
    bytes: &[u8],
    mut at: usize,
) -> Result<Option<(Reply, usize)>, String> {
    if count < 0 {
        return Ok(Some((Reply::Null, at)));
    }
    let mut elements = Vec::new();
    for _ in 0..count {
        let Some((element, length)) = decode(&bytes[at..])? else {
            return Ok(None);
        };
        elements.push(element);
        at += length;
    }
    Ok(Some((Reply::Array(elements), at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_is_read_whole_and_no_prefix_is() {
        let wire = b"*5\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n";
        let expected = Reply::Array(vec![
            Reply::ok(),
            Reply::Error(b"ERR no".to_vec()),
            Reply::Integer(-7),
            Reply::bulk("a\r\n"),
            Reply::Null,
        ]);
        assert_eq!(decode(wire), Ok(Some((expected, wire.len()))));
        for cut in 0..wire.len() {
            assert_eq!(decode(&wire[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for wire in [&b"hello\r\n"[..], b"\r\n", b":x\r\n", b"$1\r\nabc\r\n"] {
            assert!(decode(wire).is_err(), "{}", wire.escape_ascii());
        }
    }
}
