//! What the control plane asks of every shard, and what they answer.

use crate::host::Slot;
use crate::shard::Shard;
use crate::stats::Summary;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::resp::Encoder;

use crate::message::Message;

/// A question to a shard.
#[derive(Clone, Debug)]
pub enum Query {
    /// Its counters (`INFO`).
    Summary,
}

/// A shard's answer.
#[derive(Debug)]
pub enum Answer {
    /// Its counters.
    Summary(Box<Summary>),
}

/// Makes the reply of the answers of all shards, in the order of their numbers. Gets the slot of the session that asked.
pub struct Finish(Box<dyn FnOnce(&mut Shard, Slot, Vec<Answer>, &mut Encoder<'_>)>);

impl Finish {
    /// Wraps the function.
    pub fn new(
        finish: impl FnOnce(&mut Shard, Slot, Vec<Answer>, &mut Encoder<'_>) + 'static,
    ) -> Self {
        Self(Box::new(finish))
    }

    /// Calls the function.
    pub fn call(
        self,
        shard: &mut Shard,
        slot: Slot,
        answers: Vec<Answer>,
        reply: &mut Encoder<'_>,
    ) {
        (self.0)(shard, slot, answers, reply);
    }
}

impl std::fmt::Debug for Finish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Finish")
    }
}

impl Shard {
    /// Answers a question about this shard.
    pub(crate) fn answer(&mut self, from: ShardId, id: TransactionId, query: Query) {
        let answer = match query {
            Query::Summary => Answer::Summary(Box::new(self.summary())),
        };
        self.send(from, Message::Told(id, Box::new(answer)));
    }
}
