//! All frames of a segment, and how it ends.

use super::frame::{Frame, FrameFault, Verdict, decode_frame, judge_fault};
use super::segment::{SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader};

/// Reads the frames of one segment, in order, up to its end or the first fault.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    header: SegmentHeader,
    /// What follows the header.
    bytes: &'a [u8],
    /// How much of it was read.
    at: usize,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentEnd {
    /// With a whole frame, or with its header.
    Whole,
    /// With something else.
    Fault {
        /// Up to which byte of the file everything is right.
        offset: u64,
        /// What is wrong there.
        fault: FrameFault,
        /// What that means.
        verdict: Verdict,
    },
}

impl<'a> Frames<'a> {
    /// The frames in `file`, all of a segment's bytes.
    ///
    /// # Errors
    /// If it does not begin with a segment's header.
    pub fn of(file: &'a [u8]) -> Result<Self, SegmentFault> {
        let header = SegmentHeader::decode(file)?;
        let bytes = file.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
        Ok(Self {
            header,
            bytes,
            at: 0,
        })
    }

    /// The segment's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Where in the log the next frame begins.
    pub fn next_position(&self) -> u64 {
        self.header.position + self.at as u64
    }

    /// How the segment ends. To be asked when all frames were read.
    pub fn end(&self) -> SegmentEnd {
        let rest = self.rest();
        if rest.is_empty() {
            return SegmentEnd::Whole;
        }
        match decode_frame(rest, self.next_position()) {
            Ok(_) => SegmentEnd::Whole,
            Err(fault) => SegmentEnd::Fault {
                offset: (SEGMENT_HEADER_BYTES + self.at) as u64,
                fault,
                verdict: judge_fault(rest, self.next_position()),
            },
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let frame = decode_frame(self.rest(), self.next_position()).ok()?;
        self.at += frame.len_bytes();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ShardId;
    use crate::log::encode_frame;
    use alloc::vec::Vec;

    /// A segment of five frames that were synced one by one, and where they begin in the file.
    fn segment() -> (Vec<u8>, Vec<usize>) {
        let header = SegmentHeader {
            kind: crate::log::FileKind::Log,
            shard: ShardId(0),
            shards: 1,
            segment: 3,
            position: 5000,
            run: 1,
        };
        let mut file = header.encode().to_vec();
        let mut starts = Vec::new();
        for length in 1..6 {
            starts.push(file.len());
            let position = 5000 + (file.len() - SEGMENT_HEADER_BYTES) as u64;
            let entries = [length as u8; 7];
            file.extend_from_slice(&encode_frame(position, position, 0, &entries[..length]));
            file.extend_from_slice(&entries[..length]);
        }
        (file, starts)
    }

    fn read(file: &[u8]) -> (usize, SegmentEnd) {
        let mut frames = Frames::of(file).expect("a segment");
        let count = frames.by_ref().count();
        (count, frames.end())
    }

    #[test]
    fn a_whole_segment_is_read_to_its_end() {
        let (file, _) = segment();
        assert_eq!(read(&file), (5, SegmentEnd::Whole));
        assert_eq!(read(&file[..64]), (0, SegmentEnd::Whole));
        assert!(matches!(Frames::of(&file[..63]), Err(SegmentFault::Short)));
    }

    #[test]
    fn every_cut_leaves_the_whole_frames_before_it() {
        let (file, starts) = segment();
        for length in 64..file.len() {
            let whole = starts.iter().filter(|start| **start < length).count();
            let (count, end) = read(&file[..length]);
            if let Some(at) = starts.iter().position(|start| *start == length) {
                assert_eq!((count, end), (at, SegmentEnd::Whole));
                continue;
            }
            let torn = SegmentEnd::Fault {
                offset: starts[whole - 1] as u64,
                fault: FrameFault::Short,
                verdict: Verdict::TornTail,
            };
            assert_eq!((count, end), (whole - 1, torn), "{length} bytes");
        }
    }

    #[test]
    fn a_tail_of_zeros_is_torn_and_zeros_in_the_middle_are_damage() {
        let (mut file, starts) = segment();
        let whole = file.len();
        file.resize(whole + 4096, 0);
        let (count, end) = read(&file);
        let SegmentEnd::Fault {
            offset, verdict, ..
        } = end
        else {
            panic!("{end:?}");
        };
        assert_eq!(
            (count, offset, verdict),
            (5, whole as u64, Verdict::TornTail)
        );
        file[starts[2]..starts[3]].fill(0);
        let (count, end) = read(&file);
        let SegmentEnd::Fault {
            offset, verdict, ..
        } = end
        else {
            panic!("{end:?}");
        };
        let witness = 5000 + (starts[3] - SEGMENT_HEADER_BYTES) as u64;
        assert_eq!(
            (count, offset, verdict),
            (2, starts[2] as u64, Verdict::Damaged { witness })
        );
    }
}
