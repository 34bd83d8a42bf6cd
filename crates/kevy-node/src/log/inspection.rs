//! What a data directory holds, read without changing anything: for `kevy check`.
//!
//! The rules are the [`Loader`](super::Loader)'s, which has the last word at a start. But where it stops at the first fault,
//! this goes on: a person who has to decide wants to know what is whole before a fault and what can be read behind it.
//! What to do about a fault is a matter of [`repair`](super::repair).

use super::directory::{DirectoryFault, list};
use super::expected::Expected;
use super::file_inspection::{FileInspection, FileReader, Met};
use super::loader::epoch_of;
use super::manifest::{Files, LAYOUT_FILE, Layout, Manifest};
use super::survey::{Judgement, Survey, judge};
use super::texts::{read_layout, read_manifest};
use crate::host::Disk;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{Entry, FileKind, SegmentHeader};

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

// ---- other files -----------------------------------------------------------------------------------------------------

async fn leftovers(
    disk: &mut impl Disk,
    layout: Layout,
    shards: &[ShardInspection],
) -> Result<Vec<(String, Leftover)>, DirectoryFault> {
    let names = list(disk).await?;
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
