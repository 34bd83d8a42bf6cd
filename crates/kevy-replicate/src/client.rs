//! A blocking reader of one shard's stream, for other people's programs: backups, change feeds, caches.
//!
//! ```no_run
//! use kevy_replicate::client::{ReplicaClient, ReplicaEvent};
//!
//! let mut client = ReplicaClient::connect("127.0.0.1:16004", "backup-1", 0)?;
//! while let Some(event) = client.next_event() {
//!     match event? {
//!         ReplicaEvent::Frame(frame) => println!("entry {} of {} bytes", frame.offset, frame.payload.len()),
//!         ReplicaEvent::SnapshotBegin { offset } => println!("forget everything, this is the state at {offset}"),
//!         ReplicaEvent::SnapshotChunk(bytes) => println!("{} bytes of it", bytes.len()),
//!         ReplicaEvent::SnapshotEnd { .. } => println!("that was all of it"),
//!         ReplicaEvent::Ping { .. } => {}
//!     }
//! }
//! # Ok::<(), kevy_replicate::client::ReplicaError>(())
//! ```
//!
//! Whoever asks for the next event has dealt with the one before: it is acknowledged, at most once a second and when nothing
//! more has come. This is the only file of the crate that does I/O and reads a clock.

mod error;

pub use error::ReplicaError;

use crate::Position;
use crate::wire::DecodedFrame;
use bytes::{Bytes, BytesMut};
use error::is_end;
use kevy_proto::ids::ShardId;
use kevy_proto::replication::{
    Answer, EntryFrame, Epoch, Handshake, History, SnapshotDigest, SnapshotTotals, StreamLimits,
    StreamMessage, Terms, decode_message, push_ack,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long connecting and the handshake may take if nothing else is said.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const ACK_INTERVAL: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 16 * 1024;

/// How to connect.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The reader's name: 1 to 64 visible ASCII characters, different for each reader.
    pub id: String,
    /// What it has: [`Position::empty`] for nothing. An offset without its history is answered with a snapshot.
    pub position: Position,
    /// Which shard of how many it expects, if it cares.
    pub shard: Option<(ShardId, u16)>,
    /// How long connecting and the handshake may take.
    pub handshake_timeout: Duration,
    /// After how much silence the primary is given up. It speaks once a second.
    pub link_timeout: Duration,
    /// What is refused of the primary.
    pub limits: StreamLimits,
}

impl ConnectOptions {
    /// For a reader named `id` that has everything up to `from_offset`.
    pub fn new(id: &str, from_offset: u64) -> Self {
        let position = Position {
            history: History::unknown(),
            offset: from_offset,
        };
        Self::resume(id, position)
    }

    /// For a reader that was at `position`: [`ReplicaClient::position`] when it left.
    pub fn resume(id: &str, position: Position) -> Self {
        Self {
            id: id.into(),
            position,
            shard: None,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            link_timeout: Duration::from_secs(10),
            limits: StreamLimits::default(),
        }
    }
}

/// Something that the primary sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// The next entry.
    Frame(DecodedFrame),
    /// The reader's state does not lead on from here: a new one follows.
    SnapshotBegin {
        /// The last entry that is part of it.
        offset: u64,
    },
    /// The next bytes of the new state.
    SnapshotChunk(Bytes),
    /// The new state is complete and came as it was sent. Before this it must not be used.
    SnapshotEnd {
        /// The last entry that is part of it.
        offset: u64,
        /// What it was counted by.
        totals: SnapshotTotals,
    },
    /// The primary is there.
    Ping {
        /// The epoch it writes in, if it says so.
        epoch: Option<Epoch>,
        /// The offset its next entry will have, if it says so.
        next_offset: Option<u64>,
    },
}

/// A connection to a primary.
#[derive(Debug)]
pub struct ReplicaClient {
    stream: TcpStream,
    options: ConnectOptions,
    input: BytesMut,
    terms: Terms,
    /// The last entry that was given out, or is part of the last whole snapshot.
    position: Position,
    loading: Option<(u64, SnapshotDigest)>,
    /// What is here belongs to the primary's history.
    continues: bool,
    acked: Option<u64>,
    acked_at: Instant,
    heard_at: Instant,
    ended: bool,
}

impl ReplicaClient {
    /// Connects to a primary's replication port for one shard; `from_offset` is the last entry that the reader has, 0 if none.
    ///
    /// # Errors
    /// If there is no primary, it refuses, or it does not answer within 5 seconds.
    pub fn connect(
        addr: impl ToSocketAddrs,
        id: &str,
        from_offset: u64,
    ) -> Result<Self, ReplicaError> {
        Self::connect_with(addr, &ConnectOptions::new(id, from_offset))
    }

