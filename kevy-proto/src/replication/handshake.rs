//! How a replica begins, what it is answered, and what it says later.

use super::decode::{StreamFault, word};
use super::message::push_line;
use super::{Epoch, History, HistoryId, VERSION, number};
use crate::resp::{Args, encode_request};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::BytesMut;
use core::fmt;

/// The longest name of a replica.
pub const MAX_REPLICA_ID_BYTES: usize = 64;
/// The longest text of an error that is kept.
const MAX_TEXT_BYTES: usize = 512;

/// What a replica asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The last entry it has applied; 0 says that its key space is empty.
    pub from: u64,
    /// Its name: visible ASCII, which keeps its place over reconnections.
    pub id: String,
    /// The epoch of the state at `from`.
    pub epoch: Option<Epoch>,
    /// The branch of the state at `from`.
    pub history: Option<HistoryId>,
    /// How many shards it has.
    pub shards: Option<u16>,
    /// Which of them this connection is for.
    pub shard: Option<u16>,
    /// Its own state is to be replaced, whatever `from` says: it is of no known history.
    pub full: bool,
    /// Where its clients find it.
    pub port: Option<u16>,
    /// Which version of the protocol it speaks.
    pub version: u32,
}

/// Something that a replica says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerRequest {
    /// The first thing.
    Replicate(Handshake),
    /// What it has applied.
    Ack {
        /// The last entry.
        offset: u64,
        /// The last entry that is durable there, if it says so.
        durable: Option<u64>,
    },
    /// Something of a newer version that needs no answer.
    Ignored,
}

/// Why a request is none that a replica makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// No command of this port.
    Command,
    /// It has fewer words than it must have, or a pair lacks its second half.
    Shape,
    /// A value is no number, or out of range.
    Number,
    /// The name is empty, too long, or has other characters than visible ASCII.
    Id,
}

/// What comes with an answer to a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The epoch the primary writes in.
    pub epoch: Epoch,
    /// When it continues: the offset that was asked for. When all is replaced: what the primary had reached.
    pub offset: u64,
    /// How many shards it has, if it says so.
    pub shards: Option<u16>,
    /// The branches that led to its state, if it says so.
    pub history: Option<History>,
}

/// What becomes of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Entries follow, from the one after the offset asked for.
    Continue(Terms),
    /// A snapshot follows, then entries.
    Full(Terms),
    /// No; and the connection ends.
    Refused(String),
}

impl Handshake {
    /// Asks to continue at `from`, with nothing but a name.
    pub fn new(id: &str, from: u64) -> Self {
        Self {
            from,
            id: id.into(),
            epoch: None,
            history: None,
            shards: None,
            shard: None,
            full: false,
            port: None,
            version: VERSION,
        }
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut words = alloc::vec![
            String::from("REPLICATE"),
            String::from("FROM"),
            format!("{}", self.from),
            String::from("ID"),
            self.id.clone(),
            String::from("VERSION"),
            format!("{}", self.version),
        ];
        let mut pair = |key: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [key.into(), value]));
        };
        pair("EPOCH", self.epoch.map(|epoch| format!("{epoch}")));
        pair("HISTORY", self.history.map(|id| format!("{id}")));
        pair("SHARDS", self.shards.map(|shards| format!("{shards}")));
        pair("SHARD", self.shard.map(|shard| format!("{shard}")));
        pair("SYNC", self.full.then(|| "full".into()));
        pair("PORT", self.port.map(|port| format!("{port}")));
        let words: Vec<_> = words.iter().map(String::as_bytes).collect();
        encode_request(words, out);
    }

    fn parse(pairs: Args<'_>) -> Result<Self, RequestFault> {
        let mut handshake = Self::new("", 0);
        handshake.version = 1;
        let (mut from, mut named) = (false, false);
        let words: Vec<_> = pairs.iter().collect();
        for pair in words.chunks(2) {
            let [key, value] = pair else {
                return Err(RequestFault::Shape);
            };
            from |= key.eq_ignore_ascii_case(b"FROM");
            named |= key.eq_ignore_ascii_case(b"ID");
            handshake.take(key, value)?;
        }
        if from && named {
            Ok(handshake)
        } else {
            Err(RequestFault::Shape)
        }
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), RequestFault> {
        match &key.to_ascii_uppercase()[..] {
            b"FROM" => self.from = offset(value)?,
            b"ID" => self.id = replica_id(value)?,
            b"EPOCH" => self.epoch = Some(Epoch(offset(value)?)),
            // A name that is none names nothing that is known here.
            b"HISTORY" => self.history = HistoryId::parse(value),
            b"SHARDS" => self.shards = Some(number(value).ok_or(RequestFault::Number)?),
            b"SHARD" => self.shard = Some(number(value).ok_or(RequestFault::Number)?),
            b"SYNC" => self.full = value.eq_ignore_ascii_case(b"full"),
            b"PORT" => self.port = Some(number(value).ok_or(RequestFault::Number)?),
            b"VERSION" => self.version = number(value).ok_or(RequestFault::Number)?,
            _ => {}
        }
        Ok(())
    }
}

