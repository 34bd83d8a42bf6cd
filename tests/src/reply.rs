//! One RESP2 or RESP3 reply, decoded strictly: a reply that Redis could not have sent is an error.

use std::fmt;

/// A reply. Every null of the protocol (`$-1`, `*-1`, `_`) is [`Reply::Null`]; tests that must tell them
/// apart compare bytes instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR ...`, without the dash.
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$3`
    Bulk(Vec<u8>),
    /// Any null.
    Null,
    /// `*`
    Array(Vec<Reply>),
    /// `~`
    Set(Vec<Reply>),
    /// `%`
    Map(Vec<(Reply, Reply)>),
    /// `>`
    Push(Vec<Reply>),
    /// `,` as it was written.
    Double(String),
    /// `#`
    Boolean(bool),
    /// `(` as it was written.
    BigNumber(String),
    /// `=` without its length.
    Verbatim(Vec<u8>),
}

/// Bytes that are no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed reply: {}", self.0)
    }
}

type Decoded = Result<Option<(Reply, usize)>, Malformed>;

/// Decodes the reply at the start of `bytes`: it and its length, or `None` if more bytes are needed.
///
/// # Errors
/// When the bytes cannot be the start of a reply.
pub fn decode(bytes: &[u8]) -> Decoded {
    let Some((line, body)) = line(bytes)? else {
        return Ok(None);
    };
    let (kind, text) = (line.as_bytes()[0], &line[1..]);
    let whole = |reply| Ok(Some((reply, body)));
    match kind {
        b'+' => whole(Reply::Simple(text.to_owned())),
        b'-' => whole(Reply::Error(text.to_owned())),
        b':' => whole(Reply::Integer(number(text)?)),
        b',' => whole(Reply::Double(text.to_owned())),
        b'(' => whole(Reply::BigNumber(text.to_owned())),
        b'_' if text.is_empty() => whole(Reply::Null),
        b'#' if text == "t" || text == "f" => whole(Reply::Boolean(text == "t")),
        b'$' | b'*' if text == "-1" => whole(Reply::Null),
        b'$' => blob(bytes, body, text, Reply::Bulk),
        b'=' => blob(bytes, body, text, Reply::Verbatim),
        b'*' => items(bytes, body, count(text)?, Reply::Array),
        b'~' => items(bytes, body, count(text)?, Reply::Set),
        b'>' => items(bytes, body, count(text)?, Reply::Push),
        b'%' => items(bytes, body, 2 * count(text)?, |flat| {
            Reply::Map(pairs(flat))
        }),
        _ => Err(Malformed(line)),
    }
}

/// The length of the reply at the start of `bytes`, or `None` if more bytes are needed. Looks at no value,
/// so asking again after every piece of a large reply is cheap.
///
/// # Errors
/// When the bytes cannot be the start of a reply.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some((line, body)) = line(bytes)? else {
        return Ok(None);
    };
    let (kind, text) = (line.as_bytes()[0], &line[1..]);
    let items = match kind {
        b'$' | b'*' if text == "-1" => 0,
        b'$' | b'=' => {
            let end = body + count(text)? + 2;
            return Ok((end <= bytes.len()).then_some(end));
        }
        b'*' | b'~' | b'>' => count(text)?,
        b'%' => 2 * count(text)?,
        _ => 0,
    };
    let mut end = body;
    for _ in 0..items {
        let Some(item) = length(&bytes[end..])? else {
            return Ok(None);
        };
        end += item;
    }
    Ok(Some(end))
}

fn line(bytes: &[u8]) -> Result<Option<(String, usize)>, Malformed> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    if text.is_empty() || text.contains('\n') {
        return Err(Malformed(format!("{text:?}")));
    }
    Ok(Some((text, end + 2)))
}

fn number(text: &str) -> Result<i64, Malformed> {
    text.parse().map_err(|_| Malformed(text.to_owned()))
}

fn count(text: &str) -> Result<usize, Malformed> {
    text.parse().map_err(|_| Malformed(text.to_owned()))
}

fn blob(bytes: &[u8], body: usize, text: &str, make: fn(Vec<u8>) -> Reply) -> Decoded {
    let end = body + count(text)?;
    match bytes.get(body..end + 2) {
        None => Ok(None),
        Some(content) if content.ends_with(b"\r\n") => {
            Ok(Some((make(content[..end - body].to_vec()), end + 2)))
        }
        Some(_) => Err(Malformed(format!("a blob of {text} bytes without its end"))),
    }
}

