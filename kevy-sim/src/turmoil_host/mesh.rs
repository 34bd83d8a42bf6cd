//! Messages between the shards of a simulated node: bounded queues, in order per pair of shards, each message delayed as the
//! seed says, so that what one shard does falls anywhere between two steps of another.

use super::clock::simulated_time;
use crate::marks::{Mark, Marks};
use crate::swarm::Options;
use crate::trace::{Event, Trace};
use kevy_node::message::{Lent, Lock, Message};
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::rng::Rng;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Ways to break the mesh on purpose: a check that stays silent under sabotage checks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Of the messages that wait between two shards the last comes first.
    Unordered,
    /// Messages that let locks go are lost.
    LostReleases,
    /// Replies of other shards are lost.
    LostReplies,
    /// The mesh itself grants the locks of commands that run in parts; the shards never hear of them.
    ForgedGrants,
    /// Entries that go back to their owners are lost.
    LostEntries,
}

impl Sabotage {
    /// The sabotage of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "unordered" => Some(Self::Unordered),
            "lost-releases" => Some(Self::LostReleases),
            "lost-replies" => Some(Self::LostReplies),
            "forged-grants" => Some(Self::ForgedGrants),
            "lost-entries" => Some(Self::LostEntries),
            _ => None,
        }
    }
}

/// The queues between all shards.
#[derive(Debug)]
pub(crate) struct Queues {
    shards: u16,
    capacity: usize,
    delay_max: Duration,
    sabotage: Option<Sabotage>,
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    rng: Rng,
    /// `queues[from * shards + to]`
    queues: Vec<VecDeque<Queued>>,
    /// Transactions whose coordinator asked for locks and has not let them go yet.
    open: BTreeSet<TransactionId>,
}

#[derive(Debug)]
struct Queued {
    deliver_at: Duration,
    message: Message,
}

impl Queues {
    pub(crate) fn new(options: &Options, sabotage: Option<Sabotage>, seed: u64) -> Self {
        let pairs = usize::from(options.shards) * usize::from(options.shards);
        let inner = Inner {
            rng: Rng::from_seed(seed),
            queues: (0..pairs).map(|_| VecDeque::new()).collect(),
            open: BTreeSet::new(),
        };
        Self {
            shards: options.shards,
            capacity: options.mesh_capacity,
            delay_max: options.mesh_delay_max,
            sabotage,
            inner: RefCell::new(inner),
        }
    }

    /// Queues a message.
    pub(crate) fn send(
        &self,
        from: ShardId,
        to: ShardId,
        message: Message,
        trace: &Trace,
        marks: &Marks,
    ) -> Result<(), Message> {
        let mut inner = self.inner.borrow_mut();
        let pair = self.pair(from, to);
        let now = simulated_time();
        if inner.queues[pair].len() >= self.capacity {
            let (from, to) = (from.0, to.0);
            trace.record(now, Event::Full { from, to });
            marks.meet(Mark::QueueFull);
            return Err(message);
        }
        let (from, to, mut message) = self.forge(from, to, message);
        if let (Some(Sabotage::LostEntries), Message::Restore(restored)) =
            (self.sabotage, &mut message)
        {
            restored.entries.clear();
        }
        let pair = self.pair(from, to);
        let (from, to) = (from.0, to.0);
        let kind = kind(&message);
        trace.record(now, Event::Queued { from, to, kind });
        inner.note(&message, marks);
        if self.loses(&message) {
            return Ok(());
        }
        let delay = inner.rng.below(self.delay_max.as_millis() as u64 + 1);
        let last = inner.queues[pair].back().map(|queued| queued.deliver_at);
        let deliver_at = (now + Duration::from_millis(delay)).max(last.unwrap_or_default());
        inner.queues[pair].push_back(Queued {
            deliver_at,
            message,
        });
        Ok(())
    }

