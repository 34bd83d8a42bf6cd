//! Clients that wait for keys: `BLPOP` and its kin, `XREAD BLOCK`, and `WAIT` (decision record 0006).
//!
//! A blocking command is first run like any other: in place if all its keys are ours and free, else as a transaction. If it
//! finds nothing its session is *blocked* (`session`), and every owner of a key that it waits for keeps a [`Waiter`]
//! (`owner`), from the very moment of the attempt: under the same locks.
//!
//! When a key with waiters has changed its owner serves them, first come, first served, before anybody else gets at the key:
//! * in place, if the session and all its keys are here;
//! * a reader that consumes nothing is just sent its reply;
//! * otherwise by an [`Offer`]: the entry travels to the shard of the session, locked behind it. There the command runs on
//!   it and the reply is handed to the session in the same turn, or, if the session waits no longer, nothing happens; then
//!   the entry goes back. What is popped is delivered in the turn in which it is popped, so that nothing needs to be put
//!   back. Whoever changed the key has its reply only then (`holds`).

mod holds;
mod owner;
mod session;

pub(crate) use holds::HoldId;
pub use holds::OFFERS_PER_HOLD;
pub(crate) use owner::Waiters;
pub(crate) use session::Blocked;

use crate::host::Slot;
use crate::message::Lent;
use crate::tracking::Asker;
use bytes::BytesMut;
use kevy_engine::commands::request_for_stream;
use kevy_engine::keyspace::Entry;
use kevy_engine::{Awaited, Command};
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::{Args, RequestBuffer, RespVersion};
use kevy_proto::time::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How many keys one connection may wait for at once.
pub const AWAITED_KEYS_PER_CONNECTION: usize = 65_536;

/// What a shard keeps about clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// Those that wait for keys of ours.
    pub(crate) waiters: Waiters,
    /// When which of our sessions waits no longer.
    deadlines: BTreeSet<(Instant, Slot)>,
    /// Sessions of ours that were unblocked and may have more requests.
    pub(crate) resumed: VecDeque<Slot>,
    /// Transactions of our sessions, by their sequence numbers, whose replies wait for others to be served.
    concluding: BTreeMap<u64, holds::Concluding>,
}

impl Blocking {
    /// Whether no transaction waits for others to be served, for tests.
    #[cfg(test)]
    pub(crate) fn concluding_is_empty(&self) -> bool {
        self.concluding.is_empty()
    }

    /// The earliest moment at which somebody waits no longer.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

/// A blocked session, as the owners of its keys know it.
#[derive(Debug)]
pub struct Waiter {
    /// Names this one wait of it; the coordinator is the shard of the session.
    pub id: TransactionId,
    /// Where the session is.
    pub slot: Slot,
    /// Whose it is.
    pub connection: ConnectionId,
    /// What to run when one of its keys may be of use.
    pub command: &'static Command,
    /// Its arguments.
    pub request: RequestBuffer,
    /// The version its reply is encoded in.
    pub version: RespVersion,
    /// Whether the access clocks of keys are left alone.
    pub no_touch: bool,
    /// What must be at a key.
    pub awaited: Awaited,
    /// How many keys of the request are waited for, from the first.
    pub sources: usize,
}

/// An entry that came of use, on its way to the shard of a blocked session. Its key stays locked.
#[derive(Debug)]
pub struct Offer {
    /// Names the offer: the entry comes back under it.
    pub id: TransactionId,
    /// For whom.
    pub waiter: Arc<Waiter>,
    /// Its key.
    pub key: Vec<u8>,
    /// The entry.
    pub lent: Lent,
}

/// The reply of a blocked session's request, which consumed nothing.
#[derive(Debug)]
pub struct Served {
    /// For whom.
    pub waiter: Arc<Waiter>,
    /// The encoded reply.
    pub reply: BytesMut,
}

/// A blocked session makes itself known to an owner of its keys.
#[derive(Debug)]
pub struct Registration {
    /// The session.
    pub waiter: Arc<Waiter>,
    /// The owner's keys that it waits for.
    pub keys: RequestBuffer,
}

impl Waiter {
    /// On whose behalf its request runs. What it read was remembered when it first ran.
    pub(crate) fn asker(&self) -> Asker {
        Asker {
            connection: Some(self.connection),
            tracks: false,
        }
    }

    /// The shard of its session.
    fn home(&self) -> ShardId {
        self.id.coordinator
    }

    /// Whether it consumes nothing: whoever runs its request may lose the reply.
    fn only_reads(&self) -> bool {
        !self.command.is_write()
    }

    /// Whether to run again now that `entry` is at one of its keys.
    fn suits(&self, entry: Option<&Entry>) -> bool {
        self.awaited.suits(entry, self.request.args())
    }

    /// The request to be run where of all its keys that are waited for only `key` can be seen.
    fn request_for(&self, key: &[u8]) -> RequestBuffer {
        match self.awaited {
            Awaited::Stream | Awaited::Group => request_for_stream(self.request.args(), key),
            Awaited::List | Awaited::SortedSet => self.request.clone(),
        }
    }

    /// Positions of the keys that are waited for.
    fn sources(&self) -> Vec<usize> {
        let mut positions = self.positions();
        positions.truncate(self.sources);
        positions
    }

    /// Positions of all keys.
    fn positions(&self) -> Vec<usize> {
        let mut positions = Vec::new();
        self.command
            .keys
            .positions(self.request.args(), &mut positions);
        positions
    }
}

/// The keys at `positions`, each once.
fn distinct<'a>(args: Args<'a>, positions: &[usize]) -> BTreeSet<&'a [u8]> {
    positions
        .iter()
        .map(|position| args.at(*position))
        .collect()
}
