//! The owner's side: who waits for which key, and serving them once it has changed.
//!
//! A *round* goes through the waiters of one key in the order of their arrival. It begins when the key has changed and
//! nobody has it locked, or when a transaction that changed it lets go: the round then takes the lock over before anybody
//! who waits for it. An offer suspends the round, with the key locked, until the entry is back.

use super::holds::{HoldId, Holds};
use super::{Offer, Registration, Served, Waiter};
use crate::lock_table::Ticket;
use crate::message::{Access, Claim, Message};
use crate::shard::Shard;
use crate::transaction::fingerprint;
use bytes::BytesMut;
use foldhash::quality::FixedState;
use hashbrown::HashMap;
use kevy_engine::Awaited;
use kevy_proto::ids::TransactionId;
use kevy_proto::resp::RequestBuffer;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The waiters for keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next_place: u64,
    /// Invariant: no queue is empty.
    queues: HashMap<Vec<u8>, Queue, FixedState>,
    /// For each wait its keys here, and its place in their queues.
    by_wait: HashMap<TransactionId, (u64, Vec<Vec<u8>>), FixedState>,
    /// Keys that have changed; only those count whose queue says so, too.
    ready: VecDeque<Vec<u8>>,
    /// Rounds to be gone on with.
    rounds: VecDeque<Round>,
    /// Rounds that wait for their entry to come back.
    offers: HashMap<TransactionId, Round, FixedState>,
    /// The locks of rounds: for each ticket the keys still to be served under it.
    held: BTreeMap<Ticket, Vec<u64>>,
    /// Replies that wait until all this is done.
    pub(crate) holds: Holds,
}

/// Who waits for one key, in the order of arrival.
#[derive(Debug, Default)]
struct Queue {
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// The key has changed since its last round began.
    ready: bool,
    /// Whose replies wait for the next round.
    causes: Vec<HoldId>,
}

/// Serving the waiters of one key.
#[derive(Debug)]
struct Round {
    key: Vec<u8>,
    /// The first place in the queue that had no turn yet.
    next_place: u64,
    /// The lock. Without one nobody else has the key locked, and the round is over before anybody can.
    ticket: Option<Ticket>,
    /// Whose replies wait for its end.
    causes: Vec<HoldId>,
}

impl Waiters {
    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_wait.is_empty()
    }

    /// A key has changed.
    pub(crate) fn note(&mut self, key: &[u8]) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.causes.extend(self.holds.join());
            if !queue.ready {
                queue.ready = true;
                self.ready.push_back(key.to_vec());
            }
        }
    }

    /// The key space was emptied: that concerns only those who want to be told if a key goes.
    pub(crate) fn note_emptied(&mut self) {
        for (key, queue) in &mut self.queues {
            let concerned = |waiter: &Arc<Waiter>| waiter.awaited == Awaited::Group;
            if !queue.ready && queue.waiters.values().any(concerned) {
                queue.causes.extend(self.holds.join());
                queue.ready = true;
                self.ready.push_back(key.clone());
            }
        }
    }

    fn add(&mut self, registration: &Registration) {
        let place = self.next_place;
        self.next_place += 1;
        let waiter = &registration.waiter;
        let keys: Vec<Vec<u8>> = registration
            .keys
            .args()
            .iter()
            .map(<[u8]>::to_vec)
            .collect();
        for key in &keys {
            let queue = self.queues.entry(key.clone()).or_default();
            queue.waiters.insert(place, Arc::clone(waiter));
        }
        self.by_wait.insert(waiter.id, (place, keys));
    }

    fn remove(&mut self, id: TransactionId) {
        let Some((place, keys)) = self.by_wait.remove(&id) else {
            return;
        };
        for key in keys {
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.waiters.remove(&place);
                if queue.waiters.is_empty()
                    && let Some(queue) = self.queues.remove(&key)
                {
                    self.holds.settle(queue.causes);
                }
            }
        }
    }

    /// The waiter whose turn it is, with its place.
    fn after(&self, round: &Round) -> Option<(u64, Arc<Waiter>)> {
        let queue = self.queues.get(&round.key)?;
        let (place, waiter) = queue.waiters.range(round.next_place..).next()?;
        Some((*place, Arc::clone(waiter)))
    }

    fn is_ready(&self, key: &[u8]) -> bool {
        self.queues.get(key).is_some_and(|queue| queue.ready)
    }

    /// If the key had changed: whose replies wait for that to be settled. Now it counts as unchanged.
    fn take_ready(&mut self, key: &[u8]) -> Option<Vec<HoldId>> {
        let queue = self.queues.get_mut(key)?;
        std::mem::take(&mut queue.ready).then(|| std::mem::take(&mut queue.causes))
    }

    /// Whose replies wait for what comes of an offer.
    pub(crate) fn causes_of_offer(&self, id: TransactionId) -> Vec<HoldId> {
        let round = self.offers.get(&id);
        round.map_or_else(Vec::new, |round| round.causes.clone())
    }

    /// Whether nothing is under way, for tests.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty()
            && self.queues.is_empty()
            && self.rounds.is_empty()
            && self.offers.is_empty()
            && self.held.is_empty()
            && self.holds.is_idle()
    }
}