    /// The next message for `to`, from any of the shards that have one ready.
    pub(crate) fn receive(&self, to: ShardId, trace: &Trace) -> Option<(ShardId, Message)> {
        let mut inner = self.inner.borrow_mut();
        let now = simulated_time();
        let ready: Vec<ShardId> = (0..self.shards)
            .map(ShardId)
            .filter(|from| {
                let front = inner.queues[self.pair(*from, to)].front();
                front.is_some_and(|queued| queued.deliver_at <= now)
            })
            .collect();
        let from = *ready.get(inner.rng.below(ready.len() as u64) as usize)?;
        let queue = &mut inner.queues[self.pair(from, to)];
        let queued = match self.sabotage {
            Some(Sabotage::Unordered) => queue.pop_back(),
            Some(
                Sabotage::LostReleases
                | Sabotage::LostReplies
                | Sabotage::ForgedGrants
                | Sabotage::LostEntries,
            )
            | None => queue.pop_front(),
        }?;
        let event = Event::Delivered {
            from: from.0,
            to: to.0,
            kind: kind(&queued.message),
        };
        trace.record(now, event);
        Some((from, queued.message))
    }

    /// When the next message for `to` is ready.
    pub(crate) fn next_delivery(&self, to: ShardId) -> Option<Duration> {
        let inner = self.inner.borrow();
        let fronts =
            (0..self.shards).filter_map(|from| inner.queues[self.pair(ShardId(from), to)].front());
        fronts.map(|queued| queued.deliver_at).min()
    }

    /// Whether `shard` coordinates a transaction that holds, or waits for, locks of other shards.
    pub(crate) fn coordinates(&self, shard: ShardId) -> bool {
        let inner = self.inner.borrow();
        inner.open.iter().any(|open| open.coordinator == shard)
    }

    fn pair(&self, from: ShardId, to: ShardId) -> usize {
        from.index() * usize::from(self.shards) + to.index()
    }

    fn forge(&self, from: ShardId, to: ShardId, message: Message) -> (ShardId, ShardId, Message) {
        if let Message::Lock(lock) = &message
            && self.forges(lock)
        {
            let granted = Message::Granted(lock.transaction, Lent::default());
            return (to, from, granted);
        }
        (from, to, message)
    }

    /// Entries that are to come with the lock cannot be forged.
    fn forges(&self, lock: &Lock) -> bool {
        self.sabotage == Some(Sabotage::ForgedGrants) && lock.take.args().is_empty()
    }

    fn loses(&self, message: &Message) -> bool {
        match self.sabotage {
            Some(Sabotage::LostReleases) => matches!(
                message,
                Message::Run(_) | Message::Restore(..) | Message::Release(_)
            ),
            Some(Sabotage::LostReplies) => matches!(message, Message::Replies(_)),
            Some(Sabotage::Unordered | Sabotage::ForgedGrants | Sabotage::LostEntries) | None => {
                false
            }
        }
    }
}

impl Inner {
    /// Keeps the book of open transactions.
    fn note(&mut self, message: &Message, marks: &Marks) {
        match message {
            Message::Lock(lock) => {
                self.open.insert(lock.transaction);
                marks.meet(if lock.wait {
                    Mark::TransactionOrdered
                } else {
                    Mark::TransactionTried
                });
            }
            Message::Refused(transaction) => {
                self.open.remove(transaction);
                marks.meet(Mark::LockContended);
            }
            Message::Run(part) => {
                self.open.remove(&part.transaction);
            }
            Message::Restore(restored) => {
                if !restored.keep_locks {
                    self.open.remove(&restored.transaction);
                }
            }
            Message::Release(transaction) | Message::Denied(transaction, _) => {
                self.open.remove(transaction);
            }
            Message::Commit(commit) => {
                self.open.remove(&commit.id);
            }
            Message::Requests(_)
            | Message::Replies(_)
            | Message::Granted(..)
            | Message::WatchHit(_)
            | Message::Ran(..)
            | Message::RunHeld(_)
            | Message::Lend(..)
            | Message::Lent(..)
            | Message::Offer(_)
            | Message::Served(_)
            | Message::WokenServed(_)
            | Message::StopWaiting(_)
            | Message::Unwatch(_)
            | Message::Notify(_)
            | Message::Invalidate(_)
            | Message::Listen(..)
            | Message::StopListening(_)
            | Message::Monitor(_)
            | Message::MonitorLeft
            | Message::Ask(..)
            | Message::Told(..)
            | Message::Slow(_)
            | Message::Settle(_)
            | Message::Durable(_)
            | Message::AwaitSettled(..)
            | Message::AllSettled(_)
            | Message::Surveyed(_)
            | Message::Opened
            | Message::Ready
            | Message::ShutDown
            | Message::Goodbye => {}
        }
    }
}

