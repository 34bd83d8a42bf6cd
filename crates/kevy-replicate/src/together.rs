//! The streams of a replica's shards side by side: a transaction over several shards becomes visible at once.
//!
//! Each shard's stream is in the primary's order, but the streams are not ordered among each other: of two transactions that
//! share no key, one shard may have the first first and another the second. Waiting at the first part for its counterparts
//! would then wait for ever. So what is looked for is a *cut*: a point in each stream such that no transaction has some parts
//! before and some behind it. From one cut to the next everything goes at once.
//!
//! ```text
//! shard 0   a  T  b  U  c          T's parts have come: shard 1 must go up to T, so past U; U's have come: shard 0 up to U.
//! shard 1   d  U  e  T  f          The cut behind U and behind T is the next; a and d went long before.
//! ```
//!
//! When a shard holds as much as it may and there is no cut yet, one part is let go without the others. From then on, until
//! the others have followed, the state is not *consistent*, and is not to be shown (`-LOADING`). The same holds after a
//! snapshot of one shard and after a restart, which may have a part whose counterparts are still to come. So the memory is
//! bounded, nothing waits for ever, and nobody sees half of a transaction.

use crate::{PartNotice, Position, TransactionKey};
use kevy_proto::ids::ShardId;
use kevy_proto::replication::HistoryId;
use std::collections::{BTreeMap, VecDeque};

/// Looks for cuts. One for all shards of a replica.
#[derive(Debug)]
pub struct Together {
    lanes: Vec<Lane>,
    /// Those that wait or are half done, and those that are done and may still be named by a snapshot.
    transactions: BTreeMap<TransactionKey, Transaction>,
    releases: VecDeque<Release>,
}

/// Parts to let go, on several shards at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Of which shards: the generation of the notices, and the last part, for [`crate::Sink::release`].
    pub shards: Vec<(ShardId, u64, u64)>,
    /// Which parts these are.
    pub parts: Vec<ReleasedPart>,
    /// Whether the state is consistent when all have let go. If not, it is not to be shown before [`Together::is_consistent`].
    pub consistent: bool,
}

/// A part that is let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedPart {
    /// Whose transaction.
    pub key: TransactionKey,
    /// Who takes part in it.
    pub participants: Vec<ShardId>,
    /// Where this part is.
    pub shard: ShardId,
    /// Its offset there.
    pub offset: u64,
}

/// What a shard's state, from its files or from a snapshot, says of transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contained {
    /// By branch and coordinator: transactions below this number are durable at all participants, so their parts are here.
    pub settled_below: Vec<(HistoryId, ShardId, u64)>,
    /// The parts of others that are here, and who takes part in each.
    pub parts: Vec<(TransactionKey, Vec<ShardId>)>,
    /// What the other shards had logged at this moment or later: what is not named above is complete up to there.
    pub others: Vec<(ShardId, u64)>,
}

/// A shard's stream.
#[derive(Debug, Default)]
struct Lane {
    /// Parts that wait, by offset.
    waiting: VecDeque<(u64, TransactionKey)>,
    generation: u64,
    /// The last part that was received in this generation.
    received: u64,
    /// How far it has to come before the state can be consistent: the branch and the offset.
    awaited: Option<(Option<HistoryId>, u64)>,
    /// The newest branch of its history.
    tip: Option<HistoryId>,
    /// Parts of transactions below are here, by branch and coordinator.
    settled_below: BTreeMap<(HistoryId, ShardId), u64>,
}

#[derive(Debug)]
struct Transaction {
    participants: Vec<ShardId>,
    /// What its parts say of others of its coordinator.
    settled_below: u64,
    /// Whose parts wait, and where.
    waiting: BTreeMap<ShardId, u64>,
    /// Whose parts were let go.
    inside: Vec<ShardId>,
}

/// How many waiting parts go, by shard.
type Cut = BTreeMap<ShardId, usize>;

