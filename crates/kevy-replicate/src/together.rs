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

use crate::{PartNotice, TransactionKey};
use kevy_proto::ids::ShardId;
use kevy_proto::replication::HistoryId;
use std::collections::{BTreeMap, VecDeque};

/// Looks for cuts. One for all shards of a replica.
#[derive(Debug)]
pub struct Together {
    lanes: Vec<Lane>,
    transactions: BTreeMap<TransactionKey, Transaction>,
    releases: VecDeque<Release>,
    /// The branch of the newest snapshot that was put in place.
    replaced_by: Option<HistoryId>,
}

/// Parts to let go, on several shards at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Of which shards: the generation of the notices, and the last part, for [`crate::Sink::release`].
    pub shards: Vec<(ShardId, u64, u64)>,
    /// Whose parts they are, and who takes part in these.
    pub transactions: Vec<(TransactionKey, Vec<ShardId>)>,
    /// Whether the state is consistent when it is done. If not, it is not to be shown before [`Together::is_consistent`].
    pub consistent: bool,
}

/// A shard's stream.
#[derive(Debug, Default)]
struct Lane {
    /// Parts that wait, by offset.
    waiting: VecDeque<(u64, TransactionKey)>,
    generation: u64,
    tip: Option<HistoryId>,
}

#[derive(Debug)]
struct Transaction {
    participants: Vec<ShardId>,
    /// Whose parts wait, and where.
    waiting: BTreeMap<ShardId, u64>,
    /// Whose parts were let go.
    inside: Vec<ShardId>,
}

/// How many waiting parts go, by shard.
type Cut = BTreeMap<ShardId, usize>;

impl Transaction {
    fn is_open(&self) -> bool {
        !self.inside.is_empty()
    }

    fn is_over(&self) -> bool {
        self.waiting.is_empty()
            && (self.inside.is_empty() || self.participants.iter().all(|p| self.inside.contains(p)))
    }
}

impl Together {
    /// For the streams of `shards` shards, with nothing waiting.
    pub fn new(shards: u16) -> Self {
        Self {
            lanes: (0..shards).map(|_| Lane::default()).collect(),
            transactions: BTreeMap::new(),
            releases: VecDeque::new(),
            replaced_by: None,
        }
    }

    /// A shard has received a part.
    pub fn handle_part(&mut self, shard: ShardId, notice: &PartNotice) {
        let count = self.lanes.len();
        let Some(lane) = self.lanes.get_mut(shard.index()) else {
            return;
        };
        lane.generation = notice.generation;
        lane.waiting.push_back((notice.offset, notice.key));
        let transaction = self.transaction(notice.key, &notice.participants, shard, count);
        transaction.waiting.insert(shard, notice.offset);
        self.advance();
    }

    fn transaction(
        &mut self,
        key: TransactionKey,
        participants: &[ShardId],
        shard: ShardId,
        shards: usize,
    ) -> &mut Transaction {
        self.transactions.entry(key).or_insert_with(|| {
            // A participant that is not here would be waited for in vain.
            let here = participants.iter().filter(|p| p.index() < shards);
            let mut participants: Vec<_> = here.copied().chain([shard]).collect();
            participants.sort_unstable();
            participants.dedup();
            Transaction {
                participants,
                waiting: BTreeMap::new(),
                inside: Vec::new(),
            }
        })
    }

    /// A part that waited is void.
    pub fn handle_void(&mut self, shard: ShardId, key: TransactionKey) {
        if let Some(lane) = self.lanes.get_mut(shard.index()) {
            lane.waiting.retain(|(_, waiting)| *waiting != key);
        }
        self.leave(shard, key, false);
        self.advance();
    }

    /// A shard has forgotten the parts that waited; they may come again.
    pub fn handle_forgotten(&mut self, shard: ShardId) {
        let lane = self.lanes.get_mut(shard.index());
        let waiting = lane.map(|lane| std::mem::take(&mut lane.waiting));
        for (_, key) in waiting.unwrap_or_default() {
            self.leave(shard, key, false);
        }
    }

    /// A shard's part waits no more; if `inside`, it was not let go either.
    fn leave(&mut self, shard: ShardId, key: TransactionKey, inside: bool) {
        let Some(transaction) = self.transactions.get_mut(&key) else {
            return;
        };
        transaction.waiting.remove(&shard);
        if inside {
            transaction.inside.retain(|other| *other != shard);
        }
        if transaction.is_over() {
            self.transactions.remove(&key);
        }
    }