impl Shard {
    /// A session waits for keys of ours.
    pub(crate) fn register_waiter(&mut self, registration: &Registration) {
        self.blocking.waiters.add(registration);
        self.renew_wish_for_changes();
    }

    /// A session waits no longer.
    pub(crate) fn remove_waiter(&mut self, id: TransactionId) {
        self.blocking.waiters.remove(id);
        self.renew_wish_for_changes();
    }

    /// Serves the waiters of keys that have changed. To be called before anybody else's request is run.
    #[inline]
    pub(crate) fn serve_waiters(&mut self) {
        if self.blocking.waiters.ready.is_empty() && self.blocking.waiters.rounds.is_empty() {
            return;
        }
        while let Some(round) = self.next_round() {
            self.go_on_with(round);
        }
    }

    fn next_round(&mut self) -> Option<Round> {
        if let Some(round) = self.blocking.waiters.rounds.pop_front() {
            return Some(round);
        }
        for _ in 0..self.blocking.waiters.ready.len() {
            let key = self.blocking.waiters.ready.pop_front()?;
            if !self.blocking.waiters.is_ready(&key) {
                continue;
            }
            if !self.locks.is_free(&exclusive(&key)) {
                // Whoever has it hands it over (`pass_on`), or it is free later.
                self.blocking.waiters.ready.push_back(key);
                continue;
            }
            let causes = self.blocking.waiters.take_ready(&key)?;
            return Some(Round {
                key,
                next_place: 0,
                ticket: None,
                causes,
            });
        }
        None
    }

    fn go_on_with(&mut self, mut round: Round) {
        while let Some((place, waiter)) = self.blocking.waiters.after(&round) {
            round.next_place = place + 1;
            if !waiter.suits(self.keyspace.held(&round.key)) {
                continue;
            }
            if self.can_be_served_here(&round.key, &waiter) {
                let causes = round.causes.clone();
                let outer = self.blocking.waiters.holds.inherit(causes);
                let began = self.clock();
                if let Some(reply) = self.run_for(&waiter, waiter.request.args()) {
                    self.log_served(waiter.slot, waiter.request.args(), began);
                    self.unblock(waiter.slot, reply, None);
                }
                self.blocking.waiters.holds.inherit(outer);
            } else if waiter.only_reads() {
                self.serve_reader(&round.key, waiter);
            } else {
                return self.offer(round, &waiter);
            }
        }
        self.end_round(round);
    }

    /// Whether the waiter is a session of ours, and all of its keys are ours and free, but for `key` which the round has.
    fn can_be_served_here(&self, key: &[u8], waiter: &Waiter) -> bool {
        let args = waiter.request.args();
        let mut keys = waiter.positions().into_iter().map(|at| args.at(at));
        waiter.home() == self.id
            && self.is_waiting(waiter)
            && keys.all(|other| {
                other == key
                    || self.map.owner_of_key(other) == self.id
                        && self.locks.is_free(&exclusive(other))
            })
    }

