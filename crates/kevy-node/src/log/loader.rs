//! Reads a shard's files back, piece by piece, and judges what it finds.
//!
//! A pure machine: it says which piece it wants next and is handed it. It goes over the files twice. The *survey* finds
//! out about transactions that other shards may lack, and where the log ends; the second pass hands out what is to be
//! carried out. Between the two all shards compare their surveys.
//!
//! Nothing is repaired by guessing. Bytes behind the last durable frame that are not whole are a torn tail: the loader
//! says where to cut. Anything else that does not fit is damage: loading ends with file and offset.

use super::expected::Expected;
use super::manifest::{Files, Manifest};
use super::survey::{Judgement, Survey};
use bytes::{Buf, Bytes, BytesMut};
use kevy_proto::ids::TransactionId;
use kevy_proto::log::{
    Entries, Entry, EntryFault, FileKind, Frame, FrameFault, Requests, SEGMENT_HEADER_BYTES,
    SegmentFault, SegmentHeader, Verdict, decode_frame, judge_fault,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// How much is read at once.
pub const PIECE_BYTES: usize = 1024 * 1024;

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub file: Arc<str>,
    /// Where in it.
    pub offset: u64,
    /// At most so many bytes.
    pub length: usize,
}

/// Where a crash has torn the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The last segment's file.
    pub file: Arc<str>,
    /// Up to where it is whole.
    pub offset: u64,
    /// What is behind that: to be kept aside.
    pub bytes: Bytes,
}

/// Why a shard's files cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFault {
    /// The file.
    pub file: Arc<str>,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub reason: LoadReason,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadReason {
    /// Its header.
    Header(SegmentFault),
    /// It is another file than its name and the manifest say.
    Misplaced(String),
    /// What was durable once is damaged.
    Damaged(FrameFault),
    /// A frame holds what this version does not know.
    Entry(EntryFault),
    /// A snapshot ends before its last entry.
    Incomplete,
}

/// Loads one shard.
#[derive(Debug)]
pub struct Loader {
    files: Vec<(Arc<str>, FileKind)>,
    manifest: Manifest,
    /// Which of `files` is being read.
    at: usize,
    pass: Pass,
    reader: Reader,
    /// Where the log goes on in the next file, once it is known.
    position: Option<u64>,
    survey: Survey,
    /// Transactions that are not to be carried out, by runs: the log says so.
    dropped: BTreeMap<u64, BTreeSet<TransactionId>>,
    /// More of them, as was found out now.
    newly_dropped: BTreeMap<u64, BTreeSet<TransactionId>>,
    /// Of the log before a position only entries up to an epoch count.
    skipped: Vec<(u64, u64)>,
    /// As was found out now, of all of it.
    above: Option<u64>,
    torn: Option<TornTail>,
    run: u64,
    snapshot_bytes: u64,
    /// Bytes read so far, both passes.
    read_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Survey,
    Load,
}

/// One file, being read.
#[derive(Debug, Default)]
struct Reader {
    header: Option<SegmentHeader>,
    /// What was read and not decoded.
    bytes: BytesMut,
    /// Where in the file `bytes` begins.
    offset: u64,
    /// The last entry of a snapshot was met.
    has_ended: bool,
    is_at_end: bool,
}

/// How far loading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadProgress {
    /// There is more to be read.
    Reading,
    /// This pass is over.
    Done,
}

impl Loader {
    /// A loader for the files that `manifest` names.
    pub fn new(files: Files, manifest: Manifest) -> Self {
        let shard = manifest.shard;
        let snapshot = manifest.snapshot.map(|snapshot| {
            let name = files.snapshot(shard, snapshot.number);
            (name.into(), FileKind::Snapshot)
        });
        let (first, last) = manifest.segments;
        let segments = (first..=last).map(|segment| {
            let name = files.segment(shard, segment);
            (name.into(), FileKind::Log)
        });
        Self {
            files: snapshot.into_iter().chain(segments).collect(),
            manifest,
            at: 0,
            pass: Pass::Survey,
            reader: Reader::default(),
            position: manifest.snapshot.map(|snapshot| snapshot.position),
            survey: Survey::default(),
            dropped: BTreeMap::new(),
            newly_dropped: BTreeMap::new(),
            skipped: Vec::new(),
            above: None,
            torn: None,
            run: 0,
            snapshot_bytes: 0,
            read_bytes: 0,
        }
    }

