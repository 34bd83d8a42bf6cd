//! What shards of one process say to each other. Every message is data that can be shown, kept and replayed.
//!
//! These conversations share the mesh:
//! * **hops**: a [`Batch`] of one connection's requests goes to the shard that owns their keys and comes back with the
//!   replies in it;
//! * **transactions** over several shards (decision record 0004): `Lock` -> `Granted`/`Refused`, then `Run` -> `Ran`
//!   (parts run where their keys are) or `Restore` (the entries were taken with the lock and come back changed);
//! * **waiting** (decision record 0006): a blocked session is registered with `Restore` and forgotten with `StopWaiting`;
//!   between the two `Offer` -> `Restore`, or `Served`.

use crate::blocking::{Offer, Registration, Served};
use crate::durability::Commit;
use crate::host::Slot;
use crate::log::Survey;
use crate::query::{Answer, Query};
use crate::slow_log::SlowRequest;
use crate::subscriptions::Publication;
use crate::tracking::{Asker, Invalidation};
use bytes::{Bytes, BytesMut};
use kevy_engine::keyspace::Detached;
use kevy_engine::{Command, Event};
use kevy_proto::ids::{ConnectionId, TransactionId};
use kevy_proto::resp::{Args, ErrorReply, RequestBuffer, RespVersion, Span};
use kevy_proto::time::Now;
use std::sync::Arc;
use std::time::Duration;

/// A message between two shards.
#[derive(Debug)]
pub enum Message {
    /// Run these requests; they come back as `Replies`.
    Requests(Box<Batch>),
    /// What came of a batch, or of those of its requests that were ready.
    Replies(Box<Batch>),
    /// Take locks for a transaction.
    Lock(Box<Lock>),
    /// The locks are held; `entries` are what was to be taken with them.
    Granted(TransactionId, Lent),
    /// A key that the transaction's connection watches was changed. `Granted` follows.
    WatchHit(TransactionId),
    /// The locks were not free and waiting was not asked for. Nothing is held.
    Refused(TransactionId),
    /// The locks were not taken: the shard cannot carry the command out. Nothing is held.
    Denied(TransactionId, Obstacle),
    /// Run this part of a transaction and let its locks go.
    Run(Box<Part>),
    /// What came of a part.
    Ran(TransactionId, Box<Partial>),
    /// Run these commands of an `EXEC` and keep its locks; `Ran` answers.
    RunHeld(Box<Held>),
    /// Take the entries of these keys, whose locks the transaction holds; `Lent` answers.
    Lend(TransactionId, Asker, Box<RequestBuffer>),
    /// The entries.
    Lent(TransactionId, Lent),
    /// Put these entries back.
    Restore(Box<Restored>),
    /// Let the locks of a transaction go; nothing was changed, or it is durable everywhere.
    Release(TransactionId),
    /// Log what the transaction changed, and let its locks go.
    Commit(Commit),
    /// Say when everything logged so far is durable; `Durable` answers.
    Settle(TransactionId),
    /// These transactions of yours are durable here.
    Durable(Vec<u64>),
    /// Say when every transaction of yours so far is durable everywhere, for my snapshot of this number; `AllSettled` answers.
    /// Its epoch comes with it.
    AwaitSettled(u64, u64),
    /// They are.
    AllSettled(u64),
    /// What my log tells about transactions over several shards.
    Surveyed(Box<Survey>),
    /// I have made durable what was decided about earlier transactions, and can serve.
    Opened,
    /// I know that everybody can serve.
    Ready,
    /// Something about the shard itself, for the control plane.
    Ask(TransactionId, Query),
    /// The answer.
    Told(TransactionId, Box<Answer>),
    /// An entry that came of use to a session that waits for it; `Restore` answers.
    Offer(Box<Offer>),
    /// The reply of a session's request, which it waited for.
    Served(Box<Served>),
    /// Everybody was served who waited for keys of a transaction, as [`Restored::tell_served`] asked to be told.
    WokenServed(TransactionId),
    /// A session waits no longer.
    StopWaiting(TransactionId),
    /// A request took long: for the slow log.
    Slow(Box<SlowRequest>),
    /// A connection watches nothing any more.
    Unwatch(ConnectionId),
    /// Deliver these messages about keys, in order.
    Notify(Arc<[Publication]>),
    /// Let clients forget what they have cached.
    Invalidate(Vec<Invalidation>),
    /// A connection listens for changes of keys that begin with these prefixes.
    Listen(ConnectionId, Vec<Bytes>),
    /// A connection listens for changes no more.
    StopListening(ConnectionId),
    /// Lines for monitors.
    Monitor(Bytes),
    /// The sender has one monitor less.
    MonitorLeft,
    /// The process is to stop.
    ShutDown,
    /// The sender has no sessions left: it needs nobody any more.
    Goodbye,
}

