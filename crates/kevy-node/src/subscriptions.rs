//! Who listens to what on one shard, and how messages reach them.
//!
//! Every shard keeps the subscriptions of its own sessions. A message goes to all shards and is encoded once per protocol
//! version on each; its publisher is answered when all have delivered it. So whoever was told of a subscription before
//! gets every message that is published afterwards, on whatever port and shard either of them is (spec C6).

use crate::host::Slot;
use crate::session::{Session, State};
use crate::shard::Shard;
use bytes::{Bytes, BytesMut};
use kevy_engine::glob;
use kevy_proto::resp::{Encoder, RespVersion};
use std::collections::{BTreeMap, BTreeSet};

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel (`SUBSCRIBE`).
    Channel,
    /// All channels that match a pattern (`PSUBSCRIBE`).
    Pattern,
    /// A channel of its own kind (`SSUBSCRIBE`), whose messages come by `SPUBLISH`.
    ShardChannel,
}

/// All topics, in the order in which `RESET` and closing let go of them.
const TOPICS: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::ShardChannel];

/// A message on its way. Copying it copies references to the bytes.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Where it is published.
    pub channel: Bytes,
    /// What is published.
    pub message: Bytes,
    /// Whether `SPUBLISH` did it: it reaches subscribers of shard channels instead of the others.
    pub sharded: bool,
}

/// Names of one session's subscriptions, per topic.
#[derive(Clone, Debug, Default)]
pub struct Subscribed {
    channels: BTreeSet<Bytes>,
    patterns: BTreeSet<Bytes>,
    shard_channels: BTreeSet<Bytes>,
}

impl Subscribed {
    /// Whether there is any: the session is a pub/sub client.
    pub fn any(&self) -> bool {
        !(self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty())
    }

    /// How many subscriptions of one topic it has.
    pub fn len(&self, topic: Topic) -> usize {
        self.names(topic).len()
    }

    /// The number that confirmations carry: channels and patterns count together, shard channels for themselves.
    pub fn confirmed(&self, topic: Topic) -> usize {
        match topic {
            Topic::Channel | Topic::Pattern => self.channels.len() + self.patterns.len(),
            Topic::ShardChannel => self.shard_channels.len(),
        }
    }

    /// The subscriptions of one topic, sorted.
    pub fn names(&self, topic: Topic) -> &BTreeSet<Bytes> {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::ShardChannel => &self.shard_channels,
        }
    }

    fn names_mut(&mut self, topic: Topic) -> &mut BTreeSet<Bytes> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::ShardChannel => &mut self.shard_channels,
        }
    }
}

type Subscribers = BTreeMap<Bytes, BTreeSet<Slot>>;

/// The subscribers of one shard, by what they subscribed to. Sorted, so that deliveries have one order.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: Subscribers,
    patterns: Subscribers,
    shard_channels: Subscribers,
    /// Whom the message at work went to. Empty between uses; kept for its memory.
    reached: Vec<Slot>,
}

impl Subscriptions {
    /// Whether nobody listens to anything.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty()
    }

    /// What somebody listens to, sorted.
    pub fn names(&self, topic: Topic) -> impl Iterator<Item = &Bytes> {
        self.of(topic).keys()
    }

    /// How many sessions listen to `name`.
    pub fn subscribers(&self, topic: Topic, name: &[u8]) -> usize {
        self.of(topic).get(name).map_or(0, BTreeSet::len)
    }

    fn of(&self, topic: Topic) -> &Subscribers {
        match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::ShardChannel => &self.shard_channels,
        }
    }

    fn of_mut(&mut self, topic: Topic) -> &mut Subscribers {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::ShardChannel => &mut self.shard_channels,
        }
    }

    /// Subscribes `session` to `name`, which it may be already.
    pub(crate) fn add(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        if session.subscribed.names(topic).contains(name) {
            return;
        }
        let subscribers = self.of_mut(topic);
        // The name is kept once per shard, however many sessions listen to it.
        let name = match subscribers.get_key_value(name) {
            Some((name, _)) => name.clone(),
            None => Bytes::copy_from_slice(name),
        };
        subscribers
            .entry(name.clone())
            .or_default()
            .insert(session.slot);
        session.subscribed.names_mut(topic).insert(name);
    }

    /// Ends the subscription of `session` to `name`, if there is one.
    pub(crate) fn remove(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        if session.subscribed.names_mut(topic).remove(name) {
            self.remove_subscriber(session.slot, topic, name);
        }
    }

    /// Ends all subscriptions of `session`.
    pub(crate) fn remove_all(&mut self, session: &mut Session) {
        for topic in TOPICS {
            for name in std::mem::take(session.subscribed.names_mut(topic)) {
                self.remove_subscriber(session.slot, topic, &name);
            }
        }
    }

    fn remove_subscriber(&mut self, slot: Slot, topic: Topic, name: &[u8]) {
        let topics = self.of_mut(topic);
        if let Some(subscribers) = topics.get_mut(name) {
            subscribers.remove(&slot);
            if subscribers.is_empty() {
                topics.remove(name);
            }
        }
    }
}

