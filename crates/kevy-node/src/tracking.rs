//! Client-side caching: who has read which key, and how they hear that it was changed
//! (<https://redis.io/docs/latest/develop/reference/client-side-caching/>).
//!
//! The owner of a key keeps the connections that have read it ([`Readers`]), or that listen for a prefix of its name
//! ([`Broadcasts`]: every shard knows those of all). Whatever changes the key sends an [`Invalidation`] to the shards of
//! these connections and forgets the readers. The connection's shard knows how the client wants to be told
//! ([`client::Tracking`]).
//!
//! No invalidation may be lost, and none may reach a client before the reply that brought it the value: decision record
//! 0007 says why neither happens.

pub(crate) mod client;
mod deliver;

use crate::shard::Shard;
use bytes::Bytes;
use foldhash::quality::FixedState;
use hashbrown::HashMap;
use kevy_engine::Command;
use kevy_proto::command::{Flags, Placement};
use kevy_proto::ids::{ConnectionId, ShardId};
use kevy_proto::resp::Args;
use std::collections::{BTreeMap, BTreeSet};

/// On whose behalf a command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The connection; none if nobody asked, as for what expires.
    pub connection: Option<ConnectionId>,
    /// Whether the keys it reads are to be remembered.
    pub tracks: bool,
}

impl Asker {
    /// The same for `command`: only what reads alone is remembered.
    pub(crate) fn reading(self, command: &Command) -> Self {
        Self {
            tracks: self.tracks && command.flags.contains(Flags::READONLY),
            ..self
        }
    }
}

/// Keys that clients have to forget.
#[derive(Clone, Debug)]
pub enum Invalidation {
    /// A key that connections of the receiver have read.
    Key {
        /// The key.
        key: Bytes,
        /// Who has read it.
        readers: Vec<ConnectionId>,
        /// Who changed it, if a connection did: it need not be told if it does not want to.
        cause: Option<ConnectionId>,
    },
    /// Keys whose names begin with what a connection listens for, sorted, each with who changed it.
    Broadcast {
        /// Who listens.
        listener: ConnectionId,
        /// The keys.
        keys: Vec<(Bytes, Option<ConnectionId>)>,
    },
    /// For a connection that lets another one of the receiver be told.
    Redirected {
        /// Whose keys they are.
        from: ConnectionId,
        /// Who is told.
        to: ConnectionId,
        /// The keys; `None`: all.
        keys: Option<Vec<Bytes>>,
    },
    /// There is nobody at the other end of a redirection of this connection.
    RedirectionBroken(ConnectionId),
    /// The sender has removed all of its keys.
    Everything,
}

/// What one shard knows for client-side caches.
#[derive(Debug, Default)]
pub(crate) struct TrackingTable {
    readers: Readers,
    broadcasts: Broadcasts,
    /// How often each shard has removed all of its keys, as far as we heard; empty while nobody did.
    flushes: Vec<u64>,
}

/// The connections that have read keys of this shard. `tracking-table-max-keys` bounds the keys. Connections that are gone
/// stay until the key is changed.
#[derive(Debug, Default)]
struct Readers {
    by_key: HashMap<Bytes, BTreeSet<ConnectionId>, FixedState>,
    /// Readers of all keys together.
    items: usize,
}

/// The prefixes that connections of all shards listen for.
#[derive(Debug, Default)]
struct Broadcasts {
    by_prefix: BTreeMap<Bytes, BTreeSet<ConnectionId>>,
    longest_prefix: usize,
    /// What the turn has changed, by listener and prefix: each prefix is told of in a message of its own, as by Redis.
    changed: BTreeMap<(ConnectionId, Bytes), BTreeMap<Bytes, Option<ConnectionId>>>,
}

impl Readers {
    fn add(&mut self, key: &[u8], reader: ConnectionId) {
        let readers = match self.by_key.get_mut(key) {
            Some(readers) => readers,
            None => self.by_key.entry(Bytes::copy_from_slice(key)).or_default(),
        };
        self.items += usize::from(readers.insert(reader));
    }

    fn remove(&mut self, key: &[u8]) -> Option<(Bytes, BTreeSet<ConnectionId>)> {
        let removed = self.by_key.remove_entry(key)?;
        self.items -= removed.1.len();
        Some(removed)
    }

    /// A key to give up when there are too many.
    fn victim(&self) -> Option<Bytes> {
        self.by_key.keys().next().cloned()
    }
}

impl Broadcasts {
    fn add(&mut self, listener: ConnectionId, prefixes: &[Bytes]) {
        for prefix in prefixes {
            self.longest_prefix = self.longest_prefix.max(prefix.len());
            let listeners = self.by_prefix.entry(prefix.clone()).or_default();
            listeners.insert(listener);
        }
    }

    fn remove(&mut self, listener: ConnectionId) {
        self.by_prefix.retain(|_, listeners| {
            listeners.remove(&listener);
            !listeners.is_empty()
        });
        let lengths = self.by_prefix.keys().map(Bytes::len);
        self.longest_prefix = lengths.max().unwrap_or(0);
        self.changed.retain(|(by, _), _| *by != listener);
    }

    fn note(&mut self, key: &[u8], cause: Option<ConnectionId>) {
        if self.by_prefix.is_empty() {
            return;
        }
        let name = Bytes::copy_from_slice(key);
        for length in 0..=key.len().min(self.longest_prefix) {
            let Some((prefix, listeners)) = self.by_prefix.get_key_value(&key[..length]) else {
                continue;
            };
            for listener in listeners {
                let about = (*listener, prefix.clone());
                let changed = self.changed.entry(about).or_default();
                changed.insert(name.clone(), cause);
            }
        }
    }
}

