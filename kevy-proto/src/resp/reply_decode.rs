//! Reads replies, from a server or from another shard.
//!
//! A reply is read element by element. Each element is built once, when it is whole, and a reply that arrives in many
//! pieces goes on where it stopped, so that the work is linear in its bytes. Memory grows with what has arrived, never with
//! what is announced, and nesting is bounded, for a value is dropped and encoded by recursion.

use super::element::{AggregateKind, Element, element};
use super::{ProtocolError, Reply};
use alloc::vec::Vec;

/// Deepest nesting of a reply's arrays, maps, sets and attributes.
pub const MAX_REPLY_DEPTH: usize = 64;

/// Finds replies in the bytes of one connection.
///
/// The contract is that of [`super::Decoder`]: after `None` the next call must see the same bytes again, with more appended;
/// after a reply the caller drops its bytes; after an error the connection is to be closed.
#[derive(Debug, Default)]
pub struct ReplyDecoder {
    /// Aggregates whose elements are still missing, the outermost first.
    open: Vec<Aggregate>,
    /// Bytes of the buffer that are understood.
    understood_bytes: usize,
    /// Bytes after those that were searched for a line end without success.
    searched_bytes: usize,
}

#[derive(Debug)]
struct Aggregate {
    kind: AggregateKind,
    /// Elements still missing; a map's keys and values count one each.
    missing: usize,
    items: Vec<Reply>,
}

impl ReplyDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for a reply at the start of `buffer`; gives it with its length in bytes, or `None` while it is not whole.
    ///
    /// # Errors
    ///
    /// When the bytes can never become a reply.
    pub fn decode(&mut self, buffer: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
        let outcome = self.resume(buffer);
        if !matches!(outcome, Ok(None)) {
            self.open.clear();
            self.understood_bytes = 0;
            self.searched_bytes = 0;
        }
        outcome
    }

    fn resume(&mut self, buffer: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
        loop {
            let bytes = buffer.get(self.understood_bytes..).unwrap_or_default();
            let Some((element, length)) = element(bytes, &mut self.searched_bytes)? else {
                return Ok(None);
            };
            self.understood_bytes += length;
            self.searched_bytes = 0;
            let reply = match element {
                Element::Open { kind, elements } => self.open(kind, elements)?,
                Element::Leaf(leaf) => Some(leaf.value()?),
            };
            if let Some(whole) = reply.and_then(|reply| self.place(reply)) {
                return Ok(Some((whole, self.understood_bytes)));
            }
        }
    }

    /// Starts an aggregate; gives it at once if it has no elements.
    fn open(
        &mut self,
        kind: AggregateKind,
        elements: usize,
    ) -> Result<Option<Reply>, ProtocolError> {
        if elements == 0 {
            return Ok(kind.build(Vec::new()));
        }
        if self.open.len() == MAX_REPLY_DEPTH {
            return Err(ProtocolError::TooDeep);
        }
        self.open.push(Aggregate {
            kind,
            missing: elements,
            items: Vec::new(),
        });
        Ok(None)
    }

    /// Puts `reply` where it belongs, and closes what it completes; gives the whole reply when nothing is open any more.
    fn place(&mut self, mut reply: Reply) -> Option<Reply> {
        while let Some(innermost) = self.open.last_mut() {
            innermost.items.push(reply);
            innermost.missing -= 1;
            if innermost.missing > 0 {
                return None;
            }
            let whole = self.open.pop()?;
            // An attribute vanishes: the reply that it describes comes next, in its place.
            reply = whole.kind.build(whole.items)?;
        }
        Some(reply)
    }
}

impl AggregateKind {
    fn build(self, items: Vec<Reply>) -> Option<Reply> {
        match self {
            Self::Array => Some(Reply::Array(items)),
            Self::Set => Some(Reply::Set(items)),
            Self::Push => Some(Reply::Push(items)),
            Self::Map => Some(Reply::Map(pairs(items))),
            Self::Attribute => None,
        }
    }
}

