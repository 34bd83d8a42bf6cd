//! One file of a data directory, read to its end whatever is wrong with it.

use super::expected::Expected;
use super::loader::{LoadFault, LoadReason, PIECE_BYTES};
use super::manifest::Files;
use super::operation::{DiskAction, DiskFault};
use crate::host::Disk;
use bytes::{Buf, BytesMut};
use kevy_proto::log::{
    Entries, Entry, FileKind, Frame, FrameFault, SEGMENT_HEADER_BYTES, SegmentHeader, Verdict,
    decode_frame, judge_fault,
};
use std::io;

/// One file of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInspection {
    /// Its name.
    pub file: String,
    /// What it should be.
    pub kind: FileKind,
    /// The number in its name.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// From where to where of the log its whole frames go; of a snapshot, its own positions.
    pub positions: (u64, u64),
    /// Whole frames before any fault, and the entries in them.
    pub whole: Count,
    /// Of a whole snapshot: how many keys it says it holds.
    pub keys: Option<u64>,
    /// How it ends.
    pub state: FileState,
    /// What can still be read behind a fault.
    pub behind: Count,
}

/// So much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames.
    pub frames: u64,
    /// Entries in them.
    pub entries: u64,
}

/// How a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// As it should.
    Whole,
    /// With bytes that a crash has left behind this offset: the next start keeps them aside and cuts them.
    Torn {
        /// Up to where of the file everything is right.
        offset: u64,
    },
    /// With a fault that keeps a server from starting.
    Damaged(LoadFault),
    /// It is not there.
    Missing,
    /// The file system does not let it be read.
    Unreadable(DiskFault),
}

impl FileInspection {
    /// Whether nothing that was durable is damaged.
    pub fn is_whole(&self) -> bool {
        matches!(self.state, FileState::Whole | FileState::Torn { .. })
    }

    /// Bytes behind the last whole frame.
    pub fn rest_bytes(&self) -> u64 {
        match &self.state {
            FileState::Whole | FileState::Missing => 0,
            FileState::Torn { offset } => self.bytes - offset,
            FileState::Damaged(fault) => self.bytes.saturating_sub(fault.offset),
            FileState::Unreadable(_) => self.bytes,
        }
    }
}

impl Count {
    /// Adds what stands in another place.
    pub fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.entries += other.entries;
    }

    fn add_frame(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.entries += Entries::of(frame.entries).flatten().count() as u64;
    }
}

/// What a reader hands out: the header has been read, or an entry of a frame.
pub(super) type Met<'a> = Option<(&'a Frame<'a>, &'a Entry<'a>)>;

/// Reads one file to its end, piece by piece.
pub(super) struct FileReader {
    expected: Expected,
    /// Only the last segment may be torn.
    is_last: bool,
    header: Option<SegmentHeader>,
    /// What was read and not decoded.
    bytes: BytesMut,
    /// Where in the file `bytes` begins.
    offset: u64,
    /// The rest is of no interest but for its length.
    is_given_up: bool,
    found: FileInspection,
}

impl FileReader {
    /// A reader for what `expected` says; only the last segment may be torn.
    pub(super) fn new(files: Files, expected: Expected, is_last: bool) -> Self {
        let start = expected.position.unwrap_or_default();
        let Expected { shard, number, .. } = expected;
        Self {
            found: FileInspection {
                file: match expected.kind {
                    FileKind::Snapshot => files.snapshot(shard, number),
                    FileKind::Log => files.segment(shard, number),
                },
                kind: expected.kind,
                number: expected.number,
                bytes: 0,
                positions: (start, start),
                whole: Count::default(),
                keys: None,
                state: FileState::Whole,
                behind: Count::default(),
            },
            is_last: is_last && expected.kind == FileKind::Log,
            expected,
            header: None,
            bytes: BytesMut::new(),
            offset: 0,
            is_given_up: false,
        }
    }

