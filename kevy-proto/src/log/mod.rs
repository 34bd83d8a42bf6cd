//! The write log as bytes: what a shard appends to its files, and what is read back after a crash.
//!
//! A shard's log is one sequence of bytes, counted by *positions* from its beginning for ever, and kept in *segments*
//! (files). A segment is a [`SegmentHeader`] and then *frames*, one for each write to the file:
//!
//! ```text
//! segment   | header, 64 bytes | frame | frame | ...
//! frame     | crc32c u32 | length u32 | position u64 | synced u64 | epoch u64 | entries: length bytes |
//! entry     | kind u8 | for transactions: who and with whom | number of requests | requests |
//! request   | number of arguments | for each: its length, its bytes |
//! ```
//!
//! Numbers in headers are little-endian; those within entries are LEB128. A checksum covers all of the frame behind it.
//! An entry is what one command, or one shard's part of a transaction, did: its effects as canonical requests. A frame
//! counts as a whole or not at all, so that a write that was torn by a crash cannot be read half.
//!
//! A *snapshot* is such a file, too: entries that rebuild every key as it was at one position of the log, between one that
//! says what the log before told about transactions and one that says how many keys there are.
//!
//! Each frame says up to where the log was durable when it was written (`synced`). That is what tells a torn tail, which a
//! crash may leave and which is cut, from damage to bytes that were durable once, which a person must look at: see
//! [`judge_fault`].

mod entry;
mod frame;
mod frames;
mod segment;

pub use entry::{
    Entries, Entry, EntryFault, Requests, SurveyedRun, TransactionPart, push_dropped,
    push_earlier_runs_settled, push_effects, push_part, push_skipped, push_snapshot_begin,
    push_snapshot_end,
};
pub use frame::{
    FRAME_HEADER_BYTES, Frame, FrameFault, Verdict, decode_frame, encode_frame, judge_fault,
};
pub use frames::{Frames, SegmentEnd};
pub use segment::{FileKind, SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader};

/// The checksum of everything kevy writes: CRC-32C (Castagnoli), as iSCSI and ext4 use it.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
