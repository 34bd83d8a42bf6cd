//! A data directory as a whole: made, opened, and written anew for another number of shards.
//!
//! Opening leaves nothing behind that the layout and the manifests do not name, but for what a person may want to look at:
//! torn tails that were cut, and the files of earlier generations (`*.premigration.<unix ms>`).
//!
//! Placing the keys over another number of shards (*re-homing*) writes the next generation beside the one that counts;
//! replacing the layout is the step that makes it count. A crash before it leaves files of a generation that is to come,
//! which are removed; a crash after it leaves files of one that has been, which are set aside.

use super::journal::JournalConfig;
use super::loader::{LoadFault, LoadProgress, Loader};
use super::manifest::{Files, LAYOUT_FILE, Layout, Manifest, ManifestFault, SnapshotFile};
use super::operation::{DiskAction, DiskFault};
use super::replay::replay;
use super::snapshot::SnapshotWriter;
use super::survey::{Survey, judge};
use super::texts::{read_layout, read_manifests};
use crate::command_table::CommandTable;
use crate::host::Disk;
use bytes::Bytes;
use kevy_engine::keyspace::{ExpiryMode, SnapshotProgress};
use kevy_engine::{Effects, Keyspace};
use kevy_proto::ids::ShardId;
use kevy_proto::log::{FileKind, SegmentHeader};
use kevy_proto::slot::SlotMap;
use kevy_proto::time::Now;
use std::fmt;
use std::io;

/// How many entries are written at a time.
const ENTRIES_PER_STEP: usize = 256;

/// Who opens a directory, and when.
#[derive(Clone, Copy, Debug)]
pub struct Opener {
    /// How many shards the process has.
    pub shards: u16,
    /// A number that no other run has.
    pub run: u64,
    /// Where hashing starts.
    pub seed: u64,
    /// The time.
    pub now: Now,
}

/// Why a directory cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryFault {
    /// The file system says no.
    Disk(String, DiskFault),
    /// A layout or manifest cannot be read.
    Text(String, ManifestFault),
    /// A file is missing.
    Missing(String),
    /// A file is damaged.
    Load(LoadFault),
    /// A file asks for what cannot be carried out.
    Request(String, String),
}

/// Opens the directory for a process, and makes it ready: for each shard, in order, what it is to load and go on with.
///
/// # Errors
/// Why that is not possible. Nothing that counts was changed then.
pub async fn open_directory(
    disk: &mut impl Disk,
    opener: &Opener,
) -> Result<Vec<JournalConfig>, DirectoryFault> {
    let layout = match read_layout(disk).await? {
        Some(layout) => layout,
        None => make(disk, opener).await?,
    };
    clean(disk, layout).await?;
    set_aside(disk, layout, opener.now).await?;
    let layout = if layout.shards == opener.shards {
        layout
    } else {
        rehome(disk, layout, opener).await?
    };
    let mut configs = Vec::new();
    for manifest in read_manifests(disk, layout).await? {
        remove_unnamed(disk, layout, &manifest).await?;
        configs.push(JournalConfig {
            files: files(layout),
            manifest,
            run: opener.run,
        });
    }
    Ok(configs)
}

/// Loads everything that the directory holds: a keyspace for each shard it was written by.
///
/// # Errors
/// Why that is not possible. Nothing is changed.
pub async fn load_directory(
    disk: &mut impl Disk,
    opener: &Opener,
) -> Result<Vec<Keyspace>, DirectoryFault> {
    let layout = read_layout(disk).await?;
    let layout = layout.ok_or_else(|| DirectoryFault::Missing(LAYOUT_FILE.to_owned()))?;
    load(disk, layout, opener).await
}

/// Writes a new directory that holds `keyspaces`, one for each shard in order.
///
/// # Errors
/// As the file system says.
pub async fn write_directory(
    disk: &mut impl Disk,
    keyspaces: &mut [Keyspace],
    opener: &Opener,
) -> Result<(), DirectoryFault> {
    let layout = Layout {
        generation: 1,
        shards: keyspaces.len() as u16,
    };
    write_generation(disk, layout, keyspaces, opener.run).await?;
    replace(disk, LAYOUT_FILE, layout.to_string()).await
}

fn files(layout: Layout) -> Files {
    Files {
        generation: layout.generation,
    }
}

// ---- small steps -----------------------------------------------------------------------------------------------------

/// Names of the files there are.
///
/// # Errors
/// As the file system says.
pub(super) async fn list(disk: &mut impl Disk) -> Result<Vec<String>, DirectoryFault> {
    let names = disk.list().await;
    names.map_err(|fault| DirectoryFault::Disk("the data directory".to_owned(), fault))
}

/// Does something with a file.
///
/// # Errors
/// As the file system says, with the file's name.
pub(super) async fn perform(
    disk: &mut impl Disk,
    name: &str,
    action: DiskAction,
) -> Result<Bytes, DirectoryFault> {
    let done = disk.perform(name, action).await;
    done.map_err(|fault| DirectoryFault::Disk(name.to_owned(), fault))
}