impl Shard {
    /// Delivers a message to the subscribers among our own sessions: its channel's first, then those of each pattern that
    /// matches. How many deliveries there were; a session gets one for each of its subscriptions that suits.
    pub(crate) fn deliver(&mut self, publication: &Publication) -> usize {
        if self.subscriptions.is_empty() {
            return 0;
        }
        let Publication {
            channel,
            message,
            sharded,
        } = publication;
        let mut reached = std::mem::take(&mut self.subscriptions.reached);
        let (topic, kind): (_, &[u8]) = if *sharded {
            (Topic::ShardChannel, b"smessage")
        } else {
            (Topic::Channel, b"message")
        };
        if let Some(subscribers) = self.subscriptions.of(topic).get(channel) {
            let mut frame = Frame::new([kind, channel, message]);
            frame.hand_to(subscribers, &mut self.sessions, &mut reached);
        }
        if !sharded {
            for (pattern, subscribers) in &self.subscriptions.patterns {
                if glob::matches(pattern, channel) {
                    let mut frame = Frame::new([b"pmessage", pattern, channel, message]);
                    frame.hand_to(subscribers, &mut self.sessions, &mut reached);
                }
            }
        }
        let count = reached.len();
        for slot in reached.drain(..) {
            self.announce_output(slot);
            self.close_above_hard_limit(slot);
        }
        self.subscriptions.reached = reached;
        count
    }

    /// Delivers messages, in order.
    pub(crate) fn deliver_all(&mut self, publications: &[Publication]) {
        for publication in publications {
            self.deliver(publication);
        }
    }

    /// Lets go of what the shard keeps for a session that is over. A message that it waited to publish still goes out.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        self.subscriptions.remove_all(session);
        self.unwatch_all(session);
        self.stop_tracking(session);
        self.remove_monitor(session);
        self.connections.remove(&session.id);
        self.abandon_waiting(session);
        if let Some((id, query)) = session.held_question.take() {
            self.put_question(id, &query);
        }
    }
}

/// A message, and its encoded forms: each is made when the first subscriber needs it.
struct Frame<'a, const LENGTH: usize> {
    elements: [&'a [u8]; LENGTH],
    resp2: BytesMut,
    resp3: BytesMut,
}

impl<'a, const LENGTH: usize> Frame<'a, LENGTH> {
    fn new(elements: [&'a [u8]; LENGTH]) -> Self {
        Self {
            elements,
            resp2: BytesMut::new(),
            resp3: BytesMut::new(),
        }
    }

    /// Appends it to the output of `subscribers` and notes whom it reached. Those that are about to leave get nothing more.
    fn hand_to(
        &mut self,
        subscribers: &BTreeSet<Slot>,
        sessions: &mut [Option<Box<Session>>],
        reached: &mut Vec<Slot>,
    ) {
        for &slot in subscribers {
            if let Some(Some(session)) = sessions.get_mut(slot.index())
                && session.state != State::Draining
            {
                let bytes = self.encoded(session.client.version);
                session.replies.push_out_of_band(bytes);
                reached.push(slot);
            }
        }
    }

    fn encoded(&mut self, version: RespVersion) -> &[u8] {
        let bytes = match version {
            RespVersion::V2 => &mut self.resp2,
            RespVersion::V3 => &mut self.resp3,
        };
        if bytes.is_empty() {
            let mut encoder = Encoder::new(bytes, version);
            encoder.push(LENGTH);
            self.elements
                .iter()
                .for_each(|element| encoder.bulk(element));
        }
        bytes
    }
}
