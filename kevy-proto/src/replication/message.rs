//! What flows from a primary to a replica: entries, heartbeats and snapshots, written.

use super::{Answer, Epoch, LINE_END, MAX_CHUNK_BYTES};
use bytes::BytesMut;
use core::fmt::Write;
use core::ops::Range;

/// What was read from a primary. Bytes are given as where they stand in the buffer that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamMessage {
    /// What becomes of a handshake; also an error, and a full synchronization, at any later time.
    Answer(Answer),
    /// An entry of the log.
    Entry(EntryFrame),
    /// The primary is there.
    Ping {
        /// The epoch it writes in, if it says so.
        epoch: Option<Epoch>,
        /// The offset its next entry will have, if it says so.
        next_offset: Option<u64>,
    },
    /// A snapshot of the state at this offset follows.
    SnapshotBegin {
        /// The last entry that is part of it.
        offset: u64,
    },
    /// The next bytes of the snapshot.
    SnapshotChunk(Range<usize>),
    /// It is complete.
    SnapshotEnd {
        /// The last entry that is part of it.
        offset: u64,
        /// What all chunks were together.
        totals: SnapshotTotals,
    },
    /// A line that this version does not know and that may be skipped.
    Unknown,
}

/// An entry on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFrame {
    /// Its place: one more than that of the entry before it.
    pub offset: u64,
    /// The epoch it was written in, if the frame says so.
    pub epoch: Option<Epoch>,
    /// Where its encoded bytes stand.
    pub payload: Range<usize>,
}

/// What a snapshot is counted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotTotals {
    /// How many chunks it came in.
    pub chunks: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// CRC-32C of all of them.
    pub checksum: u32,
}

/// Counts a snapshot as it passes by, on either side.
#[derive(Debug)]
pub struct SnapshotDigest {
    chunks: u64,
    bytes: u64,
    digest: crc_fast::Digest,
}

impl SnapshotDigest {
    /// Nothing has passed yet.
    pub fn new() -> Self {
        Self {
            chunks: 0,
            bytes: 0,
            digest: crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi),
        }
    }

    /// Counts a chunk.
    pub fn add(&mut self, chunk: &[u8]) {
        self.chunks += 1;
        self.bytes += chunk.len() as u64;
        self.digest.update(chunk);
    }

    /// What was counted so far.
    pub fn totals(&self) -> SnapshotTotals {
        SnapshotTotals {
            chunks: self.chunks,
            bytes: self.bytes,
            checksum: self.digest.finalize() as u32,
        }
    }
}

impl Default for SnapshotDigest {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends an entry.
pub fn push_entry(out: &mut BytesMut, offset: u64, epoch: Epoch, payload: &[u8]) {
    push_entry_header(out, offset, epoch, payload.len());
    out.extend_from_slice(payload);
    out.extend_from_slice(LINE_END);
}

/// Appends what stands before an entry's bytes; these and [`LINE_END`] must follow.
pub fn push_entry_header(out: &mut BytesMut, offset: u64, epoch: Epoch, length: usize) {
    out.extend_from_slice(b"*3");
    push_prefixed(out, b':', offset);
    push_prefixed(out, b':', epoch.0);
    push_prefixed(out, b'$', length as u64);
    out.extend_from_slice(LINE_END);
}

/// Appends the end of the line before, and the first part of the next.
fn push_prefixed(out: &mut BytesMut, prefix: u8, number: u64) {
    out.extend_from_slice(LINE_END);
    out.extend_from_slice(&[prefix]);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a heartbeat.
pub fn push_ping(out: &mut BytesMut, epoch: Epoch, next_offset: u64) {
    push_line(out, format_args!("+PING {epoch} {next_offset}"));
}

/// Appends the beginning of a snapshot of the state at `offset`.
pub fn push_snapshot_begin(out: &mut BytesMut, offset: u64) {
    push_line(out, format_args!("+SNAPSHOT BEGIN {offset}"));
}

/// Appends a chunk, which is not empty and not longer than [`MAX_CHUNK_BYTES`].
pub fn push_snapshot_chunk(out: &mut BytesMut, chunk: &[u8]) {
    debug_assert!(!chunk.is_empty() && chunk.len() <= MAX_CHUNK_BYTES);
    push_line(out, format_args!("${}", chunk.len()));
    out.extend_from_slice(chunk);
    out.extend_from_slice(LINE_END);
}

/// Appends the end of a snapshot.
pub fn push_snapshot_end(out: &mut BytesMut, offset: u64, totals: &SnapshotTotals) {
    let SnapshotTotals {
        chunks,
        bytes,
        checksum,
    } = totals;
    push_line(
        out,
        format_args!("+SNAPSHOT END {offset} {chunks} {bytes} {checksum:08x}"),
    );
}

/// Appends what a replica acknowledges: what it has applied, and what of that is durable if it knows.
pub fn push_ack(out: &mut BytesMut, offset: u64, durable: Option<u64>) {
    let mut number = itoa::Buffer::new();
    let offset = number.format(offset).as_bytes();
    let args: [&[u8]; 3] = [b"REPLCONF", b"ACK", offset];
    let mut number = itoa::Buffer::new();
    let durable = durable.map(|durable| number.format(durable).as_bytes());
    match durable {
        None => crate::resp::encode_request(args, out),
        Some(durable) => {
            let more: [&[u8]; 5] = [args[0], args[1], args[2], b"FACK", durable];
            crate::resp::encode_request(more, out);
        }
    }
}

/// Appends a line and its end.
pub(super) fn push_line(out: &mut BytesMut, line: core::fmt::Arguments<'_>) {
    // Writing to a growing buffer cannot fail.
    let _ = out.write_fmt(line);
    out.extend_from_slice(LINE_END);
}