    /// Runs a waiter's request on our keys; `None` if it still finds nothing.
    fn run_for(&mut self, waiter: &Waiter, args: kevy_proto::resp::Args<'_>) -> Option<BytesMut> {
        let mut reply = BytesMut::new();
        self.keyspace.set_touching(!waiter.no_touch);
        // Whoever changed the key is measured without it.
        let measured = self.stopwatch.current;
        self.measure_by_name(waiter.command.name);
        self.asker = waiter.asker();
        let wait = self.run_single(waiter.command, args, waiter.version, &mut reply);
        self.stopwatch.current = measured;
        self.keyspace.set_touching(true);
        wait.is_none().then_some(reply)
    }

    fn serve_reader(&mut self, key: &[u8], waiter: Arc<Waiter>) {
        let request = waiter.request_for(key);
        if let Some(reply) = self.run_for(&waiter, request.args()) {
            self.remove_waiter(waiter.id);
            let home = waiter.home();
            self.send_reply(home, Message::Served(Box::new(Served { waiter, reply })));
        }
    }

    fn offer(&mut self, mut round: Round, waiter: &Arc<Waiter>) {
        if round.ticket.is_none() {
            let (ticket, held) = self.locks.enqueue(exclusive(&round.key));
            debug_assert!(held, "a round begins only with a key that is free");
            let keys = vec![fingerprint(&round.key)];
            self.blocking.waiters.held.insert(ticket, keys);
            round.ticket = Some(ticket);
        }
        let id = self.new_transaction_id();
        self.stats.offers += 1;
        self.blocking.waiters.holds.count_offer(&round.causes);
        let key = round.key.clone();
        let lent = self.take_out(
            waiter.asker(),
            RequestBuffer::from_slices([&key[..]]).args(),
        );
        self.blocking.waiters.offers.insert(id, round);
        let offer = Offer {
            id,
            key,
            lent,
            waiter: Arc::clone(waiter),
        };
        self.send(waiter.home(), Message::Offer(Box::new(offer)));
    }

    /// The entry of an offer is back; false if it was none.
    pub(crate) fn offer_is_back(&mut self, id: TransactionId) -> bool {
        let Some(round) = self.blocking.waiters.offers.remove(&id) else {
            return false;
        };
        self.blocking.waiters.rounds.push_front(round);
        true
    }

    fn end_round(&mut self, mut round: Round) {
        // Without a lock it begins anew like any other.
        let Some(ticket) = round.ticket else {
            return self.blocking.waiters.holds.settle(round.causes);
        };
        if let Some(causes) = self.blocking.waiters.take_ready(&round.key) {
            round.next_place = 0;
            round.causes.extend(causes);
            return self.blocking.waiters.rounds.push_back(round);
        }
        self.blocking.waiters.holds.settle(round.causes);
        let mut granted = Vec::new();
        let served = fingerprint(&round.key);
        let Some(left) = self.blocking.waiters.held.get_mut(&ticket) else {
            return;
        };
        if let Some(index) = left.iter().position(|key| *key == served) {
            left.swap_remove(index);
        }
        self.locks.narrow(ticket, left, &mut granted);
        if left.is_empty() {
            self.blocking.waiters.held.remove(&ticket);
        }
        self.run_granted(granted);
    }

    /// Lets go of a claim, except for keys that it has changed and somebody waits for: those are served under it, before
    /// anybody who waits for the claim. Appends the claims that are held from now on to `granted`.
    pub(crate) fn pass_on(&mut self, ticket: Ticket, granted: &mut Vec<Ticket>) {
        let mut ready = std::mem::take(&mut self.blocking.waiters.ready);
        let mut kept = Vec::new();
        ready.retain(|key| {
            let print = fingerprint(key);
            if !self.locks.is_exclusive(ticket, print) {
                return true;
            }
            if let Some(mut causes) = self.blocking.waiters.take_ready(key) {
                kept.push(print);
                causes.extend(self.blocking.waiters.holds.join());
                self.blocking.waiters.rounds.push_back(Round {
                    key: key.clone(),
                    next_place: 0,
                    ticket: Some(ticket),
                    causes,
                });
            }
            false
        });
        self.blocking.waiters.ready = ready;
        self.locks.narrow(ticket, &kept, granted);
        if !kept.is_empty() {
            self.blocking.waiters.held.insert(ticket, kept);
        }
    }
}

fn exclusive(key: &[u8]) -> Claim {
    Claim::Keys(vec![(fingerprint(key), Access::Exclusive)])
}
