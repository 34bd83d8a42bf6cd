//! The connections of one shard: a readiness loop of our own, because glommio's streams cost two to three times as many
//! system calls (decision record 0002).
//!
//! Everything is edge-triggered and registered once, so that a request costs one `recv` and one `send` and its share of
//! an `epoll_wait`. Edges that the caller cannot see twice are kept here: a peer that sent its last bytes and the end of
//! its stream together, listeners that stopped at a limit.

use super::listener::{Accepted, Listener};
use kevy_node::host::{Door, Event, Peer, Received, Sent, Slot};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The token of a shard's doorbell.
pub(crate) const DOORBELL: Token = Token(usize::MAX);
/// Listeners have the tokens from here on; connections those below.
const FIRST_LISTENER: usize = 1 << 32;
/// Readiness that one look at the poller collects.
const EVENTS_PER_LOOK: usize = 1024;
/// Connections that one listener accepts before others have their turn.
const ACCEPTS_PER_LOOK: usize = 512;
/// How long accepting stops when the process or the machine has no more descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How many bytes that a client still sends are thrown away at a close, so that it gets the end of the stream after our
/// reply, and not a reset in place of it.
const DISCARDED_AT_CLOSE_BYTES: usize = 256 * 1024;

/// The connections of the whole process, counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// How many there are now.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> (Counted, usize) {
        let total = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        (Counted(Arc::clone(&self.0)), total)
    }
}

/// One connection's place in the [`ConnectionCount`].
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    is_unix: bool,
    /// A send took less than all: the next writability is news.
    is_blocked: bool,
    /// The poller saw the end of the stream: a short read is not the last one.
    has_ended: bool,
    _counted: Counted,
}

impl Connection {
    /// TCP sockets report writability only after a send that was cut short, so asking for it always is free. Unix sockets
    /// report it whenever the peer reads, so it is asked for when it is news.
    fn interest(&self) -> Interest {
        if self.is_blocked || !self.is_unix {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        }
    }
}

/// The sockets of one shard and their poller.
pub(crate) struct Network {
    poll: Poll,
    ready: Events,
    listeners: Vec<Listener>,
    /// Listeners that may have more to accept although no edge will tell.
    unfinished_listeners: Vec<usize>,
    accept_again_at: Option<Instant>,
    /// The operator was told that accepting fails.
    has_accept_fault: bool,
    connections: Vec<Option<Connection>>,
    free: Vec<Slot>,
    /// Closed in this turn: free in the next.
    closed: Vec<Slot>,
    /// Read short although the stream has ended.
    unread_ends: Vec<Slot>,
    count: ConnectionCount,
}

