//! The primary's side of one shard's stream.
//!
//! ```text
//!            handshake                        the snapshot's end
//! greeting ------------> waiting --> loading -------------------> live
//!     |                     ^           | entries after the snapshot's offset are gone
//!     | continues           +-----------+------------------------------+ it fell out of the backlog
//!     +--------------------------------------------------------------> live
//! ```
//!
//! Nothing is copied for a replica but what is being sent at the moment: a replica that takes nothing costs nothing, and when
//! the backlog has moved past it, it begins anew with a snapshot.

mod handshake;
mod link;
mod slot;
mod snapshot;
mod transmit;

pub use link::{CloseReason, LinkId};
pub use slot::ReplicaStatus;
pub use snapshot::{MAX_SNAPSHOT_ATTEMPTS, NoSnapshot, SNAPSHOT_PENDING_BYTES};

use crate::Backlog;
use bytes::Bytes;
use kevy_proto::ids::ShardId;
use kevy_proto::replication::{Epoch, History, HistoryId};
use kevy_proto::time::Instant;
use link::{Link, LinkState};
use slot::Slot;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How often a primary says that it is there.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a connection may take to say what it wants.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a source needs to know.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Whose stream it is.
    pub shard: ShardId,
    /// How many shards there are.
    pub shards: u16,
    /// How many bytes of entries are kept (`replication_buffer_size`, this shard's part).
    pub backlog_bytes: usize,
    /// How long the name of a replica that went away is remembered (`reconnect_window_ms`).
    pub reconnect_window: Duration,
    /// After how much silence a replica's connection is given up (`repl_timeout`).
    pub link_timeout: Duration,
    /// The most replicas, gone ones that are remembered included.
    pub max_replicas: usize,
}

impl SourceConfig {
    /// The defaults for shard `shard` of `shards`: 256 MiB over all shards.
    pub fn new(shard: ShardId, shards: u16) -> Self {
        Self {
            shard,
            shards,
            backlog_bytes: (256 << 20) / usize::from(shards.max(1)),
            reconnect_window: Duration::from_mins(1),
            link_timeout: Duration::from_mins(1),
            max_replicas: 64,
        }
    }
}

/// What happened, for the log, for metrics, and for the owner to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// Send what [`Source::poll_transmit`] still gives for it, then close the connection.
    Close {
        /// Which.
        link: LinkId,
        /// Why.
        reason: CloseReason,
    },
    /// A replica was accepted.
    Attached {
        /// Its connection.
        link: LinkId,
        /// Its name.
        replica: String,
        /// What it said it has.
        offset: u64,
        /// Whether it continues from there; else it gets a snapshot.
        continues: bool,
    },
    /// What a replica has beyond the common offset was written by a primary that was deposed or has forgotten it. It will be
    /// discarded.
    Forked {
        /// The replica's name.
        replica: String,
        /// The last common offset.
        common: u64,
        /// How many entries are discarded.
        discarded: u64,
    },
    /// A replica was too slow: it needs entries that are no longer kept, and gets a snapshot.
    FellOut {
        /// The replica's name.
        replica: String,
        /// How many entries had not been handed to its connection.
        lag_entries: u64,
    },
    /// Entries after the snapshot's offset went before the snapshot was over. It is to be begun anew.
    SnapshotOutrun {
        /// The connection it was for.
        link: LinkId,
        /// The replica's name.
        replica: String,
    },
    /// A replica acknowledged more than before: look again at what waits for it.
    Acknowledged,
    /// A replica's connection is gone.
    Detached {
        /// The replica's name.
        replica: String,
    },
}

/// The primary's side of one shard's stream; on a replica, what is ready to become one.
#[derive(Debug)]
pub struct Source {
    config: SourceConfig,
    history: History,
    backlog: Backlog,
    role: Role,
    /// Entries beyond are not sent yet.
    sendable: u64,
    links: BTreeMap<LinkId, Link>,
    slots: BTreeMap<String, Slot>,
    /// Bounded by the number of links: the owner drains it after each call.
    events: VecDeque<SourceEvent>,
}

#[derive(Debug)]
enum Role {
    /// Handshakes are answered.
    Leads,
    /// Handshakes are refused: this is a replica, of whom if known.
    Follows { upstream: Option<String> },
}

