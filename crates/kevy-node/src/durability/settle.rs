//! A coordinator's side: which of its transactions are durable at all of their participants.

use crate::host::Slot;
use crate::message::Message;
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use std::sync::Arc;

/// The end of a transaction, for one participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction.
    pub id: TransactionId,
    /// When it took place.
    pub epoch: u64,
    /// Transactions of the same coordinator before this number are durable at all of their participants.
    pub settled_below: u64,
    /// The shards that log a part, if there are several.
    pub participants: Arc<[ShardId]>,
    /// Whether the coordinator wants to know when it is durable.
    pub acknowledge: bool,
    /// Whether its locks stay until it is durable everywhere, so that nobody sees what a crash could still undo.
    pub is_isolated: bool,
}

impl Commit {
    /// Of a transaction that concerns `shard` alone.
    pub(crate) fn alone(id: TransactionId, shard: ShardId) -> Self {
        Self {
            id,
            epoch: 0,
            settled_below: 0,
            participants: Arc::new([shard]),
            acknowledge: false,
            is_isolated: false,
        }
    }
}

/// A transaction that is not durable everywhere.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// How many shards have not said that it is.
    left: usize,
    /// What its session gets then.
    reply: Option<LateReply>,
    /// Who holds locks for it until then.
    holders: Option<Arc<[ShardId]>>,
}

/// A shard that wants to know when every transaction of ours so far is durable everywhere.
#[derive(Debug)]
pub(crate) struct SettleWaiter {
    /// Transactions before this number.
    below: u64,
    shard: ShardId,
    /// What it is told then.
    news: Message,
}

#[derive(Debug)]
struct LateReply {
    slot: Slot,
    connection: ConnectionId,
    number: u64,
    reply: BytesMut,
}

impl Shard {
    /// Whether replies wait until what they tell is durable.
    fn waits_for_disk(&self) -> bool {
        let durability = self.durability.as_ref();
        durability.is_some_and(|durability| durability.is_gated)
    }

    /// What `writers` are to be told at the end of the transaction `id`, which changed something on each of them.
    pub(crate) fn commit_of(&mut self, id: TransactionId, writers: Vec<ShardId>) -> Option<Commit> {
        if self.durability.is_none() || writers.is_empty() {
            return None;
        }
        let waits = self.waits_for_disk();
        let acknowledge = writers.len() > 1 || waits;
        let is_isolated = writers.len() > 1 && waits;
        let participants: Arc<[ShardId]> = writers.into();
        if acknowledge {
            let settling = self.settling.entry(id.sequence).or_default();
            settling.left += participants.len();
            settling.holders = is_isolated.then(|| Arc::clone(&participants));
        }
        Some(Commit {
            id,
            epoch: self.epoch,
            settled_below: self.settled_below(),
            participants,
            acknowledge,
            is_isolated,
        })
    }

    /// If replies wait for the disk, that of transaction `id` waits for what it has read on `readers`, too.
    pub(crate) fn settle_readers(
        &mut self,
        id: TransactionId,
        readers: impl Iterator<Item = ShardId>,
    ) {
        if !self.waits_for_disk() {
            return;
        }
        for reader in readers {
            self.settling.entry(id.sequence).or_default().left += 1;
            self.send(reader, Message::Settle(id));
        }
    }

    /// Every transaction of ours before this number is durable wherever it changed something.
    fn settled_below(&self) -> u64 {
        let mut transactions = self.transactions.iter();
        let under_way = transactions.find(|(_, transaction)| transaction.may_change());
        let under_way = under_way.map(|(sequence, _)| sequence);
        let settling = self.settling.keys().next();
        let earliest = under_way.into_iter().chain(settling).min();
        earliest.copied().unwrap_or(self.next_transaction)
    }

    /// Completes a reply of a transaction, at once or when it is durable.
    pub(crate) fn complete_when_settled(
        &mut self,
        session: &mut Session,
        number: u64,
        reply: BytesMut,
        transaction: Option<TransactionId>,
    ) {
        let waits = self.waits_for_disk();
        let settling = transaction.and_then(|id| self.settling.get_mut(&id.sequence));
        match settling {
            Some(settling) if waits => {
                settling.reply = Some(LateReply {
                    slot: session.slot,
                    connection: session.id,
                    number,
                    reply,
                });
            }
            Some(_) | None => session.replies.complete(number, reply),
        }
    }

    /// A participant has made transactions of ours durable.
    pub(crate) fn note_durable(&mut self, sequences: &[u64]) {
        for sequence in sequences {
            let Some(settling) = self.settling.get_mut(sequence) else {
                continue;
            };
            settling.left = settling.left.saturating_sub(1);
            if settling.left > 0 {
                continue;
            }
            if let Some(settled) = self.settling.remove(sequence) {
                self.end_settling(*sequence, settled);
            }
        }
        self.tell_settle_waiters();
    }

    /// A transaction is durable everywhere.
    fn end_settling(&mut self, sequence: u64, settled: Settling) {
        let id = TransactionId {
            coordinator: self.id,
            sequence,
        };
        for holder in settled.holders.iter().flat_map(|holders| holders.iter()) {
            self.send(*holder, Message::Release(id));
        }
        if let Some(late) = settled.reply
            && let Some(session) = self.session_mut(late.slot)
            && session.id == late.connection
        {
            session.replies.complete(late.number, late.reply);
            self.announce_output(late.slot);
            self.put_held_question(late.slot);
        }
    }

    /// A shard wants to know when every transaction of ours that it may have logged is durable everywhere.
    ///
    /// From now on our epoch is later than the snapshot's: no transaction that could still be torn is as early as anything
    /// that the snapshot holds.
    pub(crate) fn await_settled(&mut self, from: ShardId, snapshot: u64, epoch: u64) {
        self.note_epoch(epoch + 1);
        if let Some(durability) = &mut self.durability {
            durability.journal.request_sync();
        }
        self.tell_once_settled(from, Message::AllSettled(snapshot));
    }

    /// Tells `shard` the `news` once every transaction of ours so far is durable everywhere.
    pub(crate) fn tell_once_settled(&mut self, shard: ShardId, news: Message) {
        self.settle_waiters.push(SettleWaiter {
            below: self.next_transaction,
            shard,
            news,
        });
        self.tell_settle_waiters();
    }

    fn tell_settle_waiters(&mut self) {
        let earliest = self.settling.keys().next().copied();
        let is_over = |waiter: &SettleWaiter| earliest.is_none_or(|first| first >= waiter.below);
        let (over, left) = std::mem::take(&mut self.settle_waiters)
            .into_iter()
            .partition(is_over);
        self.settle_waiters = left;
        let over: Vec<SettleWaiter> = over;
        for waiter in over {
            self.send(waiter.shard, waiter.news);
        }
    }
}
