//! The log of one shard: what it did, on its way to the disk and back from it.
//!
//! Pure machines again: they say what is to be written, synced or read, and are told how that ended. The host does it
//! beside the shard's turns. Decision record 0008 tells why the log looks as it does; `kevy_proto::log` draws its bytes.

#[cfg(test)]
mod damage;
mod directory;
mod expected;
mod file_inspection;
mod inspection;
mod journal;
mod loader;
mod manifest;
#[cfg(test)]
mod memory_disk;
mod operation;
mod repair;
mod replay;
mod snapshot;
mod survey;
mod texts;
mod writer;

pub use directory::{DirectoryFault, Opener, load_directory, open_directory, write_directory};
pub use file_inspection::{Count, FileInspection, FileState};
pub use inspection::{Inspection, Leftover, ShardInspection, inspect_directory};
pub use journal::{Journal, JournalConfig, JournalNews, SEGMENT_BYTES};
pub use loader::{LoadFault, LoadProgress, LoadReason, Loader, PIECE_BYTES, Piece, TornTail};
pub use manifest::{Files, LAYOUT_FILE, Layout, Manifest, ManifestFault, SnapshotFile};
pub use operation::{DiskAction, DiskFault, DiskOperation, DiskResult, DiskTask, TEMPORARY_SUFFIX};
pub use repair::{Cut, KeptCopy, Remedy, cut_log, remedy};
pub use replay::replay;
pub use snapshot::SnapshotWriter;
pub use survey::{Judgement, Survey, judge};
pub use writer::{
    LogWriter, Operation, RETRY_AFTER, SYNC_INTERVAL, SyncPolicy, WRITE_BYTES, WRITE_DELAY,
};
