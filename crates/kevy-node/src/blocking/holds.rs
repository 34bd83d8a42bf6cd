//! Replies that wait until everybody whom their request woke was served.
//!
//! In Redis a client that waits is served in the same breath as the command that wrote to its key: whoever has the reply of a
//! push finds the element moved on, and nobody blocked any more. Where the waiting session is on another shard that takes an
//! offer there and back, so the reply of the push is *held* meanwhile.
//!
//! A hold counts keys that have changed and whose waiters had no turn yet. It begins with the first such key that the request
//! at work notes, is inherited by what serving changes in its turn (a circle of `BLMOVE`s), and is over when none is left, or
//! after [`OFFERS_PER_HOLD`] offers. An offer ends by itself, so a hold does, too: no reply waits for another request.

use crate::message::{Batch, Message};
use crate::session::Session;
use crate::shard::Shard;
use crate::transaction::Caller;
use bytes::BytesMut;
use kevy_proto::ids::{ShardId, TransactionId};
use std::collections::{BTreeMap, VecDeque};

/// How many offers a reply waits for at most; then it is sent though there may be more.
pub const OFFERS_PER_HOLD: usize = 1024;

/// Names a hold of this shard.
pub(crate) type HoldId = u64;

/// The holds of one shard.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    next: HoldId,
    /// What the request at work changes counts for these.
    current: Vec<HoldId>,
    open: BTreeMap<HoldId, Hold>,
    /// What is held no longer, to be sent.
    settled: VecDeque<(ShardId, Message)>,
}

#[derive(Debug, Default)]
struct Hold {
    /// Keys whose waiters had no turn yet.
    keys: usize,
    /// Offers made so far.
    offers: usize,
    held: Vec<(ShardId, Message)>,
}

impl Holds {
    /// A request is about to run; hands back what was at work, for [`Holds::end`].
    pub(super) fn begin(&mut self) -> Vec<HoldId> {
        let own = self.next;
        self.next += 1;
        std::mem::replace(&mut self.current, vec![own])
    }

    /// What changes from now on follows from what `causes` hold; hands back what was at work.
    pub(super) fn inherit(&mut self, causes: Vec<HoldId>) -> Vec<HoldId> {
        std::mem::replace(&mut self.current, causes)
    }

    /// The request has run: its hold, if there is somebody to wait for.
    pub(super) fn end(&mut self, outer: Vec<HoldId>) -> Option<HoldId> {
        let own = std::mem::replace(&mut self.current, outer);
        let own = own.first().copied()?;
        self.open.contains_key(&own).then_some(own)
    }

    /// A key with waiters has changed: for which holds that counts.
    pub(super) fn join(&mut self) -> Vec<HoldId> {
        for id in &self.current {
            self.open.entry(*id).or_default().keys += 1;
        }
        self.current.clone()
    }

    /// The waiters of a key had their turn.
    pub(super) fn settle(&mut self, causes: Vec<HoldId>) {
        for id in causes {
            let Some(hold) = self.open.get_mut(&id) else {
                continue;
            };
            hold.keys -= 1;
            if hold.keys == 0 {
                self.let_out(id);
            }
        }
    }

    /// An offer is made because of `causes`.
    pub(super) fn count_offer(&mut self, causes: &[HoldId]) {
        for id in causes {
            let Some(hold) = self.open.get_mut(id) else {
                continue;
            };
            hold.offers += 1;
            if hold.offers > OFFERS_PER_HOLD {
                self.let_out(*id);
            }
        }
    }

    fn let_out(&mut self, id: HoldId) {
        if let Some(hold) = self.open.remove(&id) {
            self.settled.extend(hold.held);
        }
    }

    /// What is held no longer.
    pub(crate) fn poll(&mut self) -> Option<(ShardId, Message)> {
        self.settled.pop_front()
    }

    /// Whether nothing is held, for tests.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.settled.is_empty() && self.current.is_empty()
    }
}

