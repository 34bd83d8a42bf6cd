//! Entries that have come and are not applied: most go straight on, parts of transactions wait for the others.

use bytes::Bytes;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{Entries, Entry, EntryFault};
use kevy_proto::replication::{Epoch, HistoryId};
use std::collections::VecDeque;

/// What an entry is taken to need beyond its bytes.
const OVERHEAD_BYTES: usize = 96;

/// An entry that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its offset.
    pub offset: u64,
    /// The epoch it was written in.
    pub epoch: Epoch,
    /// As the primary's log has it; goes to this node's log as it is.
    pub payload: Bytes,
    /// A transaction's part that a later entry declares void: it is logged and counted, but not carried out.
    pub void: bool,
}

/// A transaction, unique over all runs of all primaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionKey {
    /// The branch it was written in.
    pub history: HistoryId,
    /// Its name there.
    pub id: TransactionId,
}

/// A part that waits for the other shards' parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartNotice {
    /// Whose part.
    pub key: TransactionKey,
    /// Its offset in this shard's stream.
    pub offset: u64,
    /// The shards that have parts, this one included.
    pub participants: Vec<ShardId>,
    /// Earlier transactions of the same coordinator are durable at all of their participants.
    pub settled_below: u64,
    /// Which time this shard's entries were received; see [`super::Sink::release`].
    pub generation: u64,
}

/// What an entry means for holding back.
pub(super) enum Class {
    /// It concerns this shard alone.
    Plain,
    Part {
        id: TransactionId,
        settled_below: u64,
        participants: Vec<ShardId>,
    },
    Dropped(Vec<TransactionId>),
    /// Some of what came before does not count; which cannot be told here.
    Skipped,
}

impl Class {
    pub(super) fn of(payload: &[u8]) -> Result<Self, EntryFault> {
        let mut entries = Entries::of(payload);
        let first = entries.next().ok_or(EntryFault::Malformed)??;
        let class = match first {
            Entry::Effects(_) | Entry::EarlierRunsSettled => Self::Plain,
            Entry::Part(part, _) if part.participants.len() <= 1 => Self::Plain,
            Entry::Part(part, _) => Self::Part {
                id: part.id,
                settled_below: part.settled_below,
                participants: part.participants,
            },
            Entry::Dropped { transactions, .. } => Self::Dropped(transactions),
            Entry::Skipped { .. } => Self::Skipped,
            // A snapshot has messages of its own.
            Entry::SnapshotBegin(_) | Entry::SnapshotEnd { .. } => {
                return Err(EntryFault::Malformed);
            }
        };
        // An entry that travels is one entry of the log.
        match entries.next() {
            None => Ok(class),
            Some(_) => Err(EntryFault::Malformed),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Held {
    queue: VecDeque<Incoming>,
    bytes: usize,
    /// Parts that wait, by their offsets.
    blocked: VecDeque<(u64, TransactionKey)>,
    /// The last entry that has come.
    pub(super) received: u64,
    pub(super) generation: u64,
    /// That too much waits has been told.
    pub(super) full_reported: bool,
}

impl Held {
    /// Nothing waits, and `offset` is the last that has come.
    pub(super) fn restart(&mut self, offset: u64) {
        *self = Self {
            received: offset,
            generation: self.generation + 1,
            ..Self::default()
        };
    }

    pub(super) fn push(&mut self, entry: Incoming, part: Option<TransactionKey>) {
        debug_assert_eq!(entry.offset, self.received + 1, "entries follow each other");
        self.received = entry.offset;
        let key = part.map(|key| (entry.offset, key));
        self.blocked.extend(key);
        self.bytes += entry.payload.len() + OVERHEAD_BYTES;
        self.queue.push_back(entry);
    }

    /// Up to which offset entries may be applied.
    pub(super) fn released_to(&self) -> u64 {
        let blocked = self.blocked.front();
        blocked.map_or(self.received, |(offset, _)| offset - 1)
    }

    /// Whether an entry waits to be taken, and may be.
    pub(super) fn pop(&mut self) -> Option<Incoming> {
        let released = self.released_to();
        let entry = self.queue.pop_front_if(|entry| entry.offset <= released)?;
        self.bytes -= entry.payload.len() + OVERHEAD_BYTES;
        Some(entry)
    }

    pub(super) fn release(&mut self, up_to: u64) {
        while self.blocked.pop_front_if(|(at, _)| *at <= up_to).is_some() {}
    }

    /// A waiting part of an earlier branch is void. Returns whose, if it was still waiting.
    pub(super) fn void(&mut self, id: TransactionId, now: HistoryId) -> Option<TransactionKey> {
        let named = |(_, key): &(u64, TransactionKey)| key.id == id && key.history != now;
        let at = self.blocked.iter().rposition(named)?;
        let (offset, key) = self.blocked.remove(at)?;
        let entry = self.queue.iter_mut().find(|entry| entry.offset == offset)?;
        entry.void = true;
        Some(key)
    }

    /// Forgets what may not be applied yet. Returns whether there was something that others know of.
    pub(super) fn drop_unreleased(&mut self) -> bool {
        let released = self.released_to();
        while let Some(entry) = self.queue.pop_back_if(|entry| entry.offset > released) {
            self.bytes -= entry.payload.len() + OVERHEAD_BYTES;
        }
        self.received = released;
        self.generation += 1;
        let waited = !self.blocked.is_empty();
        self.blocked.clear();
        waited
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn blocked_parts(&self) -> usize {
        self.blocked.len()
    }
}
