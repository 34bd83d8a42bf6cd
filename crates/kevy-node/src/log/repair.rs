//! Cuts a damaged log where it is still whole, so that a server starts with everything before that.
//!
//! Nothing is thrown away: what is cut is copied aside first (`<file>.damaged-<unix ms>`). The order of the steps makes a
//! crash between any two of them harmless, and repairing again finishes what is left:
//!
//! 1. the damaged rest of the segment and the segments behind it are copied and synced;
//! 2. the manifest is replaced by one that ends with the segment to be cut; from then on the others do not count;
//! 3. the segment is cut, or begun anew if not even its header is whole;
//! 4. the segments that do not count any more are removed.
//!
//! Transactions over several shards whose parts stood in the cut are judged at the next start as after any crash.

use super::directory::{DirectoryFault, perform};
use super::file_inspection::{Count, FileInspection, FileState};
use super::inspection::{Inspection, ShardInspection};
use super::loader::{LoadReason, PIECE_BYTES};
use super::manifest::{Files, Manifest};
use super::operation::DiskAction;
use crate::host::Disk;
use bytes::Bytes;
use kevy_proto::ids::ShardId;
use kevy_proto::log::{EntryFault, FileKind, SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader};

/// What is to be cut of a shard's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whose log.
    pub shard: ShardId,
    /// The last segment that stays.
    pub segment: u64,
    /// Up to which byte it stays. Less than a header: it begins anew, empty.
    pub offset: u64,
    /// Bytes that go.
    pub lost_bytes: u64,
    /// What could still be read of them.
    pub lost: Count,
    /// Files that go wholly or from an offset on, with what their copies are called.
    pub copies: Vec<KeptCopy>,
    /// The manifest from then on.
    manifest: Manifest,
}

/// A copy of what is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCopy {
    /// Of which file.
    pub file: String,
    /// From which byte on.
    pub offset: u64,
    /// Where it is kept.
    pub kept_in: String,
}

/// What can be done about a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing has to be done.
    Whole,
    /// Its log is cut.
    Cut(Cut),
    /// Nothing can be done without guessing; why.
    Beyond(String),
}

/// Says what can be done about a shard. `unix_ms` goes into the names of copies.
pub fn remedy(shard: &ShardInspection, unix_ms: i64) -> Remedy {
    let manifest = match &shard.manifest {
        Ok(manifest) => *manifest,
        Err(fault) => return Remedy::Beyond(fault.to_string()),
    };
    let is_bad = |file: &&FileInspection| !file.is_whole();
    let Some(bad) = shard.files.iter().find(is_bad) else {
        return Remedy::Whole;
    };
    if let Some(reason) = beyond_repair(bad) {
        return Remedy::Beyond(reason);
    }
    let (first, _) = manifest.segments;
    let within = match &bad.state {
        FileState::Damaged(fault) if fault.offset >= SEGMENT_HEADER_BYTES as u64 => fault.offset,
        FileState::Damaged(_)
        | FileState::Missing
        | FileState::Whole
        | FileState::Torn { .. }
        | FileState::Unreadable(_) => 0,
    };
    // Of a segment without a header nothing stays; the one before it, if there is one, is whole.
    let is_before =
        |file: &&FileInspection| file.kind == FileKind::Log && file.number + 1 == bad.number;
    let before = shard.files.iter().find(is_before).filter(|_| within == 0);
    let (segment, offset) =
        before.map_or((bad.number, within), |before| (before.number, before.bytes));
    let mut cut = Cut {
        shard: shard.shard,
        segment,
        offset,
        lost_bytes: 0,
        lost: Count::default(),
        copies: Vec::new(),
        manifest: Manifest {
            segments: (first, segment),
            ..manifest
        },
    };
    let logs = shard.files.iter();
    for file in logs.filter(|file| file.kind == FileKind::Log && file.number >= bad.number) {
        cut.add(
            file,
            if file.number == bad.number { within } else { 0 },
            unix_ms,
        );
    }
    Remedy::Cut(cut)
}