impl Source {
    /// A source that follows nobody in particular until [`Source::lead`] or [`Source::mirror`] is called. `history` and
    /// `last_offset` say what the shard's state is.
    pub fn new(config: SourceConfig, history: History, last_offset: u64) -> Self {
        Self {
            backlog: Backlog::new(config.backlog_bytes, last_offset),
            config,
            history,
            role: Role::Follows { upstream: None },
            sendable: u64::MAX,
            links: BTreeMap::new(),
            slots: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Begins to write as a primary: a new branch sets out from here. `id` is random and the same on all shards of the node;
    /// `epoch` is not lower than before. Connections are closed, so that everybody learns of the branch.
    pub fn lead(&mut self, id: HistoryId, epoch: Epoch) {
        self.history.fork(id, epoch, self.backlog.last_offset());
        self.role = Role::Leads;
        self.close_all(CloseReason::HistoryChanged);
    }

    /// Stops to write: this is a replica now. Its clients' place is at `upstream`.
    pub fn follow(&mut self, upstream: Option<String>) {
        self.role = Role::Follows { upstream };
        self.close_all(CloseReason::HistoryChanged);
    }

    /// On a primary: the log has a new entry. Returns its offset.
    pub fn append(&mut self, payload: Bytes) -> u64 {
        let epoch = self.history.tip().map_or(Epoch(0), |tip| tip.epoch);
        self.push(epoch, payload)
    }

    /// On a replica: an entry was applied. It is kept, so that this node can take over without a gap. An offset that does not
    /// follow empties the backlog.
    pub fn mirror(&mut self, offset: u64, epoch: Epoch, payload: Bytes) {
        if self.next_offset() != offset {
            self.backlog.clear(offset.saturating_sub(1));
        }
        self.push(epoch, payload);
    }

    /// The shard's state was replaced, or its history has become known better: what is kept leads to `last_offset`, or it goes.
    pub fn adopt(&mut self, history: History, last_offset: u64, replaced: bool) {
        self.history = history;
        if replaced || last_offset != self.backlog.last_offset() {
            self.backlog.clear(last_offset);
            self.close_all(CloseReason::HistoryChanged);
        }
    }

    fn push(&mut self, epoch: Epoch, payload: Bytes) -> u64 {
        let first_before = self.backlog.first_offset();
        let offset = self.backlog.push(epoch, payload);
        if self.backlog.first_offset() != first_before {
            self.drop_fallen();
        }
        offset
    }

    /// Entries beyond `offset` are not to be sent yet, because this node might forget them in a crash. `u64::MAX` for no limit.
    pub fn set_sendable(&mut self, offset: u64) {
        self.sendable = offset;
    }

    /// Changes how much is kept.
    pub fn set_backlog_bytes(&mut self, limit_bytes: usize) {
        self.backlog.set_limit_bytes(limit_bytes);
        self.drop_fallen();
    }

    /// What happened since the last call. To be drained after each call of `handle_*`, `append`, `lead` and the like.
    pub fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    /// The offset that the next entry will have.
    pub fn next_offset(&self) -> u64 {
        self.backlog.last_offset() + 1
    }

    /// The offset of the last entry.
    pub fn last_offset(&self) -> u64 {
        self.backlog.last_offset()
    }

    /// The branches that led here.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What is kept.
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// The epoch that new entries are written in.
    pub fn epoch(&self) -> Epoch {
        self.history.tip().map_or(Epoch(0), |tip| tip.epoch)
    }

    /// When [`Source::handle_timeout`] wants to be called next.
    pub fn deadline(&self) -> Option<Instant> {
        let links = self.links.values().map(|link| link.deadline(&self.config));
        let gone = self.slots.values().filter_map(|slot| slot.gone_at);
        let slots = gone.map(|at| at + self.config.reconnect_window);
        links.chain(slots).min()
    }

    /// Time has passed: heartbeats, silence, names to forget.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut silent = Vec::new();
        for (id, link) in &mut self.links {
            link.beat(now);
            silent.extend(link.is_silent(now, &self.config).then_some(*id));
        }
        silent
            .into_iter()
            .for_each(|id| self.close(id, CloseReason::Silent));
        let window = self.config.reconnect_window;
        self.slots
            .retain(|_, slot| slot.gone_at.is_none_or(|at| now < at + window));
    }

    fn close_all(&mut self, reason: CloseReason) {
        let ids: Vec<_> = self.links.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close(id, reason));
    }

    fn close(&mut self, id: LinkId, reason: CloseReason) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if !matches!(link.state, LinkState::Closing) {
            link.state = LinkState::Closing;
            self.events
                .push_back(SourceEvent::Close { link: id, reason });
        }
    }
}
