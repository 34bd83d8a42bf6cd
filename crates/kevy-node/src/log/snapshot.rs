//! The file of a snapshot, being written: entries are collected into frames of a bounded size and written one after the
//! other, then synced once.

use super::operation::DiskAction;
use bytes::{Bytes, BytesMut};
use kevy_proto::log::{
    FileKind, SEGMENT_HEADER_BYTES, SegmentHeader, SurveyedRun, encode_frame,
    push_earlier_runs_settled, push_effects, push_snapshot_begin, push_snapshot_end,
};
use kevy_proto::resp::Args;
use std::collections::VecDeque;
use std::sync::Arc;

/// About how many bytes of entries a frame has.
const FRAME_BYTES: usize = 256 * 1024;
/// How many bytes may wait to be written before the walk over the keys pauses.
const WAITING_BYTES: usize = 2 * 1024 * 1024;

/// A snapshot's file.
#[derive(Debug)]
pub struct SnapshotWriter {
    /// The file's name.
    pub file: Arc<str>,
    /// Its number.
    pub number: u64,
    /// The state at this position of the log is in it.
    pub position: u64,
    /// Entries of the next frame.
    entries: BytesMut,
    /// What waits to be written; the first of them is being written if `is_writing`.
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// Where the next frame begins, in the file's own positions.
    end: u64,
    /// Up to where of the file was written.
    written: u64,
    is_busy: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Entries come.
    Open,
    /// All entries are there.
    Sealed,
    Synced,
}

impl SnapshotWriter {
    /// Begins a snapshot of the state at `header.position`; `runs` is what the log before told about transactions.
    pub fn new(
        file: Arc<str>,
        header: &SegmentHeader,
        runs: &[SurveyedRun],
        earlier_runs_are_settled: bool,
    ) -> Self {
        debug_assert_eq!(header.kind, FileKind::Snapshot);
        let first = Bytes::copy_from_slice(&header.encode());
        let mut entries = BytesMut::new();
        push_snapshot_begin(&mut entries, runs);
        if earlier_runs_are_settled {
            push_earlier_runs_settled(&mut entries);
        }
        Self {
            file,
            number: header.segment,
            position: header.position,
            entries,
            waiting_bytes: first.len(),
            waiting: VecDeque::from([first]),
            end: header.position,
            written: 0,
            is_busy: false,
            state: State::Open,
        }
    }

    /// Adds what rebuilds entries.
    pub fn push<'a>(&mut self, effects: impl Iterator<Item = Args<'a>>) {
        for effect in effects {
            push_effects(&mut self.entries, std::iter::once(effect));
            if self.entries.len() >= FRAME_BYTES {
                self.seal_frame();
            }
        }
    }

    /// That was all: so many keys.
    pub fn complete(&mut self, keys: u64) {
        push_snapshot_end(&mut self.entries, keys);
        self.seal_frame();
        self.state = State::Sealed;
    }

    /// Whether entries are welcome, or enough of them wait.
    pub fn wants_entries(&self) -> bool {
        self.state == State::Open && self.waiting_bytes + self.entries.len() < WAITING_BYTES
    }

    /// Whether all is durable.
    pub fn is_synced(&self) -> bool {
        self.state == State::Synced
    }

    /// Whether an operation is under way.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// How long the file is so far.
    pub fn len_bytes(&self) -> u64 {
        self.written
    }

    fn seal_frame(&mut self) {
        let entries = self.entries.split();
        let header = encode_frame(self.end, self.position, 0, &entries);
        let mut frame = BytesMut::with_capacity(header.len() + entries.len());
        frame.extend_from_slice(&header);
        frame.extend_from_slice(&entries);
        self.end += frame.len() as u64;
        self.waiting_bytes += frame.len();
        self.waiting.push_back(frame.freeze());
    }

    /// The next thing to be done with the file.
    pub fn poll_action(&mut self) -> Option<DiskAction> {
        if self.is_busy {
            return None;
        }
        let action = match (self.waiting.front(), self.state) {
            (Some(bytes), _) => DiskAction::Write {
                offset: self.written,
                bytes: bytes.clone(),
            },
            (None, State::Sealed) => DiskAction::Sync,
            (None, State::Open | State::Synced) => return None,
        };
        self.is_busy = true;
        Some(action)
    }

    /// What was asked for last has been done.
    pub fn handle_done(&mut self) {
        self.is_busy = false;
        match self.waiting.pop_front() {
            Some(bytes) => {
                self.written += bytes.len() as u64;
                self.waiting_bytes -= bytes.len();
            }
            None => self.state = State::Synced,
        }
        debug_assert!(
            self.state != State::Synced
                || self.written == self.end - self.position + SEGMENT_HEADER_BYTES as u64,
            "what is synced is all of it"
        );
    }
}
