//! The log of one shard: what it did, on its way to the disk and back from it.
//!
//! Pure machines again: they say what is to be written, synced or read, and are told how that ended. The host does it
//! beside the shard's turns. Decision record 0008 tells why the log looks as it does; `kevy_proto::log` draws its bytes.

mod manifest;
mod survey;
mod writer;

pub use manifest::{Files, LAYOUT_FILE, Layout, Manifest, ManifestFault, SnapshotFile};
pub use survey::{Survey, incomplete};
pub use writer::{LogWriter, Operation, RETRY_AFTER, SYNC_INTERVAL, SyncPolicy};