    /// Hands the header and every entry before the first fault to `visit`.
    pub(super) async fn read(
        mut self,
        disk: &mut impl Disk,
        mut visit: impl FnMut(&SegmentHeader, Met<'_>),
        progress: &mut impl FnMut(u64),
    ) -> FileInspection {
        loop {
            let action = DiskAction::Read {
                offset: self.found.bytes,
                length: PIECE_BYTES,
            };
            let piece = match disk.perform(&self.found.file, action).await {
                Ok(piece) => piece,
                Err(fault) => {
                    self.found.state = if fault.kind == io::ErrorKind::NotFound {
                        FileState::Missing
                    } else {
                        FileState::Unreadable(fault)
                    };
                    return self.found;
                }
            };
            self.found.bytes += piece.len() as u64;
            progress(piece.len() as u64);
            let is_end = piece.len() < PIECE_BYTES;
            if !self.is_given_up {
                self.bytes.extend_from_slice(&piece);
                self.decode(is_end, &mut visit);
            }
            if is_end {
                self.end();
                return self.found;
            }
        }
    }

    fn give_up(&mut self, offset: u64, reason: LoadReason) {
        self.is_given_up = true;
        self.bytes = BytesMut::new();
        self.found.state = FileState::Damaged(LoadFault {
            file: self.found.file.as_str().into(),
            offset,
            reason,
        });
    }

    fn decode(&mut self, is_end: bool, visit: &mut impl FnMut(&SegmentHeader, Met<'_>)) {
        if self.header.is_none() && (is_end || self.bytes.len() >= SEGMENT_HEADER_BYTES) {
            self.decode_header(visit);
        }
        let Some(header) = self.header else {
            return;
        };
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut fault = None;
        loop {
            match decode_frame(&bytes, self.found.positions.1) {
                Ok(frame) => {
                    if let Some(reason) = self.decode_entries(&header, &frame, visit) {
                        return self.give_up(self.offset, reason);
                    }
                    let length = frame.len_bytes();
                    bytes.advance(length);
                    self.offset += length as u64;
                    self.found.positions.1 += length as u64;
                }
                Err(found) => {
                    fault.replace(found);
                    break;
                }
            }
        }
        self.bytes = bytes;
        // What is behind a fault matters in a log only, and a snapshot may be large.
        if let (FileKind::Snapshot, Some(fault)) = (header.kind, fault)
            && fault != FrameFault::Short
        {
            self.give_up(self.offset, LoadReason::Damaged(fault));
        }
    }

    fn decode_header(&mut self, visit: &mut impl FnMut(&SegmentHeader, Met<'_>)) {
        let header = match SegmentHeader::decode(&self.bytes) {
            Ok(header) => header,
            Err(fault) => return self.give_up(0, LoadReason::Header(fault)),
        };
        if let Err(text) = self.expected.check(&header) {
            return self.give_up(0, LoadReason::Misplaced(text));
        }
        self.bytes.advance(SEGMENT_HEADER_BYTES);
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.found.positions = (header.position, header.position);
        self.header = Some(header);
        visit(&header, None);
    }

    /// Why the frame's entries cannot be read, if they cannot.
    fn decode_entries(
        &mut self,
        header: &SegmentHeader,
        frame: &Frame<'_>,
        visit: &mut impl FnMut(&SegmentHeader, Met<'_>),
    ) -> Option<LoadReason> {
        if let Some(fault) = Entries::of(frame.entries).find_map(Result::err) {
            return Some(LoadReason::Entry(fault));
        }
        for entry in Entries::of(frame.entries).flatten() {
            if let Entry::SnapshotEnd { keys } = entry {
                self.found.keys = Some(keys);
            }
            visit(header, Some((frame, &entry)));
        }
        self.found.whole.add_frame(frame);
        None
    }

    /// All was read: whether that is how the file should end.
    fn end(&mut self) {
        if self.is_given_up {
            return;
        }
        let is_snapshot = self.expected.kind == FileKind::Snapshot;
        let position = self.found.positions.1;
        let fault = decode_frame(&self.bytes, position).err();
        let Some(fault) = fault.filter(|_| !self.bytes.is_empty()) else {
            if is_snapshot && self.found.keys.is_none() {
                self.give_up(self.offset, LoadReason::Incomplete);
            }
            return;
        };
        self.found.behind = count_behind(&self.bytes, position);
        let verdict = judge_fault(&self.bytes, position);
        if self.is_last && verdict == Verdict::TornTail {
            self.found.state = FileState::Torn {
                offset: self.offset,
            };
        } else {
            self.give_up(self.offset, LoadReason::Damaged(fault));
        }
    }
}

/// Whole frames behind the fault at the start of `bytes`, which are at `position` of the log.
fn count_behind(bytes: &[u8], position: u64) -> Count {
    let mut count = Count::default();
    let mut at = 1;
    while at < bytes.len() {
        match decode_frame(&bytes[at..], position + at as u64) {
            Ok(frame) => {
                count.add_frame(&frame);
                at += frame.len_bytes();
            }
            Err(FrameFault::Short | FrameFault::Misplaced | FrameFault::Checksum) => at += 1,
        }
    }
    count
}
