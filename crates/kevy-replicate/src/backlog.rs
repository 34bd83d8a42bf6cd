//! The newest entries of a stream, in a bounded number of bytes.

use bytes::Bytes;
use kevy_proto::replication::{Epoch, MAX_ENTRY_BYTES};
use std::collections::VecDeque;
use std::fmt;

/// What an entry is taken to need beyond its bytes.
pub const ENTRY_OVERHEAD_BYTES: usize = 64;

/// Entries with consecutive offsets, up to the newest. Memory is taken as entries come, and the oldest go when there are too
/// many bytes. The newest stays even if it alone is larger than the bound.
#[derive(Debug)]
pub struct Backlog {
    entries: VecDeque<StoredEntry>,
    /// The offset of the newest entry, or of what came before the first.
    last_offset: u64,
    held_bytes: usize,
    limit_bytes: usize,
}

/// An entry that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The epoch it was written in.
    pub epoch: Epoch,
    /// As the log has it.
    pub payload: Bytes,
}

/// Why entries cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The first of them is no longer kept.
    TooOld {
        /// The oldest that is.
        first_kept: u64,
    },
    /// They have not been written: whoever asks is of another history.
    NotYet,
}

impl Backlog {
    /// Nothing is kept, and the next entry follows `last_offset`.
    pub fn new(limit_bytes: usize, last_offset: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            last_offset,
            held_bytes: 0,
            limit_bytes,
        }
    }

    /// Keeps the next entry, whose offset is returned, and lets go of as many as must go.
    pub fn push(&mut self, epoch: Epoch, payload: Bytes) -> u64 {
        self.last_offset += 1;
        if payload.len() > MAX_ENTRY_BYTES {
            // It cannot travel, so that nothing before it leads anywhere any more.
            self.clear(self.last_offset);
            return self.last_offset;
        }
        self.held_bytes += cost_bytes(&payload);
        self.entries.push_back(StoredEntry { epoch, payload });
        self.shrink();
        self.last_offset
    }

    fn shrink(&mut self) {
        while self.held_bytes > self.limit_bytes && self.entries.len() > 1 {
            let oldest = self.entries.pop_front();
            self.held_bytes -= oldest.map_or(0, |entry| cost_bytes(&entry.payload));
        }
    }

    /// Lets go of everything; the next entry follows `last_offset`.
    pub fn clear(&mut self, last_offset: u64) {
        *self = Self::new(self.limit_bytes, last_offset);
    }

    /// Changes the bound.
    pub fn set_limit_bytes(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
        self.shrink();
    }

    /// The entries that follow `offset`, which has been applied, oldest first.
    ///
    /// # Errors
    /// If they are not all here, or if there never was such an offset.
    pub fn frames_from(
        &self,
        offset: u64,
    ) -> Result<impl ExactSizeIterator<Item = (u64, &StoredEntry)>, Missing> {
        let first_kept = self.first_offset();
        if offset > self.last_offset {
            return Err(Missing::NotYet);
        }
        if offset + 1 < first_kept {
            return Err(Missing::TooOld { first_kept });
        }
        let skipped = (offset + 1 - first_kept) as usize;
        let entries = self.entries.range(skipped..).enumerate();
        Ok(entries.map(move |(at, entry)| (offset + 1 + at as u64, entry)))
    }

    /// The entry at `offset`.
    pub fn get(&self, offset: u64) -> Option<&StoredEntry> {
        let at = offset.checked_sub(self.first_offset())?;
        self.entries.get(at as usize)
    }

    /// The offset of the oldest entry that is kept; one more than the last if there is none.
    pub fn first_offset(&self) -> u64 {
        self.last_offset + 1 - self.entries.len() as u64
    }

    /// The offset of the newest entry.
    pub fn last_offset(&self) -> u64 {
        self.last_offset
    }

    /// How many bytes the entries are taken to need.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

fn cost_bytes(payload: &Bytes) -> usize {
    payload.len() + ENTRY_OVERHEAD_BYTES
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld { first_kept } => write!(f, "entries before {first_kept} are gone"),
            Self::NotYet => f.write_str("there is no such offset yet"),
        }
    }
}

impl std::error::Error for Missing {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn push(backlog: &mut Backlog, length: usize) -> u64 {
        backlog.push(Epoch(1), Bytes::from(vec![7; length]))
    }

    #[test]
    fn entries_are_found_by_their_offsets_until_they_are_too_old() {
        let mut backlog = Backlog::new(3 * (ENTRY_OVERHEAD_BYTES + 10), 40);
        assert_eq!(backlog.frames_from(40).map(|f| f.len()), Ok(0));
        for offset in 41..50 {
            assert_eq!(push(&mut backlog, 10), offset);
        }
        let first_kept = 47;
        assert_eq!(backlog.first_offset(), first_kept);
        let from = |offset| {
            backlog
                .frames_from(offset)
                .map(|f| f.map(|(o, _)| o).collect())
        };
        assert_eq!(from(45), Err(Missing::TooOld { first_kept }));
        assert_eq!(from(46), Ok(vec![47, 48, 49]));
        assert_eq!(from(48), Ok(vec![49]));
        assert_eq!(from(49), Ok(vec![]));
        assert_eq!(from(50), Err(Missing::NotYet));
        assert!(backlog.get(46).is_none() && backlog.get(47).is_some());
    }

    #[test]
    fn the_newest_stays_even_if_it_is_larger_than_all_that_may_be_kept() {
        let mut backlog = Backlog::new(100, 0);
        push(&mut backlog, 10);
        push(&mut backlog, 5000);
        assert_eq!(backlog.first_offset(), 2);
        push(&mut backlog, 10);
        assert_eq!(backlog.first_offset(), 3);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bound(limit in 0..3000_usize, lengths in prop::collection::vec(0..500_usize, 1..200)) {
            let mut backlog = Backlog::new(limit, 0);
            for (at, length) in lengths.iter().enumerate() {
                prop_assert_eq!(push(&mut backlog, *length), at as u64 + 1);
                prop_assert!(backlog.held_bytes() <= limit.max(length + ENTRY_OVERHEAD_BYTES));
                let kept: usize = (backlog.first_offset()..=backlog.last_offset())
                    .map(|offset| backlog.get(offset).expect("kept").payload.len() + ENTRY_OVERHEAD_BYTES)
                    .sum();
                prop_assert_eq!(kept, backlog.held_bytes());
            }
        }
    }
}