/// The kind of a message, as traces name it.
pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Requests(_) => "requests",
        Message::Replies(_) => "replies",
        Message::Lock(_) => "lock",
        Message::Granted(..) => "granted",
        Message::Refused(_) => "refused",
        Message::Denied(..) => "denied",
        Message::Run(_) => "run",
        Message::Ran(..) => "ran",
        Message::WatchHit(_) => "watch-hit",
        Message::RunHeld(_) => "run-held",
        Message::Lend(..) => "lend",
        Message::Lent(..) => "lent",
        Message::Offer(_) => "offer",
        Message::Served(_) => "served",
        Message::WokenServed(_) => "woken-served",
        Message::StopWaiting(_) => "stop-waiting",
        Message::Unwatch(_) => "unwatch",
        Message::Notify(_) => "notify",
        Message::Invalidate(_) => "invalidate",
        Message::Listen(..) => "listen",
        Message::StopListening(_) => "stop-listening",
        Message::Monitor(_) => "monitor",
        Message::MonitorLeft => "monitor-left",
        Message::Restore(..) => "restore",
        Message::Release(_) => "release",
        Message::Commit(_) => "commit",
        Message::Settle(_) => "settle",
        Message::Durable(_) => "durable",
        Message::AwaitSettled(..) => "await-settled",
        Message::AllSettled(_) => "all-settled",
        Message::Surveyed(_) => "surveyed",
        Message::Opened => "opened",
        Message::Ready => "ready",
        Message::Ask(..) => "ask",
        Message::Told(..) => "told",
        Message::Slow(_) => "slow",
        Message::ShutDown => "shut-down",
        Message::Goodbye => "goodbye",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::Workload;

    fn release(sequence: u64) -> Message {
        let coordinator = ShardId(0);
        Message::Release(TransactionId {
            coordinator,
            sequence,
        })
    }

    fn sequences(sabotage: Option<Sabotage>) -> Vec<u64> {
        let mut options = Options::from_seed(0, Some(Workload::Strings));
        options.shards = 2;
        options.mesh_capacity = 3;
        options.mesh_delay_max = Duration::ZERO;
        let queues = Queues::new(&options, sabotage, 1);
        let (trace, marks) = (Trace::new(false), Marks::default());
        for sequence in 0..4 {
            let sent = queues.send(ShardId(0), ShardId(1), release(sequence), &trace, &marks);
            assert_eq!(
                sent.is_err(),
                sequence == 3 && sabotage != Some(Sabotage::LostReleases)
            );
        }
        let mut received = Vec::new();
        while let Some((from, message)) = queues.receive(ShardId(1), &trace) {
            assert_eq!(from, ShardId(0));
            let Message::Release(transaction) = message else {
                panic!("another message came out");
            };
            received.push(transaction.sequence);
        }
        received
    }

    #[test]
    fn messages_stay_in_order_and_a_full_queue_gives_them_back() {
        assert_eq!(sequences(None), [0, 1, 2]);
    }

    #[test]
    fn sabotage_breaks_what_it_says() {
        assert_eq!(sequences(Some(Sabotage::Unordered)), [2, 1, 0]);
        assert_eq!(sequences(Some(Sabotage::LostReleases)), [] as [u64; 0]);
    }
}
