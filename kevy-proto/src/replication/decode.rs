//! What a primary sends, read: in pieces of any size, never keeping or allocating more than what has come.

use super::handshake::Answer;
use super::{
    EntryFrame, Epoch, LINE_END, MAX_CHUNK_BYTES, MAX_ENTRY_BYTES, MAX_LINE_BYTES, SnapshotTotals,
    StreamMessage, number,
};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The most elements that an entry's array may have; what stands between the epoch and the bytes is for later versions.
const MAX_ENTRY_ELEMENTS: u64 = 16;
/// The most words of a line that are looked at.
const MAX_WORDS: usize = 64;

/// What is refused before it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The largest entry.
    pub entry_bytes: usize,
    /// The largest chunk of a snapshot.
    pub chunk_bytes: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            entry_bytes: MAX_ENTRY_BYTES,
            chunk_bytes: MAX_CHUNK_BYTES,
        }
    }
}

/// Why bytes are nothing that a primary says. The connection cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// A line does not end.
    LineTooLong,
    /// It begins as nothing does that a primary sends, or an array has another shape.
    Envelope,
    /// An offset, an epoch or another number is none.
    Number,
    /// An offset is negative.
    NegativeOffset,
    /// The bytes of an entry or a chunk are longer than allowed, or something else than the end of the line follows them.
    Payload,
}

/// Reads the message at the start of `buffer`, and how long it is; nothing if it has not come in whole.
///
/// # Errors
/// Why there is none and never will be.
pub fn decode_message(
    buffer: &[u8],
    limits: &StreamLimits,
) -> Result<Option<(StreamMessage, usize)>, StreamFault> {
    let mut reader = Reader { buffer, at: 0 };
    let message = match buffer.first() {
        None => return Ok(None),
        Some(b'*') => reader.entry(limits)?.map(StreamMessage::Entry),
        Some(b'$') => {
            let chunk = reader.bytes(limits.chunk_bytes)?;
            chunk.map(StreamMessage::SnapshotChunk)
        }
        Some(b'+') => match reader.line()? {
            None => None,
            Some(line) => Some(status(line.get(1..).unwrap_or_default())?),
        },
        Some(b'-') => {
            let line = reader.line()?;
            let text = line.map(|line| line.get(1..).unwrap_or_default());
            text.map(|text| StreamMessage::Answer(Answer::refused(text)))
        }
        Some(_) => return Err(StreamFault::Envelope),
    };
    Ok(message.map(|message| (message, reader.at)))
}

struct Reader<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line without its end.
    fn line(&mut self) -> Result<Option<&'a [u8]>, StreamFault> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let window = &rest[..rest.len().min(MAX_LINE_BYTES + LINE_END.len())];
        let Some(end) = memchr::memchr(b'\n', window) else {
            if window.len() < rest.len() || window.len() > MAX_LINE_BYTES + 1 {
                return Err(StreamFault::LineTooLong);
            }
            return Ok(None);
        };
        let line = window[..end].strip_suffix(b"\r");
        let line = line.ok_or(StreamFault::Envelope)?;
        self.at += end + 1;
        Ok(Some(line))
    }

    /// An array: offset, epoch, what later versions add, and bytes.
    fn entry(&mut self, limits: &StreamLimits) -> Result<Option<EntryFrame>, StreamFault> {
        let Some(count) = self.prefixed(b'*')? else {
            return Ok(None);
        };
        if !(2..=MAX_ENTRY_ELEMENTS).contains(&count) {
            return Err(StreamFault::Envelope);
        }
        let Some(offset) = self.prefixed(b':')? else {
            return Ok(None);
        };
        let mut epoch = None;
        for element in 2..count {
            let Some(value) = self.prefixed(b':')? else {
                return Ok(None);
            };
            if element == 2 {
                epoch = Some(Epoch(value));
            }
        }
        let payload = self.bytes(limits.entry_bytes)?;
        Ok(payload.map(|payload| EntryFrame {
            offset,
            epoch,
            payload,
        }))
    }

    fn prefixed(&mut self, prefix: u8) -> Result<Option<u64>, StreamFault> {
        let Some(line) = self.line()? else {
            // What has come of it may be wrong already.
            let first = self.buffer.get(self.at);
            return match first {
                Some(first) if *first != prefix => Err(StreamFault::Envelope),
                Some(_) | None => Ok(None),
            };
        };
        let digits = line.strip_prefix(&[prefix]).ok_or(StreamFault::Envelope)?;
        if prefix == b':' && digits.first() == Some(&b'-') {
            return Err(StreamFault::NegativeOffset);
        }
        let value = number::<u64>(digits).filter(|value| i64::try_from(*value).is_ok());
        value.map(Some).ok_or(StreamFault::Number)
    }

    /// Where counted bytes stand.
    fn bytes(&mut self, limit: usize) -> Result<Option<Range<usize>>, StreamFault> {
        let Some(length) = self.prefixed(b'$')? else {
            return Ok(None);
        };
        if length == 0 || length > limit as u64 {
            return Err(StreamFault::Payload);
        }
        let payload = self.at..self.at + length as usize;
        let end = self.buffer.get(payload.end..).unwrap_or_default();
        if !LINE_END.starts_with(&end[..end.len().min(LINE_END.len())]) {
            return Err(StreamFault::Payload);
        }
        if end.len() < LINE_END.len() {
            return Ok(None);
        }
        self.at = payload.end + LINE_END.len();
        Ok(Some(payload))
    }
}

