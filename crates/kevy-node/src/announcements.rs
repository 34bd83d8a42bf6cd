//! What a turn leaves to be announced: events of keys, invalidations for client-side caches, lines for monitors.
//!
//! It is gathered while requests run and sent when they are through, one message for each shard. So it stands behind the
//! replies of the turn in every queue: whoever is told that a value is stale was told the value before (decision record
//! 0007). A turn is bounded by what is read of connections and queues at a time, and so is what it gathers; the queues
//! between shards have their own limit ([`OUTBOX_MESSAGES`](crate::shard::OUTBOX_MESSAGES)).

use crate::message::Message;
use crate::shard::Shard;
use crate::subscriptions::Publication;
use crate::tracking::Invalidation;
use bytes::BytesMut;
use kevy_proto::ids::ShardId;
use std::sync::Arc;

/// What is to be announced at the end of the turn.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// Notifications, in order.
    pub(crate) notifications: Vec<Publication>,
    /// Invalidations, each with the shard it goes to.
    pub(crate) invalidations: Vec<(ShardId, Invalidation)>,
    /// Lines for monitors, of whatever shard.
    pub(crate) lines: BytesMut,
}

impl Announcements {
    fn is_empty(&self) -> bool {
        self.notifications.is_empty() && self.invalidations.is_empty() && self.lines.is_empty()
    }
}

impl Shard {
    /// Sends what the turn has gathered, to this shard as well; whether there was anything.
    pub(crate) fn announce(&mut self) -> bool {
        self.gather_broadcasts();
        if self.announcements.is_empty() {
            return false;
        }
        let gathered = std::mem::take(&mut self.announcements);
        if !gathered.notifications.is_empty() {
            let notifications: Arc<[Publication]> = gathered.notifications.into();
            for index in 0..self.shards() {
                self.send(ShardId(index), Message::Notify(Arc::clone(&notifications)));
            }
        }
        let mut by_shard: Vec<Vec<Invalidation>> = (0..self.shards()).map(|_| Vec::new()).collect();
        for (shard, invalidation) in gathered.invalidations {
            by_shard[shard.index()].push(invalidation);
        }
        for (index, invalidations) in (0..).zip(by_shard) {
            if !invalidations.is_empty() {
                self.send(ShardId(index), Message::Invalidate(invalidations));
            }
        }
        if !gathered.lines.is_empty() {
            self.send_lines(&gathered.lines.freeze());
        }
        true
    }
}