    /// A shard's state has been read from its files or replaced by a snapshot; it contains these parts of transactions whose
    /// other parts may be missing elsewhere. `snapshot` is the branch of the snapshot, if it was one.
    pub fn handle_contained(
        &mut self,
        shard: ShardId,
        parts: &[(TransactionKey, Vec<ShardId>)],
        snapshot: Option<HistoryId>,
    ) {
        self.handle_forgotten(shard);
        let keys: Vec<_> = self.transactions.keys().copied().collect();
        keys.into_iter()
            .for_each(|key| self.leave(shard, key, true));
        let count = self.lanes.len();
        for (key, participants) in parts {
            let transaction = self.transaction(*key, participants, shard, count);
            if !transaction.inside.contains(&shard) {
                transaction.inside.push(shard);
            }
        }
        self.transactions
            .retain(|_, transaction| !transaction.is_over());
        self.replaced_by = snapshot.or(self.replaced_by);
        self.advance();
    }

    /// A shard follows a primary whose newest branch is `tip`.
    pub fn handle_attached(&mut self, shard: ShardId, tip: Option<HistoryId>) {
        if let Some(lane) = self.lanes.get_mut(shard.index()) {
            lane.tip = tip;
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

    /// A shard did not let go what it was to: it had lost it meanwhile. What the others did stands, and is not to be shown
    /// until this shard has its parts again.
    pub fn handle_refused(&mut self, shard: ShardId, release: &Release) {
        for (key, participants) in &release.transactions {
            if !participants.contains(&shard) {
                continue;
            }
            let count = self.lanes.len();
            let over = !self.transactions.contains_key(key);
            let transaction = self.transaction(*key, participants, shard, count);
            if over {
                transaction.inside.clone_from(&transaction.participants);
            }
            transaction.inside.retain(|other| *other != shard);
        }
        self.transactions
            .retain(|_, transaction| !transaction.is_over());
    }

    /// What is to be let go next. The shards do it as one transaction: all of them hold still, let go, apply, and go on.
    pub fn poll_release(&mut self) -> Option<Release> {
        self.releases.pop_front()
    }

    /// Whether what all shards have applied, all releases included, may be shown: no transaction is half in it, and after a
    /// snapshot all follow the same branch.
    pub fn is_consistent(&self) -> bool {
        let same = |lane: &Lane| self.replaced_by.is_none() || lane.tip == self.replaced_by;
        !self.transactions.values().any(Transaction::is_open) && self.lanes.iter().all(same)
    }

    /// How many parts wait on a shard.
    pub fn waiting(&self, shard: ShardId) -> usize {
        let lane = self.lanes.get(shard.index());
        lane.map_or(0, |lane| lane.waiting.len())
    }

    /// Finds cuts until there are no more.
    fn advance(&mut self) {
        while let Some(cut) = self.pulled().or_else(|| self.next_cut()) {
            self.release(&cut);
        }
    }

    /// What must follow because a part of the same transaction has gone: all that has come of it.
    fn pulled(&self) -> Option<Cut> {
        let open = self.transactions.values().filter(|t| t.is_open());
        let mut cut = Cut::new();
        for (shard, offset) in open.flat_map(|t| t.waiting.iter()) {
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
        let (mut shards, mut gone) = (Vec::new(), BTreeMap::new());
        for (shard, length) in cut {
            let Some(lane) = self.lanes.get_mut(shard.index()) else {
                continue;
            };
            let parts: Vec<_> = lane.waiting.drain(..*length).collect();
            let last = parts.last().map(|(offset, _)| *offset);
            shards.extend(last.map(|last| (*shard, lane.generation, last)));
            for (_, key) in parts {
                if let Some(transaction) = self.transactions.get_mut(&key) {
                    transaction.waiting.remove(shard);
                    transaction.inside.push(*shard);
                    gone.insert(key, transaction.participants.clone());
                }
            }
        }
        self.transactions
            .retain(|_, transaction| !transaction.is_over());
        self.releases.push_back(Release {
            shards,
            transactions: gone.into_iter().collect(),
            consistent: self.is_consistent(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::ids::TransactionId;
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
        let notice = PartNotice {
            key: key(sequence),
            offset,
            participants: shards(with),
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
        assert!(together.is_consistent() && together.transactions.is_empty());
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

    #[test]
    fn a_snapshot_that_contains_a_part_waits_for_the_other() {
        let mut together = Together::new(2);
        together.handle_attached(ShardId(0), Some(A));
        together.handle_contained(ShardId(0), &[(key(1), shards(&[0, 1]))], Some(A));
        assert!(!together.is_consistent());
        part(&mut together, 1, 7, 1, &[0, 1]);
        assert_eq!(next(&mut together), Some((vec![(1, 7)], false)));
        // Shard 1 still follows another branch.
        assert!(!together.is_consistent());
        together.handle_attached(ShardId(1), Some(A));
        assert!(together.is_consistent());
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
        assert!(together.transactions.is_empty());
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
            prop_assert!(together.is_consistent() && together.transactions.is_empty());
        }
    }
}
