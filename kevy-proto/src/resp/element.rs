//! The elements that replies are made of: a line, a string, or the header of an array, map, set or push.

use super::decode::MAX_BULK_BYTES;
use super::header::usual_header;
use super::{ProtocolError, Reply};
use bytes::Bytes;

/// Most elements of one array, map, set or push.
pub const MAX_REPLY_ELEMENTS: usize = u32::MAX as usize;
/// Longest line of a reply: a simple string, an error, a number.
pub const MAX_REPLY_LINE_BYTES: usize = 64 * 1024;
const LINE_END: &[u8; 2] = b"\r\n";

/// What stands between two boundaries of a reply.
pub(super) enum Element<'a> {
    Leaf(Leaf<'a>),
    Open {
        kind: AggregateKind,
        elements: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AggregateKind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

impl AggregateKind {
    /// Elements that follow when the header announces `count`.
    fn elements(self, count: usize) -> usize {
        match self {
            Self::Array | Self::Set | Self::Push => count,
            Self::Map | Self::Attribute => count * 2,
        }
    }
}

/// A value without elements: its type and its bytes, which are not looked at yet.
pub(super) enum Leaf<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(&'a [u8]),
    Double(&'a [u8]),
    Boolean(&'a [u8]),
    BigNumber(&'a [u8]),
    Bulk(&'a [u8]),
    Verbatim(&'a [u8]),
    Null(&'a [u8]),
    NullBulk,
    NullArray,
}

/// The element at the start of `bytes` and its length in bytes, or `None` if it is not whole. `searched_bytes` of its line
/// are known to hold no line end.
pub(super) fn element<'a>(
    bytes: &'a [u8],
    searched_bytes: &mut usize,
) -> Result<Option<(Element<'a>, usize)>, ProtocolError> {
    let Some(kind) = bytes.first() else {
        return Ok(None);
    };
    let leaf: fn(&'a [u8]) -> Leaf<'a> = match kind {
        b'+' => Leaf::Simple,
        b'-' => Leaf::Error,
        b':' => Leaf::Integer,
        b',' => Leaf::Double,
        b'#' => Leaf::Boolean,
        b'(' => Leaf::BigNumber,
        b'_' => Leaf::Null,
        b'$' => return string(bytes, searched_bytes, Leaf::Bulk),
        b'!' => return string(bytes, searched_bytes, Leaf::Error),
        b'=' => return string(bytes, searched_bytes, Leaf::Verbatim),
        b'*' => return aggregate(bytes, searched_bytes, AggregateKind::Array),
        b'%' => return aggregate(bytes, searched_bytes, AggregateKind::Map),
        b'~' => return aggregate(bytes, searched_bytes, AggregateKind::Set),
        b'>' => return aggregate(bytes, searched_bytes, AggregateKind::Push),
        b'|' => return aggregate(bytes, searched_bytes, AggregateKind::Attribute),
        other => return Err(ProtocolError::UnknownType(*other)),
    };
    let line = line(bytes, searched_bytes)?;
    Ok(line.map(|(line, length)| (Element::Leaf(leaf(line)), length)))
}

/// The text of the line at the start of `bytes`, without its first byte and its end, and its length with both.
fn line<'a>(
    bytes: &'a [u8],
    searched_bytes: &mut usize,
) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
    let window = &bytes[..bytes.len().min(MAX_REPLY_LINE_BYTES + 1)];
    let searched = (*searched_bytes).max(1);
    let fresh = window.get(searched..).unwrap_or_default();
    let Some(end) = memchr::memchr2(b'\r', b'\n', fresh).map(|at| searched + at) else {
        *searched_bytes = window.len();
        return if bytes.len() > MAX_REPLY_LINE_BYTES {
            Err(ProtocolError::InvalidLine)
        } else {
            Ok(None)
        };
    };
    *searched_bytes = end;
    match bytes[end..] {
        [b'\r', b'\n', ..] => Ok(Some((&bytes[1..end], end + LINE_END.len()))),
        [b'\r'] => Ok(None),
        _ => Err(ProtocolError::InvalidLine),
    }
}

/// The length that the header at the start of `bytes` announces (`None`: -1), and the header's length.
fn announced(
    bytes: &[u8],
    searched_bytes: &mut usize,
    limit: usize,
) -> Result<Option<(Option<usize>, usize)>, ProtocolError> {
    let (length, header_bytes) = match usual_header(bytes, bytes[0]) {
        Some(header) if bytes[..header.length_bytes].ends_with(LINE_END) => {
            (Some(header.number), header.length_bytes)
        }
        _ => match line(bytes, searched_bytes)? {
            None => return Ok(None),
            Some((b"-1", header_bytes)) => (None, header_bytes),
            Some((text, header_bytes)) => {
                let length = integer(text).and_then(|length| usize::try_from(length).ok());
                (
                    Some(length.ok_or(ProtocolError::InvalidLength)?),
                    header_bytes,
                )
            }
        },
    };
    if length.is_some_and(|length| length > limit) {
        return Err(ProtocolError::InvalidLength);
    }
    Ok(Some((length, header_bytes)))
}

fn string<'a>(
    bytes: &'a [u8],
    searched_bytes: &mut usize,
    leaf: fn(&'a [u8]) -> Leaf<'a>,
) -> Result<Option<(Element<'a>, usize)>, ProtocolError> {
    let Some((length, header_bytes)) = announced(bytes, searched_bytes, MAX_BULK_BYTES)? else {
        return Ok(None);
    };
    let Some(length) = length else {
        return match bytes[0] {
            b'$' => Ok(Some((Element::Leaf(Leaf::NullBulk), header_bytes))),
            _ => Err(ProtocolError::InvalidLength),
        };
    };
    let end = header_bytes + length;
    let Some(text) = bytes.get(header_bytes..end) else {
        return Ok(None);
    };
    let line_end = &bytes[end..bytes.len().min(end + LINE_END.len())];
    if !LINE_END.starts_with(line_end) {
        return Err(ProtocolError::MissingLineEnd);
    }
    let whole = line_end.len() == LINE_END.len();
    Ok(whole.then(|| (Element::Leaf(leaf(text)), end + LINE_END.len())))
}

fn aggregate<'a>(
    bytes: &[u8],
    searched_bytes: &mut usize,
    kind: AggregateKind,
) -> Result<Option<(Element<'a>, usize)>, ProtocolError> {
    let Some((count, header_bytes)) = announced(bytes, searched_bytes, MAX_REPLY_ELEMENTS)? else {
        return Ok(None);
    };
    let element = match (count, kind) {
        (Some(count), kind) => Element::Open {
            kind,
            elements: kind.elements(count),
        },
        (None, AggregateKind::Array) => Element::Leaf(Leaf::NullArray),
        (None, _) => return Err(ProtocolError::InvalidLength),
    };
    Ok(Some((element, header_bytes)))
}

impl Leaf<'_> {
    pub(super) fn value(&self) -> Result<Reply, ProtocolError> {
        let reply = match *self {
            Self::Simple(text) => Some(Reply::Simple(Bytes::copy_from_slice(text))),
            Self::Error(text) => Some(Reply::Error(Bytes::copy_from_slice(text))),
            Self::Bulk(bytes) => Some(Reply::Bulk(Bytes::copy_from_slice(bytes))),
            Self::Integer(text) => integer(text).map(Reply::Integer),
            Self::Double(text) => double(text).map(Reply::Double),
            Self::Boolean(text) => boolean(text).map(Reply::Boolean),
            Self::BigNumber(text) => {
                is_big_number(text).then(|| Reply::BigNumber(Bytes::copy_from_slice(text)))
            }
            Self::Verbatim(text) => verbatim(text).map(|(format, text)| Reply::Verbatim {
                format: *format,
                text: Bytes::copy_from_slice(text),
            }),
            Self::Null(text) => text.is_empty().then_some(Reply::Null),
            Self::NullBulk => Some(Reply::Null),
            Self::NullArray => Some(Reply::NullArray),
        };
        reply.ok_or(ProtocolError::InvalidLine)
    }

    /// Fails exactly if [`Leaf::value`] fails.
    pub(super) fn check(&self) -> Result<(), ProtocolError> {
        let is_valid = match *self {
            Self::Simple(_) | Self::Error(_) | Self::Bulk(_) | Self::NullBulk | Self::NullArray => {
                true
            }
            Self::Integer(text) => integer(text).is_some(),
            Self::Double(text) => double(text).is_some(),
            Self::Boolean(text) => boolean(text).is_some(),
            Self::BigNumber(text) => is_big_number(text),
            Self::Verbatim(text) => verbatim(text).is_some(),
            Self::Null(text) => text.is_empty(),
        };
        is_valid.then_some(()).ok_or(ProtocolError::InvalidLine)
    }
}

/// RESP allows a plus before an integer.
fn integer(text: &[u8]) -> Option<i64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Also `inf`, `-inf` and `nan`.
fn double(text: &[u8]) -> Option<f64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"t" => Some(true),
        b"f" => Some(false),
        _ => None,
    }
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn verbatim(text: &[u8]) -> Option<(&[u8; 3], &[u8])> {
    let (format, text) = text.split_first_chunk::<3>()?;
    Some((format, text.strip_prefix(b":")?))
}