impl Lane {
    fn settle(&mut self, key: &TransactionKey, below: u64) {
        let of = (key.history, key.id.coordinator);
        let known = self.settled_below.entry(of).or_default();
        *known = below.max(*known);
    }

    /// Whether its part of a transaction is known to be here by what came later.
    fn is_past(&self, key: &TransactionKey) -> bool {
        let of = (key.history, key.id.coordinator);
        let below = self.settled_below.get(&of);
        below.is_some_and(|below| key.id.sequence < *below)
    }
}

impl Transaction {
    fn is_done(&self) -> bool {
        self.participants.iter().all(|p| self.inside.contains(p))
    }

    /// Whether some parts were let go and others not.
    fn is_open(&self) -> bool {
        !self.inside.is_empty() && !self.is_done()
    }

    fn enter(&mut self, shard: ShardId) {
        if self.participants.contains(&shard) && !self.inside.contains(&shard) {
            self.inside.push(shard);
        }
    }
}

impl Together {
    /// For the streams of `shards` shards, with nothing waiting.
    pub fn new(shards: u16) -> Self {
        Self {
            lanes: (0..shards).map(|_| Lane::default()).collect(),
            transactions: BTreeMap::new(),
            releases: VecDeque::new(),
        }
    }

    /// A shard has received a part.
    pub fn handle_part(&mut self, shard: ShardId, notice: &PartNotice) {
        let Some(lane) = self.lanes.get_mut(shard.index()) else {
            return;
        };
        (lane.generation, lane.received) = (notice.generation, notice.offset);
        lane.waiting.push_back((notice.offset, notice.key));
        let transaction = self.transaction(notice.key, &notice.participants, shard);
        // All its parts say the same. If not, the least is safe.
        transaction.settled_below = if transaction.waiting.is_empty() {
            notice.settled_below
        } else {
            transaction.settled_below.min(notice.settled_below)
        };
        transaction.waiting.insert(shard, notice.offset);
        self.advance();
    }

    fn transaction(
        &mut self,
        key: TransactionKey,
        participants: &[ShardId],
        shard: ShardId,
    ) -> &mut Transaction {
        let lanes = &self.lanes;
        self.transactions.entry(key).or_insert_with(|| {
            // A participant that is not here would be waited for in vain.
            let here = participants.iter().filter(|p| p.index() < lanes.len());
            let mut participants: Vec<_> = here.copied().chain([shard]).collect();
            participants.sort_unstable();
            participants.dedup();
            let past = |p: &&ShardId| **p != shard && lanes[p.index()].is_past(&key);
            Transaction {
                inside: participants.iter().filter(past).copied().collect(),
                participants,
                settled_below: 0,
                waiting: BTreeMap::new(),
            }
        })
    }

    /// A part that waited is void.
    pub fn handle_void(&mut self, shard: ShardId, key: TransactionKey) {
        if let Some(lane) = self.lanes.get_mut(shard.index()) {
            lane.waiting.retain(|(_, waiting)| *waiting != key);
        }
        if let Some(transaction) = self.transactions.get_mut(&key) {
            transaction.waiting.remove(&shard);
        }
        self.prune();
        self.advance();
    }

    /// A shard has forgotten the parts that waited; they may come again.
    pub fn handle_forgotten(&mut self, shard: ShardId) {
        let lane = self.lanes.get_mut(shard.index());
        let waiting = lane.map(|lane| std::mem::take(&mut lane.waiting));
        for (_, key) in waiting.unwrap_or_default() {
            if let Some(transaction) = self.transactions.get_mut(&key) {
                transaction.waiting.remove(&shard);
            }
        }
        self.prune();
    }

