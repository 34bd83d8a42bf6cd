//! Frames: what one write appends to the log, whole or not at all.

use super::segment::{u32_at, u64_at};
use core::fmt;

/// Length of a frame without its entries.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Where the part begins that the checksum covers.
const CHECKED_FROM: usize = 4;

/// A frame that was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where in the log it begins.
    pub position: u64,
    /// Up to where the log was durable when this was written.
    pub synced: u64,
    /// When its entries were made, as shards count time together: see [`TransactionPart::epoch`](super::TransactionPart).
    pub epoch: u64,
    /// Its entries, encoded.
    pub entries: &'a [u8],
}

impl Frame<'_> {
    /// Length with the header, in bytes.
    pub fn len_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.entries.len()
    }
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The bytes end before the frame does.
    Short,
    /// The frame says that it belongs elsewhere, or it has no entries.
    Misplaced,
    /// The checksum is wrong.
    Checksum,
}

/// What a fault in a log means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// From here on nothing was durable: a crash left it, and it is to be cut.
    TornTail,
    /// It was durable once: a frame at this position (of the log) was written after it had been synced.
    Damaged {
        /// Where that later frame begins.
        witness: u64,
    },
}

/// The header of the frame at `position` of the log whose entries are `entries`; they follow it. `synced`: up to where the
/// log is known to be durable. `epoch`: when the entries were made.
///
/// # Panics
/// If the entries are longer than 4 GiB, which nobody may write: better no log than a wrong one.
pub fn encode_frame(
    position: u64,
    synced: u64,
    epoch: u64,
    entries: &[u8],
) -> [u8; FRAME_HEADER_BYTES] {
    debug_assert!(!entries.is_empty(), "a frame without entries says nothing");
    debug_assert!(synced <= position, "what is not written is not durable");
    assert!(
        u32::try_from(entries.len()).is_ok(),
        "a frame's length is told in 32 bits"
    );
    let mut header = [0; FRAME_HEADER_BYTES];
    header[4..8].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&position.to_le_bytes());
    header[16..24].copy_from_slice(&synced.to_le_bytes());
    header[24..32].copy_from_slice(&epoch.to_le_bytes());
    let sum = sum_of(&header, entries);
    header[..4].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Reads the frame at the start of `bytes`, which is at `position` of the log.
///
/// # Errors
/// Why there is none. An empty `bytes` is [`FrameFault::Short`]: the caller knows whether the log may end there.
pub fn decode_frame(bytes: &[u8], position: u64) -> Result<Frame<'_>, FrameFault> {
    let header = bytes
        .first_chunk::<FRAME_HEADER_BYTES>()
        .ok_or(FrameFault::Short)?;
    let length = u32_at(header, 4) as usize;
    if u64_at(header, 8) != position || length == 0 {
        return Err(FrameFault::Misplaced);
    }
    let entries = bytes
        .get(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length)
        .ok_or(FrameFault::Short)?;
    if u32_at(header, 0) != sum_of(header, entries) {
        return Err(FrameFault::Checksum);
    }
    Ok(Frame {
        position,
        synced: u64_at(header, 16),
        epoch: u64_at(header, 24),
        entries,
    })
}

/// Decides what a fault at `position` means; `bytes` are all that the segment holds from there on.
///
/// A crash may leave any mixture of old and new bytes where writes were not durable yet, also whole frames behind torn
/// ones. Only a frame that says that the log was durable beyond the fault proves that it was.
pub fn judge_fault(bytes: &[u8], position: u64) -> Verdict {
    // A frame's position must be the one it is found at, so that hardly any other place passes for one.
    let starts = 1..bytes.len().saturating_sub(FRAME_HEADER_BYTES);
    let witness = starts
        .filter(|start| u64_at(bytes, start + 8) == position + *start as u64)
        .find_map(|start| {
            let frame = decode_frame(&bytes[start..], position + start as u64).ok()?;
            (frame.synced > position).then_some(frame.position)
        });
    witness.map_or(Verdict::TornTail, |witness| Verdict::Damaged { witness })
}

fn sum_of(header: &[u8; FRAME_HEADER_BYTES], entries: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&header[CHECKED_FROM..]);
    digest.update(entries);
    digest.finalize() as u32
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the file ends within a frame",
            Self::Misplaced => "no frame begins there",
            Self::Checksum => "the checksum of a frame is wrong",
        })
    }
}

impl core::error::Error for FrameFault {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Three frames from position 100 on; the last two know that the first is durable.
    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        for (entries, synced) in [(&b"first"[..], 0), (b"second one", 137), (b"third", 137)] {
            let position = 100 + log.len() as u64;
            log.extend_from_slice(&encode_frame(position, synced, 7, entries));
            log.extend_from_slice(entries);
        }
        log
    }

    #[test]
    fn frames_come_back_one_after_the_other() {
        let log = log();
        let mut at = 0;
        let mut seen = Vec::new();
        while at < log.len() {
            let frame = decode_frame(&log[at..], 100 + at as u64).expect("it is whole");
            seen.push((frame.synced, frame.entries));
            at += frame.len_bytes();
        }
        assert_eq!(
            seen,
            [(0, &b"first"[..]), (137, b"second one"), (137, b"third")]
        );
    }

    #[test]
    fn a_frame_is_only_read_where_it_belongs_and_as_a_whole() {
        let log = log();
        assert_eq!(decode_frame(&log, 101), Err(FrameFault::Misplaced));
        for length in 0..37 {
            let fault = decode_frame(&log[..length], 100);
            assert_eq!(fault, Err(FrameFault::Short), "{length} bytes");
        }
        assert_eq!(decode_frame(&[0; 100], 0), Err(FrameFault::Misplaced));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let log = log();
        for bit in 0..37 * 8 {
            let mut damaged = log.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_frame(&damaged, 100).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn damage_to_what_was_durable_is_told_from_a_torn_tail() {
        let log = log();
        let second = 37;
        for bit in 0..second * 8 {
            let mut damaged = log.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let witness = 100 + second as u64;
            assert_eq!(judge_fault(&damaged, 100), Verdict::Damaged { witness });
        }
        for bit in second * 8..log.len() * 8 {
            let mut torn = log.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            let at = if bit < (second + 42) * 8 {
                second
            } else {
                second + 42
            };
            let verdict = judge_fault(&torn[at..], 100 + at as u64);
            assert_eq!(verdict, Verdict::TornTail, "bit {bit}");
        }
        assert_eq!(judge_fault(&[0; 4096], 100), Verdict::TornTail);
        assert_eq!(judge_fault(&[], 100), Verdict::TornTail);
    }
}
