//! What goes out: read from the backlog when a connection can take it, and not before.

use super::Source;
use super::link::{LinkId, LinkState};
use bytes::{Bytes, BytesMut};
use kevy_proto::replication::{Answer, LINE_END, push_entry, push_entry_header, push_ping};

/// The most bytes that small entries are gathered into.
const BATCH_BYTES: usize = 64 * 1024;
/// An entry larger than this is sent as it stands in the backlog, without a copy.
const COPY_BYTES: usize = 16 * 1024;

impl Source {
    /// The next bytes for a connection, at most `room` of them; nothing if there is nothing to send, or no room.
    pub fn poll_transmit(&mut self, id: LinkId, room: usize) -> Option<Bytes> {
        let link = self.links.get(&id)?;
        if room == 0 {
            return None;
        }
        if link.outgoing.is_empty() {
            self.refill(id, room);
        }
        let link = self.links.get_mut(&id)?;
        let mut next = link.outgoing.pop_front()?;
        if next.len() > room {
            link.outgoing.push_front(next.split_off(room));
        }
        link.outgoing_bytes -= next.len();
        Some(next)
    }

    /// Whether [`Source::poll_transmit`] has something for a connection.
    pub fn has_output(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| {
            !link.outgoing.is_empty()
                || match link.state {
                    LinkState::Waiting { announced } => !announced || link.beat_due,
                    LinkState::Loading { .. } => link.beat_due,
                    LinkState::Live => link.beat_due || link.next <= self.sendable_offset(),
                    LinkState::Greeting | LinkState::Closing => false,
                }
        })
    }

    fn sendable_offset(&self) -> u64 {
        self.last_offset().min(self.sendable)
    }

    fn refill(&mut self, id: LinkId, room: usize) {
        let unannounced = self
            .links
            .get(&id)
            .is_some_and(|link| matches!(link.state, LinkState::Waiting { announced: false }));
        if unannounced {
            let terms = self.terms(self.last_offset());
            self.answer(id, &Answer::Full(terms));
        }
        let (epoch, next_offset) = (self.epoch(), self.next_offset());
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if unannounced {
            link.state = LinkState::Waiting { announced: true };
        } else if link.beat_due && link.is_accepted() {
            link.beat_due = false;
            let mut out = BytesMut::new();
            push_ping(&mut out, epoch, next_offset);
            link.queue(out.freeze());
        } else if matches!(link.state, LinkState::Live) {
            self.refill_entries(id, room.min(BATCH_BYTES));
        }
    }

    fn refill_entries(&mut self, id: LinkId, room: usize) {
        let last = self.sendable_offset();
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let mut batch = BytesMut::new();
        while link.next <= last && batch.len() < room {
            let Some(entry) = self.backlog.get(link.next) else {
                // Whoever fell out of the backlog is not live any more.
                debug_assert!(false, "a live connection lacks an entry");
                break;
            };
            if entry.payload.len() <= COPY_BYTES {
                push_entry(&mut batch, link.next, entry.epoch, &entry.payload);
            } else if batch.is_empty() {
                push_entry_header(&mut batch, link.next, entry.epoch, entry.payload.len());
                link.queue(batch.split().freeze());
                link.queue(entry.payload.clone());
                link.queue(Bytes::from_static(LINE_END));
                link.next += 1;
                break;
            } else {
                break;
            }
            link.next += 1;
        }
        if !batch.is_empty() {
            link.queue(batch.freeze());
        }
    }
}
