//! Replication of a shard's log, as machines that are given bytes and the time and hand back what to do.
//!
//! * [`Source`]: the primary's side of one shard's stream, for all its replicas. It keeps the newest entries in a [`Backlog`],
//!   which is also the send buffer of every replica.
//! * [`Sink`]: the replica's side of one shard's stream: when to connect, what to say, what to apply, and when to begin anew.
//! * [`Together`]: on a replica, the shards' streams side by side: transactions over several shards become visible at once.
//! * [`client`]: a blocking reader of a stream for other people's programs; the only file here that does I/O.
//!
//! Who calls what, and what is promised, is drawn in docs/REPLICATION.md; the bytes in [`kevy_proto::replication`].

#![forbid(unsafe_code)]

mod backlog;
mod backoff;
pub mod client;
mod sink;
mod source;
mod together;
pub mod wire;

pub use backlog::{Backlog, ENTRY_OVERHEAD_BYTES, Missing, StoredEntry};
pub use client::{ConnectOptions, ReplicaClient, ReplicaError, ReplicaEvent};
pub use sink::{
    ACK_INTERVAL, Incoming, MAX_HELD_PARTS, PartNotice, Position, Sink, SinkConfig, SinkEffect,
    SinkReport, SinkStatus, TransactionKey,
};
pub use source::{
    CloseReason, HANDSHAKE_TIMEOUT, HEARTBEAT, LinkId, MAX_SNAPSHOT_ATTEMPTS, NoSnapshot,
    ReplicaStatus, SNAPSHOT_PENDING_BYTES, Source, SourceConfig, SourceEvent,
};
pub use together::{Contained, Release, ReleasedPart, Together};
pub use wire::DecodedFrame;