impl Network {
    /// Registers `listeners` with `poll`.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub(crate) fn new(
        poll: Poll,
        listeners: Vec<Listener>,
        count: ConnectionCount,
    ) -> io::Result<Self> {
        for (index, listener) in listeners.iter().enumerate() {
            poll.registry().register(
                &mut SourceFd(&listener.socket().as_raw_fd()),
                Token(FIRST_LISTENER + index),
                Interest::READABLE,
            )?;
        }
        Ok(Self {
            poll,
            ready: Events::with_capacity(EVENTS_PER_LOOK),
            unfinished_listeners: Vec::with_capacity(listeners.len()),
            listeners,
            accept_again_at: None,
            has_accept_fault: false,
            connections: Vec::new(),
            free: Vec::new(),
            closed: Vec::new(),
            unread_ends: Vec::new(),
            count,
        })
    }

    /// Begins a turn: the slots closed in the last one can be used again.
    pub(crate) fn begin_turn(&mut self) {
        self.free.append(&mut self.closed);
    }

    /// Collects what has happened, waiting for at most `timeout` if nothing has.
    ///
    /// # Errors
    /// As epoll_wait(2), except for interruptions.
    pub(crate) fn collect(&mut self, timeout: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        self.report_unread_ends(events);
        self.resume_accepting(events);
        let timeout = if events.is_empty() {
            self.accept_again_at.map_or(timeout, |at| {
                timeout.min(at.saturating_duration_since(Instant::now()))
            })
        } else {
            Duration::ZERO
        };
        match self.poll.poll(&mut self.ready, Some(timeout)) {
            Ok(()) => self.report_ready(events),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A descriptor of its own that is readable while the poller has something to report.
    ///
    /// # Errors
    /// As dup(2).
    pub(crate) fn readiness(&self) -> io::Result<OwnedFd> {
        self.poll.registry().as_fd().try_clone_to_owned()
    }

    /// As [`Transport::receive_bytes`](kevy_node::host::Transport::receive_bytes).
    pub(crate) fn receive(&mut self, slot: Slot, buffer: &mut [u8]) -> Received {
        let Some(connection) = connection_at(&self.connections, slot) else {
            return Received::Closed;
        };
        let room = buffer.len();
        match retry(|| recv(&connection.socket, &mut *buffer, RecvFlags::empty())) {
            Ok((0, _)) => Received::Closed,
            Ok((count, _)) => {
                if count < room && connection.has_ended {
                    self.unread_ends.push(slot);
                }
                Received::Bytes(count)
            }
            Err(Errno::WOULDBLOCK) => Received::Nothing,
            Err(_) => Received::Closed,
        }
    }

    /// As [`Transport::send_bytes`](kevy_node::host::Transport::send_bytes).
    pub(crate) fn send(&mut self, slot: Slot, bytes: &[u8]) -> Sent {
        let Some(connection) = self
            .connections
            .get_mut(slot.index())
            .and_then(Option::as_mut)
        else {
            return Sent::Closed;
        };
        let count = match retry(|| send(&connection.socket, bytes, SendFlags::NOSIGNAL)) {
            Ok(count) => count,
            Err(Errno::WOULDBLOCK) => 0,
            Err(_) => return Sent::Closed,
        };
        if count < bytes.len() && !connection.is_blocked {
            connection.is_blocked = true;
            if connection.is_unix && reregister(&self.poll, slot, connection).is_err() {
                return Sent::Closed;
            }
        }
        Sent::Bytes(count)
    }

    /// As [`Transport::close`](kevy_node::host::Transport::close).
    pub(crate) fn close(&mut self, slot: Slot) {
        let connection = self
            .connections
            .get_mut(slot.index())
            .and_then(Option::take);
        if let Some(connection) = connection {
            end_stream(&connection.socket);
            self.closed.push(slot);
        }
    }

    /// As [`Transport::stop_accepting`](kevy_node::host::Transport::stop_accepting): closes the listeners.
    pub(crate) fn stop_accepting(&mut self) {
        self.listeners.clear();
        self.unfinished_listeners.clear();
        self.accept_again_at = None;
    }

    fn report_unread_ends(&mut self, events: &mut Vec<Event>) {
        for slot in self.unread_ends.drain(..) {
            if connection_at(&self.connections, slot).is_some() {
                events.push(Event::Readable(slot));
            }
        }
    }

    fn resume_accepting(&mut self, events: &mut Vec<Event>) {
        if self.unfinished_listeners.is_empty() {
            return;
        }
        if self.accept_again_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.accept_again_at = None;
        for index in std::mem::take(&mut self.unfinished_listeners) {
            self.accept_from(index, events);
        }
    }

    fn report_ready(&mut self, events: &mut Vec<Event>) {
        let ready = std::mem::replace(&mut self.ready, Events::with_capacity(0));
        for event in &ready {
            match event.token() {
                DOORBELL => {}
                Token(token) if token >= FIRST_LISTENER => {
                    self.accept_from(token - FIRST_LISTENER, events);
                }
                Token(token) => self.report_connection(Slot(token as u32), event, events),
            }
        }
        self.ready = ready;
    }

    fn report_connection(
        &mut self,
        slot: Slot,
        event: &mio::event::Event,
        events: &mut Vec<Event>,
    ) {
        let Some(connection) = self
            .connections
            .get_mut(slot.index())
            .and_then(Option::as_mut)
        else {
            return;
        };
        connection.has_ended |= event.is_read_closed() || event.is_error();
        if event.is_readable() || connection.has_ended {
            events.push(Event::Readable(slot));
        }
        if event.is_writable() && connection.is_blocked {
            connection.is_blocked = false;
            if connection.is_unix {
                // Should this fail, the send that follows says what is wrong with the connection.
                let _ = reregister(&self.poll, slot, connection);
            }
            events.push(Event::Writable(slot));
        }
    }

    /// Accepts all that wait, up to a limit.
    fn accept_from(&mut self, index: usize, events: &mut Vec<Event>) {
        for _ in 0..ACCEPTS_PER_LOOK {
            let Some(listener) = self.listeners.get(index) else {
                return;
            };
            match listener.accept() {
                Ok(accepted) => {
                    let door = listener.door();
                    self.admit(accepted, door, events);
                }
                Err(Errno::WOULDBLOCK) => {
                    self.has_accept_fault = false;
                    return;
                }
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    return self.pause_accepting(index, error);
                }
                // The connection was gone before it was accepted, or a signal came: the next one.
                Err(_) => {}
            }
        }
        self.resume_later(index);
    }

    fn pause_accepting(&mut self, index: usize, error: Errno) {
        if !self.has_accept_fault {
            self.has_accept_fault = true;
            tracing::warn!(
                "Accepting client connections: {error}; trying every {} ms until it works",
                ACCEPT_PAUSE.as_millis()
            );
        }
        self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
        self.resume_later(index);
    }

    fn resume_later(&mut self, index: usize) {
        if !self.unfinished_listeners.contains(&index) {
            self.unfinished_listeners.push(index);
        }
    }

    fn admit(&mut self, accepted: Accepted, door: Door, events: &mut Vec<Event>) {
        let (counted, connected_total) = self.count.enter();
        let connection = Connection {
            socket: accepted.socket,
            is_unix: door == Door::Unix,
            is_blocked: false,
            has_ended: false,
            _counted: counted,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            Slot(self.connections.len() as u32 - 1)
        });
        let registered = self.poll.registry().register(
            &mut SourceFd(&connection.socket.as_raw_fd()),
            Token(slot.index()),
            connection.interest(),
        );
        if let Err(error) = registered {
            tracing::warn!("Registering client connection: {error}");
            self.free.push(slot);
            return;
        }
        self.connections[slot.index()] = Some(connection);
        let peer = Peer {
            door,
            address: accepted.address,
            local_address: accepted.local_address,
            local_ip: accepted.local_ip,
            connected_total,
        };
        events.push(Event::Connected { slot, peer });
    }
}

fn connection_at(connections: &[Option<Connection>], slot: Slot) -> Option<&Connection> {
    connections.get(slot.index()).and_then(Option::as_ref)
}

fn reregister(poll: &Poll, slot: Slot, connection: &Connection) -> io::Result<()> {
    poll.registry().reregister(
        &mut SourceFd(&connection.socket.as_raw_fd()),
        Token(slot.index()),
        connection.interest(),
    )
}

/// Calls again if a signal came in between.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Sends the end of the stream, and throws away what the peer has sent: a socket closed over unread bytes sends a reset,
/// which can overtake our last reply.
fn end_stream(socket: &OwnedFd) {
    // Fails if the peer is gone, and then there is nobody to tell.
    let _ = shutdown(socket, Shutdown::Write);
    let mut discarded = 0;
    let mut buffer = [0; 4096];
    while discarded < DISCARDED_AT_CLOSE_BYTES {
        match recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(_) => return,
            Ok((count, _)) => discarded += count,
        }
    }
}
