//! What is shown of a sink, and how a position is written down.

use super::{Position, Sink, State};
use kevy_proto::replication::History;
use kevy_proto::time::Instant;
use std::fmt;
use std::time::Duration;

/// A replica's connection as `INFO replication` and `ROLE` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkStatus {
    /// `connect`, `connecting`, `sync` or `connected`, as `ROLE` says.
    pub state: &'static str,
    /// Whether the stream flows (`master_link_status:up`).
    pub up: bool,
    /// Whether the state is being replaced (`master_sync_in_progress`).
    pub syncing: bool,
    /// How long the primary has said nothing (`master_last_io_seconds_ago`).
    pub last_io: Duration,
    /// The last entry that is applied.
    pub offset: u64,
    /// How many entries the primary is known to have beyond it (`slave_lag_frames`).
    pub lag_frames: u64,
    /// How many bytes of entries wait to be applied.
    pub held_bytes: usize,
    /// How many entries came that were here already.
    pub duplicates: u64,
}

impl Sink {
    /// What is shown.
    pub fn status(&self, now: Instant) -> SinkStatus {
        let state = match &self.state {
            State::Stopped | State::Resting { .. } => "connect",
            State::Connecting { .. } | State::Greeting { .. } => "connecting",
            State::AwaitingSnapshot(_) | State::Loading(_) => "sync",
            State::Streaming if self.installing.is_some() => "sync",
            State::Streaming => "connected",
        };
        let offset = self.position.as_ref().map_or(0, |position| position.offset);
        SinkStatus {
            state,
            up: state == "connected",
            syncing: state == "sync",
            last_io: now.saturating_since(self.heard_at),
            offset,
            lag_frames: self.primary_last.saturating_sub(offset),
            held_bytes: self.held.bytes(),
            duplicates: self.duplicates,
        }
    }

    /// For how long this shard cannot show that it has everything the primary has (`replica_max_staleness_ms`); `None` if it
    /// never could. The way of a heartbeat from the primary is not counted.
    pub fn staleness(&self, now: Instant) -> Option<Duration> {
        self.fresh_at.map(|at| now.saturating_since(at))
    }
}

impl Position {
    /// The empty key space, which every history that began with one continues.
    pub const fn empty() -> Self {
        Self {
            history: History::unknown(),
            offset: 0,
        }
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (offset, history) = text.split_once(' ')?;
        Some(Self {
            history: History::parse(history.as_bytes())?,
            offset: offset.parse().ok()?,
        })
    }
}

impl fmt::Display for Position {
    /// The offset and the history, in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.offset, self.history)
    }
}