fn status(line: &[u8]) -> Result<StreamMessage, StreamFault> {
    let words = line.split(|byte| *byte == b' ').take(MAX_WORDS);
    let words: Vec<_> = words.collect();
    match &words[..] {
        [b"PING", rest @ ..] => ping(rest),
        [b"ACK", epoch, offset, pairs @ ..] => {
            Answer::continues(epoch, offset, pairs).map(StreamMessage::Answer)
        }
        [b"FULLSYNC", epoch, offset, pairs @ ..] => {
            Answer::full(epoch, offset, pairs).map(StreamMessage::Answer)
        }
        [b"SNAPSHOT", b"BEGIN", offset, ..] => Ok(StreamMessage::SnapshotBegin {
            offset: word(offset)?,
        }),
        [b"SNAPSHOT", b"END", offset, chunks, bytes, sum, ..] => Ok(StreamMessage::SnapshotEnd {
            offset: word(offset)?,
            totals: SnapshotTotals {
                chunks: word(chunks)?,
                bytes: word(bytes)?,
                checksum: hexadecimal(sum)?,
            },
        }),
        [b"ACK" | b"FULLSYNC" | b"SNAPSHOT", ..] => Err(StreamFault::Number),
        [..] => Ok(StreamMessage::Unknown),
    }
}

/// An old heartbeat says only the offset, or nothing.
fn ping(words: &[&[u8]]) -> Result<StreamMessage, StreamFault> {
    let (epoch, next_offset) = match words {
        [] => (None, None),
        [next] => (None, Some(word(next)?)),
        [epoch, next, ..] => (Some(Epoch(word(epoch)?)), Some(word(next)?)),
    };
    Ok(StreamMessage::Ping { epoch, next_offset })
}

pub(super) fn word(word: &[u8]) -> Result<u64, StreamFault> {
    if word.first() == Some(&b'-') {
        return Err(StreamFault::NegativeOffset);
    }
    let value = number::<u64>(word).filter(|value| i64::try_from(*value).is_ok());
    value.ok_or(StreamFault::Number)
}

fn hexadecimal(word: &[u8]) -> Result<u32, StreamFault> {
    let digits = word.len() == 8 && word.iter().all(u8::is_ascii_hexdigit);
    let text = core::str::from_utf8(word).ok().filter(|_| digits);
    let value = text.and_then(|text| u32::from_str_radix(text, 16).ok());
    value.ok_or(StreamFault::Number)
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineTooLong => "a line of the stream is too long",
            Self::Envelope => "something in the stream is no message",
            Self::Number => "a number in the stream is malformed",
            Self::NegativeOffset => "an offset in the stream is negative",
            Self::Payload => "bytes in the stream are too long, none, or not ended as they must",
        })
    }
}