fn pairs(items: Vec<Reply>) -> Vec<(Reply, Reply)> {
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

/// The length in bytes of the reply at the start of `buffer`, or `None` if it is not whole. Builds no value, so that it can
/// split a sequence of encoded replies cheaply. It starts anew with each call, and does not look at the nesting's depth.
///
/// # Errors
///
/// When the bytes can never become a reply.
pub fn reply_length(buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
    let (mut missing, mut at) = (1_usize, 0);
    while missing > 0 {
        let bytes = buffer.get(at..).unwrap_or_default();
        let Some((element, length)) = element(bytes, &mut 0)? else {
            return Ok(None);
        };
        at += length;
        missing = match element {
            Element::Leaf(leaf) => {
                leaf.check()?;
                missing - 1
            }
            Element::Open {
                kind: AggregateKind::Attribute,
                elements,
            } => missing.saturating_add(elements),
            Element::Open { elements, .. } => (missing - 1).saturating_add(elements),
        };
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::super::element::MAX_REPLY_LINE_BYTES;
    use super::*;
    use alloc::vec;
    use bytes::Bytes;

    fn decoded(input: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
        let outcome = ReplyDecoder::new().decode(input);
        let length = outcome
            .as_ref()
            .map(|found| found.as_ref().map(|(_, length)| *length));
        if outcome != Err(ProtocolError::TooDeep) {
            assert_eq!(reply_length(input), length.map_err(|error| *error));
        }
        outcome
    }

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn each_type_is_read() {
        let cases: [(&[u8], Reply); 22] = [
            (b"+OK\r\n", Reply::OK),
            (b"-ERR x\r\n", Reply::Error(Bytes::from_static(b"ERR x"))),
            (
                b"!3\r\na\r\n\r\n",
                Reply::Error(Bytes::from_static(b"a\r\n")),
            ),
            (b":-9223372036854775808\r\n", Reply::Integer(i64::MIN)),
            (b":+7\r\n", Reply::Integer(7)),
            (b",-inf\r\n", Reply::Double(f64::NEG_INFINITY)),
            (b",2.125\r\n", Reply::Double(2.125)),
            (b"#t\r\n", Reply::Boolean(true)),
            (b"#f\r\n", Reply::Boolean(false)),
            (
                b"(-123456789012345678901\r\n",
                Reply::BigNumber(Bytes::from_static(b"-123456789012345678901")),
            ),
            (b"$3\r\na\r\n\r\n", bulk("a\r\n")),
            (b"$0\r\n\r\n", bulk("")),
            (
                b"=6\r\ntxt:hi\r\n",
                Reply::Verbatim {
                    format: *b"txt",
                    text: Bytes::from_static(b"hi"),
                },
            ),
            (b"$-1\r\n", Reply::Null),
            (b"_\r\n", Reply::Null),
            (b"*-1\r\n", Reply::NullArray),
            (b"*0\r\n", Reply::Array(vec![])),
            (
                b"*2\r\n*1\r\n$1\r\na\r\n:1\r\n",
                Reply::Array(vec![Reply::Array(vec![bulk("a")]), Reply::Integer(1)]),
            ),
            (
                b"%1\r\n+OK\r\n~1\r\n_\r\n",
                Reply::Map(vec![(Reply::OK, Reply::Set(vec![Reply::Null]))]),
            ),
            (b">1\r\n$1\r\na\r\n", Reply::Push(vec![bulk("a")])),
            (
                b"|1\r\n+OK\r\n*2\r\n:1\r\n:2\r\n:42\r\n",
                Reply::Integer(42),
            ),
            (
                b"*2\r\n|1\r\n+OK\r\n:1\r\n:2\r\n|0\r\n:3\r\n",
                Reply::Array(vec![Reply::Integer(2), Reply::Integer(3)]),
            ),
        ];
        for (input, reply) in cases {
            let mut followed = input.to_vec();
            followed.extend_from_slice(b"+next");
            assert_eq!(
                decoded(&followed),
                Ok(Some((reply, input.len()))),
                "{input:?}"
            );
            for end in 0..input.len() {
                assert_eq!(decoded(&input[..end]), Ok(None), "{:?}", &input[..end]);
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        use ProtocolError::{InvalidLength, InvalidLine, MissingLineEnd, UnknownType};
        let cases: [(&[u8], ProtocolError); 20] = [
            (b"PING\r\n", UnknownType(b'P')),
            (b"\r\n", UnknownType(b'\r')),
            (b"*1\r\n?", UnknownType(b'?')),
            (b"+a\nb", InvalidLine),
            (b"+a\rb", InvalidLine),
            (b":\r\n", InvalidLine),
            (b":1.5\r\n", InvalidLine),
            (b":9223372036854775808\r\n", InvalidLine),
            (b",one\r\n", InvalidLine),
            (b"#x\r\n", InvalidLine),
            (b"(-\r\n", InvalidLine),
            (b"_x\r\n", InvalidLine),
            (b"=3\r\ntxt\r\n", InvalidLine),
            (b"=6\r\ntxt hi\r\n", InvalidLine),
            (b"$1\r\nab", MissingLineEnd),
            (b"$536870913\r\n", InvalidLength),
            (b"$-2\r\n", InvalidLength),
            (b"$?\r\n", InvalidLength),
            (b"%-1\r\n", InvalidLength),
            (b"*4294967296\r\n", InvalidLength),
        ];
        for (input, error) in cases {
            assert_eq!(decoded(input), Err(error), "{input:?}");
        }
    }

    #[test]
    fn depth_lines_and_announcements_are_bounded() {
        let nested = b"*1\r\n".repeat(MAX_REPLY_DEPTH);
        let whole = [nested.as_slice(), b":1\r\n"].concat();
        assert_eq!(decoded(&whole).unwrap().unwrap().1, whole.len());
        let deeper = [nested.as_slice(), b"*1\r\n"].concat();
        assert_eq!(decoded(&deeper), Err(ProtocolError::TooDeep));

        let line = vec![b'+'; MAX_REPLY_LINE_BYTES + 1];
        assert_eq!(decoded(&line), Err(ProtocolError::InvalidLine));
        assert_eq!(decoded(&line[1..]), Ok(None));

        let mut decoder = ReplyDecoder::new();
        assert_eq!(
            decoder.decode(b"*4294967295\r\n%4294967295\r\n$536870912\r\n"),
            Ok(None)
        );
        assert_eq!(decoder.open[0].items.capacity(), 0);
        assert_eq!(decoder.open[1].items.capacity(), 0);
    }
}
