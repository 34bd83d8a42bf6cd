//! One connection of a replica.

use super::{HANDSHAKE_TIMEOUT, HEARTBEAT, SourceConfig};
use bytes::{Bytes, BytesMut};
use kevy_proto::replication::SnapshotDigest;
use kevy_proto::resp::{Decoder, Limits};
use kevy_proto::time::Instant;
use std::collections::VecDeque;
use std::fmt;

/// What a replica's request may measure.
const REQUEST_LIMITS: Limits = Limits {
    bulk_bytes: 256,
    arguments: 64,
    inline_bytes: 4096,
    header_bytes: 64,
};

/// A connection, named by the owner; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Where a connection stands.
#[derive(Debug)]
pub(super) enum LinkState {
    /// It has not said what it wants.
    Greeting,
    /// It is to get a snapshot, which has not begun.
    Waiting {
        /// Whether it has been told.
        announced: bool,
    },
    /// The owner hands over a snapshot.
    Loading {
        /// The last entry that is part of it.
        offset: u64,
        /// What of it was handed over.
        digest: Box<SnapshotDigest>,
    },
    /// It gets entries as they are written.
    Live,
    /// It is about to be closed: nothing it says counts any more.
    Closing,
}

/// Why a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Its handshake was refused; the reason is on its way to it.
    Refused,
    /// It said something that no replica says.
    Protocol,
    /// It acknowledged what it was never sent.
    FalseAcknowledgement,
    /// It said nothing for too long.
    Silent,
    /// The same replica has connected again.
    Replaced,
    /// This node began to write, or stopped: whoever follows must ask again.
    HistoryChanged,
    /// Snapshots took longer than the backlog lasted, several times in a row.
    SnapshotsOutrun,
    /// The owner could not make a snapshot.
    SnapshotFailed,
    /// There are too many connections.
    TooMany,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: String,
    pub(super) state: LinkState,
    /// The replica's name, once it has said it.
    pub(super) replica: Option<String>,
    /// The first entry that has not been handed to the connection.
    pub(super) next: u64,
    pub(super) input: BytesMut,
    pub(super) decoder: Decoder,
    /// What has been handed to the connection and not been taken: a bounded batch, an entry, or chunks of a snapshot.
    pub(super) outgoing: VecDeque<Bytes>,
    pub(super) outgoing_bytes: usize,
    /// When it last said something.
    pub(super) heard_at: Instant,
    pub(super) beat_at: Instant,
    /// A heartbeat is due; on a connection that takes nothing they do not pile up.
    pub(super) beat_due: bool,
    pub(super) snapshot_attempts: u32,
}

impl Link {
    pub(super) fn new(peer: String, now: Instant) -> Self {
        Self {
            peer,
            state: LinkState::Greeting,
            replica: None,
            next: 0,
            input: BytesMut::new(),
            decoder: Decoder::with_limits(REQUEST_LIMITS),
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            heard_at: now,
            beat_at: now + HEARTBEAT,
            beat_due: false,
            snapshot_attempts: 0,
        }
    }

    pub(super) fn queue(&mut self, bytes: Bytes) {
        self.outgoing_bytes += bytes.len();
        self.outgoing.push_back(bytes);
    }

    /// Whether it follows the stream or is about to.
    pub(super) fn is_accepted(&self) -> bool {
        !matches!(self.state, LinkState::Greeting | LinkState::Closing)
    }

    pub(super) fn beat(&mut self, now: Instant) {
        if self.beat_at <= now {
            self.beat_at = now + HEARTBEAT;
            self.beat_due = self.is_accepted();
        }
    }

    pub(super) fn is_silent(&self, now: Instant, config: &SourceConfig) -> bool {
        self.patience_ends(config) <= now
    }

    pub(super) fn deadline(&self, config: &SourceConfig) -> Instant {
        self.beat_at.min(self.patience_ends(config))
    }

    fn patience_ends(&self, config: &SourceConfig) -> Instant {
        match self.state {
            LinkState::Greeting => self.heard_at + HANDSHAKE_TIMEOUT,
            LinkState::Waiting { .. } | LinkState::Loading { .. } | LinkState::Live => {
                self.heard_at + config.link_timeout
            }
            // Closed once, it needs no other reason.
            LinkState::Closing => Instant::from_nanos(u64::MAX),
        }
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "its handshake was refused",
            Self::Protocol => "it said something that no replica says",
            Self::FalseAcknowledgement => "it acknowledged what it was never sent",
            Self::Silent => "it was silent for too long",
            Self::Replaced => "the same replica connected again",
            Self::HistoryChanged => "this node's role or history changed",
            Self::SnapshotsOutrun => "snapshots took longer than the backlog lasted",
            Self::SnapshotFailed => "no snapshot could be made",
            Self::TooMany => "there are too many connections",
        })
    }
}