impl core::error::Error for StreamFault {}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use alloc::format;
    use alloc::vec;
    use bytes::BytesMut;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> Result<Option<(StreamMessage, usize)>, StreamFault> {
        decode_message(bytes, &StreamLimits::default())
    }

    fn one(bytes: &[u8]) -> StreamMessage {
        let (message, length) = decode(bytes).expect("sound").expect("whole");
        assert_eq!(length, bytes.len());
        message
    }

    #[test]
    fn bug_38_what_older_and_newer_peers_say_is_read() {
        let ping = |epoch: Option<u64>, next_offset| StreamMessage::Ping {
            epoch: epoch.map(Epoch),
            next_offset,
        };
        assert_eq!(one(b"+PING\r\n"), ping(None, None));
        assert_eq!(one(b"+PING 17\r\n"), ping(None, Some(17)));
        assert_eq!(one(b"+PING 2 17\r\n"), ping(Some(2), Some(17)));
        assert_eq!(one(b"+PING 2 17 more\r\n"), ping(Some(2), Some(17)));
        assert_eq!(one(b"+LATER things\r\n"), StreamMessage::Unknown);
        let entry = |epoch: Option<u64>, payload| {
            StreamMessage::Entry(EntryFrame {
                offset: 7,
                epoch: epoch.map(Epoch),
                payload,
            })
        };
        assert_eq!(one(b"*2\r\n:7\r\n$2\r\nab\r\n"), entry(None, 12..14));
        assert_eq!(
            one(b"*3\r\n:7\r\n:3\r\n$2\r\nab\r\n"),
            entry(Some(3), 16..18)
        );
        assert_eq!(
            one(b"*4\r\n:7\r\n:3\r\n:99\r\n$2\r\nab\r\n"),
            entry(Some(3), 21..23)
        );
    }

    #[test]
    fn bug_36_what_is_only_announced_is_refused_or_waited_for() {
        let faults: &[(&[u8], StreamFault)] = &[
            (b"*9999999999\r\n", StreamFault::Envelope),
            (b"*1\r\n", StreamFault::Envelope),
            (b"$9999999999\r\n", StreamFault::Payload),
            (b"$0\r\n", StreamFault::Payload),
            (b"$1048577\r\n", StreamFault::Payload),
            (b"*2\r\n:1\r\n$1073741825\r\n", StreamFault::Payload),
            (b"*2\r\n:-1\r\n", StreamFault::NegativeOffset),
            (b"*2\r\n:1x\r\n", StreamFault::Number),
            (b"*2\r\n:9223372036854775808\r\n", StreamFault::Number),
            (b"*2\r\n$", StreamFault::Envelope),
            (b"*2\r\n:1\r\n$2\r\nabc", StreamFault::Payload),
            (b"+SNAPSHOT END 1\r\n", StreamFault::Number),
            (b"+ACK 1\r\n", StreamFault::Number),
            (b"+ACK -1 1\r\n", StreamFault::NegativeOffset),
            (b"+SNAPSHOT END 1 1 1 0123456g\r\n", StreamFault::Number),
            (b"hello", StreamFault::Envelope),
            (b"+PING\n", StreamFault::Envelope),
        ];
        for (bytes, fault) in faults {
            assert_eq!(decode(bytes), Err(*fault), "{}", bytes.escape_ascii());
        }
        assert_eq!(decode(b"*2\r\n:1\r\n$1073741824\r\n"), Ok(None));
        let endless = vec![b'+'; MAX_LINE_BYTES + 2];
        assert_eq!(decode(&endless[..MAX_LINE_BYTES]), Ok(None));
        assert_eq!(decode(&endless), Err(StreamFault::LineTooLong));
    }

    /// Something that a primary may send, as bytes and as it must be read.
    fn messages() -> impl Strategy<Value = (BytesMut, Vec<u8>)> {
        let number = 0..=(i64::MAX as u64);
        let bytes = prop::collection::vec(any::<u8>(), 1..300);
        (0..5, number.clone(), number, bytes).prop_map(|(kind, first, second, bytes)| {
            let mut out = BytesMut::new();
            match kind {
                0 => push_entry(&mut out, first, Epoch(second), &bytes),
                1 => push_ping(&mut out, Epoch(first), second),
                2 => push_snapshot_begin(&mut out, first),
                3 => push_snapshot_chunk(&mut out, &bytes),
                _ => {
                    let mut digest = SnapshotDigest::new();
                    digest.add(&bytes);
                    push_snapshot_end(&mut out, first, &digest.totals());
                }
            }
            let mut again = BytesMut::new();
            let message = one(&out);
            match &message {
                StreamMessage::Entry(frame) => {
                    let payload = &out[frame.payload.clone()];
                    push_entry(
                        &mut again,
                        frame.offset,
                        frame.epoch.expect("ours"),
                        payload,
                    );
                }
                StreamMessage::Ping { epoch, next_offset } => {
                    push_ping(&mut again, epoch.expect("ours"), next_offset.expect("ours"));
                }
                StreamMessage::SnapshotBegin { offset } => push_snapshot_begin(&mut again, *offset),
                StreamMessage::SnapshotChunk(at) => {
                    push_snapshot_chunk(&mut again, &out[at.clone()]);
                }
                StreamMessage::SnapshotEnd { offset, totals } => {
                    push_snapshot_end(&mut again, *offset, totals);
                }
                StreamMessage::Answer(_) | StreamMessage::Unknown => panic!("{message:?}"),
            }
            (out, again.to_vec())
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_no_prefix_of_it((out, again) in messages()) {
            prop_assert_eq!(&out[..], &again[..]);
            for length in 0..out.len() {
                prop_assert_eq!(decode(&out[..length]), Ok(None), "{} bytes", length);
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in "[*$+:-]?(PING |ACK |SNAPSHOT )?") {
            let bytes = [kind.as_bytes(), &bytes, b"\r\n"].concat();
            if let Ok(Some((_, length))) = decode(&bytes) {
                prop_assert!(length > 0 && length <= bytes.len());
            }
        }

        #[test]
        fn a_verdict_on_a_prefix_stands(bytes in "[*$+:0-9\r\n]{0,40}") {
            let bytes = bytes.as_bytes();
            let whole = decode(bytes);
            for length in 0..bytes.len() {
                let early = decode(&bytes[..length]);
                let same = early == Ok(None) || early == whole;
                prop_assert!(same, "{}", format!("{length}: {early:?}, then {whole:?}"));
            }
        }
    }
}
