//! What a data directory holds, read without changing anything: for `kevy check`.
//!
//! The rules are the [`Loader`](super::Loader)'s, which has the last word at a start. But where it stops at the first fault,
//! this goes on: a person who has to decide wants to know what is whole before a fault and what can be read behind it.
//! What to do about a fault is a matter of [`repair`](super::repair).

use super::directory::{DirectoryFault, read_layout, read_manifest};
use super::loader::{Expected, LoadFault, LoadReason, PIECE_BYTES, epoch_of};
use super::manifest::{Files, LAYOUT_FILE, Layout, Manifest};
use super::operation::{DiskAction, DiskFault};
use super::survey::{Judgement, Survey, judge};
use crate::host::Disk;
use bytes::{Buf, BytesMut};
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{
    Entries, Entry, FileKind, Frame, FrameFault, SEGMENT_HEADER_BYTES, SegmentHeader, Verdict,
    decode_frame, judge_fault,
};
use std::io;

/// A data directory, looked through.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Which files count.
    pub layout: Layout,
    /// Each shard, in order.
    pub shards: Vec<ShardInspection>,
    /// Transactions that are not carried out at the next start although a log has parts of them, by their runs.
    pub dropped: Vec<(u64, TransactionId)>,
    /// Of what is not known to be durable only entries up to this epoch count at the next start, if not all do.
    pub above: Option<u64>,
    /// How many entries do not count because of that.
    pub skipped_entries: u64,
    /// Files that are none of the state, in byte order.
    pub leftovers: Vec<(String, Leftover)>,
}

/// One shard's files.
#[derive(Clone, Debug)]
pub struct ShardInspection {
    /// Whose.
    pub shard: ShardId,
    /// Which files it has, or why nobody knows.
    pub manifest: Result<Manifest, DirectoryFault>,
    /// The snapshot if there is one, and the segments in order.
    pub files: Vec<FileInspection>,
    survey: Survey,
    /// What earlier starts decided not to count, as the loader keeps it.
    skipped: Vec<(u64, u64)>,
}

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

/// What a file is that is none of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// A torn tail that an earlier start has cut.
    TornTail,
    /// What a repair has cut.
    DamagedPart,
    /// The data before it was placed over another number of shards.
    EarlierGeneration,
    /// Work that a crash has cut short before it counted: the next start removes it.
    Unfinished,
}

/// Looks through a data directory. `progress` is handed the number of bytes read so far, now and then.
///
/// # Errors
/// If there is no layout that says what to look at.
pub async fn inspect_directory(
    disk: &mut impl Disk,
    progress: &mut impl FnMut(u64),
) -> Result<Inspection, DirectoryFault> {
    let layout = read_layout(disk).await?;
    let layout = layout.ok_or_else(|| DirectoryFault::Missing(LAYOUT_FILE.to_owned()))?;
    let mut read_bytes = 0;
    let mut shards = Vec::new();
    for index in 0..layout.shards {
        let mut count = |bytes| {
            read_bytes += bytes;
            progress(read_bytes);
        };
        shards.push(inspect_shard(disk, layout, ShardId(index), &mut count).await);
    }
    let surveys: Vec<Survey> = shards.iter().map(|shard| shard.survey.clone()).collect();
    let judgement = judge(&surveys);
    let mut inspection = Inspection {
        layout,
        dropped: newly_dropped(&judgement, &surveys),
        above: judgement.above,
        skipped_entries: 0,
        leftovers: leftovers(disk, layout, &shards).await?,
        shards,
    };
    if let Some(above) = judgement.above {
        inspection.skipped_entries = count_skipped(disk, layout, &inspection.shards, above).await;
    }
    Ok(inspection)
}

impl Inspection {
    /// Whether a server starts with all of it. A torn tail is fine.
    pub fn is_whole(&self) -> bool {
        self.shards.iter().all(ShardInspection::is_whole)
    }
}

impl ShardInspection {
    /// Whether a server starts with all of it. A torn tail is fine.
    pub fn is_whole(&self) -> bool {
        self.manifest.is_ok() && self.files.iter().all(FileInspection::is_whole)
    }
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

// ---- one shard -------------------------------------------------------------------------------------------------------

async fn inspect_shard(
    disk: &mut impl Disk,
    layout: Layout,
    shard: ShardId,
    progress: &mut impl FnMut(u64),
) -> ShardInspection {
    let mut inspection = ShardInspection {
        shard,
        manifest: read_manifest(disk, layout, shard).await,
        files: Vec::new(),
        survey: Survey::default(),
        skipped: Vec::new(),
    };
    let Ok(manifest) = inspection.manifest else {
        return inspection;
    };
    let mut position = manifest.snapshot.map(|snapshot| snapshot.position);
    let mut is_whole = true;
    for expected in expectations(manifest) {
        let files = Files {
            generation: layout.generation,
        };
        let is_last = expected.number == manifest.segments.1;
        let expected = Expected {
            position: position.filter(|_| is_whole),
            ..expected
        };
        let reader = FileReader::new(files, expected, is_last);
        // Behind a fault nothing counts any more.
        let ShardInspection {
            survey, skipped, ..
        } = &mut inspection;
        let visit = |header: &SegmentHeader, met: Met<'_>| {
            if is_whole {
                note(survey, skipped, header, met);
            }
        };
        let file = reader.read(disk, visit, progress).await;
        is_whole &= file.is_whole();
        if file.kind == FileKind::Log {
            position = Some(file.positions.1);
        }
        inspection.files.push(file);
    }
    inspection
}

