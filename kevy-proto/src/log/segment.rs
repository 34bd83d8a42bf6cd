//! The first bytes of a segment: whose it is, and where in the log it begins.

use super::checksum;
use crate::ids::ShardId;
use core::fmt;

/// Length of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 64;

const LOG_MAGIC: [u8; 8] = *b"KEVYLOG\n";
const SNAPSHOT_MAGIC: [u8; 8] = *b"KEVYSNP\n";
/// The version of the format that is written, and the newest that is read.
const FORMAT: u32 = 1;
/// How many bytes of the header the checksum covers; it stands behind them.
const CHECKED_BYTES: usize = 44;

/// What a file of frames is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A segment of a log.
    Log,
    /// A snapshot: the state at `position` of the log; its own frames count from there, too, and were all synced together.
    Snapshot,
}

/// The first bytes of a segment, or of a snapshot.
///
/// ```text
///  0 magic "KEVYLOG\n" or "KEVYSNP\n"   8 format u32   12 shard u16   14 shards u16   16 segment u64   24 position u64
/// 32 run u64            40 reserved u32, zero          44 crc32c of the bytes before    48 zeros up to 64
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// What the file is.
    pub kind: FileKind,
    /// Whose log it is.
    pub shard: ShardId,
    /// How many shards the process had: keys are placed by it.
    pub shards: u16,
    /// Counts the segments of the shard's log, and its snapshots.
    pub segment: u64,
    /// The position in the log of the first byte behind this header.
    pub position: u64,
    /// Which run of the process wrote it: transactions of different runs are told apart by it.
    pub run: u64,
}

/// Why bytes are no segment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFault {
    /// There are fewer bytes than a header has: a crash while the segment was begun.
    Short,
    /// The bytes do not begin as a segment does.
    NoSegment,
    /// It was written by a newer version.
    Format(u32),
    /// The checksum is wrong.
    Checksum,
}

impl SegmentHeader {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(match self.kind {
            FileKind::Log => &LOG_MAGIC,
            FileKind::Snapshot => &SNAPSHOT_MAGIC,
        });
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.shard.0.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.shards.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.position.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.run.to_le_bytes());
        let sum = checksum(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the header at the start of a segment.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, SegmentFault> {
        let header = bytes
            .first_chunk::<SEGMENT_HEADER_BYTES>()
            .ok_or(SegmentFault::Short)?;
        let kind = match header[..8] {
            ref magic if *magic == LOG_MAGIC => FileKind::Log,
            ref magic if *magic == SNAPSHOT_MAGIC => FileKind::Snapshot,
            _ => return Err(SegmentFault::NoSegment),
        };
        if u32_at(header, CHECKED_BYTES) != checksum(&header[..CHECKED_BYTES]) {
            return Err(SegmentFault::Checksum);
        }
        let format = u32_at(header, 8);
        if format > FORMAT {
            return Err(SegmentFault::Format(format));
        }
        let two_bytes = u32_at(header, 12);
        Ok(Self {
            kind,
            shard: ShardId(two_bytes as u16),
            shards: (two_bytes >> 16) as u16,
            segment: u64_at(header, 16),
            position: u64_at(header, 24),
            run: u64_at(header, 32),
        })
    }
}

/// The little-endian number at `start`; zero if it is not all there.
pub(super) fn u32_at(bytes: &[u8], start: usize) -> u32 {
    let number = bytes.get(start..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u32::from_le_bytes(*number))
}

/// As [`u32_at`], of eight bytes.
pub(super) fn u64_at(bytes: &[u8], start: usize) -> u64 {
    let number = bytes.get(start..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u64::from_le_bytes(*number))
}

impl fmt::Display for SegmentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("it ends within its header"),
            Self::NoSegment => f.write_str("it is neither a log segment nor a snapshot of kevy"),
            Self::Format(format) => write!(
                f,
                "it has format {format}, which is newer than this kevy reads (up to {FORMAT})"
            ),
            Self::Checksum => f.write_str("the checksum of its header is wrong"),
        }
    }
}

impl core::error::Error for SegmentFault {}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        kind: FileKind::Log,
        shard: ShardId(3),
        shards: 4,
        segment: 17,
        position: 123_456_789_012,
        run: 0xfeed_beef_0123,
    };

    #[test]
    fn a_header_comes_back() {
        assert_eq!(SegmentHeader::decode(&HEADER.encode()), Ok(HEADER));
    }

    #[test]
    fn every_flipped_bit_that_matters_is_noticed() {
        for bit in 0..(CHECKED_BYTES + 4) * 8 {
            let mut bytes = HEADER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let fault = SegmentHeader::decode(&bytes).expect_err("it was damaged");
            let expected = if bit < 64 {
                SegmentFault::NoSegment
            } else {
                SegmentFault::Checksum
            };
            assert_eq!(fault, expected, "bit {bit}");
        }
    }

    #[test]
    fn a_short_header_and_a_newer_format_are_told_apart() {
        let bytes = HEADER.encode();
        for length in 0..SEGMENT_HEADER_BYTES {
            let fault = SegmentHeader::decode(&bytes[..length]);
            assert_eq!(fault, Err(SegmentFault::Short));
        }
        let mut newer = bytes;
        newer[8] = 9;
        let sum = checksum(&newer[..CHECKED_BYTES]);
        newer[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&newer), Err(SegmentFault::Format(9)));
    }
}