    /// A shard's state has been read from its files, or replaced by a snapshot of branch `snapshot`: this is what it contains.
    /// Its own [position](Together::handle_position) is to be told then: the snapshot may have been begun before another's.
    pub fn handle_contained(
        &mut self,
        shard: ShardId,
        contained: &Contained,
        snapshot: Option<HistoryId>,
    ) {
        self.handle_forgotten(shard);
        let Some(lane) = self.lanes.get_mut(shard.index()) else {
            return;
        };
        // What was to be let go before does not concern the new state.
        (lane.generation, lane.received) = (lane.generation + 1, u64::MAX);
        let settled = contained.settled_below.iter();
        lane.settled_below = settled.map(|(h, c, below)| ((*h, *c), *below)).collect();
        for (key, transaction) in &mut self.transactions {
            transaction.inside.retain(|other| *other != shard);
            // Of an earlier branch, a transaction either stands, and is part of the snapshot, or is void, and those that have
            // its parts will be told.
            let earlier = snapshot.is_some_and(|tip| tip != key.history);
            if earlier || lane.is_past(key) {
                transaction.enter(shard);
            }
        }
        for (key, participants) in &contained.parts {
            self.transaction(*key, participants, shard).enter(shard);
        }
        for (other, offset) in contained.others.iter().filter(|(other, _)| *other != shard) {
            if let Some(lane) = self.lanes.get_mut(other.index()) {
                let same = lane.awaited.filter(|(branch, _)| *branch == snapshot);
                let before = same.map_or(0, |(_, offset)| offset);
                lane.awaited = Some((snapshot, before.max(*offset)));
            }
        }
        self.prune();
        self.advance();
    }

    /// Whether [`Together::handle_position`] is waited for.
    pub fn awaits(&self, shard: ShardId) -> bool {
        let lane = self.lanes.get(shard.index());
        lane.is_some_and(|lane| lane.awaited.is_some())
    }

    /// What a shard has applied. To be told when its history changes, and, while it is [awaited](Together::awaits), when it has
    /// applied more.
    pub fn handle_position(&mut self, shard: ShardId, position: &Position) {
        let Some(lane) = self.lanes.get_mut(shard.index()) else {
            return;
        };
        let reached = |(branch, offset): &mut (_, u64)| has_reached(position, *branch, *offset);
        lane.awaited.take_if(reached);
        let tip = position.history.tip().map(|tip| tip.id);
        if lane.tip == tip {
            return;
        }
        lane.tip = tip;
        lane.settled_below
            .retain(|(history, _), _| Some(*history) == tip);
        if self.lanes.iter().all(|lane| lane.tip == tip) {
            // Nobody will name what is done in another branch.
            self.transactions
                .retain(|key, transaction| Some(key.history) == tip || !transaction.is_done());
        }
    }

    /// A shard holds as much as it may: its first part goes without the others.
    pub fn handle_full(&mut self, shard: ShardId) {
        let lane = self.lanes.get(shard.index());
        if lane.is_some_and(|lane| !lane.waiting.is_empty()) {
            self.release(&Cut::from([(shard, 1)]));
            self.advance();
        }
    }

    /// A shard did not let go what it was to: it had lost it meanwhile. What the others did stands. The state is not to be shown
    /// before this shard has its parts again: when it is consistent and no release is left.
    pub fn handle_refused(&mut self, shard: ShardId, release: &Release) {
        let generation = release.shards.iter().find(|(other, ..)| *other == shard);
        let (Some((_, generation, _)), Some(lane)) = (generation, self.lanes.get(shard.index()))
        else {
            return;
        };
        let again = (lane.generation > *generation).then_some(lane.received);
        let lost = release.parts.iter().filter(|part| {
            part.shard == shard && again.is_none_or(|received| received < part.offset)
        });
        for part in lost {
            let forgotten = !self.transactions.contains_key(&part.key);
            let transaction = self.transaction(part.key, &part.participants, shard);
            if forgotten {
                transaction.inside.clone_from(&transaction.participants);
            }
            transaction.inside.retain(|other| *other != shard);
        }
        self.prune();
    }

    /// What is to be let go next. The shards do it as one transaction: all of them hold still, let go, apply, and go on.
    pub fn poll_release(&mut self) -> Option<Release> {
        self.releases.pop_front()
    }