async fn replace(disk: &mut impl Disk, name: &str, text: String) -> Result<(), DirectoryFault> {
    perform(disk, name, DiskAction::Replace(text.into())).await?;
    Ok(())
}

/// Writes the files of an empty generation.
async fn make(disk: &mut impl Disk, opener: &Opener) -> Result<Layout, DirectoryFault> {
    let layout = Layout {
        generation: 1,
        shards: opener.shards,
    };
    for index in 0..layout.shards {
        let manifest = Manifest {
            shard: ShardId(index),
            shards: layout.shards,
            snapshot: None,
            segments: (1, 1),
        };
        write_segment(disk, layout, &manifest, opener.run).await?;
        let name = files(layout).manifest(manifest.shard);
        replace(disk, &name, manifest.to_string()).await?;
    }
    replace(disk, LAYOUT_FILE, layout.to_string()).await?;
    Ok(layout)
}

/// Writes the first segment of a shard, empty.
async fn write_segment(
    disk: &mut impl Disk,
    layout: Layout,
    manifest: &Manifest,
    run: u64,
) -> Result<(), DirectoryFault> {
    let (segment, _) = manifest.segments;
    let header = SegmentHeader {
        kind: FileKind::Log,
        shard: manifest.shard,
        shards: layout.shards,
        segment,
        position: 0,
        run,
    };
    let name = files(layout).segment(manifest.shard, segment);
    let bytes = Bytes::copy_from_slice(&header.encode());
    perform(disk, &name, DiskAction::Write { offset: 0, bytes }).await?;
    perform(disk, &name, DiskAction::Sync).await?;
    Ok(())
}

