//! Why a stream ended.

use crate::wire::WireError;
use std::fmt;
use std::io::{self, ErrorKind};

/// Why a stream ended.
#[derive(Debug)]
pub enum ReplicaError {
    /// The primary said no.
    HandshakeRejected(String),
    /// The primary's answer makes no sense.
    AckMalformed,
    /// The connection ended.
    Truncated,
    /// The primary said nothing for too long.
    Silent,
    /// Entries are missing.
    OffsetGap {
        /// The offset that was due.
        expected: u64,
        /// The offset that came.
        got: u64,
    },
    /// Something else came than a primary sends.
    Frame(WireError),
    /// A message came where it has no place.
    OutOfPlace,
    /// The snapshot's bytes are not those that were sent.
    SnapshotDamaged,
    /// A snapshot came, and the reader wants frames only: [`super::ReplicaClient::next_event`] gives both.
    SnapshotNeeded,
    /// The connection failed.
    Io(io::Error),
}

/// Whether the other side is gone.
pub(super) fn is_end(error: &io::Error) -> bool {
    [
        ErrorKind::BrokenPipe,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
    ]
    .contains(&error.kind())
}

impl From<io::Error> for ReplicaError {
    fn from(error: io::Error) -> Self {
        if is_end(&error) {
            Self::Truncated
        } else {
            Self::Io(error)
        }
    }
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandshakeRejected(text) => write!(f, "the primary refused: {text}"),
            Self::AckMalformed => f.write_str("the primary's answer makes no sense"),
            Self::Truncated => f.write_str("the connection ended"),
            Self::Silent => f.write_str("the primary said nothing for too long"),
            Self::OffsetGap { expected, got } => {
                write!(f, "entry {expected} was due and {got} came")
            }
            Self::Frame(error) => write!(f, "the stream cannot be read: {error}"),
            Self::OutOfPlace => f.write_str("a message came where it has no place"),
            Self::SnapshotDamaged => f.write_str("a snapshot was damaged on its way"),
            Self::SnapshotNeeded => {
                f.write_str("the primary no longer has what follows, but sends a snapshot")
            }
            Self::Io(error) => write!(f, "the connection failed: {error}"),
        }
    }
}

impl std::error::Error for ReplicaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Frame(error) => Some(error),
            Self::Io(error) => Some(error),
            Self::HandshakeRejected(_)
            | Self::AckMalformed
            | Self::Truncated
            | Self::Silent
            | Self::OffsetGap { .. }
            | Self::OutOfPlace
            | Self::SnapshotDamaged
            | Self::SnapshotNeeded => None,
        }
    }
}