    /// The piece that is to be read next. None: the pass is over.
    pub fn next_piece(&self) -> Option<Piece> {
        let (file, _) = self.files.get(self.at)?;
        Some(Piece {
            file: Arc::clone(file),
            offset: self.reader.offset + self.reader.bytes.len() as u64,
            length: PIECE_BYTES,
        })
    }

    /// The last segment's file.
    pub fn last_file(&self) -> Arc<str> {
        let last = self.files.last();
        last.map_or_else(|| Arc::from(""), |(file, _)| Arc::clone(file))
    }

    /// What the survey has found about transactions.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Begins the second pass: without what was found not to count.
    pub fn begin_load(&mut self, judgement: &Judgement) {
        self.newly_dropped.clone_from(&judgement.dropped);
        for (run, known) in &self.dropped {
            if let Some(dropped) = self.newly_dropped.get_mut(run) {
                dropped.retain(|id| !known.contains(id));
            }
        }
        self.newly_dropped.retain(|_, dropped| !dropped.is_empty());
        self.above = judgement.above;
        self.skipped
            .extend(self.above.map(|above| (u64::MAX, above)));
        self.pass = Pass::Load;
        self.at = 0;
        self.reader = Reader::default();
        self.position = self.manifest.snapshot.map(|snapshot| snapshot.position);
        self.run = 0;
    }

    /// Where the log ends. Known once a pass is over.
    pub fn end(&self) -> u64 {
        self.position.unwrap_or_default()
    }

    /// Where a crash has torn the log, if it has.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Transactions that are not to be carried out, by runs, as was found out now.
    pub fn newly_dropped(&self) -> &BTreeMap<u64, BTreeSet<TransactionId>> {
        &self.newly_dropped
    }

    /// The last epoch that counts, as was found out now.
    pub fn above(&self) -> Option<u64> {
        self.above
    }

