//! What a sink wants done, and what it reports.

use super::{Incoming, PartNotice, Position, TransactionKey};
use crate::LinkId;
use bytes::Bytes;
use kevy_proto::ids::TransactionId;
use kevy_proto::log::EntryFault;
use kevy_proto::replication::{History, StreamFault};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkEffect {
    /// Connect to the primary's port for this shard; then [`super::Sink::handle_connected`] or [`super::Sink::handle_closed`].
    Connect(LinkId),
    /// Close the connection.
    Disconnect(LinkId),
    /// The primary continues where this shard is (not `full`), or will send a snapshot. `history` is known better now.
    Attached {
        /// What the primary says of its history.
        history: History,
        /// Whether the state will be replaced.
        full: bool,
    },
    /// Log the entry and carry it out; then [`super::Sink::applied`].
    Apply(Incoming),
    /// A part waits for those of other shards: tell [`crate::Together`].
    Part(PartNotice),
    /// A part that waited is void: tell [`crate::Together`].
    PartVoid(TransactionKey),
    /// Parts that waited are forgotten and will come again, or not: tell [`crate::Together`].
    PartsForgotten,
    /// Too much waits: tell [`crate::Together`], which will let something go.
    Full,
    /// A snapshot comes: prepare a new state beside the old one.
    SnapshotBegin {
        /// The last entry that is part of it.
        offset: u64,
    },
    /// Its next bytes.
    SnapshotChunk(Bytes),
    /// It is complete and was sent without fault: put it in the place of the old state, rewrite the log, then
    /// [`super::Sink::installed`]. Nothing else is handed out before that.
    SnapshotEnd(Position),
    /// It will not be completed: drop the new state, the old one stays.
    SnapshotAbort,
    /// For the log.
    Report(SinkReport),
}

/// What went wrong, or is worth knowing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkReport {
    /// The primary said no.
    Refused(String),
    /// The connection could not be made, or ended.
    Lost,
    /// The primary did not answer, or fell silent.
    Silent,
    /// Heartbeats say that there is more, and nothing comes.
    Stalled,
    /// The primary says something that no primary says.
    Protocol(StreamFault),
    /// A message came where it has no place.
    OutOfPlace,
    /// The primary has another number of shards.
    ShardsMismatch {
        /// How many it has.
        primary: u16,
        /// How many there are here.
        replica: u16,
    },
    /// Entries are missing.
    OffsetGap {
        /// The offset that was due.
        expected: u64,
        /// The offset that came.
        got: u64,
    },
    /// An entry or a heartbeat is of another epoch than the primary's history says.
    EpochMismatch,
    /// The primary's history is not the one of this state, or has less than is here.
    HistoryMismatch,
    /// What is here beyond the common offset is of a branch that was left: it goes with the snapshot.
    Discarded {
        /// The last common offset.
        common: u64,
        /// How many entries.
        entries: u64,
    },
    /// The snapshot's bytes are not those that were sent.
    SnapshotDamaged,
    /// An entry is malformed or of a newer version.
    Entry(EntryFault),
    /// Transactions that were applied here are void on the primary.
    AppliedIsVoid(TransactionId),
    /// The primary found in a crash's wake that some of what it had logged, and sent, does not count.
    AppliedIsSkipped,
}
