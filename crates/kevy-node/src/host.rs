//! What the node needs of an operating system, as traits. Two hosts implement them: glommio in production (`kevy`),
//! turmoil in simulation (`kevy-sim`). Nothing else of the node touches sockets, files, clocks or dice.
//!
//! One host value belongs to one shard. [`drive`](crate::drive::drive) owns both and is the only place that awaits.

use crate::log::{DiskAction, DiskFault, DiskOperation, DiskResult, DiskTask};
use crate::message::Message;
use core::net::IpAddr;
use kevy_proto::ids::ShardId;
use kevy_proto::time::{Instant, Now};
use std::io;

/// Everything one shard's driver needs.
pub trait Host: Transport + Mesh + Clock + Storage {}

impl<H: Transport + Mesh + Clock + Storage> Host for H {}

/// Reads the clocks.
pub trait Clock {
    /// Both clocks, now. Called a few times a turn.
    fn now(&self) -> Now;
}

/// Gives random numbers: seeds for hashers and generators. The simulator's come from its seed.
pub trait Entropy {
    /// Any 64 bits.
    fn next_u64(&mut self) -> u64;
}

/// The place of a connection in its shard's tables. A slot is used again after its connection was closed, but not within
/// the same turn; [`ConnectionId`](kevy_proto::ids::ConnectionId) tells connections of one slot apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which door a connection came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The main port: every command from every client, never `-MOVED` (spec C2).
    Main,
    /// The port of one shard in cluster mode: keys of other shards get `-MOVED` (spec C3).
    Shard(ShardId),
    /// The Unix socket: as the main port.
    Unix,
}

/// What is known of a connection when it is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The door it came through.
    pub door: Door,
    /// The client's address as `CLIENT LIST` shows it (`127.0.0.1:50312`, or the socket's path).
    pub address: String,
    /// Our address as the client sees it (`127.0.0.1:6004`).
    pub local_address: String,
    /// The IP the client connected to: what `-MOVED` and `CLUSTER SLOTS` advertise by default. None on a Unix socket.
    pub local_ip: Option<IpAddr>,
    /// Connections of the whole process, this one included: for `maxclients`.
    pub connected_total: usize,
}

/// Something that happened to a shard's connections and files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was accepted at `slot`.
    Connected {
        /// Its place until it is closed.
        slot: Slot,
        /// Who it is.
        peer: Peer,
    },
    /// There may be bytes to read, or the end of the stream. Edge-triggered: read until [`Received::Nothing`] or a short read.
    Readable(Slot),
    /// Bytes can be sent again after [`Transport::send`] took less than all.
    Writable(Slot),
    /// The process was asked to stop (SIGTERM, SIGINT).
    ShutdownRequested,
    /// An operation on a file has ended.
    Disk {
        /// What it was for.
        task: DiskTask,
        /// How it ended.
        result: DiskResult,
    },
}

/// What [`Transport::receive_bytes`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// That many bytes (at least 1) are in the buffer.
    Bytes(usize),
    /// None now; a [`Event::Readable`] will come.
    Nothing,
    /// The peer is gone or has closed its side.
    Closed,
}

/// How far [`Transport::send_bytes`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// That many bytes were taken, perhaps 0. If not all: a [`Event::Writable`] will come.
    Bytes(usize),
    /// The peer is gone.
    Closed,
}

/// How long a shard is willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Not at all: there is work left, only collect what has happened.
    pub none: bool,
    /// At most until then.
    pub deadline: Instant,
    /// Answers of other shards are outstanding: it pays to poll a little longer before parking.
    pub expects_messages: bool,
}

/// The connections of one shard, non-blocking.
pub trait Transport {
    /// Waits until an event happened, a message arrived in the mesh, or the patience is over, and appends the events.
    ///
    /// # Errors
    /// Only what makes it pointless to go on (the poller is broken). Faults of one connection show when it is read.
    fn wait(
        &mut self,
        patience: Patience,
        events: &mut Vec<Event>,
    ) -> impl Future<Output = io::Result<()>>;

    /// Reads what has arrived on `slot` into `buffer`.
    fn receive_bytes(&mut self, slot: Slot, buffer: &mut [u8]) -> Received;

    /// Sends as much of `bytes` as goes without waiting.
    fn send_bytes(&mut self, slot: Slot, bytes: &[u8]) -> Sent;

    /// Closes the connection: the peer sees the end of the stream after what was sent. The slot is free from the next turn on.
    fn close(&mut self, slot: Slot);

    /// Stops accepting connections, for a clean shutdown.
    fn stop_accepting(&mut self);
}

/// Messages between the shards of one process: bounded queues, first in first out per ordered pair of shards, never lost.
pub trait Mesh {
    /// Queues `message` for `to` and rings its doorbell if it sleeps.
    ///
    /// # Errors
    /// Gives the message back if the queue is full; the caller keeps it and stops reading from its clients meanwhile.
    fn send_message(&mut self, to: ShardId, message: Message) -> Result<(), Message>;

    /// The next message for this shard, if there is one.
    fn receive_message(&mut self) -> Option<(ShardId, Message)>;
}

/// The files of the data directory while the shard is at work: operations run beside its turns.
pub trait Storage {
    /// Begins `operation`; its end comes as [`Event::Disk`]. Operations on one file may overlap only in that a sync covers
    /// the writes that had ended before it began.
    fn start(&mut self, operation: DiskOperation);
}

/// Files of the data directory, one operation after the other: at the start, and for tools. Each name is a plain file name
/// inside of it.
pub trait Disk {
    /// Does something with a file.
    ///
    /// # Errors
    /// As the file system says; [`io::ErrorKind::NotFound`] if a file that is to be read is not there.
    fn perform(&mut self, file: &str, action: DiskAction) -> impl Future<Output = DiskResult>;

    /// Names of the files there are, in byte order.
    ///
    /// # Errors
    /// As the file system says.
    fn list(&mut self) -> impl Future<Output = Result<Vec<String>, DiskFault>>;
}
