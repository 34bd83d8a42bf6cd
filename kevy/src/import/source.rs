//! Which files are to be read, in which order.

use crate::transfer::TransferError;
use kevy_engine::redis_aof::{MANIFEST_MAX_BYTES, Manifest};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files of an import.
#[derive(Debug)]
pub(super) struct Source {
    files: Vec<PathBuf>,
    size_bytes: u64,
}

impl Source {
    /// Finds the files behind `path`: itself, or those that the manifest in it names.
    pub(super) fn find(path: &Path) -> Result<Self, TransferError> {
        let files = if path.is_dir() {
            files_of_manifest(&manifest_in(path)?)?
        } else {
            vec![path.to_owned()]
        };
        let mut size_bytes = 0;
        for file in &files {
            let metadata = fs::metadata(file).map_err(TransferError::reading(file))?;
            size_bytes += metadata.len();
        }
        Ok(Self { files, size_bytes })
    }

    /// Bytes of all files.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The files in order; only of the last may the end be missing.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, bool)> {
        let last = self.files.len().saturating_sub(1);
        let files = self.files.iter().enumerate();
        files.map(move |(index, path)| (path.as_path(), index == last))
    }
}

/// The only manifest in `directory`.
fn manifest_in(directory: &Path) -> Result<PathBuf, TransferError> {
    let mut found = Vec::new();
    let entries = directory
        .read_dir()
        .map_err(TransferError::reading(directory))?;
    for entry in entries {
        let path = entry.map_err(TransferError::reading(directory))?.path();
        if path.extension().is_some_and(|end| end == "manifest") {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(TransferError::Manifests {
            directory: directory.to_owned(),
            count: found.len(),
        }),
    }
}

fn files_of_manifest(path: &Path) -> Result<Vec<PathBuf>, TransferError> {
    let mut text = String::new();
    let file = File::open(path).map_err(TransferError::reading(path))?;
    file.take(MANIFEST_MAX_BYTES as u64)
        .read_to_string(&mut text)
        .map_err(TransferError::reading(path))?;
    let manifest = Manifest::parse(&text).map_err(|fault| TransferError::Manifest {
        path: path.to_owned(),
        fault,
    })?;
    Ok(manifest
        .files()
        .map(|name| path.with_file_name(name))
        .collect())
}
