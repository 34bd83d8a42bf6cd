//! The texts that say which files count, read from a data directory.

use super::directory::{DirectoryFault, list};
use super::manifest::{Files, LAYOUT_FILE, Layout, Manifest, ManifestFault};
use super::operation::DiskAction;
use crate::host::Disk;
use kevy_proto::ids::ShardId;
use std::io;

/// Longest text that is read as a layout or manifest, in bytes.
const TEXT_BYTES: usize = 64 * 1024;

/// The layout; none in a directory that holds nothing of kevy's.
///
/// # Errors
/// If it is missing although there are other files, or cannot be read.
pub(super) async fn read_layout(disk: &mut impl Disk) -> Result<Option<Layout>, DirectoryFault> {
    let Some(text) = read_text(disk, LAYOUT_FILE).await? else {
        let names = list(disk).await?;
        let orphan = names
            .iter()
            .any(|name| Files::generation_of(name).is_some());
        return if orphan {
            Err(DirectoryFault::Missing(LAYOUT_FILE.to_owned()))
        } else {
            Ok(None)
        };
    };
    let layout = text.parse();
    layout
        .map(Some)
        .map_err(|fault| DirectoryFault::Text(LAYOUT_FILE.to_owned(), fault))
}

/// The manifests of all shards.
///
/// # Errors
/// If one is missing or cannot be read.
pub(super) async fn read_manifests(
    disk: &mut impl Disk,
    layout: Layout,
) -> Result<Vec<Manifest>, DirectoryFault> {
    let mut manifests = Vec::new();
    for index in 0..layout.shards {
        manifests.push(read_manifest(disk, layout, ShardId(index)).await?);
    }
    Ok(manifests)
}

/// One shard's manifest.
///
/// # Errors
/// If it is missing or cannot be read.
pub(super) async fn read_manifest(
    disk: &mut impl Disk,
    layout: Layout,
    shard: ShardId,
) -> Result<Manifest, DirectoryFault> {
    let name = Files {
        generation: layout.generation,
    }
    .manifest(shard);
    let Some(text) = read_text(disk, &name).await? else {
        return Err(DirectoryFault::Missing(name));
    };
    let manifest: Manifest = match text.parse() {
        Ok(manifest) => manifest,
        Err(fault) => return Err(DirectoryFault::Text(name, fault)),
    };
    if (manifest.shard, manifest.shards) != (shard, layout.shards) {
        let line = format!("shard {} of {}", manifest.shard, manifest.shards);
        return Err(DirectoryFault::Text(name, ManifestFault::Line(line)));
    }
    Ok(manifest)
}

async fn read_text(disk: &mut impl Disk, name: &str) -> Result<Option<String>, DirectoryFault> {
    let action = DiskAction::Read {
        offset: 0,
        length: TEXT_BYTES,
    };
    match disk.perform(name, action).await {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(fault) if fault.kind == io::ErrorKind::NotFound => Ok(None),
        Err(fault) => Err(DirectoryFault::Disk(name.to_owned(), fault)),
    }
}
