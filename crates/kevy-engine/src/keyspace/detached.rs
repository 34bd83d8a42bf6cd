//! Entries on their way from one keyspace, or one key, to another.

use super::{Entry, Keyspace};
use crate::Effects;
use kevy_proto::time::UnixMillis;

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

    /// A copy of the entry at `from` under the name `to`, as it is, even if its time has come.
    pub fn copy_as(&self, from: &[u8], to: &[u8]) -> Option<Detached> {
        let place = self.find(self.table.hash(from), from)?;
        let entry = self.table.get(place)?.clone();
        Some(Detached {
            entry: entry.with_key(to),
        })
    }
}
