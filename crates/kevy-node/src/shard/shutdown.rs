//! The end of a shard: sessions get their replies, others are served until they need nobody, the log is made durable.

use super::Shard;
use crate::message::Message;
use kevy_proto::ids::ShardId;
use kevy_proto::time::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a shutdown waits for replies that are outstanding.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    No,
    /// Replies that are outstanding are still sent, until the grace is over.
    Draining {
        until: Instant,
        /// How many shards still serve messages for their own sessions; zero, and we may go.
        others_left: u16,
        said_goodbye: bool,
    },
    Finished,
}

impl Shard {
    /// The process was asked to stop: no more requests are read, outstanding replies are sent.
    pub fn handle_shutdown(&mut self) {
        if self.shutdown != Shutdown::No {
            return;
        }
        let until = self.now.monotonic + SHUTDOWN_GRACE;
        self.shutdown = Shutdown::Draining {
            until,
            others_left: self.shards() - 1,
            said_goodbye: false,
        };
        for slot in self.slots() {
            let Some(mut session) = self.take_session(slot) else {
                continue;
            };
            self.abandon_waiting(&mut session);
            session.drain();
            self.return_session(session);
        }
        self.next_cron = self.now.monotonic;
    }

    /// Whether the shard has done everything and can be dropped.
    pub fn has_finished(&self) -> bool {
        self.shutdown == Shutdown::Finished
    }

    /// Whether a shutdown is under way: no connection is to be accepted any more.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown != Shutdown::No
    }

    /// Tells every shard, this one included, to shut down.
    pub(crate) fn shut_all_down(&mut self) {
        for index in 0..self.shards() {
            self.send(ShardId(index), Message::ShutDown);
        }
    }

    pub(super) fn advance_shutdown(&mut self) {
        let Shutdown::Draining {
            until,
            others_left,
            said_goodbye,
        } = self.shutdown
        else {
            return;
        };
        let over = self.now.monotonic >= until;
        let drained =
            self.sessions.iter().flatten().next().is_none() && self.transactions.is_empty();
        if (drained || over) && !said_goodbye {
            self.shutdown = Shutdown::Draining {
                until,
                others_left,
                said_goodbye: true,
            };
            for other in self.other_shards() {
                self.send(other, Message::Goodbye);
            }
        } else if over
            || (said_goodbye && others_left == 0 && self.outboxes.iter().all(VecDeque::is_empty))
        {
            if !self.is_log_settled(until) {
                self.next_cron = self.now.monotonic + Duration::from_millis(1);
                return;
            }
            self.shutdown = Shutdown::Finished;
        }
        self.next_cron = self.now.monotonic + Duration::from_millis(1);
    }

    pub(super) fn count_goodbye(&mut self) {
        self.handle_shutdown();
        if let Shutdown::Draining { others_left, .. } = &mut self.shutdown {
            *others_left = others_left.saturating_sub(1);
        }
    }
}