    /// As [`ReplicaClient::connect`], with another limit of time.
    ///
    /// # Errors
    /// As there.
    pub fn connect_with_timeout(
        addr: impl ToSocketAddrs,
        id: &str,
        from_offset: u64,
        handshake_timeout: Duration,
    ) -> Result<Self, ReplicaError> {
        let options = ConnectOptions {
            handshake_timeout,
            ..ConnectOptions::new(id, from_offset)
        };
        Self::connect_with(addr, &options)
    }

    /// As [`ReplicaClient::connect`], with everything that can be said.
    ///
    /// # Errors
    /// As there.
    pub fn connect_with(
        addr: impl ToSocketAddrs,
        options: &ConnectOptions,
    ) -> Result<Self, ReplicaError> {
        let stream = open(addr, options.handshake_timeout)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(options.link_timeout))?;
        let now = Instant::now();
        let mut client = Self {
            stream,
            options: options.clone(),
            input: BytesMut::new(),
            terms: Terms {
                epoch: Epoch(0),
                offset: 0,
                shards: None,
                history: None,
            },
            position: options.position.clone(),
            loading: None,
            continues: false,
            acked: None,
            acked_at: now,
            heard_at: now,
            ended: false,
        };
        client.shake_hands(now + options.handshake_timeout)?;
        Ok(client)
    }

    fn shake_hands(&mut self, until: Instant) -> Result<(), ReplicaError> {
        let Position { history, offset } = &self.options.position;
        let branch = history.branch_at(*offset);
        let handshake = Handshake {
            epoch: branch.map(|branch| branch.epoch),
            history: branch.map(|branch| branch.id),
            shards: self.options.shard.map(|(_, shards)| shards),
            shard: self.options.shard.map(|(shard, _)| shard.0),
            ..Handshake::new(&self.options.id, *offset)
        };
        let mut out = BytesMut::new();
        handshake.encode(&mut out);
        self.stream.write_all(&out)?;
        loop {
            if let Some((message, _)) = self.take_message()? {
                return self.take_answer(message);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReplicaError::Silent);
            }
            self.read(left)?;
        }
    }

    fn take_answer(&mut self, message: StreamMessage) -> Result<(), ReplicaError> {
        let StreamMessage::Answer(answer) = message else {
            return Err(ReplicaError::AckMalformed);
        };
        match answer {
            Answer::Refused(text) => return Err(ReplicaError::HandshakeRejected(text)),
            Answer::Continue(terms) => {
                if terms.offset != self.position.offset {
                    return Err(ReplicaError::AckMalformed);
                }
                self.position.history = terms.history.clone().unwrap_or_default();
                self.continues = true;
                self.terms = terms;
            }
            Answer::Full(terms) => {
                self.continues = false;
                self.terms = terms;
            }
        }
        let expected = self.options.shard.map(|(_, shards)| shards);
        match (self.terms.shards, expected) {
            (Some(theirs), Some(ours)) if theirs != ours => Err(ReplicaError::HandshakeRejected(
                format!("the primary has {theirs} shards, not {ours}"),
            )),
            _ => Ok(()),
        }
    }

    /// The next thing that the primary sends, waiting for it; nothing after an error.
    pub fn next_event(&mut self) -> Option<Result<ReplicaEvent, ReplicaError>> {
        if self.ended {
            return None;
        }
        let event = self.wait_for_event();
        self.ended = event.is_err();
        Some(event)
    }

    fn wait_for_event(&mut self) -> Result<ReplicaEvent, ReplicaError> {
        loop {
            while let Some((message, bytes)) = self.take_message()? {
                if let Some(event) = self.event_of(message, &bytes)? {
                    return Ok(event);
                }
            }
            self.acknowledge()?;
            self.read(ACK_INTERVAL)?;
            if self.heard_at.elapsed() > self.options.link_timeout {
                return Err(ReplicaError::Silent);
            }
        }
    }

    /// Says what was dealt with: when it is news and nothing waits to be read, or when a second has passed.
    fn acknowledge(&mut self) -> Result<(), ReplicaError> {
        let offset = if self.continues && self.loading.is_none() {
            self.position.offset
        } else {
            0
        };
        if self.acked == Some(offset) && self.acked_at.elapsed() < ACK_INTERVAL {
            return Ok(());
        }
        let mut out = BytesMut::new();
        push_ack(&mut out, offset, None);
        match self.stream.write_all(&out) {
            // What the primary said before it went is still to be read.
            Err(error) if is_end(&error) => {}
            written => written?,
        }
        (self.acked, self.acked_at) = (Some(offset), Instant::now());
        Ok(())
    }

    fn take_message(&mut self) -> Result<Option<(StreamMessage, Bytes)>, ReplicaError> {
        let decoded = decode_message(&self.input, &self.options.limits);
        let decoded = decoded.map_err(|fault| ReplicaError::Frame(fault.into()))?;
        Ok(decoded.map(|(message, length)| (message, self.input.split_to(length).freeze())))
    }

    /// Reads what has come, or waits for a while.
    fn read(&mut self, wait: Duration) -> Result<(), ReplicaError> {
        self.stream.set_read_timeout(Some(wait))?;
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(ReplicaError::Truncated),
            Ok(length) => {
                self.input.extend_from_slice(&bytes[..length]);
                self.heard_at = Instant::now();
                Ok(())
            }
            Err(error) if is_pause(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn event_of(
        &mut self,
        message: StreamMessage,
        bytes: &Bytes,
    ) -> Result<Option<ReplicaEvent>, ReplicaError> {
        match message {
            StreamMessage::Unknown => Ok(None),
            StreamMessage::Answer(Answer::Full(terms)) => {
                (self.terms, self.continues, self.loading) = (terms, false, None);
                Ok(None)
            }
            StreamMessage::Answer(Answer::Refused(text)) => {
                Err(ReplicaError::HandshakeRejected(text))
            }
            StreamMessage::Answer(Answer::Continue(_)) => Err(ReplicaError::OutOfPlace),
            StreamMessage::Ping { epoch, next_offset } => {
                Ok(Some(ReplicaEvent::Ping { epoch, next_offset }))
            }
            StreamMessage::Entry(frame) => self.frame(&frame, bytes),
            StreamMessage::SnapshotBegin { offset } => {
                if self.continues || self.loading.is_some() {
                    return Err(ReplicaError::OutOfPlace);
                }
                self.loading = Some((offset, SnapshotDigest::new()));
                Ok(Some(ReplicaEvent::SnapshotBegin { offset }))
            }
            StreamMessage::SnapshotChunk(at) => {
                let (_, digest) = self.loading.as_mut().ok_or(ReplicaError::OutOfPlace)?;
                let chunk = bytes.slice(at);
                digest.add(&chunk);
                Ok(Some(ReplicaEvent::SnapshotChunk(chunk)))
            }
            StreamMessage::SnapshotEnd { offset, totals } => self.end(offset, totals).map(Some),
        }
    }

    fn frame(
        &mut self,
        frame: &EntryFrame,
        bytes: &Bytes,
    ) -> Result<Option<ReplicaEvent>, ReplicaError> {
        if !self.continues {
            return Err(ReplicaError::OutOfPlace);
        }
        let (expected, got) = (self.expected_offset(), frame.offset);
        if got < expected {
            return Ok(None);
        }
        if got > expected {
            return Err(ReplicaError::OffsetGap { expected, got });
        }
        self.position.offset = got;
        Ok(Some(ReplicaEvent::Frame(DecodedFrame {
            offset: got,
            epoch: frame.epoch,
            payload: bytes.slice(frame.payload.clone()),
        })))
    }

    fn end(&mut self, offset: u64, totals: SnapshotTotals) -> Result<ReplicaEvent, ReplicaError> {
        let (begun, digest) = self.loading.take().ok_or(ReplicaError::OutOfPlace)?;
        if begun != offset || digest.totals() != totals {
            return Err(ReplicaError::SnapshotDamaged);
        }
        self.position = Position {
            history: self.terms.history.clone().unwrap_or_default(),
            offset,
        };
        self.continues = true;
        Ok(ReplicaEvent::SnapshotEnd { offset, totals })
    }

    /// The offset that the primary named in its answer: the one asked for, or, before a snapshot, what it had reached.
    pub fn primary_offset_at_handshake(&self) -> u64 {
        self.terms.offset
    }

    /// The offset that the next frame must have.
    pub fn expected_offset(&self) -> u64 {
        self.position.offset + 1
    }

    /// What the reader has when it has dealt with everything that it was given: to be kept, and to go on from later.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The connection, for somebody else to shut down: a reader that waits then ends with [`ReplicaError::Truncated`].
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn socket_handle(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }
}

impl Iterator for ReplicaClient {
    type Item = Result<DecodedFrame, ReplicaError>;

    /// The next frame. Ends with [`ReplicaError::SnapshotNeeded`] if the primary no longer has what follows.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_event()? {
                Ok(ReplicaEvent::Frame(frame)) => return Some(Ok(frame)),
                Ok(ReplicaEvent::Ping { .. }) => {}
                Ok(
                    ReplicaEvent::SnapshotBegin { .. }
                    | ReplicaEvent::SnapshotChunk(_)
                    | ReplicaEvent::SnapshotEnd { .. },
                ) => {
                    self.ended = true;
                    return Some(Err(ReplicaError::SnapshotNeeded));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Tries each address that the name stands for.
fn open(addr: impl ToSocketAddrs, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name stands for no address");
    for addr in addr.to_socket_addrs()? {
        match TcpStream::connect_timeout(&addr, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_pause(error: &io::Error) -> bool {
    [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ]
    .contains(&error.kind())
}
