//! What the control plane asks of every shard, and what they answer.

use crate::durability::{SaveKind, SaveReport};
use crate::host::Slot;
use crate::message::Message;
use crate::observation::{Observation, Observed};
use crate::pause::PauseMode;
use crate::session::Session;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::stats::Summary;
use crate::subscriptions::{Publication, Topic};
use bytes::Bytes;
use kevy_engine::glob;
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::{Encoder, ErrorReply, RequestBuffer};
use kevy_proto::time::Instant;

/// A question to a shard, or something it is to do.
#[derive(Clone, Debug)]
pub enum Query {
    /// Its counters (`INFO`), with the histograms of its commands or without.
    Summary {
        /// Whether with histograms.
        histograms: bool,
    },
    /// Its sessions (`CLIENT LIST`).
    Clients(ClientFilter),
    /// Close its sessions that suit (`CLIENT KILL`).
    Kill(ClientFilter),
    /// Unblock this session, with an error or as if its time were over (`CLIENT UNBLOCK`).
    Unblock(ConnectionId, bool),
    /// Take these settings (`CONFIG SET`).
    Configure(Box<Settings>),
    /// How it fares, or something that `DEBUG` has it do.
    Observe(Observation),
    /// Set counters back (`CONFIG RESETSTAT`).
    ResetStats,
    /// Remove expired keys that nobody asks for, or leave them (`DEBUG SET-ACTIVE-EXPIRE`).
    SetActiveExpire(bool),
    /// How many keys a slot has.
    CountKeys(u16),
    /// At most so many keys of a slot.
    Keys(u16, usize),
    /// Note that a connection watches these keys (`WATCH`).
    Watch(ConnectionId, RequestBuffer),
    /// Deliver this message (`PUBLISH`, `SPUBLISH`).
    Publish(Publication),
    /// What its sessions listen to, of what matches a pattern if there is one (`PUBSUB CHANNELS`).
    Topics(Topic, Option<Vec<u8>>),
    /// How many of its sessions listen to each of these (`PUBSUB NUMSUB`).
    Subscribers(Topic, Vec<Bytes>),
    /// Note that a connection listens for changes of keys with these prefixes; count whether a session of this shard can
    /// be told in its place (`CLIENT TRACKING`).
    Track {
        /// Who listens.
        connection: ConnectionId,
        /// For what.
        prefixes: Vec<Bytes>,
        /// Who is to be told.
        redirect: Option<ConnectionId>,
    },
    /// A shard has one more monitor (`MONITOR`).
    MonitorJoined(ShardId),
    /// Let requests wait (`CLIENT PAUSE`).
    Pause(PauseMode, Instant),
    /// Let them go on (`CLIENT UNPAUSE`).
    Unpause,
    /// Take a snapshot; answer when it has ended (with 1 if it failed), or at once.
    Save(SaveKind, bool),
}

impl Query {
    /// Whether it is put only when everything that its session asked for before was answered: who gets a message must
    /// find done what the publisher did before, on whatever shard.
    pub(crate) fn waits_for_replies(&self) -> bool {
        matches!(self, Self::Publish(_))
    }
}

/// A shard's answer.
#[derive(Debug)]
pub enum Answer {
    /// Its counters.
    Summary(Box<Summary>),
    /// Its sessions: id and line.
    Clients(Vec<(u64, String)>),
    /// How many it did something to.
    Count(usize),
    /// How many, for each of what was asked about.
    Counts(Vec<usize>),
    /// Keys, or names of channels.
    Keys(Vec<Vec<u8>>),
    /// How it fares.
    Observed(Box<Observed>),
    /// It was done.
    Done,
}

impl Answer {
    /// The keys it names.
    pub fn keys(self) -> Vec<Vec<u8>> {
        match self {
            Self::Keys(keys) => keys,
            Self::Summary(_)
            | Self::Clients(_)
            | Self::Count(_)
            | Self::Counts(_)
            | Self::Observed(_)
            | Self::Done => Vec::new(),
        }
    }

