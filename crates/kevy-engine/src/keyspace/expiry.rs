//! Absolute deadlines, in their order: which keys go next, and when.

use super::{Keyspace, is_due};
use crate::segmented::Place;
use crate::{Effects, EventClasses};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use kevy_proto::time::{Now, UnixMillis};

/// What a change does to the expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key stays for ever (plain `SET`).
    Never,
    /// What was, stays (`SET .. KEEPTTL`, `APPEND`).
    Keep,
    /// The key goes at this moment.
    At(UnixMillis),
}

/// What a keyspace does with keys whose time has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpiryMode {
    /// Removes them (a primary).
    #[default]
    Remove,
    /// Hides them from readers and waits for the primary's `DEL` (a replica answering clients).
    Hide,
    /// Sees them as if their time had not come (applying a log or a primary's effects: what was alive when an effect was
    /// made must be alive when it is applied).
    Ignore,
}

/// The deadlines of all keys that have one.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Invariant: holds `(deadline, hash)` exactly for the entries that have a deadline.
    order: BTreeSet<(i64, u64)>,
    /// The sum of the deadlines in `order`, for their average.
    sum: i128,
}

impl Deadlines {
    pub(super) fn add(&mut self, deadline: i64, hash: u64) {
        if self.order.insert((deadline, hash)) {
            self.sum += i128::from(deadline);
        }
    }

    pub(super) fn remove(&mut self, deadline: i64, hash: u64) {
        if self.order.remove(&(deadline, hash)) {
            self.sum -= i128::from(deadline);
        }
    }

    pub(super) fn first(&self) -> Option<(i64, u64)> {
        self.order.first().copied()
    }

    /// The first deadline, if it has passed.
    pub(super) fn due(&self, now: Now) -> Option<(i64, u64)> {
        self.first().filter(|&(deadline, _)| now.unix.0 > deadline)
    }
}

impl Keyspace {
    /// Removes keys whose time has come, then fields of hashes whose time has come, the earliest first, at most `budget` of
    /// them together, each with its `DEL` or `HDEL` effect. Says whether more are due.
    pub fn expire_due(&mut self, now: Now, budget: usize, effects: &mut Effects) -> bool {
        if !self.expires_actively() {
            return false;
        }
        let mut left = budget;
        while left > 0
            && let Some((deadline, hash)) = self.deadlines.due(now)
        {
            match self.with_deadline(deadline, hash) {
                Some(place) => self.expire_at(hash, place, effects),
                None => self.deadlines.remove(deadline, hash),
            }
            left -= 1;
        }
        self.expire_parts(now, left, effects);
        self.deadlines.due(now).is_some() || self.part_deadlines.due(now).is_some()
    }

    /// When the next key, or field of a hash, goes, if one will go by itself.
    pub fn next_deadline(&self) -> Option<UnixMillis> {
        if !self.expires_actively() {
            return None;
        }
        let firsts = [&self.deadlines, &self.part_deadlines].map(Deadlines::first);
        let (deadline, _) = firsts.into_iter().flatten().min()?;
        Some(UnixMillis(deadline))
    }

    /// Number of keys that have a deadline.
    pub fn expires_len(&self) -> usize {
        self.deadlines.order.len()
    }

    /// The average time to live of the keys that have a deadline, in milliseconds; 0 if there are none.
    pub fn average_ttl_ms(&self, now: Now) -> i64 {
        let count = self.deadlines.order.len() as i128;
        if count == 0 {
            return 0;
        }
        let average = self.deadlines.sum / count - i128::from(now.unix.0);
        i64::try_from(average.max(0)).unwrap_or(i64::MAX)
    }

    /// Switches active expiry (`DEBUG SET-ACTIVE-EXPIRE`); lazy expiry goes on.
    pub fn set_active_expire(&mut self, on: bool) {
        self.active_expire = on;
    }

    /// Chooses what happens to keys whose time has come.
    pub fn set_expiry_mode(&mut self, mode: ExpiryMode) {
        self.expiry_mode = mode;
    }

    /// What happens to keys whose time has come.
    pub fn expiry_mode(&self) -> ExpiryMode {
        self.expiry_mode
    }

    fn expires_actively(&self) -> bool {
        self.active_expire && self.expiry_mode == ExpiryMode::Remove
    }

    /// The entry that goes next by itself, due or not.
    pub(super) fn first_with_deadline(&self) -> Option<Place> {
        let (deadline, hash) = self.deadlines.first()?;
        self.with_deadline(deadline, hash)
    }

    fn with_deadline(&self, deadline: i64, hash: u64) -> Option<Place> {
        self.table.find(hash, |entry| {
            entry.deadline_ms() == Some(deadline) && self.table.hash(entry.key()) == hash
        })
    }

    pub(super) fn expire_at(&mut self, hash: u64, place: Place, effects: &mut Effects) {
        if let Some(entry) = self.remove_at(hash, place) {
            self.stats.expired += 1;
            effects.emit(&[b"DEL", entry.key()]);
            self.note_event(EventClasses::EXPIRED, "expired", entry.key());
        }
    }

    /// Removes those of the keys in `met` whose time has come, if this keyspace removes: the walk that met them could not.
    pub(crate) fn expire_found(&mut self, met: &[Vec<u8>], now: Now, effects: &mut Effects) {
        for key in met {
            self.is_alive(key, now, effects);
        }
    }

    /// Whether a reader may see `key`, removing it if its time has come; neither counts nor notes it.
    pub fn is_alive(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> bool {
        self.visible(key, now, effects).is_some()
    }

    /// Whether a walk should pass over `entry`.
    pub(crate) fn is_hidden(&self, entry: &super::Entry, now: Now) -> bool {
        self.expiry_mode != ExpiryMode::Ignore && is_due(entry, now)
    }

    /// Changes the deadline kept for the entry at `place` from `before` to what the entry says.
    pub(super) fn deadline_changed(&mut self, hash: u64, before: Option<i64>, after: Option<i64>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.forget_deadline(before, hash);
        }
        if let Some(after) = after {
            self.deadlines.add(after, hash);
        }
    }

    /// Forgets a deadline that an entry had, unless another key with the same hash has the same one.
    pub(super) fn forget_deadline(&mut self, deadline: i64, hash: u64) {
        if self.with_deadline(deadline, hash).is_none() {
            self.deadlines.remove(deadline, hash);
        }
    }
}