/// Why a fault is not one that a cut mends.
fn beyond_repair(file: &FileInspection) -> Option<String> {
    let name = &file.file;
    if let FileState::Unreadable(fault) = &file.state {
        return Some(format!("{name}: {fault}"));
    }
    if file.kind == FileKind::Snapshot {
        return Some(format!(
            "{name} is a snapshot that is not whole: the log goes on from it and says nothing without it. \
             Bring the directory back from a backup"
        ));
    }
    let FileState::Damaged(fault) = &file.state else {
        return None;
    };
    match &fault.reason {
        LoadReason::Header(SegmentFault::Format(_)) | LoadReason::Entry(EntryFault::Kind(_)) => {
            Some(format!("{fault}: a newer kevy wrote it, and can read it"))
        }
        LoadReason::Header(_)
        | LoadReason::Misplaced(_)
        | LoadReason::Damaged(_)
        | LoadReason::Entry(EntryFault::Malformed)
        | LoadReason::Incomplete => None,
    }
}

impl Cut {
    /// A file goes from `offset` on.
    fn add(&mut self, file: &FileInspection, offset: u64, unix_ms: i64) {
        if file.state == FileState::Missing {
            return;
        }
        self.lost_bytes += file.bytes - offset;
        self.lost.add(file.behind);
        if offset == 0 {
            self.lost.add(file.whole);
        }
        self.copies.push(KeptCopy {
            file: file.file.clone(),
            offset,
            kept_in: format!("{}.damaged-{unix_ms}", file.file),
        });
    }
}

/// Cuts a log. `run` is a number that no run of a server has: it stands in the header of a segment that begins anew.
///
/// # Errors
/// As the file system says. Repairing again goes on where this has stopped.
pub async fn cut_log(
    disk: &mut impl Disk,
    inspection: &Inspection,
    cut: &Cut,
    run: u64,
) -> Result<(), DirectoryFault> {
    let files = Files {
        generation: inspection.layout.generation,
    };
    for copy in &cut.copies {
        copy_aside(disk, copy).await?;
    }
    let manifest = cut.manifest;
    let text = Bytes::from(manifest.to_string());
    let name = files.manifest(cut.shard);
    perform(disk, &name, DiskAction::Replace(text)).await?;
    let name = files.segment(cut.shard, cut.segment);
    let last = if cut.offset < SEGMENT_HEADER_BYTES as u64 {
        DiskAction::Replace(empty_segment(&manifest, run))
    } else {
        DiskAction::Cut { length: cut.offset }
    };
    perform(disk, &name, last).await?;
    for copy in cut.copies.iter().filter(|copy| copy.file != name) {
        perform(disk, &copy.file, DiskAction::Remove).await?;
    }
    Ok(())
}

/// The first segment, without anything in it.
fn empty_segment(manifest: &Manifest, run: u64) -> Bytes {
    let header = SegmentHeader {
        kind: FileKind::Log,
        shard: manifest.shard,
        shards: manifest.shards,
        segment: manifest.segments.0,
        position: manifest.snapshot.map_or(0, |snapshot| snapshot.position),
        run,
    };
    Bytes::copy_from_slice(&header.encode())
}

async fn copy_aside(disk: &mut impl Disk, copy: &KeptCopy) -> Result<(), DirectoryFault> {
    let mut done = 0;
    loop {
        let piece = DiskAction::Read {
            offset: copy.offset + done,
            length: PIECE_BYTES,
        };
        let bytes = perform(disk, &copy.file, piece).await?;
        let length = bytes.len();
        let offset = done;
        perform(disk, &copy.kept_in, DiskAction::Write { offset, bytes }).await?;
        done += length as u64;
        if length < PIECE_BYTES {
            break;
        }
    }
    perform(disk, &copy.kept_in, DiskAction::Sync).await?;
    Ok(())
}