    /// The counts for each of what was asked about.
    pub fn counts(self) -> Vec<usize> {
        match self {
            Self::Counts(counts) => counts,
            Self::Summary(_)
            | Self::Clients(_)
            | Self::Count(_)
            | Self::Keys(_)
            | Self::Observed(_)
            | Self::Done => Vec::new(),
        }
    }

    /// What it tells about snapshots and the log.
    pub(crate) fn save_report(self) -> Option<SaveReport> {
        match self {
            Self::Summary(summary) => summary.persistence,
            Self::Clients(_)
            | Self::Count(_)
            | Self::Counts(_)
            | Self::Keys(_)
            | Self::Observed(_)
            | Self::Done => None,
        }
    }

    /// The counts of all answers, added up.
    pub fn total(answers: &[Self]) -> usize {
        let count = |answer: &Self| match answer {
            Self::Count(count) => *count,
            Self::Summary(_)
            | Self::Clients(_)
            | Self::Counts(_)
            | Self::Keys(_)
            | Self::Observed(_)
            | Self::Done => 0,
        };
        answers.iter().map(count).sum()
    }
}

/// Which sessions are meant.
#[derive(Clone, Debug, Default)]
pub struct ClientFilter {
    /// These ids; all if empty.
    pub ids: Vec<u64>,
    /// This address.
    pub address: Option<String>,
    /// This address of ours.
    pub local_address: Option<String>,
    /// Not this one.
    pub except: Option<ConnectionId>,
    /// Only those that subscribed to something, or only those that did not.
    pub subscribed: Option<bool>,
    /// A type of client that kevy has none of.
    pub none: bool,
}

impl ClientFilter {
    /// Narrows the filter to a client type as Redis names them.
    ///
    /// # Errors
    /// If Redis has no such type.
    pub fn set_type(&mut self, name: &[u8]) -> Result<(), ErrorReply> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => self.subscribed = Some(false),
            b"pubsub" => self.subscribed = Some(true),
            b"master" | b"replica" | b"slave" => self.none = true,
            _ => {
                return Err(ErrorReply::quoting("ERR Unknown client type '", name, "'"));
            }
        }
        Ok(())
    }

    fn suits(&self, session: &Session) -> bool {
        !self.none
            && self
                .subscribed
                .is_none_or(|subscribed| subscribed == session.subscribed.any())
            && (self.ids.is_empty() || self.ids.contains(&session.id.0))
            && self
                .address
                .as_ref()
                .is_none_or(|address| *address == session.peer.address)
            && self
                .local_address
                .as_ref()
                .is_none_or(|address| *address == session.peer.local_address)
            && self.except != Some(session.id)
    }
}

