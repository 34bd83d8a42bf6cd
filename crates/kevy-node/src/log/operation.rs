//! What is to be done with the files of the data directory, as data: the host does it beside the shard's turns.

use bytes::Bytes;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What a file is called, behind its name, until it is complete and takes the place of the old one.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// Something to be done with one file. Of each task at most one operation is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOperation {
    /// What it is for; its end is reported under this name.
    pub task: DiskTask,
    /// The file's plain name.
    pub file: Arc<str>,
    /// What to do.
    pub action: DiskAction,
}

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskTask {
    /// Frames for the log's last segment.
    LogWrite,
    /// The log's last segment is to become durable.
    LogSync,
    /// A step of the work on the set of files: a new segment, the manifest, what a crash has left.
    Files,
    /// Frames for a snapshot, or its sync.
    Snapshot,
    /// A file that is not needed any more.
    Remove,
    /// A piece of a file that is being loaded.
    Load,
}

/// What to do with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskAction {
    /// Write these bytes there; a missing file is created.
    Write {
        /// Where in the file.
        offset: u64,
        /// What.
        bytes: Bytes,
    },
    /// Make everything written to it durable, and that there is such a file.
    Sync,
    /// Let it have this content after a crash, or its old one: never a mixture. Durable when it is done.
    Replace(Bytes),
    /// Cut it to this length, durably.
    Cut {
        /// In bytes.
        length: u64,
    },
    /// Remove it; a missing file is fine.
    Remove,
    /// Give it another name, durably.
    Rename {
        /// The new name; a file of that name is replaced.
        to: String,
    },
    /// Read up to this many bytes. Fewer mean that the file ends there.
    Read {
        /// Where in the file.
        offset: u64,
        /// At most so many bytes.
        length: usize,
    },
}

/// How an operation ended: what was read, else nothing.
pub type DiskResult = Result<Bytes, DiskFault>;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFault {
    /// Its kind.
    pub kind: io::ErrorKind,
    /// What the system says.
    pub message: String,
}

impl From<io::Error> for DiskFault {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        // As Redis shows it: without the number.
        let text = error.to_string();
        let message = match text.find(" (os error") {
            Some(end) => text[..end].to_owned(),
            None => text,
        };
        Self { kind, message }
    }
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DiskFault {}
