//! What a subscribing connection is told, as a machine: replies in, events out. No I/O.
//!
//! An acknowledgement looks like a message and comes between messages. The machine counts how many are due, so that a host
//! can wait for them, and queues everything in the order it came in, acknowledgements too.

use std::collections::{BTreeSet, VecDeque};

use kevy_proto::resp::Reply;

use crate::from_reply::{FromReply, exactly};
use crate::protocol::Event;
use crate::{Call, KevyError, KevyResult};

/// Events that are kept while acknowledgements are awaited; more are an error, for nobody takes them meanwhile.
pub const MAX_QUEUED_EVENTS: usize = 65_536;

/// Something that a subscriber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PubsubEvent {
    /// A channel is subscribed to.
    Subscribe {
        /// The channel.
        channel: Vec<u8>,
        /// Channels and patterns of this connection now.
        count: usize,
    },
    /// A pattern is subscribed to.
    Psubscribe {
        /// The pattern.
        pattern: Vec<u8>,
        /// Channels and patterns of this connection now.
        count: usize,
    },
    /// A channel is not subscribed to any more.
    Unsubscribe {
        /// The channel; `None` if all were meant and there was none.
        channel: Option<Vec<u8>>,
        /// Channels and patterns of this connection now.
        count: usize,
    },
    /// A pattern is not subscribed to any more.
    Punsubscribe {
        /// The pattern; `None` if all were meant and there was none.
        pattern: Option<Vec<u8>>,
        /// Channels and patterns of this connection now.
        count: usize,
    },
    /// A message, because its channel is subscribed to.
    Message {
        /// The channel.
        channel: Vec<u8>,
        /// What was published.
        payload: Vec<u8>,
    },
    /// A message, because its channel matches a pattern.
    Pmessage {
        /// The pattern.
        pattern: Vec<u8>,
        /// The channel.
        channel: Vec<u8>,
        /// What was published.
        payload: Vec<u8>,
    },
}

impl PubsubEvent {
    /// Whether it is a message and no acknowledgement.
    pub fn is_message(&self) -> bool {
        matches!(self, Self::Message { .. } | Self::Pmessage { .. })
    }

    /// Reads `items`, if they are one of these; `None` if they are something else.
    fn read(items: &[Reply]) -> KevyResult<Option<Self>> {
        let kind = items.first().and_then(Reply::as_bytes);
        let rest = || Reply::Array(items[1..].to_vec());
        let event = match kind.map(|kind| &kind[..]) {
            Some(b"subscribe") => {
                let (channel, count) = acknowledged(rest())?;
                let channel = channel.unwrap_or_default();
                Self::Subscribe { channel, count }
            }
            Some(b"psubscribe") => {
                let (pattern, count) = acknowledged(rest())?;
                let pattern = pattern.unwrap_or_default();
                Self::Psubscribe { pattern, count }
            }
            Some(b"unsubscribe") => {
                let (channel, count) = acknowledged(rest())?;
                Self::Unsubscribe { channel, count }
            }
            Some(b"punsubscribe") => {
                let (pattern, count) = acknowledged(rest())?;
                Self::Punsubscribe { pattern, count }
            }
            Some(b"message") => {
                let [channel, payload] = exactly(rest())?;
                Self::Message {
                    channel: Vec::from_reply(channel)?,
                    payload: Vec::from_reply(payload)?,
                }
            }
            Some(b"pmessage") => {
                let [pattern, channel, payload] = exactly(rest())?;
                Self::Pmessage {
                    pattern: Vec::from_reply(pattern)?,
                    channel: Vec::from_reply(channel)?,
                    payload: Vec::from_reply(payload)?,
                }
            }
            Some(_) | None => return Ok(None),
        };
        Ok(Some(event))
    }
}

fn acknowledged(rest: Reply) -> KevyResult<(Option<Vec<u8>>, usize)> {
    let [name, count] = exactly(rest)?;
    Ok((Option::from_reply(name)?, usize::from_reply(count)?))
}

/// The machine of a subscribing connection.
#[derive(Debug, Default)]
pub struct Subscription {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    events: VecDeque<PubsubEvent>,
    /// Acknowledgements that have not come yet.
    due: usize,
    /// The latest reply that is neither message nor acknowledgement.
    reply: Option<Reply>,
}

impl Subscription {
    /// A machine without subscriptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// The command that subscribes to channels.
    pub fn subscribe(&mut self, channels: &[&[u8]]) -> Call {
        self.due += channels.len();
        Call::write("SUBSCRIBE").args(channels)
    }

    /// The command that subscribes to patterns.
    pub fn psubscribe(&mut self, patterns: &[&[u8]]) -> Call {
        self.due += patterns.len();
        Call::write("PSUBSCRIBE").args(patterns)
    }

    /// The command that ends subscriptions to channels; to all of them if none is named.
    pub fn unsubscribe(&mut self, channels: &[&[u8]]) -> Call {
        self.due += due(channels, &self.channels);
        Call::write("UNSUBSCRIBE").args(channels)
    }

    /// The command that ends subscriptions to patterns; to all of them if none is named.
    pub fn punsubscribe(&mut self, patterns: &[&[u8]]) -> Call {
        self.due += due(patterns, &self.patterns);
        Call::write("PUNSUBSCRIBE").args(patterns)
    }

