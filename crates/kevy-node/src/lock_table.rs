//! Locks of one shard: who may touch which key while transactions over several shards are under way.
//!
//! A claim names keys (by fingerprint) or the whole shard, shared or exclusive. Claims are queued in the order of their
//! arrival; a claim is *held* once no earlier claim, held or waiting, is in conflict with it. Hence no claim starves, and on
//! one shard claims never wait in a circle. That they do not over several shards either is shown in decision record 0004.
//!
//! As long as no transaction is under way the table is empty and [`LockTable::is_empty`] is all that a request pays.

use crate::message::{Access, Claim};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};

/// The place of a claim in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The locks of one shard.
#[derive(Debug, Default)]
pub struct LockTable {
    next: u64,
    /// Every claim, held or waiting, in the order of arrival.
    claims: BTreeMap<Ticket, Queued>,
    /// For each key the tickets that name it, in the order of arrival. Invariant: no queue is empty.
    queues: HashMap<u64, VecDeque<(Ticket, Access)>, foldhash::quality::FixedState>,
    /// The tickets that claim the whole shard, in the order of arrival.
    whole: VecDeque<(Ticket, Access)>,
}

#[derive(Debug)]
struct Queued {
    claim: Claim,
    held: bool,
}

impl LockTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no claim at all.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Number of claims, held and waiting.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether `claim` would be held at once.
    pub fn is_free(&self, claim: &Claim) -> bool {
        self.is_empty() || !self.conflicts_before(Ticket(u64::MAX), claim)
    }

    /// Queues `claim`; the flag tells whether it is held at once.
    pub fn enqueue(&mut self, claim: Claim) -> (Ticket, bool) {
        let ticket = Ticket(self.next);
        self.next += 1;
        let held = !self.conflicts_before(ticket, &claim);
        match &claim {
            Claim::Keys(keys) => {
                for &(key, access) in keys {
                    self.queues
                        .entry(key)
                        .or_default()
                        .push_back((ticket, access));
                }
            }
            Claim::Whole(access) => self.whole.push_back((ticket, *access)),
        }
        self.claims.insert(ticket, Queued { claim, held });
        (ticket, held)
    }

    /// Removes a claim and appends to `granted` the claims that are held from now on, in the order of arrival.
    pub fn release(&mut self, ticket: Ticket, granted: &mut Vec<Ticket>) {
        self.narrow(ticket, &[], granted);
    }

    /// Lets go of all of a held claim but `kept`, keys that it has exclusively; otherwise as [`LockTable::release`].
    pub fn narrow(&mut self, ticket: Ticket, kept: &[u64], granted: &mut Vec<Ticket>) {
        let Some(released) = self.claims.remove(&ticket) else {
            return;
        };
        let mut candidates = Vec::new();
        match &released.claim {
            Claim::Keys(keys) => {
                for (key, _) in keys.iter().filter(|(key, _)| !kept.contains(key)) {
                    self.leave_queue(*key, ticket, &mut candidates);
                }
                candidates.extend(self.whole.iter().map(|(waiting, _)| *waiting));
            }
            Claim::Whole(_) => {
                self.whole.retain(|(other, _)| *other != ticket);
                candidates.extend(self.claims.range(ticket..).map(|(waiting, _)| *waiting));
                for &key in kept {
                    self.enter_queue(key, ticket);
                }
            }
        }
        if !kept.is_empty() {
            let keys = kept.iter().map(|key| (*key, Access::Exclusive));
            let claim = Claim::Keys(keys.collect());
            self.claims.insert(ticket, Queued { claim, held: true });
        }
        candidates.sort_unstable();
        candidates.dedup();
        for candidate in candidates {
            self.grant_if_free(candidate, granted);
        }
    }

    /// Whether `ticket` holds `key` to itself.
    pub fn is_exclusive(&self, ticket: Ticket, key: u64) -> bool {
        self.claims
            .get(&ticket)
            .is_some_and(|queued| match &queued.claim {
                Claim::Keys(keys) => queued.held && keys.contains(&(key, Access::Exclusive)),
                Claim::Whole(access) => queued.held && *access == Access::Exclusive,
            })
    }

    /// Puts a claim that had the whole shard in its place among those on one key.
    fn enter_queue(&mut self, key: u64, ticket: Ticket) {
        let queue = self.queues.entry(key).or_default();
        let place = queue.partition_point(|(other, _)| *other < ticket);
        queue.insert(place, (ticket, Access::Exclusive));
    }

    fn leave_queue(&mut self, key: u64, ticket: Ticket, candidates: &mut Vec<Ticket>) {
        let Some(queue) = self.queues.get_mut(&key) else {
            return;
        };
        queue.retain(|(other, _)| *other != ticket);
        if queue.is_empty() {
            self.queues.remove(&key);
            return;
        }
        // Only the front can have become free: its run of readers, or one writer.
        for (position, &(waiting, access)) in queue.iter().enumerate() {
            if access == Access::Exclusive && position > 0 {
                break;
            }
            candidates.push(waiting);
        }
    }

    fn grant_if_free(&mut self, ticket: Ticket, granted: &mut Vec<Ticket>) {
        let Some(queued) = self.claims.get(&ticket) else {
            return;
        };
        if queued.held || self.conflicts_before(ticket, &queued.claim) {
            return;
        }
        if let Some(queued) = self.claims.get_mut(&ticket) {
            queued.held = true;
            granted.push(ticket);
        }
    }

    /// Whether a claim that arrived before `ticket` is in conflict with `claim`.
    fn conflicts_before(&self, ticket: Ticket, claim: &Claim) -> bool {
        let blocks =
            |other: Access, own: Access| other == Access::Exclusive || own == Access::Exclusive;
        match claim {
            Claim::Keys(keys) => keys.iter().any(|(key, own)| {
                let mut all = self
                    .queues
                    .get(key)
                    .into_iter()
                    .flatten()
                    .chain(&self.whole);
                all.any(|&(other, access)| other < ticket && blocks(access, *own))
            }),
            Claim::Whole(own) => self
                .claims
                .range(..ticket)
                .any(|(_, other)| match &other.claim {
                    Claim::Keys(keys) => keys.iter().any(|&(_, access)| blocks(access, *own)),
                    Claim::Whole(access) => blocks(*access, *own),
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::rng::Rng;

    fn keys(names: &[u64], access: Access) -> Claim {
        Claim::Keys(names.iter().map(|&name| (name, access)).collect())
    }

    fn release(table: &mut LockTable, ticket: Ticket) -> Vec<Ticket> {
        let mut granted = Vec::new();
        table.release(ticket, &mut granted);
        granted
    }

    #[test]
    fn writers_wait_for_each_other_in_order_of_arrival() {
        let mut table = LockTable::new();
        let (first, held) = table.enqueue(keys(&[1, 2], Access::Exclusive));
        assert!(held);
        let (second, held) = table.enqueue(keys(&[2, 3], Access::Exclusive));
        assert!(!held);
        let (third, held) = table.enqueue(keys(&[3], Access::Exclusive));
        assert!(
            !held,
            "3 is not held yet, but an earlier claim waits for it"
        );
        assert!(table.is_free(&keys(&[4], Access::Exclusive)));
        assert_eq!(release(&mut table, first), [second]);
        assert_eq!(release(&mut table, second), [third]);
        assert_eq!(release(&mut table, third), []);
        assert!(table.is_empty());
    }

    #[test]
    fn readers_go_together_and_do_not_overtake_a_waiting_writer() {
        let mut table = LockTable::new();
        let (r1, held1) = table.enqueue(keys(&[1], Access::Shared));
        let (r2, held2) = table.enqueue(keys(&[1], Access::Shared));
        assert!(held1 && held2);
        let (w, held) = table.enqueue(keys(&[1], Access::Exclusive));
        assert!(!held);
        let (r3, held) = table.enqueue(keys(&[1], Access::Shared));
        assert!(!held);
        let (r4, held) = table.enqueue(keys(&[1], Access::Shared));
        assert!(!held);
        assert_eq!(release(&mut table, r1), []);
        assert_eq!(release(&mut table, r2), [w]);
        assert_eq!(release(&mut table, w), [r3, r4]);
    }

    #[test]
    fn the_whole_shard_waits_for_all_and_holds_up_all() {
        let mut table = LockTable::new();
        let (one, _) = table.enqueue(keys(&[1], Access::Exclusive));
        let (whole, held) = table.enqueue(Claim::Whole(Access::Shared));
        assert!(!held);
        let (reader, held) = table.enqueue(keys(&[9], Access::Shared));
        assert!(held, "two readers do not hinder each other");
        let (writer, held) = table.enqueue(keys(&[9], Access::Exclusive));
        assert!(!held);
        assert_eq!(release(&mut table, one), [whole]);
        assert_eq!(release(&mut table, whole), []);
        assert_eq!(release(&mut table, reader), [writer]);
    }

    #[test]
    fn a_claim_that_is_narrowed_keeps_its_place() {
        for whole in [false, true] {
            let mut table = LockTable::new();
            let claim = if whole {
                Claim::Whole(Access::Exclusive)
            } else {
                keys(&[1, 2, 3], Access::Exclusive)
            };
            let (first, _) = table.enqueue(claim);
            let (one, _) = table.enqueue(keys(&[1], Access::Exclusive));
            let (two, _) = table.enqueue(keys(&[2], Access::Shared));
            assert!(table.is_exclusive(first, 2) && !table.is_exclusive(two, 2));
            let mut granted = Vec::new();
            table.narrow(first, &[2], &mut granted);
            assert_eq!(granted, [one]);
            assert!(table.is_exclusive(first, 2) && !table.is_exclusive(first, 1));
            assert!(!table.is_free(&keys(&[2], Access::Shared)));
            assert_eq!(release(&mut table, one), []);
            assert_eq!(release(&mut table, first), [two]);
            assert_eq!(release(&mut table, two), []);
            assert!(table.is_empty() && table.queues.is_empty());
        }
    }

    /// Random claims: conflicting ones are never held together, and releasing what is held frees everything in the end.
    #[test]
    fn held_claims_never_conflict_and_everything_is_granted_in_the_end() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let mut table = LockTable::new();
            let mut held = BTreeMap::new();
            let mut waiting = BTreeMap::new();
            for _ in 0..200 {
                if rng.below(2) == 0 {
                    let claim = random_claim(&mut rng);
                    let (ticket, now) = table.enqueue(claim.clone());
                    if now { &mut held } else { &mut waiting }.insert(ticket, claim);
                } else if let Some(&ticket) = held.keys().next() {
                    held.remove(&ticket);
                    for granted in release(&mut table, ticket) {
                        let claim = waiting.remove(&granted).expect("it waited");
                        held.insert(granted, claim);
                    }
                }
                let all: Vec<&Claim> = held.values().collect();
                for (i, a) in all.iter().enumerate() {
                    assert!(
                        all[i + 1..].iter().all(|b| !conflict(a, b)),
                        "seed {seed}: {a:?} and another"
                    );
                }
            }
            while let Some((&ticket, _)) = held.iter().next() {
                held.remove(&ticket);
                for granted in release(&mut table, ticket) {
                    held.insert(granted, waiting.remove(&granted).expect("it waited"));
                }
            }
            assert!(waiting.is_empty() && table.is_empty(), "seed {seed}");
        }
    }

    fn random_claim(rng: &mut Rng) -> Claim {
        let access = |rng: &mut Rng| {
            if rng.below(2) == 0 {
                Access::Shared
            } else {
                Access::Exclusive
            }
        };
        if rng.below(10) == 0 {
            return Claim::Whole(access(rng));
        }
        let mut names: Vec<u64> = (0..=rng.below(3)).map(|_| rng.below(6)).collect();
        names.sort_unstable();
        names.dedup();
        Claim::Keys(names.into_iter().map(|name| (name, access(rng))).collect())
    }

    fn conflict(a: &Claim, b: &Claim) -> bool {
        let exclusive = |x: Access, y: Access| x == Access::Exclusive || y == Access::Exclusive;
        match (a, b) {
            (Claim::Whole(x), Claim::Whole(y)) => exclusive(*x, *y),
            (Claim::Whole(x), Claim::Keys(keys)) | (Claim::Keys(keys), Claim::Whole(x)) => {
                keys.iter().any(|&(_, y)| exclusive(*x, y))
            }
            (Claim::Keys(xs), Claim::Keys(ys)) => xs
                .iter()
                .any(|(k, x)| ys.iter().any(|(l, y)| k == l && exclusive(*x, *y))),
        }
    }
}