    /// Whether what all shards have applied, all releases included, may be shown: no transaction is half in it, and if one was
    /// replaced, the others have what it has.
    pub fn is_consistent(&self) -> bool {
        let awaited = self.lanes.iter().any(|lane| lane.awaited.is_some());
        !awaited && !self.transactions.values().any(Transaction::is_open)
    }

    /// How many parts wait on a shard.
    pub fn waiting(&self, shard: ShardId) -> usize {
        let lane = self.lanes.get(shard.index());
        lane.map_or(0, |lane| lane.waiting.len())
    }

    /// Forgets transactions that nobody will name again: none of whose parts is here, or that are done and settled wherever
    /// they have a part. A snapshot names only what was not settled, and knows at least as well as what was received before.
    fn prune(&mut self) {
        let lanes = &self.lanes;
        self.transactions.retain(|key, transaction| {
            let past = |p: &ShardId| lanes[p.index()].is_past(key);
            let settled = transaction.is_done() && transaction.participants.iter().all(past);
            let gone = transaction.inside.is_empty() && transaction.waiting.is_empty();
            !settled && !gone
        });
    }

    /// Finds cuts until there are no more.
    fn advance(&mut self) {
        while let Some(cut) = self.pulled().or_else(|| self.next_cut()) {
            self.release(&cut);
        }
    }

    /// What must follow because a part of the same transaction has gone: all that has come of it.
    fn pulled(&self) -> Option<Cut> {
        let begun = self.transactions.values().filter(|t| !t.inside.is_empty());
        let mut cut = Cut::new();
        for (shard, offset) in begun.flat_map(|t| t.waiting.iter()) {
            let length = cut.entry(*shard).or_default();
            *length = (*length).max(self.length_to(*shard, *offset));
        }
        (!cut.is_empty()).then_some(cut)
    }

    fn next_cut(&self) -> Option<Cut> {
        let heads = self.lanes.iter().filter_map(|lane| lane.waiting.front());
        let mut heads = heads.map(|(_, key)| *key);
        heads.find_map(|key| self.cut_behind(key))
    }

    /// The least cut that has all of a transaction before it, if everything it needs has come.
    fn cut_behind(&self, key: TransactionKey) -> Option<Cut> {
        let (mut cut, mut needed) = (Cut::new(), vec![key]);
        while let Some(key) = needed.pop() {
            let transaction = self.transactions.get(&key)?;
            for shard in &transaction.participants {
                if transaction.inside.contains(shard) {
                    continue;
                }
                let length = self.length_to(*shard, *transaction.waiting.get(shard)?);
                let before = cut.entry(*shard).or_default();
                let lane = self.lanes.get(shard.index())?;
                if *before < length {
                    needed.extend(lane.waiting.range(*before..length).map(|(_, key)| *key));
                    *before = length;
                }
            }
        }
        Some(cut)
    }

    /// How many of a shard's waiting parts go if that at `offset` is the last.
    fn length_to(&self, shard: ShardId, offset: u64) -> usize {
        let lane = self.lanes.get(shard.index());
        lane.map_or(0, |lane| {
            lane.waiting.partition_point(|(at, _)| *at <= offset)
        })
    }

    fn release(&mut self, cut: &Cut) {
        let (mut shards, mut gone) = (Vec::new(), Vec::new());
        for (shard, length) in cut {
            let Some(lane) = self.lanes.get_mut(shard.index()) else {
                continue;
            };
            let parts: Vec<_> = lane.waiting.drain(..*length).collect();
            let last = parts.last().map(|(offset, _)| *offset);
            shards.extend(last.map(|last| (*shard, lane.generation, last)));
            for (offset, key) in parts {
                if let Some(transaction) = self.transactions.get_mut(&key) {
                    lane.settle(&key, transaction.settled_below);
                    transaction.waiting.remove(shard);
                    transaction.enter(*shard);
                    gone.push(ReleasedPart {
                        key,
                        participants: transaction.participants.clone(),
                        shard: *shard,
                        offset,
                    });
                }
            }
        }
        self.prune();
        self.releases.push_back(Release {
            shards,
            parts: gone,
            consistent: self.is_consistent(),
        });
    }
}

