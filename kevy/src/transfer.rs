//! What import and export share: reading files in pieces, a line of progress every second, and what can go wrong.

use crate::startup::StartError;
use crate::startup::std_disk::StdDisk;
use kevy_engine::rdb::file::{self, NeedsNewer};
use kevy_engine::redis_aof::{AofFault, ManifestFault};
use kevy_node::host::Disk;
use kevy_node::log::{DirectoryFault, DiskAction, DiskFault, DiskResult};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How much is read at once.
const PIECE_BYTES: usize = 1 << 20;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Why keys cannot be brought in or out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] StartError),
    /// There is no data directory to read.
    #[error("{} holds no data of kevy", .0.display())]
    NoData(PathBuf),
    /// A file that is to be made is there already.
    #[error("{} exists already: name a file that does not", .0.display())]
    Exists(PathBuf),
    /// The data directory has files.
    #[error("data directory {} is not empty: name one that is, or that does not exist yet", .0.display())]
    DirectoryUsed(PathBuf),
    /// A directory does not hold one manifest.
    #[error("{} holds {count} manifests of append-only files: name a directory with one (Redis calls it appendonlydir), or a file", directory.display())]
    Manifests {
        /// The directory.
        directory: PathBuf,
        /// How many it holds.
        count: usize,
    },
    /// A manifest cannot be understood.
    #[error("{}: {fault}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong.
        fault: ManifestFault,
    },
    /// An RDB file cannot be read on.
    #[error("{}: {fault}", path.display())]
    Rdb {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: file::Fault,
    },
    /// An append-only file cannot be read on.
    #[error("{}: {fault}", path.display())]
    Aof {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: AofFault,
    },
    /// An append-only file that others follow ends in the middle.
    #[error("{}: at byte {offset}: the file ends in the middle of a request or transaction, and others follow it", path.display())]
    AofTruncated {
        /// The file.
        path: PathBuf,
        /// Where what is cut begins.
        offset: u64,
    },
    /// A request of an append-only file cannot be carried out.
    #[error("{}: at byte {offset}: {name} cannot be carried out: {reason}", path.display())]
    Request {
        /// The file.
        path: PathBuf,
        /// Where the request begins.
        offset: u64,
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// There are keys in databases other than 0.
    #[error(
        "kevy has one database, and there are keys in others ({0}): choose one with --database N"
    )]
    OtherDatabases(String),
    /// A key cannot be written in the version asked for.
    #[error(transparent)]
    NeedsNewer(#[from] NeedsNewer),
}

impl TransferError {
    /// A data directory cannot be read or written.
    pub(crate) fn data(directory: &Path, fault: &DirectoryFault) -> Self {
        Self::Directory(StartError::Data {
            directory: directory.to_owned(),
            error: fault.to_string(),
        })
    }

    /// For `map_err`: the file that was being read.
    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Read {
            path: path.to_owned(),
            error,
        }
    }

    /// For `map_err`: the file that was being written.
    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Write {
            path: path.to_owned(),
            error,
        }
    }
}

/// A file, piece by piece.
#[derive(Debug)]
pub(crate) struct Pieces {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    piece: Vec<u8>,
}

impl Pieces {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, TransferError> {
        let open = || {
            let file = File::open(path)?;
            let size_bytes = file.metadata()?.len();
            Ok((file, size_bytes))
        };
        let (file, size_bytes) = open().map_err(TransferError::reading(path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            size_bytes,
            piece: vec![0; PIECE_BYTES],
        })
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that the file had when it was opened.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The next piece; `None` at the end. Tells of `progress`, which stands at so many `keys`.
    pub(crate) fn next(
        &mut self,
        progress: &mut Progress,
        keys: usize,
    ) -> Result<Option<&[u8]>, TransferError> {
        loop {
            match self.file.read(&mut self.piece) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    progress.advance(count as u64, keys);
                    return Ok(Some(&self.piece[..count]));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransferError::reading(&self.path)(error)),
            }
        }
    }
}

/// A data directory, telling how much of it was read or written.
#[derive(Debug)]
pub(crate) struct ToldDisk<'p> {
    disk: StdDisk,
    progress: &'p mut Progress,
    keys: usize,
}

impl<'p> ToldDisk<'p> {
    /// The files of `directory`, which exists. `progress` tells of so many `keys`.
    pub(crate) fn new(directory: &Path, progress: &'p mut Progress, keys: usize) -> Self {
        Self {
            disk: StdDisk::new(directory),
            progress,
            keys,
        }
    }
}

impl Disk for ToldDisk<'_> {
    async fn perform(&mut self, file: &str, action: DiskAction) -> DiskResult {
        let written = match &action {
            DiskAction::Write { bytes, .. } | DiskAction::Replace(bytes) => bytes.len(),
            DiskAction::Read { .. }
            | DiskAction::Sync
            | DiskAction::Cut { .. }
            | DiskAction::Remove
            | DiskAction::Rename { .. } => 0,
        };
        let read = self.disk.perform(file, action).await?;
        self.progress
            .advance((written + read.len()) as u64, self.keys);
        Ok(read)
    }

    async fn list(&mut self) -> Result<Vec<String>, DiskFault> {
        self.disk.list().await
    }
}

/// Tells on standard error, once a second, how far something is.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    /// Of all there is to be done.
    total: u64,
    done: u64,
    told: Instant,
}

impl Progress {
    /// Begins something of so many bytes.
    pub(crate) fn new(what: &'static str, total_bytes: u64) -> Self {
        Self {
            what,
            total: total_bytes,
            done: 0,
            told: Instant::now(),
        }
    }

    /// So many more bytes are done, and there are so many keys now.
    pub(crate) fn advance(&mut self, bytes: u64, keys: usize) {
        self.done += bytes;
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            eprintln!("{}", self.line(keys));
        }
    }

    fn line(&self, keys: usize) -> String {
        const MB: f64 = 1e6;
        let (what, done, total) = (self.what, self.done as f64, self.total as f64);
        // What is to be done is an estimate at times.
        let percent = (100.0 * done / total.max(1.0)).min(100.0);
        let (done, total) = (done / MB, total / MB);
        let keys = if keys > 0 {
            format!("{keys} keys, ")
        } else {
            String::new()
        };
        format!("{what}: {keys}{done:.1} of {total:.1} MB ({percent:.0} %)")
    }
}

/// Says a last word on standard output; a reader who has left early is no failure.
pub(crate) fn say(words: &str) -> ExitCode {
    match writeln!(io::stdout(), "{words}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_has_keys_bytes_and_percent() {
        let mut progress = Progress::new("import", 40_000_000);
        progress.advance(10_000_000, 5);
        assert_eq!(progress.line(5), "import: 5 keys, 10.0 of 40.0 MB (25 %)");
    }

    #[test]
    fn a_file_comes_in_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![b'x'; PIECE_BYTES + 5]).unwrap();
        let mut pieces = Pieces::open(&path).unwrap();
        let mut progress = Progress::new("import", pieces.size_bytes());
        let mut read = 0;
        while let Some(piece) = pieces.next(&mut progress, 0).unwrap() {
            read += piece.len();
        }
        assert_eq!((read, pieces.size_bytes()), (PIECE_BYTES + 5, read as u64));
        assert!(Pieces::open(&directory.path().join("other")).is_err());
    }
}