fn offset(value: &[u8]) -> Result<u64, RequestFault> {
    word(value).map_err(|_| RequestFault::Number)
}

fn replica_id(value: &[u8]) -> Result<String, RequestFault> {
    let sound =
        (1..=MAX_REPLICA_ID_BYTES).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
    let text = core::str::from_utf8(value).ok().filter(|_| sound);
    text.map(Into::into).ok_or(RequestFault::Id)
}

impl PeerRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// Why it is none that a replica makes.
    pub fn parse(args: Args<'_>) -> Result<Self, RequestFault> {
        if args.is_empty() {
            return Ok(Self::Ignored);
        }
        let command = args.at(0);
        if command.eq_ignore_ascii_case(b"REPLICATE") {
            return Handshake::parse(args.skip(1)).map(Self::Replicate);
        }
        if !command.eq_ignore_ascii_case(b"REPLCONF") {
            return Err(RequestFault::Command);
        }
        if !args.get(1).is_some_and(|w| w.eq_ignore_ascii_case(b"ACK")) {
            return Ok(Self::Ignored);
        }
        let durable = args.get(3).is_some_and(|w| w.eq_ignore_ascii_case(b"FACK"));
        let durable = args.get(4).filter(|_| durable).map(offset).transpose()?;
        Ok(Self::Ack {
            offset: offset(args.get(2).ok_or(RequestFault::Shape)?)?,
            durable,
        })
    }
}

impl Answer {
    /// Appends the answer's line. A text is cut where a line ends, so that it cannot pass for more.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Continue(terms) => terms.encode("ACK", out),
            Self::Full(terms) => terms.encode("FULLSYNC", out),
            Self::Refused(text) => {
                let text = text.lines().next().unwrap_or_default();
                push_line(out, format_args!("-{text}"));
            }
        }
    }

    pub(super) fn continues(
        epoch: &[u8],
        offset: &[u8],
        pairs: &[&[u8]],
    ) -> Result<Self, StreamFault> {
        Terms::parse(epoch, offset, pairs).map(Self::Continue)
    }

    pub(super) fn full(epoch: &[u8], offset: &[u8], pairs: &[&[u8]]) -> Result<Self, StreamFault> {
        Terms::parse(epoch, offset, pairs).map(Self::Full)
    }

    pub(super) fn refused(text: &[u8]) -> Self {
        let text = &text[..text.len().min(MAX_TEXT_BYTES)];
        Self::Refused(String::from_utf8_lossy(text).into_owned())
    }
}

impl Terms {
    fn encode(&self, word: &str, out: &mut BytesMut) {
        let mut line = format!("+{word} {} {}", self.epoch, self.offset);
        let mut pair = |key: &str, value: &dyn fmt::Display| {
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(&mut line, format_args!(" {key} {value}"));
        };
        if let Some(shards) = &self.shards {
            pair("SHARDS", shards);
        }
        if let Some(history) = &self.history {
            pair("HISTORY", history);
        }
        push_line(out, format_args!("{line}"));
    }

    fn parse(epoch: &[u8], offset: &[u8], pairs: &[&[u8]]) -> Result<Self, StreamFault> {
        let mut terms = Self {
            epoch: Epoch(word(epoch)?),
            offset: word(offset)?,
            shards: None,
            history: None,
        };
        for pair in pairs.chunks(2) {
            match pair {
                [b"SHARDS", shards] => {
                    terms.shards = Some(number(shards).ok_or(StreamFault::Number)?);
                }
                [b"HISTORY", history] => {
                    terms.history = Some(History::parse(history).ok_or(StreamFault::Number)?);
                }
                _ => {}
            }
        }
        Ok(terms)
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Command => "this port is for replicas: REPLICATE FROM <offset> ID <name>",
            Self::Shape => "REPLICATE needs FROM <offset> ID <name> and pairs of words",
            Self::Number => "a number is malformed or out of range",
            Self::Id => "ID must be 1 to 64 visible ASCII characters",
        })
    }
}

impl core::error::Error for RequestFault {}

#[cfg(test)]
mod tests {
    use super::super::{StreamLimits, StreamMessage, decode_message, push_ack};
    use super::*;
    use crate::resp::{Decoded, Decoder, RequestBuffer};
    use proptest::prelude::*;

