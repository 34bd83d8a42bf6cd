//! Which line of writes an offset counts: random names, compared for equality.
//!
//! Whoever begins to write, after an election or merely after a start, draws a random [`HistoryId`] and says at which offset it
//! took over: a *branch*. The branches that lead to a state are its history. Two states with the same branch and offset are
//! the same; a state whose offset lies beyond the point where its branch was left by the history of another has *forked* from
//! it. What cannot be shown to be common counts as different.

use super::{Epoch, number};
use alloc::vec::Vec;
use core::fmt;

/// How many branches a history remembers. States of older ones are taken for unknown.
pub const MAX_BRANCHES: usize = 32;

/// The random name of a branch; the same for all shards of the process that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryId(pub u128);

/// The entries that one run of one primary wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its name.
    pub id: HistoryId,
    /// The epoch all its entries carry.
    pub epoch: Epoch,
    /// The offset it set out from: its first entry has the next one.
    pub start: u64,
}

/// The branches that led to a state, oldest first. Empty if nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    branches: Vec<Branch>,
}

/// How a replica's state relates to a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// It is a state that this history went through.
    Continues,
    /// They were one up to this offset; what the replica has beyond it is of another branch.
    Forked {
        /// The last common offset.
        common: u64,
    },
    /// Nothing can be said.
    Unknown,
}

impl History {
    /// Nothing is known.
    pub const fn unknown() -> Self {
        Self {
            branches: Vec::new(),
        }
    }

    /// A history that begins at `start`. Only an empty key space may begin at 0.
    pub fn begin(id: HistoryId, epoch: Epoch, start: u64) -> Self {
        let mut history = Self::unknown();
        history.fork(id, epoch, start);
        history
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.branches.is_empty()
    }

    /// A new branch sets out from the state at `offset`; branches that began later never led to it.
    pub fn fork(&mut self, id: HistoryId, epoch: Epoch, offset: u64) {
        self.cut(offset);
        if self.branches.len() == MAX_BRANCHES {
            self.branches.remove(0);
        }
        self.branches.push(Branch {
            id,
            epoch,
            start: offset,
        });
    }

    /// Forgets the branches that began beyond `offset`.
    pub fn cut(&mut self, offset: u64) {
        self.branches.retain(|branch| branch.start <= offset);
    }

    /// The newest branch.
    pub fn tip(&self) -> Option<&Branch> {
        self.branches.last()
    }

    /// The branches, oldest first.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The branch that the state at `offset` is of: the newest that had begun.
    pub fn branch_at(&self, offset: u64) -> Option<&Branch> {
        self.branches.iter().rev().find(|b| b.start <= offset)
    }

    /// The branch that wrote the entry with this offset.
    pub fn branch_of_entry(&self, offset: u64) -> Option<&Branch> {
        self.branches.iter().rev().find(|b| b.start < offset)
    }

    /// How a state that says of itself `id`, `epoch`, `offset` relates to this history, which has reached `last`.
    ///
    /// Offset 0 is the empty key space, which needs no name. Everything else must name its branch.
    pub fn judge(
        &self,
        id: Option<HistoryId>,
        epoch: Option<Epoch>,
        offset: u64,
        last: u64,
    ) -> Continuity {
        if offset == 0 {
            let from_nothing = self.branches.first().is_some_and(|first| first.start == 0);
            return if from_nothing {
                Continuity::Continues
            } else {
                Continuity::Unknown
            };
        }
        let named = id.and_then(|id| self.branches.iter().position(|b| b.id == id));
        let Some(at) = named else {
            return Continuity::Unknown;
        };
        let branch = self.branches[at];
        if epoch.is_some_and(|epoch| epoch != branch.epoch) || offset < branch.start {
            return Continuity::Unknown;
        }
        let end = self.branches.get(at + 1).map_or(last, |next| next.start);
        if offset > end {
            return Continuity::Forked { common: end };
        }
        Continuity::Continues
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text == b"-" {
            return Some(Self::unknown());
        }
        let mut branches: Vec<Branch> = Vec::new();
        for part in text.split(|byte| *byte == b',') {
            let branch = Branch::parse(part)?;
            let ordered = branches
                .last()
                .is_none_or(|last| last.start <= branch.start && last.epoch <= branch.epoch);
            if !ordered || branches.len() == MAX_BRANCHES {
                return None;
            }
            branches.push(branch);
        }
        Some(Self { branches })
    }
}

impl Branch {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = text.split(|byte| *byte == b':');
        let branch = Self {
            id: HistoryId::parse(fields.next()?)?,
            epoch: Epoch(number(fields.next()?)?),
            start: number(fields.next()?)?,
        };
        fields.next().is_none().then_some(branch)
    }
}