/// Requests of one connection for one shard, in order, and later their replies.
#[derive(Debug, Default)]
pub struct Batch {
    /// The connection's place on its shard.
    pub slot: Option<Slot>,
    /// The connection.
    pub connection: Option<ConnectionId>,
    /// The version replies are encoded in.
    pub version: RespVersion,
    /// Whether its reads leave the access clocks of keys alone (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// The requests, in order.
    pub requests: Vec<Hopped>,
    /// Bytes of all arguments.
    pub bytes: BytesMut,
    /// Arguments of all requests.
    pub spans: Vec<Span>,
    /// Encoded replies, one after the other.
    pub replies: BytesMut,
    /// For each reply: which request it answers, and its length in bytes.
    pub lengths: Vec<(u64, usize)>,
    /// Requests that belong into the slow log, by their places in `requests`, and how long they took.
    pub slow: Vec<(usize, Duration)>,
}

/// One request of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Hopped {
    /// Its number on its connection: replies go out in this order.
    pub sequence: u64,
    /// What to run.
    pub command: &'static Command,
    /// The command's number in the command table.
    pub index: usize,
    /// Its first span, and how many it has.
    pub spans: (usize, usize),
    /// Whether the keys it reads are to be remembered.
    pub tracks: bool,
}

impl Batch {
    /// Adds a request.
    pub fn push(
        &mut self,
        sequence: u64,
        command: &'static Command,
        index: usize,
        args: Args<'_>,
        tracks: bool,
    ) {
        let first = self.spans.len();
        for arg in args.iter() {
            self.spans.push(Span {
                start: self.bytes.len(),
                length: arg.len(),
            });
            self.bytes.extend_from_slice(arg);
        }
        self.requests.push(Hopped {
            sequence,
            command,
            index,
            spans: (first, args.len()),
            tracks,
        });
    }

    /// The arguments of one of its requests.
    pub fn args(&self, request: &Hopped) -> Args<'_> {
        let (first, count) = request.spans;
        Args::new(&self.bytes, &self.spans[first..first + count])
    }

    /// A single reply that comes by itself, after the batch of its request, if it came in one.
    pub fn late_reply(
        slot: Slot,
        connection: ConnectionId,
        version: RespVersion,
        sequence: u64,
        reply: BytesMut,
    ) -> Box<Self> {
        Box::new(Self {
            slot: Some(slot),
            connection: Some(connection),
            version,
            lengths: vec![(sequence, reply.len())],
            replies: reply,
            ..Self::default()
        })
    }

    /// Empties it so that its buffers can serve another connection. Buffers of unusual size are let go.
    pub fn reset(&mut self) {
        if self.bytes.capacity() > Self::KEPT_BYTES || self.replies.capacity() > Self::KEPT_BYTES {
            *self = Self::default();
            return;
        }
        self.slot = None;
        self.no_touch = false;
        self.connection = None;
        self.requests.clear();
        self.bytes.clear();
        self.spans.clear();
        self.replies.clear();
        self.lengths.clear();
        self.slow.clear();
    }

    /// Largest buffer that an idle batch keeps.
    pub const KEPT_BYTES: usize = 64 * 1024;
}

/// A wish for locks on one shard.
#[derive(Debug)]
pub struct Lock {
    /// The transaction.
    pub transaction: TransactionId,
    /// What is to be locked.
    pub claim: Claim,
    /// Whether to queue if they are not free.
    pub wait: bool,
    /// Whether the command may need more memory.
    pub grows: bool,
    /// Whether it may change something.
    pub writes: bool,
    /// The connection whose watches here are to be looked at once the locks are held.
    pub watcher: Option<ConnectionId>,
    /// Who asked.
    pub asker: Asker,
    /// Keys whose entries are to be taken along once the locks are held (empty: none), in the order of the answer.
    pub take: RequestBuffer,
}