/// Whether a state is at or behind `offset` of a branch, or behind all of the branch that counts in its history.
fn has_reached(position: &Position, branch: Option<HistoryId>, offset: u64) -> bool {
    let branches = position.history.branches();
    let Some(at) = branches.iter().position(|b| Some(b.id) == branch) else {
        // Neither side names branches.
        return branch.is_none() && position.offset >= offset;
    };
    let end = branches.get(at + 1).map_or(u64::MAX, |next| next.start);
    position.offset >= offset.min(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::ids::TransactionId;
    use kevy_proto::replication::{Epoch, History};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const A: HistoryId = HistoryId(1);

    fn key(sequence: u64) -> TransactionKey {
        let coordinator = ShardId(0);
        TransactionKey {
            history: A,
            id: TransactionId {
                coordinator,
                sequence,
            },
        }
    }

    fn shards(of: &[u16]) -> Vec<ShardId> {
        of.iter().map(|shard| ShardId(*shard)).collect()
    }

    fn part(together: &mut Together, shard: u16, offset: u64, sequence: u64, with: &[u16]) {
        // What is logged may be as far from its order as in `streams`.
        settling_part(
            together,
            shard,
            offset,
            sequence,
            sequence.saturating_sub(3),
            with,
        );
    }

    fn settling_part(
        together: &mut Together,
        shard: u16,
        offset: u64,
        sequence: u64,
        settled_below: u64,
        with: &[u16],
    ) {
        let notice = PartNotice {
            key: key(sequence),
            offset,
            participants: shards(with),
            settled_below,
            generation: 1,
        };
        together.handle_part(ShardId(shard), &notice);
    }

    /// The next release as (shard, last part), and whether it is consistent.
    fn next(together: &mut Together) -> Option<(Vec<(u16, u64)>, bool)> {
        let release = together.poll_release()?;
        let shards = release.shards.iter().map(|(shard, _, at)| (shard.0, *at));
        Some((shards.collect(), release.consistent))
    }

    #[test]
    fn a_transaction_goes_when_all_its_parts_are_there() {
        let mut together = Together::new(3);
        part(&mut together, 0, 5, 1, &[0, 2]);
        assert_eq!(next(&mut together), None);
        part(&mut together, 2, 9, 1, &[0, 2]);
        assert_eq!(next(&mut together), Some((vec![(0, 5), (2, 9)], true)));
        assert_eq!(next(&mut together), None);
        assert!(together.is_consistent());
    }

    #[test]
    fn two_transactions_in_different_orders_go_together() {
        let mut together = Together::new(2);
        part(&mut together, 0, 1, 1, &[0, 1]);
        part(&mut together, 1, 1, 2, &[0, 1]);
        part(&mut together, 0, 2, 2, &[0, 1]);
        assert_eq!(next(&mut together), None);
        part(&mut together, 1, 2, 1, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(0, 2), (1, 2)], true)));
    }

    #[test]
    fn what_is_full_goes_and_is_not_shown_until_the_rest_has_followed() {
        let mut together = Together::new(2);
        part(&mut together, 0, 1, 1, &[0, 1]);
        part(&mut together, 1, 1, 2, &[0, 1]);
        together.handle_full(ShardId(0));
        assert_eq!(next(&mut together), Some((vec![(0, 1)], false)));
        part(&mut together, 1, 2, 1, &[0, 1]);
        // It pulls what stands before it.
        assert_eq!(next(&mut together), Some((vec![(1, 2)], false)));
        assert!(!together.is_consistent());
        part(&mut together, 0, 2, 2, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(0, 2)], true)));
        assert!(together.is_consistent());
    }

    fn contained(parts: &[(u64, &[u16])], below: u64) -> Contained {
        let parts = parts
            .iter()
            .map(|(sequence, with)| (key(*sequence), shards(with)));
        Contained {
            settled_below: vec![(A, ShardId(0), below)],
            parts: parts.collect(),
            others: vec![(ShardId(0), 3), (ShardId(1), 3)],
        }
    }

    fn at(offset: u64, branch: HistoryId) -> Position {
        let mut history = History::begin(A, Epoch(1), 0);
        if branch != A {
            history.fork(branch, Epoch(2), 2);
        }
        Position { history, offset }
    }

    #[test]
    fn a_snapshot_that_contains_a_part_waits_for_the_other() {
        let mut together = Together::new(2);
        together.handle_contained(ShardId(0), &contained(&[(1, &[0, 1])], 0), Some(A));
        assert!(!together.is_consistent());
        part(&mut together, 1, 7, 1, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(1, 7)], false)));
        // Shard 0 may have more that is settled, and that shard 1 has not received.
        assert!(!together.is_consistent() && together.awaits(ShardId(1)));
        together.handle_position(ShardId(1), &at(2, A));
        assert!(!together.is_consistent());
        together.handle_position(ShardId(1), &at(3, A));
        assert!(together.is_consistent());
        // In a later branch, less of it may be left.
        together.handle_contained(ShardId(0), &contained(&[], 2), Some(A));
        together.handle_position(ShardId(1), &at(1, HistoryId(2)));
        assert!(!together.is_consistent());
        together.handle_position(ShardId(1), &at(2, HistoryId(2)));
        assert!(together.is_consistent());
    }

    #[test]
    fn a_snapshot_may_name_what_is_done_and_keep_silent_about_what_is_settled() {
        let mut together = Together::new(2);
        for sequence in 1..=2 {
            settling_part(&mut together, 0, sequence, sequence, sequence, &[0, 1]);
            settling_part(&mut together, 1, sequence, sequence, sequence, &[0, 1]);
        }
        // Transaction 1 is settled, as the parts of 2 say; 2 is done here, and the primary does not know that yet.
        together.handle_contained(ShardId(0), &contained(&[(2, &[0, 1])], 2), Some(A));
        together.handle_position(ShardId(1), &at(3, A));
        assert!(together.is_consistent());
        // Now it knows.
        together.handle_contained(ShardId(1), &contained(&[], 3), Some(A));
        together.handle_position(ShardId(0), &at(3, A));
        assert!(together.is_consistent());
    }

    #[test]
    fn after_a_restart_halves_are_found_whatever_the_files_still_name() {
        let mut together = Together::new(2);
        // 1 and 2 are on both; 3 is on shard 0 alone.
        let others = Vec::new();
        let first = contained(&[(1, &[0, 1]), (2, &[0, 1]), (3, &[0, 1])], 0);
        let second = contained(&[(1, &[0, 1]), (2, &[0, 1])], 0);
        let (first, second) = (
            Contained {
                others: others.clone(),
                ..first
            },
            Contained { others, ..second },
        );
        together.handle_contained(ShardId(0), &first, None);
        together.handle_contained(ShardId(1), &second, None);
        assert!(!together.is_consistent());
        part(&mut together, 1, 9, 3, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(1, 9)], true)));
    }

    #[test]
    fn what_is_done_is_not_remembered_for_ever() {
        let mut together = Together::new(3);
        for sequence in 0..10_000 {
            let with: &[u16] = if sequence % 2 == 0 { &[0, 1] } else { &[0, 2] };
            for shard in with {
                settling_part(
                    &mut together,
                    *shard,
                    sequence + 1,
                    sequence,
                    sequence,
                    with,
                );
            }
            while next(&mut together).is_some() {}
            assert!(together.transactions.len() <= 3);
        }
    }

    #[test]
    fn forgotten_and_void_parts_are_not_waited_for() {
        let mut together = Together::new(2);
        part(&mut together, 0, 1, 1, &[0, 1]);
        together.handle_forgotten(ShardId(0));
        part(&mut together, 1, 1, 1, &[0, 1]);
        assert_eq!(next(&mut together), None);
        part(&mut together, 0, 1, 1, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(0, 1), (1, 1)], true)));
        part(&mut together, 0, 2, 2, &[0, 1]);
        part(&mut together, 0, 3, 3, &[0, 1]);
        part(&mut together, 1, 3, 3, &[0, 1]);
        assert_eq!(next(&mut together), None);
        together.handle_void(ShardId(0), key(2));
        assert_eq!(next(&mut together), Some((vec![(0, 3), (1, 3)], true)));
    }

    #[test]
    fn a_refused_release_is_made_good_when_the_part_comes_again() {
        let mut together = Together::new(2);
        part(&mut together, 0, 1, 1, &[0, 1]);
        part(&mut together, 1, 1, 1, &[0, 1]);
        let release = together.poll_release().expect("complete");
        together.handle_refused(ShardId(1), &release);
        assert!(!together.is_consistent());
        part(&mut together, 1, 1, 1, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(1, 1)], true)));
    }

    /// Transactions as the shards of a primary may log them: each shard in an order of its own.
    fn streams() -> impl Strategy<Value = Vec<Vec<(u64, Vec<u16>)>>> {
        let participants = prop::collection::btree_set(0..3_u16, 2..=3);
        let transactions = prop::collection::vec((participants, any::<[u8; 3]>()), 1..30);
        transactions.prop_map(|transactions| {
            let mut streams = vec![Vec::new(); 3];
            for (sequence, (with, order)) in transactions.iter().enumerate() {
                for shard in with {
                    let at = 3 * sequence + usize::from(order[usize::from(*shard)] % 9);
                    let with: Vec<_> = with.iter().copied().collect();
                    streams[usize::from(*shard)].push((at, sequence as u64, with));
                }
            }
            let sort = |mut stream: Vec<(usize, u64, Vec<u16>)>| {
                stream.sort_by_key(|(at, ..)| *at);
                stream
                    .into_iter()
                    .map(|(_, sequence, with)| (sequence, with))
                    .collect()
            };
            streams.into_iter().map(sort).collect()
        })
    }

    proptest! {
        /// Whatever the orders and however the parts arrive, each release keeps transactions whole, and in the end all went.
        #[test]
        fn every_release_is_whole_and_nothing_is_left(streams in streams(), arrivals in prop::collection::vec(0..3_usize, 100)) {
            let mut together = Together::new(3);
            let mut sent = [0; 3];
            let mut visible: [usize; 3] = [0; 3];
            let everything = arrivals.into_iter().chain([0, 1, 2].into_iter().cycle().take(300));
            for shard in everything {
                let Some((sequence, with)) = streams[shard].get(sent[shard]) else { continue };
                sent[shard] += 1;
                part(&mut together, shard as u16, sent[shard] as u64, *sequence, with);
                while let Some((cut, consistent)) = next(&mut together) {
                    prop_assert!(consistent);
                    cut.iter().for_each(|(shard, at)| visible[usize::from(*shard)] = *at as usize);
                    let seen: Vec<BTreeSet<u64>> = (0..3)
                        .map(|shard| streams[shard][..visible[shard]].iter().map(|(s, _)| *s).collect())
                        .collect();
                    for (shard, stream) in streams.iter().enumerate() {
                        for (sequence, with) in &stream[..visible[shard]] {
                            let whole = with.iter().all(|other| seen[usize::from(*other)].contains(sequence));
                            prop_assert!(whole, "half of {sequence} is visible");
                        }
                    }
                }
            }
            prop_assert_eq!(visible.to_vec(), streams.iter().map(Vec::len).collect::<Vec<_>>());
            prop_assert!(together.is_consistent());
        }
    }
}