/// The files that a manifest names, in their order; positions are left open.
fn expectations(manifest: Manifest) -> Vec<Expected> {
    let expected = |kind, number| Expected {
        kind,
        shard: manifest.shard,
        shards: manifest.shards,
        number,
        position: None,
    };
    let snapshot = manifest.snapshot.map(|file| file.number);
    let (first, last) = manifest.segments;
    snapshot
        .map(|number| expected(FileKind::Snapshot, number))
        .into_iter()
        .chain((first..=last).map(|number| expected(FileKind::Log, number)))
        .collect()
}

/// As the loader does it in its first pass.
fn note(survey: &mut Survey, skipped: &mut Vec<(u64, u64)>, header: &SegmentHeader, met: Met<'_>) {
    let in_log = header.kind == FileKind::Log;
    let Some((frame, entry)) = met else {
        if in_log {
            survey.begin_run(header.run);
        }
        return;
    };
    if in_log {
        survey.note_epoch(frame.epoch);
    }
    if let Entry::Skipped { above } = entry {
        skipped.push((frame.position, *above));
    }
    survey.note(entry);
}

/// What was found out just now, not by an earlier start.
fn newly_dropped(judgement: &Judgement, surveys: &[Survey]) -> Vec<(u64, TransactionId)> {
    let known: Vec<(u64, TransactionId)> = surveys
        .iter()
        .flat_map(Survey::surveyed_runs)
        .flat_map(|run| run.dropped.into_iter().map(move |id| (run.run, id)))
        .collect();
    let all = judgement.dropped.iter();
    let all = all.flat_map(|(run, ids)| ids.iter().map(|id| (*run, *id)));
    all.filter(|dropped| !known.contains(dropped)).collect()
}

/// How many entries of later epochs than `above` are there that no earlier start has skipped.
async fn count_skipped(
    disk: &mut impl Disk,
    layout: Layout,
    shards: &[ShardInspection],
    above: u64,
) -> u64 {
    let files = Files {
        generation: layout.generation,
    };
    let mut count = 0;
    for shard in shards {
        let logs = shard.files.iter();
        let logs = logs.filter(|file| file.kind == FileKind::Log);
        for file in logs.take_while(|file| file.is_whole()) {
            let Ok(manifest) = &shard.manifest else {
                break;
            };
            let expected = Expected {
                kind: file.kind,
                shard: shard.shard,
                shards: manifest.shards,
                number: file.number,
                position: None,
            };
            let is_last = file.number == manifest.segments.1;
            let reader = FileReader::new(files, expected, is_last);
            let visit = |_: &SegmentHeader, met: Met<'_>| {
                let Some((frame, entry)) = met else { return };
                let epoch = epoch_of(frame, entry);
                let is_write = matches!(entry, Entry::Effects(_) | Entry::Part(..));
                let mut known = shard.skipped.iter();
                let was_skipped =
                    known.any(|(before, above)| frame.position < *before && epoch > *above);
                count += u64::from(is_write && epoch > above && !was_skipped);
            };
            reader.read(disk, visit, &mut |_| {}).await;
        }
    }
    count
}

// ---- one file --------------------------------------------------------------------------------------------------------

/// What a reader hands out: the header has been read, or an entry of a frame.
type Met<'a> = Option<(&'a Frame<'a>, &'a Entry<'a>)>;

/// Reads one file to its end, piece by piece.
struct FileReader {
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
    fn new(files: Files, expected: Expected, is_last: bool) -> Self {
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
    async fn read(
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

// ---- other files -----------------------------------------------------------------------------------------------------

async fn leftovers(
    disk: &mut impl Disk,
    layout: Layout,
    shards: &[ShardInspection],
) -> Result<Vec<(String, Leftover)>, DirectoryFault> {
    let names = disk.list().await;
    let names =
        names.map_err(|fault| DirectoryFault::Disk("the data directory".to_owned(), fault))?;
    let of_state = |name: &String| {
        let files = Files {
            generation: layout.generation,
        };
        shards.iter().any(|shard| {
            // Without a manifest nobody knows which of its files count.
            let may_be = shard.manifest.is_err() && name.starts_with(&files.prefix(shard.shard));
            *name == files.manifest(shard.shard)
                || may_be
                || shard.files.iter().any(|file| file.file == *name)
        })
    };
    let others = names.into_iter().filter(|name| !of_state(name));
    Ok(others
        .filter_map(|name| {
            let leftover = leftover(&name, layout)?;
            Some((name, leftover))
        })
        .collect())
}

/// What a file is that the manifests do not name; none if it is not kevy's.
fn leftover(name: &str, layout: Layout) -> Option<Leftover> {
    let generation = Files::generation_of(name)?;
    Some(if generation < layout.generation {
        Leftover::EarlierGeneration
    } else if name.contains(".torn-") {
        Leftover::TornTail
    } else if name.contains(".damaged-") {
        Leftover::DamagedPart
    } else {
        Leftover::Unfinished
    })
}
