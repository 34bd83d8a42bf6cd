//! "Sometimes" marks: situations that a run over many seeds must have met at least once. A run that never met one tested less
//! than it claims, and fails.

use std::cell::RefCell;

/// A situation worth having met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// A transaction over several shards asked for locks without waiting.
    TransactionTried,
    /// A shard refused locks because another transaction held them.
    LockContended,
    /// A transaction asked for its locks shard by shard, willing to wait.
    TransactionOrdered,
    /// A connection ended on a shard that was coordinating a transaction.
    ClosedMidTransaction,
    /// A message found its queue full.
    QueueFull,
    /// A client vanished with requests unanswered.
    VanishedMidPipeline,
    /// A shard stood still for a while.
    ShardPaused,
    /// The node read a request in more than one piece.
    PartialRead,
    /// The node could not send all it wanted at once.
    PartialWrite,
    /// The node crashed while clients were at work.
    Crashed,
    /// An operation on a file failed.
    DiskFailed,
    /// A crash tore the end of a log.
    TornTail,
    /// A crash tore a transaction over several shards, which was dropped.
    TransactionDropped,
    /// A snapshot took the place of a log.
    SnapshotTaken,
}

impl Mark {
    /// All marks.
    pub const ALL: [Self; 14] = [
        Self::TransactionTried,
        Self::LockContended,
        Self::TransactionOrdered,
        Self::ClosedMidTransaction,
        Self::QueueFull,
        Self::VanishedMidPipeline,
        Self::ShardPaused,
        Self::PartialRead,
        Self::PartialWrite,
        Self::Crashed,
        Self::DiskFailed,
        Self::TornTail,
        Self::TransactionDropped,
        Self::SnapshotTaken,
    ];

    /// Those that need no disk.
    pub const IN_MEMORY: &'static [Self] = Self::ALL.split_at(9).0;
    /// Those that only a node with a disk meets.
    pub const ON_DISK: &'static [Self] = Self::ALL.split_at(9).1;

    /// The mark's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TransactionTried => "transaction-tried",
            Self::LockContended => "lock-contended",
            Self::TransactionOrdered => "transaction-ordered",
            Self::ClosedMidTransaction => "closed-mid-transaction",
            Self::QueueFull => "queue-full",
            Self::VanishedMidPipeline => "vanished-mid-pipeline",
            Self::ShardPaused => "shard-paused",
            Self::PartialRead => "partial-read",
            Self::PartialWrite => "partial-write",
            Self::Crashed => "crashed",
            Self::DiskFailed => "disk-failed",
            Self::TornTail => "torn-tail",
            Self::TransactionDropped => "transaction-dropped",
            Self::SnapshotTaken => "snapshot-taken",
        }
    }
}

/// How often each mark was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    counts: RefCell<[u64; Mark::ALL.len()]>,
}

impl Marks {
    /// Counts one meeting.
    pub fn meet(&self, mark: Mark) {
        self.counts.borrow_mut()[mark as usize] += 1;
    }

    /// How often `mark` was met.
    pub fn count(&self, mark: Mark) -> u64 {
        self.counts.borrow()[mark as usize]
    }

    /// Adds what another run met.
    pub fn add(&self, other: &Self) {
        for mark in Mark::ALL {
            self.counts.borrow_mut()[mark as usize] += other.count(mark);
        }
    }

    /// Those of `marks` that were never met.
    pub fn missing(&self, marks: &[Mark]) -> Vec<Mark> {
        let marks = marks.iter().copied();
        marks.filter(|mark| self.count(*mark) == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_met_is_missing() {
        let marks = Marks::default();
        assert_eq!(marks.missing(&Mark::ALL), Mark::ALL);
        let other = Marks::default();
        for mark in Mark::ALL {
            other.meet(mark);
        }
        other.meet(Mark::QueueFull);
        marks.add(&other);
        assert!(marks.missing(&Mark::ALL).is_empty());
        assert_eq!(marks.count(Mark::QueueFull), 2);
    }
}
