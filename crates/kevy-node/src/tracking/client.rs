//! What a client wants of tracking, and how far it has come with it.

use super::Asker;
use crate::session::Session;
use bytes::Bytes;
use kevy_proto::ids::ConnectionId;
use std::collections::BTreeSet;

/// How many messages may wait for the end of a transaction; above it, one message for all keys takes their place.
pub(crate) const HELD_INVALIDATIONS: usize = 1024;
/// How many prefixes one connection may listen for.
pub(crate) const PREFIXES_PER_CONNECTION: usize = 1024;

/// Which keys a client hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those it has read.
    Reads,
    /// Those it has read by a request that follows `CLIENT CACHING YES`.
    OptIn,
    /// Those it has read but for requests that follow `CLIENT CACHING NO`.
    OptOut,
    /// Those whose names begin with what it listens for.
    Broadcast,
}

/// A client that tracks.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, most of them words that the client said"
)]
pub(crate) struct Tracking {
    pub(crate) mode: Mode,
    /// Who is told in its place.
    pub(crate) redirect: Option<ConnectionId>,
    /// There was nobody to be told in its place.
    pub(crate) is_broken: bool,
    /// It does not hear of its own changes.
    pub(crate) no_loop: bool,
    /// `CLIENT CACHING` was said about the next request.
    pub(crate) caching: bool,
    /// What it listens for.
    pub(crate) prefixes: BTreeSet<Bytes>,
    /// A transaction that reads for it is under way: its reply must come before what follows from it.
    pub(crate) is_reading: bool,
    /// What waits for that reply: keys, or `None` for all keys. At most [`HELD_INVALIDATIONS`].
    pub(crate) held: Vec<Option<Vec<Bytes>>>,
}

impl Tracking {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            redirect: None,
            is_broken: false,
            no_loop: false,
            caching: false,
            prefixes: BTreeSet::new(),
            is_reading: false,
            held: Vec::new(),
        }
    }

    /// Whether the keys that the next request reads are to be remembered.
    fn remembers(&self) -> bool {
        match self.mode {
            Mode::Reads => true,
            Mode::OptIn => self.caching,
            Mode::OptOut => !self.caching,
            Mode::Broadcast => false,
        }
    }

    pub(crate) fn hold(&mut self, keys: Option<Vec<Bytes>>) {
        if self.held.len() >= HELD_INVALIDATIONS {
            self.held.clear();
            self.held.push(None);
        } else {
            self.held.push(keys);
        }
    }
}

impl Session {
    /// Whether the keys that its next request reads are to be remembered.
    #[inline]
    pub(crate) fn tracks_reads(&self) -> bool {
        self.tracking.as_ref().is_some_and(|t| t.remembers())
    }

    /// On whose behalf its next request runs.
    #[inline]
    pub(crate) fn asker(&self) -> Asker {
        Asker {
            connection: Some(self.id),
            tracks: self.tracks_reads(),
        }
    }

    /// A transaction that reads for it begins.
    pub(crate) fn begin_reading(&mut self) {
        if let Some(tracking) = &mut self.tracking {
            tracking.is_reading = true;
        }
    }

    /// The reply of its transaction has its place; gives what had to wait for it.
    pub(crate) fn end_reading(&mut self) -> Vec<Option<Vec<Bytes>>> {
        match &mut self.tracking {
            Some(tracking) if tracking.is_reading => {
                tracking.is_reading = false;
                std::mem::take(&mut tracking.held)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// A request is over to which `CLIENT CACHING` may have referred.
    #[inline]
    pub(crate) fn forget_caching(&mut self) {
        if self.queue.is_none()
            && let Some(tracking) = &mut self.tracking
        {
            tracking.caching = false;
        }
    }
}
