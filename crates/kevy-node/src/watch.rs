//! `WATCH`: who wants to know whether a key was changed before its `EXEC`.
//!
//! The owner of a key keeps its watchers, under the number of their connection, and marks a watcher as *hit* once a command,
//! an expiry or an eviction changes the key. It notices changes by the effects that commands emit; while nobody watches
//! anything on the shard no effects are collected for this. `EXEC` asks for its hits while it holds the locks of what it
//! watched, so that no change slips in between.

use crate::message::Message;
use crate::session::Session;
use crate::shard::Shard;
use foldhash::quality::FixedState;
use hashbrown::HashMap;
use kevy_engine::Command;
use kevy_engine::keyspace::ExpiryMode;
use kevy_proto::command::Placement;
use kevy_proto::ids::{ConnectionId, ShardId};
use kevy_proto::resp::Args;

/// How many keys one connection may watch.
pub(crate) const WATCHED_KEYS_PER_CONNECTION: usize = 4096;

/// The watched keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_key: HashMap<Vec<u8>, WatchedKey, FixedState>,
    by_connection: HashMap<ConnectionId, Watcher, FixedState>,
}

#[derive(Debug, Default)]
struct WatchedKey {
    /// Whether it was there before the command at work; only kept up to date for commands that empty the key space.
    existed: bool,
    /// Invariant: not empty.
    watchers: Vec<ConnectionId>,
}

#[derive(Debug, Default)]
struct Watcher {
    /// Each with whether it was there when the watch began.
    keys: Vec<(Vec<u8>, bool)>,
    hit: bool,
}

impl Watches {
    /// Whether nobody watches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_connection.is_empty()
    }

    fn add(&mut self, connection: ConnectionId, key: &[u8], exists: bool) {
        let watchers = &mut self.by_key.entry(key.to_vec()).or_default().watchers;
        if !watchers.contains(&connection) {
            watchers.push(connection);
            let watcher = self.by_connection.entry(connection).or_default();
            watcher.keys.push((key.to_vec(), exists));
        }
    }

    fn remove(&mut self, connection: ConnectionId) {
        let Some(watcher) = self.by_connection.remove(&connection) else {
            return;
        };
        for (key, _) in watcher.keys {
            if let Some(watched) = self.by_key.get_mut(&key) {
                watched.watchers.retain(|other| *other != connection);
                if watched.watchers.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// A key has changed.
    pub(crate) fn hit(&mut self, key: &[u8]) {
        let Some(watched) = self.by_key.get(key) else {
            return;
        };
        for connection in &watched.watchers {
            if let Some(watcher) = self.by_connection.get_mut(connection) {
                watcher.hit = true;
            }
        }
    }

    /// What a stream knows beside its entries was changed: that is news only of a stream that was not there.
    pub(crate) fn hit_beside_entries(&mut self, key: &[u8]) {
        let Some(watched) = self.by_key.get(key) else {
            return;
        };
        for connection in &watched.watchers {
            if let Some(watcher) = self.by_connection.get_mut(connection) {
                let mut keys = watcher.keys.iter();
                watcher.hit |= keys.any(|(own, existed)| own == key && !existed);
            }
        }
    }

    /// The key space was emptied: a key that was not there has not changed.
    pub(crate) fn hit_all_that_existed(&mut self) {
        let existed = self.by_key.values().filter(|watched| watched.existed);
        for connection in existed.flat_map(|watched| &watched.watchers) {
            if let Some(watcher) = self.by_connection.get_mut(connection) {
                watcher.hit = true;
            }
        }
    }
}

impl Shard {
    /// `connection` watches `keys`, which are ours.
    pub(crate) fn watch(&mut self, connection: ConnectionId, keys: Args<'_>) {
        for key in keys.iter() {
            let exists = self.is_there(key);
            self.watches.add(connection, key, exists);
        }
        self.renew_wish_for_changes();
    }

    /// `connection` watches nothing here any more.
    pub(crate) fn unwatch(&mut self, connection: ConnectionId) {
        self.watches.remove(connection);
        self.renew_wish_for_changes();
    }

    /// Lets all owners forget what the session watches.
    pub(crate) fn unwatch_all(&mut self, session: &mut Session) {
        let watched = std::mem::take(&mut session.watched);
        let keys = watched.iter().map(Vec::as_slice);
        let mut owners: Vec<ShardId> = keys.map(|key| self.map.owner_of_key(key)).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            self.unwatch_on(owner, session.id);
        }
    }

    /// Lets one owner forget what `connection` watches.
    pub(crate) fn unwatch_on(&mut self, owner: ShardId, connection: ConnectionId) {
        if owner == self.id {
            // At once: what follows in the pipeline may run here before messages to ourselves are handled.
            self.unwatch(connection);
        }
        if owner != self.id || !self.local.is_empty() {
            // Behind a watch that may be under way.
            self.send(owner, Message::Unwatch(connection));
        }
    }

    /// Whether a key that `connection` watches here has changed, or has expired by now.
    pub(crate) fn is_watch_hit(&mut self, connection: ConnectionId) -> bool {
        let Some(watcher) = self.watches.by_connection.get(&connection) else {
            return false;
        };
        if watcher.hit {
            return true;
        }
        let keys = watcher.keys.clone();
        keys.into_iter()
            .any(|(key, existed)| existed && !self.is_there(&key))
    }

    /// Leaves a key that has expired to somebody who has it alone.
    fn is_there(&mut self, key: &[u8]) -> bool {
        self.keyspace.set_expiry_mode(ExpiryMode::Hide);
        let is_there = self.keyspace.is_alive(key, self.now, &mut self.effects);
        self.keyspace.set_expiry_mode(self.expiry_mode());
        is_there
    }

    /// Before a command runs: what must be known later about watched keys.
    #[inline]
    pub(crate) fn prepare_watches(&mut self, command: &Command) {
        if self.watches.is_empty()
            || !command.is_write()
            || !matches!(command.placement, Placement::EveryShard(_))
        {
            return;
        }
        for (key, watched) in &mut self.watches.by_key {
            watched.existed = self.keyspace.is_alive(key, self.now, &mut self.effects);
        }
    }
}