/// Removes files of a generation that never counted.
async fn clean(disk: &mut impl Disk, layout: Layout) -> Result<(), DirectoryFault> {
    for name in list(disk).await? {
        match Files::generation_of(&name) {
            Some(generation) if generation > layout.generation => {
                perform(disk, &name, DiskAction::Remove).await?;
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Removes segments and snapshots that the manifest does not name: what work on the files left when it was cut short.
async fn remove_unnamed(
    disk: &mut impl Disk,
    layout: Layout,
    manifest: &Manifest,
) -> Result<(), DirectoryFault> {
    let files = files(layout);
    let (first, last) = manifest.segments;
    let mut named: Vec<String> = (first..=last)
        .map(|segment| files.segment(manifest.shard, segment))
        .collect();
    named.extend(
        manifest
            .snapshot
            .map(|file| files.snapshot(manifest.shard, file.number)),
    );
    let prefix = files.prefix(manifest.shard);
    for name in list(disk).await? {
        let kind = name
            .strip_prefix(&prefix)
            .and_then(|rest| rest.rsplit_once('.'));
        let is_ours = matches!(kind, Some((_, "log" | "snapshot")));
        if is_ours && !named.contains(&name) {
            perform(disk, &name, DiskAction::Remove).await?;
        }
    }
    Ok(())
}

// ---- loading ---------------------------------------------------------------------------------------------------------

async fn load(
    disk: &mut impl Disk,
    layout: Layout,
    opener: &Opener,
) -> Result<Vec<Keyspace>, DirectoryFault> {
    let manifests = read_manifests(disk, layout).await?;
    let mut loaders: Vec<Loader> = manifests
        .iter()
        .map(|manifest| Loader::new(files(layout), *manifest))
        .collect();
    for loader in &mut loaders {
        run_pass(disk, loader, None).await?;
    }
    let surveys: Vec<Survey> = loaders
        .iter()
        .map(|loader| loader.survey().clone())
        .collect();
    let judgement = judge(&surveys);
    let mut commands = CommandTable::new();
    let mut keyspaces = Vec::new();
    for loader in &mut loaders {
        let mut keyspace = Keyspace::new(opener.seed);
        keyspace.set_expiry_mode(ExpiryMode::Ignore);
        loader.begin_load(&judgement);
        run_pass(
            disk,
            loader,
            Some((&mut keyspace, &mut commands, opener.now)),
        )
        .await?;
        keyspaces.push(keyspace);
    }
    Ok(keyspaces)
}

/// One pass over a shard's files; `target` is what to carry it out on.
async fn run_pass(
    disk: &mut impl Disk,
    loader: &mut Loader,
    mut target: Option<(&mut Keyspace, &mut CommandTable, Now)>,
) -> Result<(), DirectoryFault> {
    while let Some(piece) = loader.next_piece() {
        let (offset, length) = (piece.offset, piece.length);
        let bytes = match disk
            .perform(&piece.file, DiskAction::Read { offset, length })
            .await
        {
            Ok(bytes) => bytes,
            Err(fault) if fault.kind == io::ErrorKind::NotFound => {
                return Err(DirectoryFault::Missing(piece.file.to_string()));
            }
            Err(fault) => return Err(DirectoryFault::Disk(piece.file.to_string(), fault)),
        };
        let mut applied = Ok(());
        let progress = loader.handle_piece(&bytes, |requests| {
            if applied.is_ok()
                && let Some((keyspace, commands, now)) = &mut target
            {
                applied = replay(keyspace, commands, *now, &requests);
            }
        });
        applied.map_err(|request| DirectoryFault::Request(piece.file.to_string(), request))?;
        if progress.map_err(DirectoryFault::Load)? == LoadProgress::Done {
            break;
        }
    }
    Ok(())
}

// ---- re-homing -------------------------------------------------------------------------------------------------------

async fn rehome(
    disk: &mut impl Disk,
    old: Layout,
    opener: &Opener,
) -> Result<Layout, DirectoryFault> {
    let layout = Layout {
        generation: old.generation + 1,
        shards: opener.shards,
    };
    tracing::warn!(
        "The data was placed over {} shards and is placed anew over {}; the old files stay as *.premigration.*",
        old.shards,
        layout.shards
    );
    let map = SlotMap::new(layout.shards);
    let mut placed: Vec<Keyspace> = (0..layout.shards)
        .map(|_| {
            let mut keyspace = Keyspace::new(opener.seed);
            keyspace.set_expiry_mode(ExpiryMode::Ignore);
            keyspace
        })
        .collect();
    for mut keyspace in load(disk, old, opener).await? {
        let keys: Vec<Vec<u8>> = keyspace.iter().map(|entry| entry.key().to_vec()).collect();
        for key in keys {
            if let Some(entry) = keyspace.take(&key) {
                placed[map.owner_of_key(&key).index()].put(entry);
            }
        }
    }
    write_generation(disk, layout, &mut placed, opener.run).await?;
    replace(disk, LAYOUT_FILE, layout.to_string()).await?;
    set_aside(disk, layout, opener.now).await?;
    Ok(layout)
}

/// Renames the files of earlier generations.
async fn set_aside(disk: &mut impl Disk, layout: Layout, now: Now) -> Result<(), DirectoryFault> {
    for name in list(disk).await? {
        let is_old = Files::generation_of(&name).is_some_and(|number| number < layout.generation);
        if is_old && !name.contains(".premigration.") {
            let to = format!("{name}.premigration.{}", now.unix.0);
            perform(disk, &name, DiskAction::Rename { to }).await?;
        }
    }
    Ok(())
}

async fn write_generation(
    disk: &mut impl Disk,
    layout: Layout,
    keyspaces: &mut [Keyspace],
    run: u64,
) -> Result<(), DirectoryFault> {
    for (index, keyspace) in (0..).zip(keyspaces) {
        let manifest = Manifest {
            shard: ShardId(index),
            shards: layout.shards,
            snapshot: Some(SnapshotFile {
                number: 1,
                position: 0,
            }),
            segments: (1, 1),
        };
        write_snapshot(disk, layout, manifest.shard, keyspace, run).await?;
        write_segment(disk, layout, &manifest, run).await?;
        let name = files(layout).manifest(manifest.shard);
        replace(disk, &name, manifest.to_string()).await?;
    }
    Ok(())
}

async fn write_snapshot(
    disk: &mut impl Disk,
    layout: Layout,
    shard: ShardId,
    keyspace: &mut Keyspace,
    run: u64,
) -> Result<(), DirectoryFault> {
    let header = SegmentHeader {
        kind: FileKind::Snapshot,
        shard,
        shards: layout.shards,
        segment: 1,
        position: 0,
        run,
    };
    let file = files(layout).snapshot(shard, header.segment);
    let mut writer = SnapshotWriter::new(file.as_str().into(), &header, &[], false);
    keyspace.begin_snapshot();
    let mut is_open = true;
    while !writer.is_synced() {
        while is_open && writer.wants_entries() {
            let mut effects = Effects::on();
            let progress = keyspace.advance_snapshot(ENTRIES_PER_STEP, &mut effects);
            writer.push(effects.iter());
            if let SnapshotProgress::Complete(keys) = progress {
                writer.complete(keys);
                is_open = false;
            }
        }
        if let Some(action) = writer.poll_action() {
            perform(disk, &file, action).await?;
            writer.handle_done();
        }
    }
    Ok(())
}

impl fmt::Display for DirectoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(file, fault) => write!(f, "{file}: {fault}"),
            Self::Text(file, fault) => write!(f, "{file}: {fault}"),
            Self::Missing(file) => write!(
                f,
                "{file} is missing. Without it the other files say nothing: bring it back from a backup, \
                 or begin with an empty directory"
            ),
            Self::Load(fault) => write!(f, "{fault}"),
            Self::Request(file, request) => {
                write!(f, "{file} holds {request}, which cannot be carried out")
            }
        }
    }
}

impl std::error::Error for DirectoryFault {}
