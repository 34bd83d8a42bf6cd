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
    /// Transactions of the same coordinator before this number are durable at all of their participants.
    pub settled_below: u64,
    /// The shards that log a part, if there are several.
    pub participants: Arc<[ShardId]>,
    /// Whether the coordinator wants to know when it is durable.
    pub acknowledge: bool,
}

impl Commit {
    /// Of a transaction that concerns `shard` alone.
    pub(crate) fn alone(id: TransactionId, shard: ShardId) -> Self {
        Self {
            id,
            settled_below: 0,
            participants: Arc::new([shard]),
            acknowledge: false,
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
        let acknowledge = writers.len() > 1 || self.waits_for_disk();
        if acknowledge {
            self.settling.entry(id.sequence).or_default().left += writers.len();
        }
        Some(Commit {
            id,
            settled_below: self.settled_below(),
            participants: writers.into(),
            acknowledge,
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
        let under_way = self.transactions.keys().next();
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
            let settled = self.settling.remove(sequence);
            if let Some(late) = settled.and_then(|settled| settled.reply)
                && let Some(session) = self.session_mut(late.slot)
                && session.id == late.connection
            {
                session.replies.complete(late.number, late.reply);
                self.announce_output(late.slot);
                self.put_held_question(late.slot);
            }
        }
    }
}