type FinishFn = dyn FnOnce(&mut Shard, Slot, Vec<Answer>, &mut Encoder<'_>);

/// Makes the reply of the answers of all shards, in the order of their numbers. Gets the slot of the session that asked.
pub struct Finish(Box<FinishFn>);

impl Finish {
    /// Wraps the function.
    pub fn new(
        finish: impl FnOnce(&mut Shard, Slot, Vec<Answer>, &mut Encoder<'_>) + 'static,
    ) -> Self {
        Self(Box::new(finish))
    }

    /// Replies `OK` once every shard has done it.
    pub fn ok() -> Self {
        Self::new(|_, _, _, reply| reply.ok())
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
    /// Asks every shard.
    pub(crate) fn put_question(&mut self, id: TransactionId, query: &Query) {
        for index in 0..self.shards() {
            self.send(ShardId(index), Message::Ask(id, query.clone()));
        }
    }

    /// Asks what a session's question held back, once nothing before it is outstanding.
    pub(crate) fn put_held_question(&mut self, slot: Slot) {
        if let Some(session) = self.session_mut(slot)
            && session.replies.outstanding() == 1
            && let Some((id, query)) = session.held_question.take()
        {
            self.put_question(id, &query);
        }
    }

    /// Answers a question about this shard, or does what was asked.
    pub(crate) fn answer(&mut self, from: ShardId, id: TransactionId, query: Query) {
        let answer = match query {
            Query::Summary { histograms } => {
                let histograms = histograms.then(|| self.histograms.clone());
                Answer::Summary(Box::new(Summary {
                    histograms,
                    ..self.summary()
                }))
            }
            Query::Clients(filter) => Answer::Clients(self.clients(&filter)),
            Query::Kill(filter) => Answer::Count(self.kill(&filter)),
            Query::Unblock(connection, with_error) => {
                Answer::Count(self.unblock_client(connection, with_error))
            }
            Query::Configure(settings) => return self.take_settings(from, id, *settings),
            Query::Observe(observation) => Answer::Observed(Box::new(self.observe(observation))),
            Query::ResetStats => {
                self.reset_stats();
                Answer::Done
            }
            Query::SetActiveExpire(active) => {
                self.keyspace.set_active_expire(active);
                Answer::Done
            }
            Query::Watch(connection, keys) => {
                self.watch(connection, keys.args());
                Answer::Done
            }
            Query::CountKeys(slot) => Answer::Count(self.keyspace.count_in_slot(slot)),
            Query::Keys(slot, limit) => Answer::Keys(self.keys_in_slot(slot, limit)),
            Query::Publish(publication) => Answer::Count(self.deliver(&publication)),
            Query::Topics(topic, pattern) => Answer::Keys(self.topics(topic, pattern.as_deref())),
            Query::Track {
                connection,
                prefixes,
                redirect,
            } => {
                if !prefixes.is_empty() {
                    self.add_listener(connection, &prefixes);
                }
                let here = redirect.is_some_and(|to| self.connections.contains_key(&to));
                Answer::Count(usize::from(here))
            }
            Query::MonitorJoined(shard) => {
                self.count_monitor(shard);
                Answer::Done
            }
            Query::Pause(mode, until) => {
                self.pause(mode, until);
                Answer::Done
            }
            Query::Unpause => {
                self.unpause();
                Answer::Done
            }
            Query::Save(kind, true) => return self.want_snapshot(kind, Some((from, id))),
            Query::Save(kind, false) => {
                self.want_snapshot(kind, None);
                Answer::Done
            }
            Query::Subscribers(topic, names) => {
                let count = |name: &Bytes| self.subscriptions.subscribers(topic, name);
                Answer::Counts(names.iter().map(count).collect())
            }
        };
        self.send(from, Message::Told(id, Box::new(answer)));
    }

    fn take_settings(&mut self, from: ShardId, id: TransactionId, settings: Settings) {
        let done = Message::Told(id, Box::new(Answer::Done));
        if self.configure(settings) {
            self.tell_once_settled(from, done);
        } else {
            self.send(from, done);
        }
    }

    fn keys_in_slot(&self, slot: u16, limit: usize) -> Vec<Vec<u8>> {
        let entries = self.keyspace.keys_in_slot(slot, limit).into_iter();
        entries.map(|entry| entry.key().to_vec()).collect()
    }

    /// What our sessions listen to, of what matches the pattern if there is one.
    fn topics(&self, topic: Topic, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let wanted = |name: &&Bytes| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let names = self.subscriptions.names(topic).filter(wanted);
        names.map(|name| name.to_vec()).collect()
    }

    fn clients(&self, filter: &ClientFilter) -> Vec<(u64, String)> {
        let sessions = self
            .sessions
            .iter()
            .flatten()
            .filter(|session| filter.suits(session));
        sessions
            .map(|session| (session.id.0, self.client_line(session)))
            .collect()
    }

    /// Closes the sessions that suit, the asking one (which waits for the answer) only after its reply.
    fn kill(&mut self, filter: &ClientFilter) -> usize {
        let victims: Vec<Slot> = self
            .sessions
            .iter()
            .flatten()
            .filter(|session| filter.suits(session))
            .map(|session| session.slot)
            .collect();
        for &slot in &victims {
            if self.session(slot).is_some_and(Session::waits_for_shards) {
                self.drain_when_answered(slot);
            } else {
                self.close(slot);
            }
        }
        victims.len()
    }

    fn drain_when_answered(&mut self, slot: Slot) {
        if let Some(session) = self.session_mut(slot) {
            session.drain();
        }
    }
}