impl TrackingTable {
    /// Whether nobody waits for changes of keys of this shard.
    pub(crate) fn is_idle(&self) -> bool {
        self.readers.by_key.is_empty() && self.broadcasts.by_prefix.is_empty()
    }

    /// Keys that somebody has read.
    pub(crate) fn keys(&self) -> usize {
        self.readers.by_key.len()
    }

    /// Readers of all keys together.
    pub(crate) fn items(&self) -> usize {
        self.readers.items
    }

    /// Prefixes that somebody listens for, on whatever shard.
    pub(crate) fn prefixes(&self) -> usize {
        self.broadcasts.by_prefix.len()
    }
}

impl Shard {
    /// Remembers the keys that `command` has read for the connection at work, if it wants that.
    #[inline]
    pub(crate) fn remember_reads(&mut self, command: &Command, args: Args<'_>) {
        if self.asker.tracks && command.flags.contains(Flags::READONLY) {
            let mut positions = Vec::new();
            command.keys.positions(args, &mut positions);
            for position in positions {
                self.remember_read(args.at(position), self.asker);
            }
        }
    }

    /// Remembers that `asker` has read a key of ours. Above the limit another key is given up: its readers are told as if
    /// it had been changed.
    pub(crate) fn remember_read(&mut self, key: &[u8], asker: Asker) {
        let Some(reader) = asker.connection.filter(|_| asker.tracks) else {
            return;
        };
        let was_idle = self.tracking.is_idle();
        self.tracking.readers.add(key, reader);
        if was_idle {
            self.renew_wish_for_changes();
        }
        self.shrink_tracking_table();
    }

    /// Gives keys up until no more are remembered than `tracking-table-max-keys` allows.
    pub(crate) fn shrink_tracking_table(&mut self) {
        let limit = self.tracked_keys_limit();
        while self.tracking.keys() > limit
            && let Some(victim) = self.tracking.readers.victim()
        {
            self.invalidate_readers(&victim, None);
        }
    }

    /// This shard's share of `tracking-table-max-keys`; 0 there means no limit. The shares add up to it.
    fn tracked_keys_limit(&self) -> usize {
        let shards = u64::from(self.shards());
        match self.settings.server.tracking_table_max_keys {
            0 => usize::MAX,
            limit => (limit / shards + u64::from(u64::from(self.id.0) < limit % shards)) as usize,
        }
    }

    /// A key of ours has changed: whoever has read it, or listens for it, is to be told.
    pub(crate) fn invalidate(&mut self, key: &[u8]) {
        if self.tracking.is_idle() {
            return;
        }
        let cause = self.asker.connection;
        self.invalidate_readers(key, cause);
        self.tracking.broadcasts.note(key, cause);
    }

    fn invalidate_readers(&mut self, key: &[u8], cause: Option<ConnectionId>) {
        let Some((key, readers)) = self.tracking.readers.remove(key) else {
            return;
        };
        let shards = self.shards();
        let mut by_shard: BTreeMap<ShardId, Vec<ConnectionId>> = BTreeMap::new();
        for reader in readers {
            by_shard
                .entry(reader.shard(shards))
                .or_default()
                .push(reader);
        }
        for (shard, readers) in by_shard {
            let key = key.clone();
            let invalidation = Invalidation::Key {
                key,
                readers,
                cause,
            };
            self.announcements.invalidations.push((shard, invalidation));
        }
    }

    /// Lets what the turn has changed be announced to those who listen for prefixes.
    pub(crate) fn gather_broadcasts(&mut self) {
        let changed = std::mem::take(&mut self.tracking.broadcasts.changed);
        for ((listener, _), keys) in changed {
            let keys = keys.into_iter().collect();
            let invalidation = Invalidation::Broadcast { listener, keys };
            let shard = listener.shard(self.shards());
            self.announcements.invalidations.push((shard, invalidation));
        }
    }

    /// After a command: if it removed all keys, every client that tracks is to be told, on whatever shard. Every shard
    /// does this once for each such command, see [`Shard::count_flush`].
    #[inline]
    pub(crate) fn invalidate_if_emptied(&mut self, command: &Command, failed: bool) {
        if command.is_write() && !failed && matches!(command.placement, Placement::EveryShard(_)) {
            self.tracking.readers = Readers::default();
            for index in 0..self.shards() {
                let everything = (ShardId(index), Invalidation::Everything);
                self.announcements.invalidations.push(everything);
            }
        }
    }

    /// `from` has removed all of its keys. Every shard does so in turn; once the last one did, and all it sent before is
    /// here, our clients are told, once.
    fn count_flush(&mut self, from: ShardId) {
        let shards = usize::from(self.shards());
        let flushes = &mut self.tracking.flushes;
        flushes.resize(shards, 0);
        let least = |flushes: &[u64]| flushes.iter().min().copied();
        let before = least(flushes);
        flushes[from.index()] += 1;
        if least(flushes) > before {
            self.invalidate_everything();
        }
    }

    /// `listener` is to hear of changes of all keys that begin with one of `prefixes`.
    pub(crate) fn add_listener(&mut self, listener: ConnectionId, prefixes: &[Bytes]) {
        self.tracking.broadcasts.add(listener, prefixes);
        self.renew_wish_for_changes();
    }

    /// `listener` hears no more of changes.
    pub(crate) fn remove_listener(&mut self, listener: ConnectionId) {
        self.tracking.broadcasts.remove(listener);
        self.renew_wish_for_changes();
    }
}
