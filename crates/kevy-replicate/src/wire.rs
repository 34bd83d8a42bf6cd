//! Single pieces of a stream as bytes, for programs that read or write them without a machine.
//!
//! [`kevy_proto::replication`] has the same for streams: into buffers that grow, out of buffers that fill.

use bytes::{Bytes, BytesMut};
use kevy_proto::log::{Entries, Entry, EntryFault};
use kevy_proto::replication::{
    Epoch, SnapshotTotals, StreamFault, StreamLimits, StreamMessage, decode_message, push_entry,
    push_snapshot_begin, push_snapshot_chunk, push_snapshot_end,
};
use std::fmt;

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedFrame {
    /// Its place in the stream.
    pub offset: u64,
    /// The epoch it was written in, if the frame says so.
    pub epoch: Option<Epoch>,
    /// As the primary's log has it.
    pub payload: Bytes,
}

/// What marks the beginning, the parts and the end of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotMarker {
    /// A snapshot of the state at this offset follows.
    Begin {
        /// The last entry that is part of it.
        offset: u64,
    },
    /// Its next bytes.
    Chunk(Bytes),
    /// It is complete.
    End {
        /// The last entry that is part of it.
        offset: u64,
        /// What all chunks were together.
        totals: SnapshotTotals,
    },
}

/// Why bytes are not what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// They end too early: with more of them it may be one.
    Truncated,
    /// They are something else.
    BadEnvelope,
    /// A number is malformed.
    BadOffset,
    /// An offset is negative.
    NegativeOffset,
    /// The bytes within are too long, none, or not ended as they must.
    BadPayload,
}

impl DecodedFrame {
    /// What the entry says.
    ///
    /// # Errors
    /// If it is malformed, or of a newer version.
    pub fn entry(&self) -> Result<Entry<'_>, EntryFault> {
        let first = Entries::of(&self.payload).next();
        first.unwrap_or(Err(EntryFault::Malformed))
    }
}

/// An entry on its way.
pub fn encode_frame(offset: u64, epoch: Epoch, payload: &[u8]) -> Vec<u8> {
    written(|out| push_entry(out, offset, epoch, payload))
}

/// The beginning of a snapshot.
pub fn encode_snapshot_begin(offset: u64) -> Vec<u8> {
    written(|out| push_snapshot_begin(out, offset))
}

/// A chunk of a snapshot: 1 to [`kevy_proto::replication::MAX_CHUNK_BYTES`] bytes.
pub fn encode_snapshot_chunk(chunk: &[u8]) -> Vec<u8> {
    written(|out| push_snapshot_chunk(out, chunk))
}

/// The end of a snapshot.
pub fn encode_snapshot_end(offset: u64, totals: &SnapshotTotals) -> Vec<u8> {
    written(|out| push_snapshot_end(out, offset, totals))
}

fn written(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.into()
}

/// Reads the entry at the start of `bytes`, and says how long it is there.
///
/// # Errors
/// Why there is none.
pub fn decode_frame(bytes: &[u8]) -> Result<(DecodedFrame, usize), WireError> {
    let (message, length) = message(bytes)?;
    let StreamMessage::Entry(frame) = message else {
        return Err(WireError::BadEnvelope);
    };
    let frame = DecodedFrame {
        offset: frame.offset,
        epoch: frame.epoch,
        payload: Bytes::copy_from_slice(&bytes[frame.payload]),
    };
    Ok((frame, length))
}

/// Reads the part of a snapshot at the start of `bytes`, and says how long it is there.
///
/// # Errors
/// Why there is none.
pub fn decode_snapshot_marker(bytes: &[u8]) -> Result<(SnapshotMarker, usize), WireError> {
    let (message, length) = message(bytes)?;
    let marker = match message {
        StreamMessage::SnapshotBegin { offset } => SnapshotMarker::Begin { offset },
        StreamMessage::SnapshotChunk(at) => {
            SnapshotMarker::Chunk(Bytes::copy_from_slice(&bytes[at]))
        }
        StreamMessage::SnapshotEnd { offset, totals } => SnapshotMarker::End { offset, totals },
        StreamMessage::Answer(_)
        | StreamMessage::Entry(_)
        | StreamMessage::Ping { .. }
        | StreamMessage::Unknown => return Err(WireError::BadEnvelope),
    };
    Ok((marker, length))
}

fn message(bytes: &[u8]) -> Result<(StreamMessage, usize), WireError> {
    decode_message(bytes, &StreamLimits::default())?.ok_or(WireError::Truncated)
}

impl From<StreamFault> for WireError {
    fn from(fault: StreamFault) -> Self {
        match fault {
            StreamFault::LineTooLong | StreamFault::Envelope => Self::BadEnvelope,
            StreamFault::Number => Self::BadOffset,
            StreamFault::NegativeOffset => Self::NegativeOffset,
            StreamFault::Payload => Self::BadPayload,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the bytes end too early",
            Self::BadEnvelope => "the bytes are something else",
            Self::BadOffset => "a number is malformed",
            Self::NegativeOffset => "an offset is negative",
            Self::BadPayload => "the payload is too long, empty, or not ended as it must",
        })
    }
}

impl std::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::replication::SnapshotDigest;

    #[test]
    fn frames_and_markers_come_back_and_are_told_apart() {
        let bytes = encode_frame(7, Epoch(2), b"payload");
        let (frame, length) = decode_frame(&bytes).expect("a frame");
        assert_eq!((frame.offset, frame.epoch), (7, Some(Epoch(2))));
        assert_eq!((&frame.payload[..], length), (&b"payload"[..], bytes.len()));
        assert_eq!(decode_snapshot_marker(&bytes), Err(WireError::BadEnvelope));
        let mut digest = SnapshotDigest::new();
        digest.add(b"chunk");
        let totals = digest.totals();
        let parts = [
            (
                encode_snapshot_begin(9),
                SnapshotMarker::Begin { offset: 9 },
            ),
            (
                encode_snapshot_chunk(b"chunk"),
                SnapshotMarker::Chunk(Bytes::from_static(b"chunk")),
            ),
            (
                encode_snapshot_end(9, &totals),
                SnapshotMarker::End { offset: 9, totals },
            ),
        ];
        for (bytes, marker) in parts {
            let length = bytes.len();
            assert_eq!(decode_snapshot_marker(&bytes), Ok((marker, length)));
            assert_eq!(decode_frame(&bytes), Err(WireError::BadEnvelope));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(decode_frame(b"*2\r\n:1\r\n"), Err(WireError::Truncated));
        assert_eq!(
            decode_frame(b"*2\r\n:-1\r\n"),
            Err(WireError::NegativeOffset)
        );
        assert_eq!(decode_frame(b"*2\r\n:x\r\n"), Err(WireError::BadOffset));
        assert_eq!(decode_frame(b"*9\x00"), Err(WireError::Truncated));
        assert_eq!(decode_frame(b"?"), Err(WireError::BadEnvelope));
        assert_eq!(
            decode_frame(b"*2\r\n:1\r\n$1\r\nxyz"),
            Err(WireError::BadPayload)
        );
    }
}
