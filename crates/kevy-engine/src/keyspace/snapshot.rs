//! A view of all keys as they were at one moment, taken while they go on changing.
//!
//! A walk in the order of hashes writes entries as the effects that rebuild them. An entry that is about to be changed
//! and that the walk has not come to is written first, as it is; what came into being after the moment is left out. So
//! the memory it takes grows with the keys touched ahead of the walk, not with the keyspace, and no turn is longer than
//! its budget or the largest value allows.

use super::{Cursor, Keyspace};
use crate::Effects;
use crate::segmented::{Place, position};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;

/// A snapshot being taken.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The position that the walk comes to next: every entry before it was written or came later.
    next: u64,
    /// Keys from `next` on that the walk is to leave out: written already, or younger than the snapshot.
    left_out: BTreeSet<Box<[u8]>>,
    /// Effects that were not taken yet.
    effects: Effects,
    entries: u64,
}

/// How far a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotProgress {
    /// There is more to come.
    Running,
    /// Everything was handed out; so many entries.
    Complete(u64),
    /// There is no snapshot: it was never begun, or given up because all keys were removed.
    Gone,
}

impl Keyspace {
    /// Begins a snapshot of all keys as they are now, in the place of one that is under way.
    pub fn begin_snapshot(&mut self) {
        self.snapshot = Some(Box::new(Snapshot {
            next: 0,
            left_out: BTreeSet::new(),
            effects: Effects::on(),
            entries: 0,
        }));
    }

    /// Whether a snapshot is being taken.
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Gives a snapshot up.
    pub fn abandon_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// Hands out to `effects` what rebuilds about `count` more entries, and those that had to be written ahead.
    pub fn advance_snapshot(&mut self, count: usize, effects: &mut Effects) -> SnapshotProgress {
        let Some(mut snapshot) = self.snapshot.take() else {
            return SnapshotProgress::Gone;
        };
        let partition = self.partition.index;
        let cursor = Cursor {
            position: snapshot.next,
            partition,
        };
        let step = self.scan(cursor, count);
        for entry in step.entries {
            if !snapshot.left_out.remove(entry.key()) {
                entry.emit_effects(&mut snapshot.effects);
                snapshot.entries += 1;
            }
        }
        let is_complete = step.next.partition != partition || step.next.position <= snapshot.next;
        core::mem::swap(&mut snapshot.effects, effects);
        if is_complete {
            return SnapshotProgress::Complete(snapshot.entries);
        }
        snapshot.next = step.next.position;
        self.snapshot = Some(snapshot);
        SnapshotProgress::Running
    }

    /// To be called before an entry is changed or removed.
    #[inline]
    pub(super) fn preserve(&mut self, hash: u64, place: Place) {
        if self.snapshot.is_some() {
            self.write_ahead(hash, place);
        }
    }

    /// To be called before an entry is added.
    #[inline]
    pub(super) fn leave_out(&mut self, hash: u64, key: &[u8]) {
        if let Some(snapshot) = &mut self.snapshot
            && position(hash) >= snapshot.next
            && !snapshot.left_out.contains(key)
        {
            snapshot.left_out.insert(key.into());
        }
    }

    #[cold]
    fn write_ahead(&mut self, hash: u64, place: Place) {
        if let Some(snapshot) = &mut self.snapshot
            && position(hash) >= snapshot.next
            && let Some(entry) = self.table.get(place)
            && !snapshot.left_out.contains(entry.key())
        {
            entry.emit_effects(&mut snapshot.effects);
            snapshot.entries += 1;
            snapshot.left_out.insert(entry.key().into());
        }
    }
}