/// What was at work before a request: what happens after it counts for that again.
#[must_use]
pub(crate) struct Outer(Vec<HoldId>);

/// A transaction that has done everything and whose reply waits for owners to serve who waited.
#[derive(Debug)]
pub(crate) struct Concluding {
    caller: Caller,
    reply: BytesMut,
    settles: Option<TransactionId>,
    /// Owners that have not said [`Message::WokenServed`] yet.
    left: usize,
}

impl Shard {
    /// Whether a request may wake somebody, so that its reply may have to be held.
    #[inline]
    pub(crate) fn may_wake(&self) -> bool {
        !self.blocking.waiters.is_empty()
    }

    /// A request is about to run; what it changes is to be settled before its reply is sent. To be handed to
    /// [`Shard::end_hold`].
    pub(crate) fn begin_hold(&mut self) -> Option<Outer> {
        self.may_wake()
            .then(|| Outer(self.blocking.waiters.holds.begin()))
    }

    /// As [`Shard::begin_hold`], for what follows from an offer: if it was ours, the same replies wait for it.
    pub(crate) fn inherit_hold(&mut self, offer: TransactionId) -> Outer {
        let causes = self.blocking.waiters.causes_of_offer(offer);
        Outer(self.blocking.waiters.holds.inherit(causes))
    }

    /// It has run: its hold, if there is somebody to wait for.
    pub(crate) fn end_hold(&mut self, outer: Option<Outer>) -> Option<HoldId> {
        self.blocking.waiters.holds.end(outer?.0)
    }

    /// Keeps `message` until `hold` is over. Hands it back if there is nothing to wait for.
    pub(crate) fn hold_back(
        &mut self,
        hold: Option<HoldId>,
        to: ShardId,
        message: Message,
    ) -> Option<Message> {
        let holds = &mut self.blocking.waiters.holds.open;
        match hold.and_then(|hold| holds.get_mut(&hold)) {
            Some(hold) => {
                hold.held.push((to, message));
                None
            }
            None => Some(message),
        }
    }

    /// Sends `message`, once `hold` is over.
    pub(crate) fn send_after(&mut self, hold: HoldId, to: ShardId, message: Message) {
        if let Some(message) = self.hold_back(Some(hold), to, message) {
            self.send_reply(to, message);
        }
    }

    /// Takes the reply that `session` has just been given back until `hold` is over. `output_before` is how much output it had
    /// before. Not from a client that tracks: what it has read must reach it before what follows.
    pub(crate) fn hold_reply(&mut self, session: &mut Session, hold: HoldId, output_before: usize) {
        if session.tracking.is_some() {
            return;
        }
        if let Some((number, reply)) = session.replies.take_newest(output_before) {
            let late = Batch::late_reply(
                session.slot,
                session.id,
                session.client.version,
                number,
                reply,
            );
            self.send_after(hold, self.id, Message::Replies(late));
        }
    }

    /// Everything of a transaction is done: its reply goes out once `owners` many owners have served who waited for its keys.
    pub(crate) fn conclude_served(
        &mut self,
        id: TransactionId,
        caller: Caller,
        reply: BytesMut,
        settles: Option<TransactionId>,
        owners: usize,
    ) {
        if owners == 0 {
            return self.conclude(caller, reply, settles);
        }
        let concluding = Concluding {
            caller,
            reply,
            settles,
            left: owners,
        };
        self.blocking.concluding.insert(id.sequence, concluding);
    }

    /// An owner has served who waited for keys of the transaction.
    pub(crate) fn owner_has_served(&mut self, id: TransactionId) {
        let Some(mut concluding) = self.blocking.concluding.remove(&id.sequence) else {
            return;
        };
        concluding.left -= 1;
        if concluding.left == 0 {
            self.conclude(concluding.caller, concluding.reply, concluding.settles);
        } else {
            self.blocking.concluding.insert(id.sequence, concluding);
        }
    }
}