    /// Size of the snapshot, in bytes.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes
    }

    /// Bytes read so far, in both passes.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Takes the piece that was asked for; fewer bytes than that mean that the file ends there. In the second pass `apply`
    /// is handed what is to be carried out, in order.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn handle_piece(
        &mut self,
        bytes: &[u8],
        mut apply: impl FnMut(Requests<'_>),
    ) -> Result<LoadProgress, LoadFault> {
        self.read_bytes += bytes.len() as u64;
        self.reader.is_at_end = bytes.len() < PIECE_BYTES;
        self.reader.bytes.extend_from_slice(bytes);
        self.read_header()?;
        self.read_frames(&mut apply)?;
        if self.is_surveyed_snapshot() {
            return Ok(self.next_file());
        }
        if !self.reader.is_at_end {
            return Ok(LoadProgress::Reading);
        }
        self.end_file()?;
        Ok(self.next_file())
    }

    /// What a snapshot says of transactions is in its first frame: the survey needs no more of it.
    fn is_surveyed_snapshot(&self) -> bool {
        let is_snapshot = matches!(self.files.get(self.at), Some((_, FileKind::Snapshot)));
        let is_read = self.reader.offset > SEGMENT_HEADER_BYTES as u64;
        is_snapshot && is_read && self.pass == Pass::Survey
    }

    fn next_file(&mut self) -> LoadProgress {
        if let Some((_, FileKind::Snapshot)) = self.files.get(self.at) {
            self.snapshot_bytes = self.reader.offset;
        }
        self.at += 1;
        self.reader = Reader::default();
        if self.at == self.files.len() {
            LoadProgress::Done
        } else {
            LoadProgress::Reading
        }
    }

    fn fault(&self, offset: u64, reason: LoadReason) -> LoadFault {
        let file = self.files.get(self.at).map(|(file, _)| Arc::clone(file));
        LoadFault {
            file: file.unwrap_or_else(|| Arc::from("")),
            offset,
            reason,
        }
    }

    fn read_header(&mut self) -> Result<(), LoadFault> {
        if self.reader.header.is_some()
            || (self.reader.bytes.len() < SEGMENT_HEADER_BYTES && !self.reader.is_at_end)
        {
            return Ok(());
        }
        let header = SegmentHeader::decode(&self.reader.bytes)
            .map_err(|fault| self.fault(0, LoadReason::Header(fault)))?;
        self.check_header(&header)
            .map_err(|text| self.fault(0, LoadReason::Misplaced(text)))?;
        if header.kind == FileKind::Log {
            self.survey.begin_run(header.run);
            self.run = header.run;
            self.position = Some(header.position);
        }
        self.reader.header = Some(header);
        self.reader.bytes.advance(SEGMENT_HEADER_BYTES);
        self.reader.offset = SEGMENT_HEADER_BYTES as u64;
        Ok(())
    }

    fn check_header(&self, header: &SegmentHeader) -> Result<(), String> {
        let Some((_, kind)) = self.files.get(self.at) else {
            return Ok(());
        };
        let Manifest { shard, shards, .. } = self.manifest;
        // The snapshot, if there is one, comes before the segments.
        let before = usize::from(self.manifest.snapshot.is_some());
        let segments_before = self.at.saturating_sub(before) as u64;
        let number = match kind {
            FileKind::Snapshot => self.manifest.snapshot.map_or(0, |file| file.number),
            FileKind::Log => self.manifest.segments.0 + segments_before,
        };
        let expected = Expected {
            kind: *kind,
            shard,
            shards,
            number,
            position: self.position,
        };
        expected.check(header)
    }

    /// Where the next frame begins, as frames of this file count.
    fn next_frame(&self) -> u64 {
        let header = self.reader.header.as_ref();
        header.map_or(0, |header| header.position) + self.reader.offset
            - SEGMENT_HEADER_BYTES as u64
    }

    fn read_frames(&mut self, apply: &mut impl FnMut(Requests<'_>)) -> Result<(), LoadFault> {
        let Some(header) = self.reader.header else {
            return Ok(());
        };
        let mut bytes = std::mem::take(&mut self.reader.bytes);
        let mut result = Ok(());
        while let Ok(frame) = decode_frame(&bytes, self.next_frame()) {
            let length = frame.len_bytes();
            result = self.read_entries(&frame, header.kind, apply);
            if result.is_err() {
                break;
            }
            bytes.advance(length);
            self.reader.offset += length as u64;
            if header.kind == FileKind::Log {
                self.position = Some(self.next_frame());
            }
        }
        self.reader.bytes = bytes;
        result
    }

    fn read_entries(
        &mut self,
        frame: &Frame<'_>,
        kind: FileKind,
        apply: &mut impl FnMut(Requests<'_>),
    ) -> Result<(), LoadFault> {
        let in_log = kind == FileKind::Log;
        if in_log && self.pass == Pass::Survey {
            self.survey.note_epoch(frame.epoch);
        }
        for entry in Entries::of(frame.entries) {
            let entry =
                entry.map_err(|fault| self.fault(self.reader.offset, LoadReason::Entry(fault)))?;
            if let Entry::SnapshotEnd { .. } = entry {
                self.reader.has_ended = true;
            }
            if self.pass == Pass::Survey {
                self.note_what_does_not_count(&entry, frame.position);
            }
            match (self.pass, &entry) {
                (Pass::Survey, _) => self.survey.note(&entry),
                (Pass::Load, _) if in_log && self.is_skipped(frame, &entry) => {}
                (Pass::Load, Entry::Effects(requests)) => {
                    apply(*requests);
                }
                (Pass::Load, Entry::Part(part, requests)) if !self.is_dropped(part.id) => {
                    apply(*requests);
                }
                (Pass::Load, _) => {}
            }
        }
        Ok(())
    }

    /// Keeps what earlier recoveries decided about this log, for as long as it is there.
    fn note_what_does_not_count(&mut self, entry: &Entry<'_>, position: u64) {
        match entry {
            Entry::Skipped { above } => self.skipped.push((position, *above)),
            Entry::Dropped { run, transactions } => {
                self.dropped.entry(*run).or_default().extend(transactions);
            }
            Entry::Effects(_)
            | Entry::Part(..)
            | Entry::EarlierRunsSettled
            | Entry::SnapshotBegin(_)
            | Entry::SnapshotEnd { .. } => {}
        }
    }

    fn is_skipped(&self, frame: &Frame<'_>, entry: &Entry<'_>) -> bool {
        if self.skipped.is_empty() {
            return false;
        }
        let epoch = epoch_of(frame, entry);
        let mut skipped = self.skipped.iter();
        skipped.any(|(before, above)| frame.position < *before && epoch > *above)
    }

    fn is_dropped(&self, id: TransactionId) -> bool {
        let all = [&self.dropped, &self.newly_dropped];
        let mut of_run = all.into_iter().filter_map(|dropped| dropped.get(&self.run));
        of_run.any(|dropped| dropped.contains(&id))
    }

    /// The file has no more bytes: whether that is how it should end.
    fn end_file(&mut self) -> Result<(), LoadFault> {
        let offset = self.reader.offset;
        let is_snapshot = matches!(self.files.get(self.at), Some((_, FileKind::Snapshot)));
        if self.reader.bytes.is_empty() {
            return if is_snapshot && !self.reader.has_ended {
                Err(self.fault(offset, LoadReason::Incomplete))
            } else {
                Ok(())
            };
        }
        let position = self.next_frame();
        let Err(fault) = decode_frame(&self.reader.bytes, position) else {
            return Ok(());
        };
        let is_last = self.at + 1 == self.files.len();
        let verdict = judge_fault(&self.reader.bytes, position);
        if is_snapshot || !is_last || verdict != Verdict::TornTail {
            return Err(self.fault(offset, LoadReason::Damaged(fault)));
        }
        let (file, _) = &self.files[self.at];
        self.torn = Some(TornTail {
            file: Arc::clone(file),
            offset,
            bytes: self.reader.bytes.split().freeze(),
        });
        Ok(())
    }
}

/// When what an entry says took place.
pub(super) fn epoch_of(frame: &Frame<'_>, entry: &Entry<'_>) -> u64 {
    match entry {
        Entry::Part(part, _) if !part.is_isolated => part.epoch,
        Entry::Part(..)
        | Entry::Effects(_)
        | Entry::Dropped { .. }
        | Entry::Skipped { .. }
        | Entry::EarlierRunsSettled
        | Entry::SnapshotBegin(_)
        | Entry::SnapshotEnd { .. } => frame.epoch,
    }
}

impl fmt::Display for LoadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            offset,
            reason,
        } = self;
        match reason {
            LoadReason::Header(fault) => write!(f, "{file}, byte {offset}: {fault}"),
            LoadReason::Misplaced(text) => {
                write!(
                    f,
                    "{file}, byte {offset}: it is not where it belongs: {text}"
                )
            }
            LoadReason::Damaged(fault) => write!(
                f,
                "{file} is damaged at byte {offset}: {fault}, although it was durable"
            ),
            LoadReason::Entry(fault) => write!(f, "{file}, frame at byte {offset}: {fault}"),
            LoadReason::Incomplete => {
                write!(f, "{file} ends at byte {offset}, before its last entry")
            }
        }
    }
}

impl std::error::Error for LoadFault {}