    /// Takes what came from the server.
    ///
    /// # Errors
    ///
    /// When the server refuses, or sends what no subscriber can be told, or more than [`MAX_QUEUED_EVENTS`].
    pub fn handle(&mut self, event: Event) -> KevyResult<()> {
        let pushed = matches!(event, Event::Push(_));
        let (Event::Push(items) | Event::Reply(Reply::Array(items))) = event else {
            return self.handle_reply(event);
        };
        match PubsubEvent::read(&items)? {
            Some(event) => self.queue(event),
            // A push of another kind is for nobody here.
            None if pushed => Ok(()),
            None => self.handle_reply(Event::Reply(Reply::Array(items))),
        }
    }

    fn handle_reply(&mut self, event: Event) -> KevyResult<()> {
        let Event::Reply(reply) = event else {
            return Ok(());
        };
        if let Reply::Error(text) = &reply {
            self.due = 0;
            return Err(KevyError::from_error_reply(text));
        }
        self.reply = Some(reply);
        Ok(())
    }

    fn queue(&mut self, event: PubsubEvent) -> KevyResult<()> {
        if self.events.len() == MAX_QUEUED_EVENTS {
            return Err(KevyError::Protocol(format!(
                "more than {MAX_QUEUED_EVENTS} events that nobody took"
            )));
        }
        match &event {
            PubsubEvent::Subscribe { channel, .. } => {
                self.channels.insert(channel.clone());
            }
            PubsubEvent::Psubscribe { pattern, .. } => {
                self.patterns.insert(pattern.clone());
            }
            PubsubEvent::Unsubscribe { channel, .. } => {
                channel
                    .as_ref()
                    .map(|channel| self.channels.remove(channel));
            }
            PubsubEvent::Punsubscribe { pattern, .. } => {
                pattern
                    .as_ref()
                    .map(|pattern| self.patterns.remove(pattern));
            }
            PubsubEvent::Message { .. } | PubsubEvent::Pmessage { .. } => {}
        }
        if !event.is_message() {
            self.due = self.due.saturating_sub(1);
        }
        self.events.push_back(event);
        Ok(())
    }

    /// Whether every acknowledgement has come.
    pub fn is_acknowledged(&self) -> bool {
        self.due == 0
    }

    /// The oldest event that nobody took.
    pub fn poll_event(&mut self) -> Option<PubsubEvent> {
        self.events.pop_front()
    }

    /// The latest reply that is neither message nor acknowledgement.
    pub(crate) fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take()
    }
}

/// How many acknowledgements the end of subscriptions to `named` gives: one each; without names one for each that there is,
/// and one if there is none.
fn due(named: &[&[u8]], held: &BTreeSet<Vec<u8>>) -> usize {
    if named.is_empty() {
        held.len().max(1)
    } else {
        named.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(text.into())
    }

    fn acknowledgement(kind: &'static str, name: &'static str, count: i64) -> Vec<Reply> {
        vec![bulk(kind), bulk(name), Reply::Integer(count)]
    }

    fn message(payload: &'static str) -> Vec<Reply> {
        vec![bulk("message"), bulk("a"), bulk(payload)]
    }

    #[test]
    fn messages_before_the_last_acknowledgement_are_queued_in_both_versions() {
        for version in [Event::Push as fn(_) -> _, |items| {
            Event::Reply(Reply::Array(items))
        }] {
            let mut subscription = Subscription::new();
            let call = subscription.subscribe(&[b"a", b"b"]);
            assert_eq!(call.words().at(2), b"b");
            for items in [acknowledgement("subscribe", "a", 1), message("early")] {
                subscription.handle(version(items)).unwrap();
                assert!(!subscription.is_acknowledged());
            }
            let last = acknowledgement("subscribe", "b", 2);
            subscription.handle(version(last)).unwrap();
            assert!(subscription.is_acknowledged());
            let events: Vec<_> = std::iter::from_fn(|| subscription.poll_event()).collect();
            assert_eq!(events.len(), 3);
            assert!(events[1].is_message());
        }
    }

    #[test]
    fn unsubscribing_from_all_waits_for_each() {
        let mut subscription = Subscription::new();
        subscription.subscribe(&[b"a", b"b"]);
        for name in ["a", "b"] {
            let items = acknowledgement("subscribe", name, 1);
            subscription.handle(Event::Push(items)).unwrap();
        }
        subscription.unsubscribe(&[]);
        for name in ["a", "b"] {
            assert!(!subscription.is_acknowledged());
            let items = acknowledgement("unsubscribe", name, 0);
            subscription.handle(Event::Push(items)).unwrap();
        }
        assert!(subscription.is_acknowledged());
        subscription.unsubscribe(&[]);
        let none = vec![bulk("unsubscribe"), Reply::Null, Reply::Integer(0)];
        subscription.handle(Event::Push(none)).unwrap();
        assert!(subscription.is_acknowledged());
    }

    #[test]
    fn a_refusal_ends_the_waiting_and_nonsense_is_an_error() {
        let mut subscription = Subscription::new();
        subscription.subscribe(&[b"a"]);
        let refusal = Event::Reply(Reply::Error("ERR no".into()));
        assert!(subscription.handle(refusal).is_err());
        assert!(subscription.is_acknowledged());
        let short = Event::Push(vec![bulk("message"), bulk("a")]);
        assert!(subscription.handle(short).is_err());
        let other = Event::Push(vec![bulk("invalidate"), Reply::Null]);
        assert!(subscription.handle(other).is_ok());
        assert_eq!(subscription.poll_event(), None);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut subscription = Subscription::new();
        for _ in 0..MAX_QUEUED_EVENTS {
            subscription.handle(Event::Push(message("m"))).unwrap();
        }
        assert!(subscription.handle(Event::Push(message("m"))).is_err());
    }
}
