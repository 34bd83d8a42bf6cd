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
}

impl Mark {
    /// All marks.
    pub const ALL: [Self; 9] = [
        Self::TransactionTried,
        Self::LockContended,
        Self::TransactionOrdered,
        Self::ClosedMidTransaction,
        Self::QueueFull,
        Self::VanishedMidPipeline,
        Self::ShardPaused,
        Self::PartialRead,
        Self::PartialWrite,
    ];

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

    /// The marks that were never met.
    pub fn missing(&self) -> Vec<Mark> {
        Mark::ALL
            .into_iter()
            .filter(|mark| self.count(*mark) == 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_met_is_missing() {
        let marks = Marks::default();
        assert_eq!(marks.missing(), Mark::ALL);
        let other = Marks::default();
        for mark in Mark::ALL {
            other.meet(mark);
        }
        other.meet(Mark::QueueFull);
        marks.add(&other);
        assert!(marks.missing().is_empty());
        assert_eq!(marks.count(Mark::QueueFull), 2);
    }
}
