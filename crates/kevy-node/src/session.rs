//! One client connection: the bytes it sent that are no whole request yet, its replies in order, and what it said about
//! itself.

use crate::blocking::Blocked;
use crate::commands::client_line::AskingRequest;
use crate::host::{Peer, Slot};
use crate::query::Query;
use crate::reply_order::ReplyOrder;
use crate::subscriptions::Subscribed;
use crate::tracking::client::Tracking;
use crate::transaction::queue::Queue;
use bytes::BytesMut;
use kevy_proto::ids::{ConnectionId, TransactionId};
use kevy_proto::resp::{Decoder, Limits, RequestBuffer, RespVersion};
use kevy_proto::time::{Instant, Now};
use std::collections::BTreeSet;

/// One client connection.
#[derive(Debug)]
pub struct Session {
    /// The connection's number for ever.
    pub id: ConnectionId,
    /// Its place now.
    pub slot: Slot,
    /// Where it came from.
    pub peer: Peer,
    /// What the client said about itself.
    pub client: Client,
    /// Its replies.
    pub replies: ReplyOrder,
    /// The request whose reply it waits for, to be measured.
    pub(crate) waits: Option<Box<WaitingRequest>>,
    /// What it listens to.
    pub(crate) subscribed: Subscribed,
    /// A question to the shards that must wait for the replies before it.
    pub(crate) held_question: Option<(TransactionId, Query)>,
    /// Between requests it is idle; in the middle of one it knows how far it came.
    pub(crate) decoder: Decoder,
    /// Received, not yet executed.
    pub(crate) input: BytesMut,
    /// Between `MULTI` and `EXEC`: what waits for it.
    pub(crate) queue: Option<Box<Queue>>,
    /// What it wants to hear of for its cache, if it tracks.
    pub(crate) tracking: Option<Box<Tracking>>,
    /// Whether it sees every command (`MONITOR`).
    pub(crate) is_monitor: bool,
    /// The keys it watches, whoever owns them.
    pub(crate) watched: BTreeSet<Vec<u8>>,
    /// What it waits for, if its last request blocks it.
    pub(crate) blocked: Option<Box<Blocked>>,
    /// Whether the next request may be executed.
    pub(crate) state: State,
    /// Whether it stands in the shard's list of sessions with output.
    pub(crate) in_output_list: bool,
    /// Since when its replies are above the soft limit of `client_output_buffer_limit`.
    pub(crate) above_soft_limit_since: Option<Instant>,
    /// What the transport still has to say about a partial send.
    pub(crate) awaits_writable: bool,
}

/// What the client said about itself, and what is counted about it.
#[derive(Clone, Debug)]
pub struct Client {
    /// `CLIENT SETNAME` or `HELLO .. SETNAME`; empty if it did not.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library_name: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: Vec<u8>,
    /// The protocol version it speaks.
    pub version: RespVersion,
    /// Whether replies are sent (`CLIENT REPLY`).
    pub reply_mode: ReplyMode,
    /// `CLIENT NO-EVICT`.
    pub no_evict: bool,
    /// `CLIENT NO-TOUCH`.
    pub no_touch: bool,
    /// `READONLY` on a shard port.
    pub readonly: bool,
    /// When it connected.
    pub since: Now,
    /// When it last sent a request.
    pub last_request: Instant,
    /// Requests executed.
    pub requests: u64,
    /// Full name of its last command (`config|get`).
    pub last_command: &'static str,
    /// The request that is about to show its line (`CLIENT LIST`).
    pub asks: Option<AskingRequest>,
}

/// A request that waits for other shards.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    /// Its command, by its number in the command table.
    pub index: usize,
    /// When it began.
    pub began: Instant,
    /// Its arguments, if it may come into the slow log.
    pub request: Option<RequestBuffer>,
}

/// `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    On,
    /// None are.
    Off,
    /// The next request's is not (set by `CLIENT REPLY SKIP`, which has no reply itself).
    SkipNext,
}

/// Whether a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Executes requests as they come.
    Open,
    /// Waits for a transaction, or is blocked: what comes after it in the pipeline must see its effects.
    Blocked,
    /// Waits for the end of a `CLIENT PAUSE`.
    Paused,
    /// Executes nothing more; closed once its replies are sent (`QUIT`, a protocol error, the end of its stream).
    Draining,
}

impl Session {
    /// A session that starts now.
    pub fn new(id: ConnectionId, slot: Slot, peer: Peer, limits: Limits, now: Now) -> Self {
        Self {
            id,
            slot,
            peer,
            client: Client::new(now),
            replies: ReplyOrder::default(),
            waits: None,
            subscribed: Subscribed::default(),
            held_question: None,
            decoder: Decoder::with_limits(limits),
            input: BytesMut::new(),
            queue: None,
            tracking: None,
            is_monitor: false,
            watched: BTreeSet::new(),
            blocked: None,
            state: State::Open,
            in_output_list: false,
            above_soft_limit_since: None,
            awaits_writable: false,
        }
    }

    /// Lets the session end once its replies are sent.
    pub fn drain(&mut self) {
        self.state = State::Draining;
        self.input = BytesMut::new();
        self.queue = None;
    }

    /// Whether every reply it will ever get has been sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.state == State::Draining
            && self.replies.outstanding() == 0
            && self.replies.output().is_empty()
    }

    /// Whether it may do little else than subscribe: in RESP2 messages and replies would be mixed up.
    pub(crate) fn is_restricted(&self) -> bool {
        self.client.version == RespVersion::V2 && self.subscribed.any()
    }

    /// Whether it waits for a transaction, or for the answer to a question.
    pub(crate) fn waits_for_shards(&self) -> bool {
        self.state == State::Blocked && self.blocked.is_none()
    }

    /// Whether a request blocks it until there is something for it.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Whether it waits for the end of a `CLIENT PAUSE`.
    pub(crate) fn is_paused(&self) -> bool {
        self.state == State::Paused
    }

    /// Bytes of requests not executed yet.
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// Bytes held of its requests: not executed yet, or queued by `MULTI`, by estimate.
    pub(crate) fn request_bytes(&self) -> usize {
        self.input.len() + self.queue.as_ref().map_or(0, |queue| queue.len_bytes())
    }
}

impl Client {
    fn new(now: Now) -> Self {
        Self {
            name: Vec::new(),
            library_name: Vec::new(),
            library_version: Vec::new(),
            version: RespVersion::V2,
            reply_mode: ReplyMode::On,
            no_evict: false,
            no_touch: false,
            readonly: false,
            since: now,
            last_request: now.monotonic,
            requests: 0,
            last_command: "NULL",
            asks: None,
        }
    }
}
