//! `kevy import`: keys of a Redis RDB file, append-only file or append-only directory become a data directory.
//!
//! Plain files, read from the start to the end by one thread; no executor runs. What goes wrong ends the import: a data
//! directory is written when everything was read, or not at all.
//!
//! * [`source`]: which files are to be read;
//! * [`loader`]: what their bytes do to a keyspace;
//! * [`placed`]: which shard each key belongs to;
//! * [`report`]: what was read, what was left out, in words.

mod loader;
mod report;
mod source;
#[cfg(test)]
mod tests;

use crate::glommio_host::clock::HostClock;
use crate::glommio_host::entropy::HostEntropy;
use crate::startup::StartError;
use crate::startup::data_directory;
use crate::transfer::{Progress, ToldDisk, TransferError, say};
use futures_lite::future::block_on;
use kevy_engine::Keyspace;
use kevy_engine::keyspace::{Cursor, ExpiryMode};
use kevy_node::host::{Clock, Entropy};
use kevy_node::log::{Files, Opener, write_directory};
use kevy_node::settings::MAX_SHARDS;
use kevy_proto::slot::SlotMap;
use kevy_proto::time::Now;
use loader::Loader;
use report::Report;
use source::Source;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How many keys are placed at a time.
const KEYS_PER_STEP: usize = 1024;

/// What to import, and where to.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Import {
    /// An RDB file, an append-only file, or a directory of append-only files (appendonlydir)
    source: PathBuf,
    /// The data directory to make; it must be empty or not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Number of shards to lay the directory out for [default: one per usable core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_SHARDS)))]
    threads: Option<u16>,
    /// The Redis database to take the keys of: kevy has one [default: 0, and no other may have keys]
    #[arg(long, value_name = "N")]
    database: Option<u64>,
}

impl Import {
    /// Runs the import; exit code 1 if it fails.
    pub(crate) fn run(&self) -> ExitCode {
        match self.import() {
            Ok(report) => say(&format!("{report}")),
            Err(error) => {
                eprintln!("kevy: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn import(&self) -> Result<Report, TransferError> {
        let source = Source::find(&self.source)?;
        refuse_used(&self.dir)?;
        let _lock = data_directory::lock(&self.dir)?;
        let mut progress = Progress::new("import: reading", source.size_bytes());
        let now = HostClock::start().now();
        let opener = self.opener(now);
        let mut loader = Loader::new(opener.seed, now, self.database);
        for (path, is_last) in source.files() {
            loader.load(path, is_last, &mut progress)?;
        }
        let (keyspace, report) = loader.finish()?;
        let mut shards = placed(keyspace, &opener);
        write(&self.dir, &mut shards, &opener)?;
        Ok(report)
    }

    fn opener(&self, now: Now) -> Opener {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let shards = self
            .threads
            .unwrap_or_else(|| cores().clamp(1, usize::from(MAX_SHARDS)) as u16);
        Opener {
            shards,
            run: HostEntropy.next_u64(),
            seed: HostEntropy.next_u64(),
            now,
        }
    }
}

/// Refuses a data directory that holds anything but the lock that a server without a log leaves.
fn refuse_used(directory: &Path) -> Result<(), TransferError> {
    let fault = |error| StartError::Directory {
        path: directory.to_owned(),
        error,
    };
    if !directory.exists() {
        return Ok(());
    }
    for entry in directory.read_dir().map_err(fault)? {
        if entry.map_err(fault)?.file_name() != data_directory::LOCK_FILE {
            return Err(TransferError::DirectoryUsed(directory.to_owned()));
        }
    }
    Ok(())
}

/// The keys, each with the shard that owns its slot.
fn placed(mut all: Keyspace, opener: &Opener) -> Vec<Keyspace> {
    if opener.shards == 1 {
        return vec![all];
    }
    let empty = || {
        let mut keyspace = Keyspace::new(opener.seed);
        keyspace.set_expiry_mode(ExpiryMode::Ignore);
        keyspace
    };
    let map = SlotMap::new(opener.shards);
    let mut shards: Vec<Keyspace> = (0..opener.shards).map(|_| empty()).collect();
    let start = Cursor::from_external(0);
    let mut next = start;
    loop {
        let step = all.scan(next, KEYS_PER_STEP);
        next = step.next;
        let keys: Vec<Vec<u8>> = step.entries.iter().map(|e| e.key().to_vec()).collect();
        for key in keys {
            if let Some(entry) = all.take(&key) {
                shards[map.owner_of_key(&key).index()].put(entry);
            }
        }
        if next == start {
            return shards;
        }
    }
}

/// Makes the data directory; leaves nothing that looks like one if that fails.
fn write(directory: &Path, shards: &mut [Keyspace], opener: &Opener) -> Result<(), TransferError> {
    let keys = shards.iter().map(Keyspace::len).sum();
    let bytes = shards.iter().map(Keyspace::used_bytes).sum::<usize>();
    let mut progress = Progress::new("import: writing", bytes as u64);
    let mut disk = ToldDisk::new(directory, &mut progress, keys);
    let written = block_on(write_directory(&mut disk, shards, opener));
    written.map_err(|fault| {
        // The first error is the one to tell.
        let _ = remove_files(directory);
        TransferError::data(directory, &fault)
    })
}

fn remove_files(directory: &Path) -> std::io::Result<()> {
    for entry in directory.read_dir()? {
        let entry = entry?;
        if Files::generation_of(&entry.file_name().to_string_lossy()).is_some() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