fn items(
    bytes: &[u8],
    body: usize,
    count: usize,
    make: impl FnOnce(Vec<Reply>) -> Reply,
) -> Decoded {
    let (mut replies, mut at) = (Vec::new(), body);
    for _ in 0..count {
        let Some((reply, used)) = decode(&bytes[at..])? else {
            return Ok(None);
        };
        replies.push(reply);
        at += used;
    }
    Ok(Some((make(replies), at)))
}

fn pairs(flat: Vec<Reply>) -> Vec<(Reply, Reply)> {
    let mut flat = flat.into_iter();
    std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
}

impl Reply {
    /// `+OK`
    pub fn ok() -> Self {
        Self::Simple("OK".into())
    }

    /// A bulk string of `text`.
    pub fn bulk(text: &str) -> Self {
        Self::Bulk(text.as_bytes().to_vec())
    }

    /// The text of a simple, bulk or verbatim string.
    pub fn text(&self) -> String {
        self.as_text()
            .unwrap_or_else(|| panic!("not a string: {self:?}"))
    }

    fn as_text(&self) -> Option<String> {
        match self {
            Self::Simple(text) => Some(text.clone()),
            Self::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            // Three letters of a format and a colon come first.
            Self::Verbatim(bytes) => Some(String::from_utf8_lossy(bytes.get(4..)?).into_owned()),
            Self::Error(_)
            | Self::Integer(_)
            | Self::Null
            | Self::Array(_)
            | Self::Set(_)
            | Self::Map(_)
            | Self::Push(_)
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::BigNumber(_) => None,
        }
    }

    /// The number of an integer reply.
    pub fn integer(&self) -> i64 {
        self.as_integer()
            .unwrap_or_else(|| panic!("not an integer: {self:?}"))
    }

    /// The number of an integer reply, if it is one.
    pub fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// The text of an error reply.
    pub fn error(&self) -> &str {
        if let Self::Error(text) = self {
            text
        } else {
            panic!("not an error: {self:?}")
        }
    }

    /// The elements of an array, set or push.
    pub fn items(&self) -> &[Reply] {
        self.as_items()
            .unwrap_or_else(|| panic!("not an array: {self:?}"))
    }

    /// The elements of an array, set or push, if it is one.
    pub fn as_items(&self) -> Option<&[Reply]> {
        if let Self::Array(items) | Self::Set(items) | Self::Push(items) = self {
            Some(items)
        } else {
            None
        }
    }

    /// The value at `key` of a map, or of an array of alternating keys and values.
    pub fn at(&self, key: &str) -> &Reply {
        self.get(key)
            .unwrap_or_else(|| panic!("no {key} in {self:?}"))
    }

    /// As [`at`](Self::at), if there is one.
    pub fn get(&self, key: &str) -> Option<&Reply> {
        let named = |name: &Reply| name.as_text().is_some_and(|text| text == key);
        if let Self::Map(pairs) = self {
            pairs.iter().find(|(name, _)| named(name)).map(|(_, v)| v)
        } else {
            let pair = self.items().chunks_exact(2).find(|pair| named(&pair[0]));
            pair.map(|pair| &pair[1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_of_a_reply_is_incomplete() {
        let bytes = b"*4\r\n$3\r\na\r\n\r\n%1\r\n+k\r\n,1.5\r\n~1\r\n#t\r\n=5\r\ntxt:x\r\n";
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), Ok(None), "{end} bytes");
            assert_eq!(length(&bytes[..end]), Ok(None), "{end} bytes");
        }
        let (reply, used) = decode(bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(length(&[bytes, &b":1"[..]].concat()), Ok(Some(used)));
        assert_eq!(reply.items()[0], Reply::Bulk(b"a\r\n".to_vec()));
        assert_eq!(reply.items()[1].at("k"), &Reply::Double("1.5".into()));
        assert_eq!(reply.items()[3].text(), "x");
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [
            "\r\n",
            "?1\r\n",
            ":x\r\n",
            "$1\r\nab\r\n",
            "*x\r\n",
            "$-2\r\n",
            "#x\r\n",
            "_1\r\n",
        ] {
            assert!(decode(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }
}