impl HistoryId {
    /// Reads what `Display` writes: 32 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = text.len() == 32 && text.iter().all(u8::is_ascii_hexdigit);
        let text = core::str::from_utf8(text).ok().filter(|_| digits)?;
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for HistoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.id, self.epoch, self.start)
    }
}

impl fmt::Display for History {
    /// `id:epoch:start`, with commas between branches; `-` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.branches.is_empty() {
            return f.write_str("-");
        }
        for (at, branch) in self.branches.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{branch}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    const A: HistoryId = HistoryId(0xa);
    const B: HistoryId = HistoryId(0xb);
    const C: HistoryId = HistoryId(0xc);

    /// A wrote 1..=100 at least, B took over at 100, C at 150 and has reached 170.
    fn history() -> History {
        let mut history = History::begin(A, Epoch(1), 0);
        history.fork(B, Epoch(2), 100);
        history.fork(C, Epoch(2), 150);
        history
    }

    #[test]
    fn a_state_continues_up_to_where_its_branch_was_left() {
        let judge = |id, epoch, offset| history().judge(Some(id), Some(Epoch(epoch)), offset, 170);
        assert_eq!(judge(A, 1, 1), Continuity::Continues);
        assert_eq!(judge(A, 1, 100), Continuity::Continues);
        assert_eq!(judge(A, 1, 101), Continuity::Forked { common: 100 });
        assert_eq!(judge(B, 2, 100), Continuity::Continues);
        assert_eq!(judge(B, 2, 151), Continuity::Forked { common: 150 });
        assert_eq!(judge(C, 2, 170), Continuity::Continues);
        assert_eq!(judge(C, 2, 171), Continuity::Forked { common: 170 });
    }

    #[test]
    fn whatever_is_in_doubt_is_unknown() {
        let history = history();
        let nobody = Some(HistoryId(0xd));
        assert_eq!(history.judge(None, None, 50, 170), Continuity::Unknown);
        assert_eq!(
            history.judge(None, Some(Epoch(1)), 50, 170),
            Continuity::Unknown
        );
        assert_eq!(history.judge(nobody, None, 50, 170), Continuity::Unknown);
        assert_eq!(
            history.judge(Some(A), Some(Epoch(2)), 50, 170),
            Continuity::Unknown
        );
        assert_eq!(history.judge(Some(B), None, 99, 170), Continuity::Unknown);
    }

    #[test]
    fn the_empty_key_space_continues_only_a_history_from_nothing() {
        assert_eq!(history().judge(None, None, 0, 170), Continuity::Continues);
        let imported = History::begin(A, Epoch(0), 1);
        assert_eq!(imported.judge(None, None, 0, 1), Continuity::Unknown);
        assert_eq!(imported.judge(Some(A), None, 0, 1), Continuity::Unknown);
        let unknown = History::unknown();
        assert_eq!(unknown.judge(None, None, 0, 0), Continuity::Unknown);
    }

    #[test]
    fn a_fork_forgets_what_did_not_lead_to_it() {
        let mut history = history();
        history.fork(HistoryId(0xd), Epoch(3), 120);
        assert_eq!(
            history.judge(Some(C), None, 150, 130),
            Continuity::Unknown,
            "C began after the point of the fork"
        );
        assert_eq!(
            history.judge(Some(B), None, 130, 130),
            Continuity::Forked { common: 120 }
        );
        assert_eq!(history.branch_of_entry(100).map(|b| b.id), Some(A));
        assert_eq!(history.branch_of_entry(101).map(|b| b.id), Some(B));
        assert_eq!(history.branch_at(100).map(|b| b.id), Some(B));
    }

    #[test]
    fn only_so_many_branches_are_remembered() {
        let mut history = History::begin(A, Epoch(0), 0);
        for run in 0..100 {
            history.fork(HistoryId(run + 100), Epoch(0), run as u64);
        }
        assert_eq!(history.branches().len(), MAX_BRANCHES);
        assert_eq!(history.judge(None, None, 0, 100), Continuity::Unknown);
    }

    proptest! {
        #[test]
        fn a_history_comes_back(forks in prop::collection::vec((any::<u128>(), 0..3_u64, 0..1000_u64), 0..40)) {
            let (mut history, mut epoch) = (History::unknown(), 0);
            for (id, more, offset) in forks {
                epoch += more;
                history.fork(HistoryId(id), Epoch(epoch), offset);
            }
            let text = history.to_string();
            prop_assert!(text.len() < super::super::MAX_LINE_BYTES / 2);
            prop_assert_eq!(History::parse(text.as_bytes()), Some(history));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(history) = History::parse(&bytes) {
                prop_assert_eq!(History::parse(history.to_string().as_bytes()), Some(history));
            }
        }
    }
}