/// Why a shard cannot carry out a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It needs memory, and there is none to be had.
    NoMemory,
    /// Writes are refused with this error.
    Refusal(ErrorReply),
}

impl Obstacle {
    /// What the client is told.
    pub fn error(self) -> ErrorReply {
        match self {
            Self::NoMemory => ErrorReply::OutOfMemory,
            Self::Refusal(error) => error,
        }
    }
}

/// What a transaction, or a single request, needs to itself on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// These keys (by their fingerprints).
    Keys(Vec<(u64, Access)>),
    /// The shard's whole key space.
    Whole(Access),
}

/// How a claim uses what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads: goes together with other reads.
    Shared,
    /// Changes: goes together with nothing.
    Exclusive,
}

/// A transaction's part for one shard.
#[derive(Debug)]
pub struct Part {
    /// The transaction.
    pub transaction: TransactionId,
    /// What to run.
    pub command: &'static Command,
    /// Its arguments on this shard.
    pub request: RequestBuffer,
    /// The version its reply is encoded in.
    pub version: RespVersion,
    /// One moment for all parts, so that expiry looks the same on every shard.
    pub now: Now,
    /// Who asked.
    pub asker: Asker,
    /// How to log it, if it may change something.
    pub commit: Option<Commit>,
}

/// Commands of an `EXEC` that follow each other on one shard.
#[derive(Debug)]
pub struct Held {
    /// The transaction, which holds locks for all of them.
    pub transaction: TransactionId,
    /// What to run, in order, and with which arguments.
    pub commands: Vec<(&'static Command, RequestBuffer)>,
    /// The version their replies are encoded in, one after the other.
    pub version: RespVersion,
    /// One moment for the whole `EXEC`.
    pub now: Now,
    /// Who asked.
    pub asker: Asker,
}

/// Entries on their way to a coordinator.
#[derive(Debug, Default)]
pub struct Lent {
    /// For each key its entry, if there is one.
    pub entries: Vec<Option<Detached>>,
    /// Whether somebody there waits for changes of keys: then it must be told which were changed.
    pub wants_changes: bool,
    /// Whether blocked sessions wait for keys there.
    pub has_waiters: bool,
    /// Whether the owner logs effects.
    pub wants_effects: bool,
    /// The owner's epoch.
    pub epoch: u64,
}

/// Entries on their way back.
#[derive(Debug)]
pub struct Restored {
    /// The transaction.
    pub transaction: TransactionId,
    /// The entries, as the coordinator left them.
    pub entries: Vec<Detached>,
    /// Keys that it changed, if somebody there waits for changes.
    pub changed: RequestBuffer,
    /// What it did, if that is logged there.
    pub effects: Vec<RequestBuffer>,
    /// How to log that, unless the transaction goes on.
    pub commit: Option<Commit>,
    /// What happened to keys.
    pub events: Vec<Event>,
    /// Who asked for the changes.
    pub asker: Asker,
    /// Whether the transaction goes on and keeps its locks.
    pub keep_locks: bool,
    /// Who waits for keys from now on.
    pub registration: Option<Box<Registration>>,
    /// The offer that the changes follow from, of whatever shard.
    pub offer: Option<TransactionId>,
    /// Whether the coordinator wants to hear when those are served who waited for the keys.
    pub tell_served: bool,
}

impl Restored {
    /// Entries that come back as they were lent.
    pub fn unchanged(transaction: TransactionId, entries: Vec<Detached>) -> Self {
        Self {
            transaction,
            entries,
            changed: RequestBuffer::new(),
            effects: Vec::new(),
            commit: None,
            events: Vec::new(),
            asker: Asker::default(),
            keep_locks: false,
            registration: None,
            offer: None,
            tell_served: false,
        }
    }
}

/// What came of a part.
#[derive(Debug)]
pub struct Partial {
    /// Its encoded reply.
    pub reply: BytesMut,
    /// How many keys the shard holds: the weight of its part in a random choice.
    pub keys: usize,
    /// Of commands of an `EXEC` those that belong into the slow log, and how long they took.
    pub slow: Vec<(RequestBuffer, Duration)>,
    /// Whether the transaction has changed something there that is to be logged.
    pub has_effects: bool,
}
