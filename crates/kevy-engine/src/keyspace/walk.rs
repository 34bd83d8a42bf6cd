//! Walking over all keys: `SCAN`, `KEYS`, `RANDOMKEY`, slots.

use super::{Entry, Keyspace};
use crate::segmented::POSITIONS;
use alloc::vec::Vec;
use kevy_proto::slot::slot_of;

/// Which of several keyspaces that form one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Counts from 0; less than `count`.
    pub index: u16,
    /// How many there are: at most [`Partition::MOST`].
    pub count: u16,
}

impl Partition {
    /// The most partitions that a cursor can tell apart.
    pub const MOST: u16 = 1 << Cursor::PARTITION_BITS;
}

impl Default for Partition {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

/// Where a `SCAN` over all partitions stands. As a number: `position << 12 | partition`, less than 2^52 so that clients
/// whose numbers are doubles keep it whole; 0 is the start and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The hash position that comes next.
    pub position: u64,
    /// The partition that comes next.
    pub partition: u16,
}

impl Cursor {
    const PARTITION_BITS: u32 = 12;

    /// The partition that a cursor given by a client asks for: the router's question. It may be one that does not exist;
    /// then the scan is at its end.
    pub fn partition(external: u64) -> usize {
        usize::from(Self::from_external(external).partition)
    }

    /// Reads a cursor as clients hold it.
    pub fn from_external(external: u64) -> Self {
        Self {
            position: external >> Self::PARTITION_BITS,
            partition: external as u16 & (Partition::MOST - 1),
        }
    }

    /// The cursor as clients hold it.
    pub fn external(self) -> u64 {
        self.position << Self::PARTITION_BITS | u64::from(self.partition)
    }

    /// The cursor after a step in `partition` that ended before `next`.
    fn after(partition: Partition, next: Option<u64>) -> Self {
        match next {
            Some(position) => Self {
                position,
                partition: partition.index,
            },
            None if partition.index + 1 < partition.count => Self {
                position: 0,
                partition: partition.index + 1,
            },
            None => Self {
                position: 0,
                partition: 0,
            },
        }
    }
}

/// What one step of a scan gave.
#[derive(Debug)]
pub struct ScanStep<'a> {
    /// Entries in hash order.
    pub entries: Vec<&'a Entry>,
    /// Where to go on.
    pub next: Cursor,
}

impl Keyspace {
    /// One step of a scan from `cursor`: about `count` entries in hash order. An entry that is present from the first step
    /// to the last is met at least once, whatever comes and goes meanwhile.
    pub fn scan(&self, cursor: Cursor, count: usize) -> ScanStep<'_> {
        if cursor.partition != self.partition.index || cursor.position >= POSITIONS {
            let next = Cursor {
                position: 0,
                partition: 0,
            };
            return ScanStep {
                entries: Vec::new(),
                next,
            };
        }
        let (entries, next) = self.table.scan(cursor.position, count);
        ScanStep {
            entries,
            next: Cursor::after(self.partition, next),
        }
    }

    /// All entries, those included whose time has come. The order is the hash's but for entries close to each other.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.table.iter()
    }

    /// A random entry; all are equally likely.
    pub fn random_entry(&mut self) -> Option<&Entry> {
        let place = self.table.random(&mut self.rng)?;
        self.table.get(place)
    }

    /// How many keys are in `slot`: a walk over all keys.
    pub fn count_in_slot(&self, slot: u16) -> usize {
        self.in_slot(slot).count()
    }

    /// Up to `count` entries whose keys are in `slot`: a walk.
    pub fn keys_in_slot(&self, slot: u16, count: usize) -> Vec<&Entry> {
        self.in_slot(slot).take(count).collect()
    }

    fn in_slot(&self, slot: u16) -> impl Iterator<Item = &Entry> {
        self.iter()
            .filter(move |entry| slot_of(entry.key()) == slot)
    }
}
