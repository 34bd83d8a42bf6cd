//! Entries on their way from one keyspace, or one key, to another.

use super::{Entry, Keyspace};
use crate::Effects;
use kevy_proto::time::{Now, UnixMillis};

/// An entry outside of any keyspace: key, value, expiry and access clock as they were.
#[derive(Clone, Debug)]
pub struct Detached {
    entry: Entry,
}

impl Detached {
    /// The key.
    pub fn key(&self) -> &[u8] {
        self.entry.key()
    }

    /// What it holds.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// When it goes, if ever.
    pub fn deadline(&self) -> Option<UnixMillis> {
        self.entry.deadline()
    }

    /// The same value, expiry and clock under another key.
    #[must_use]
    pub fn with_key(self, key: &[u8]) -> Self {
        Self {
            entry: self.entry.with_key(key),
        }
    }

    /// Emits the effects that rebuild this entry, whatever its key held before.
    pub fn emit_effects(&self, effects: &mut Effects) {
        if effects.wanted() {
            self.entry.emit_effects(effects);
        }
    }
}

impl Keyspace {
    /// Takes an entry out as it is, even if its time has come.
    pub fn take(&mut self, key: &[u8]) -> Option<Detached> {
        let hash = self.table.hash(key);
        let place = self.find(hash, key)?;
        let entry = self.remove_at(hash, place)?;
        Some(Detached { entry })
    }

    /// Puts an entry in as it is, in the place of what its key held.
    pub fn put(&mut self, detached: Detached) {
        let hash = self.table.hash(detached.key());
        if let Some(place) = self.find(hash, detached.key()) {
            self.remove_at(hash, place);
        }
        self.insert(hash, detached.entry);
    }

    /// A copy of an entry, for another key. Notes an access of the original.
    pub fn copy_of(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> Option<Detached> {
        let entry = self.lookup(key, now, effects)?.clone();
        Some(Detached { entry })
    }
}
