//! Deadlines of parts of values: fields of hashes.
//!
//! Each value keeps its own; the keyspace keeps the earliest of each value, so that it knows which value to look into next.

use super::{ExpiryMode, Keyspace};
use crate::segmented::Place;
use crate::value::Hash;
use crate::{Effects, EventClasses};
use alloc::vec::Vec;
use kevy_proto::time::Now;

impl Keyspace {
    /// The time by which fields of hashes are judged, in Unix milliseconds: before every deadline where this keyspace sees
    /// what has expired as if its time had not come.
    pub fn fields_now_ms(&self, now: Now) -> i64 {
        match self.expiry_mode {
            ExpiryMode::Remove | ExpiryMode::Hide => now.unix.0,
            ExpiryMode::Ignore => i64::MIN,
        }
    }

    /// Removes up to `budget` fields whose time has come, the earliest first.
    pub(super) fn expire_parts(&mut self, now: Now, budget: usize, effects: &mut Effects) {
        let mut left = budget;
        while left > 0
            && let Some((deadline, hash)) = self.part_deadlines.due(now)
        {
            let Some(place) = self.with_part_deadline(deadline, hash) else {
                self.part_deadlines.remove(deadline, hash);
                continue;
            };
            let key = self.table.get(place).map(|entry| entry.key().to_vec());
            let key = key.unwrap_or_default();
            let removed = self
                .change_at(hash, place, |fields: &mut Hash, _| {
                    fields.remove_due(now.unix.0, left)
                })
                .unwrap_or_default();
            self.note_expired_fields(&key, &removed, effects);
            left -= removed.len().clamp(1, left);
        }
    }

    /// Counts fields that were removed because their time had come, and emits that.
    pub(crate) fn note_expired_fields(
        &mut self,
        key: &[u8],
        names: &[Vec<u8>],
        effects: &mut Effects,
    ) {
        if names.is_empty() {
            return;
        }
        self.stats.expired_fields += names.len() as u64;
        let mut request: Vec<&[u8]> = Vec::with_capacity(names.len() + 2);
        request.extend([b"HDEL", key]);
        request.extend(names.iter().map(Vec::as_slice));
        effects.emit(&request);
        self.note_event(EventClasses::HASH, "hexpired", key);
    }

    /// Changes the part deadline kept for an entry from `before` to `after`, which the entry says now.
    pub(super) fn part_deadline_changed(
        &mut self,
        hash: u64,
        before: Option<i64>,
        after: Option<i64>,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && self.with_part_deadline(before, hash).is_none()
        {
            self.part_deadlines.remove(before, hash);
        }
        if let Some(after) = after {
            self.part_deadlines.add(after, hash);
        }
    }

    fn with_part_deadline(&self, deadline: i64, hash: u64) -> Option<Place> {
        self.table.find(hash, |entry| {
            entry.part_deadline_ms() == Some(deadline) && self.table.hash(entry.key()) == hash
        })
    }
}