    fn parse(words: &str) -> Result<PeerRequest, RequestFault> {
        let words = RequestBuffer::from_slices(words.split(' ').map(str::as_bytes));
        PeerRequest::parse(words.args())
    }

    fn read(bytes: &[u8]) -> PeerRequest {
        let mut decoder = Decoder::new();
        let outcome = decoder.decode(bytes);
        let consumed = bytes.len();
        assert_eq!(outcome, Ok(Decoded::Request { consumed }));
        PeerRequest::parse(decoder.args(bytes)).expect("a request")
    }

    #[test]
    fn bug_38_the_shortest_handshake_is_understood() {
        let expected = Handshake {
            version: 1,
            ..Handshake::new("r1", 7)
        };
        let expected = PeerRequest::Replicate(expected);
        assert_eq!(parse("REPLICATE FROM 7 ID r1"), Ok(expected.clone()));
        assert_eq!(
            parse("replicate id r1 from 7 later thing"),
            Ok(expected.clone())
        );
        assert_eq!(parse("REPLICATE FROM 7 ID r1 HISTORY short"), Ok(expected));
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        assert_eq!(parse("REPLICATE"), Err(RequestFault::Shape));
        assert_eq!(parse("REPLICATE FROM 7"), Err(RequestFault::Shape));
        assert_eq!(
            parse("REPLICATE FROM 7 ID r EPOCH"),
            Err(RequestFault::Shape)
        );
        assert_eq!(parse("REPLICATE FROM -7 ID r"), Err(RequestFault::Number));
        assert_eq!(
            parse("REPLICATE FROM 7 ID r SHARDS 70000"),
            Err(RequestFault::Number)
        );
        assert_eq!(parse("REPLICATE FROM 7 ID \u{fc}"), Err(RequestFault::Id));
        let long = format!("REPLICATE FROM 7 ID {}", "x".repeat(65));
        assert_eq!(parse(&long), Err(RequestFault::Id));
        assert_eq!(parse("GET k"), Err(RequestFault::Command));
        assert_eq!(parse("REPLCONF ACK"), Err(RequestFault::Shape));
        assert_eq!(parse("REPLCONF ACK x"), Err(RequestFault::Number));
        assert_eq!(parse("REPLCONF GETACK *"), Ok(PeerRequest::Ignored));
    }

    #[test]
    fn an_error_stays_one_line() {
        let mut out = BytesMut::new();
        Answer::Refused("ERR no\r\n+ACK 1 1".into()).encode(&mut out);
        assert_eq!(&out[..], b"-ERR no\r\n");
    }

    fn answers() -> impl Strategy<Value = Answer> {
        let number = 0..=(i64::MAX as u64);
        let terms = (
            number.clone(),
            number,
            any::<Option<u16>>(),
            any::<Option<u128>>(),
        );
        (terms, any::<bool>()).prop_map(|((epoch, offset, shards, id), full)| {
            let terms = Terms {
                epoch: Epoch(epoch),
                offset,
                shards,
                history: id.map(|id| History::begin(HistoryId(id), Epoch(epoch), offset)),
            };
            if full {
                Answer::Full(terms)
            } else {
                Answer::Continue(terms)
            }
        })
    }

    proptest! {
        #[test]
        fn a_handshake_comes_back(
            from in 0..=(i64::MAX as u64), id in "[!-~]{1,64}", epoch in 0..=(i64::MAX as u64), history in any::<Option<u128>>(),
            shards in any::<Option<u16>>(), shard in any::<Option<u16>>(), full in any::<bool>(), port in any::<Option<u16>>(),
        ) {
            let handshake = Handshake {
                from, id, epoch: Some(Epoch(epoch)), history: history.map(HistoryId), shards, shard, full, port, version: VERSION,
            };
            let mut out = BytesMut::new();
            handshake.encode(&mut out);
            prop_assert_eq!(read(&out), PeerRequest::Replicate(handshake));
        }

        #[test]
        fn an_answer_comes_back(answer in answers()) {
            let mut out = BytesMut::new();
            answer.encode(&mut out);
            let read = decode_message(&out, &StreamLimits::default());
            prop_assert_eq!(read, Ok(Some((StreamMessage::Answer(answer), out.len()))));
        }

        #[test]
        fn an_acknowledgement_comes_back(offset in 0..=(i64::MAX as u64), durable in prop::option::of(0..=(i64::MAX as u64))) {
            let mut out = BytesMut::new();
            push_ack(&mut out, offset, durable);
            prop_assert_eq!(read(&out), PeerRequest::Ack { offset, durable });
        }
    }
}
