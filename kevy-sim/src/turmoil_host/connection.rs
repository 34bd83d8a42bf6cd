//! One connection of a simulated node: two bounded buffers between the shard, which never waits, and two tasks that wait for
//! the network.

use crate::swarm::Options;
use kevy_node::host::{Event, Received, Sent, Slot};
use kevy_proto::rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{sleep, timeout};
use turmoil::net::TcpStream;
use turmoil::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// How long a closed connection goes on reading (and forgetting) what its peer sends, so that its last replies are not
/// overtaken by a reset.
const LINGER: Duration = Duration::from_secs(1);

/// What waits for one shard.
#[derive(Default)]
pub(crate) struct Inbox {
    /// Rung whenever something was put in, here or in the mesh.
    pub(crate) bell: Notify,
    pub(crate) arrivals: RefCell<VecDeque<Arrival>>,
    ready: RefCell<VecDeque<(Rc<Connection>, Readiness)>>,
    shutdown_requested: Cell<bool>,
    /// Ends of operations on files.
    reports: RefCell<VecDeque<Event>>,
}

/// A connection that was accepted for a shard.
pub(crate) struct Arrival {
    pub(crate) stream: TcpStream,
    pub(crate) peer: kevy_node::host::Peer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Readable,
    Writable,
}

impl Inbox {
    pub(crate) fn arrive(&self, arrival: Arrival) {
        self.arrivals.borrow_mut().push_back(arrival);
        self.bell.notify_one();
    }

    pub(crate) fn report(&self, event: Event) {
        self.reports.borrow_mut().push_back(event);
        self.bell.notify_one();
    }

    pub(crate) fn request_shutdown(&self) {
        self.shutdown_requested.set(true);
        self.bell.notify_one();
    }

    /// Moves everything that is ready to `events`.
    pub(crate) fn collect(&self, events: &mut Vec<Event>) {
        events.extend(self.reports.borrow_mut().drain(..));
        while let Some((connection, readiness)) = self.ready.borrow_mut().pop_front() {
            let mut state = connection.state.borrow_mut();
            match readiness {
                Readiness::Readable => state.readable_queued = false,
                Readiness::Writable => state.writable_queued = false,
            }
            if state.closing {
                continue;
            }
            events.push(match readiness {
                Readiness::Readable => Event::Readable(connection.slot),
                Readiness::Writable => Event::Writable(connection.slot),
            });
        }
        if self.shutdown_requested.replace(false) {
            events.push(Event::ShutdownRequested);
        }
    }
}

/// One connection, as its shard sees it.
pub(crate) struct Connection {
    slot: Slot,
    inbox: Rc<Inbox>,
    buffer_bytes: usize,
    chunk_bytes: usize,
    state: RefCell<State>,
    /// Rung when there is room in the input, or nobody wants it any more.
    room: Notify,
    /// Rung when there is output to send, or the connection is closing.
    work: Notify,
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other, as those of a socket are"
)]
struct State {
    input: VecDeque<u8>,
    /// The peer has closed its side or is gone.
    input_ended: bool,
    output: VecDeque<u8>,
    /// Nothing can be sent any more.
    broken: bool,
    closing: bool,
    wants_writable: bool,
    readable_queued: bool,
    writable_queued: bool,
}

/// What a shard's read or write came to, and whether it was cut short of what there was.
pub(crate) struct Moved<T> {
    pub(crate) outcome: T,
    pub(crate) was_cut: bool,
}

impl Connection {
    /// Starts the tasks of `stream`.
    pub(crate) fn start(
        slot: Slot,
        stream: TcpStream,
        inbox: Rc<Inbox>,
        options: &Options,
        rng: &mut Rng,
    ) -> Rc<Self> {
        let connection = Rc::new(Self {
            slot,
            inbox,
            buffer_bytes: options.socket_bytes,
            chunk_bytes: options.chunk_bytes,
            state: RefCell::default(),
            room: Notify::new(),
            work: Notify::new(),
        });
        let (read_half, write_half) = stream.into_split();
        let (reads, writes) = (rng.next_u64(), rng.next_u64());
        let reader = spawn_local(read(
            Rc::clone(&connection),
            read_half,
            Rng::from_seed(reads),
        ));
        spawn_local(write(
            Rc::clone(&connection),
            write_half,
            Rng::from_seed(writes),
            reader.abort_handle(),
        ));
        connection
    }

    /// The shard reads, without waiting; at a seeded point the read is cut short although there is more.
    pub(crate) fn receive(
        self: &Rc<Self>,
        buffer: &mut [u8],
        rng: &mut Rng,
    ) -> Moved<(Received, usize)> {
        let mut state = self.state.borrow_mut();
        let there = state.input.len();
        if there == 0 {
            let outcome = if state.input_ended {
                Received::Closed
            } else {
                Received::Nothing
            };
            return Moved {
                outcome: (outcome, 0),
                was_cut: false,
            };
        }
        let count = there
            .min(buffer.len())
            .min(1 + rng.below(self.chunk_bytes as u64) as usize);
        for (to, from) in buffer.iter_mut().zip(state.input.drain(..count)) {
            *to = from;
        }
        self.room.notify_one();
        // A short read ends the shard's reading: what is left, bytes or the end, must announce itself again.
        if count < there || state.input_ended {
            self.queue(&mut state, Readiness::Readable);
        }
        Moved {
            outcome: (Received::Bytes(count), count),
            was_cut: count < there,
        }
    }

    /// The shard writes, without waiting; at a seeded point the write is cut short although there is room.
    pub(crate) fn send(self: &Rc<Self>, bytes: &[u8], rng: &mut Rng) -> Moved<Sent> {
        let mut state = self.state.borrow_mut();
        if state.broken || state.closing {
            return Moved {
                outcome: Sent::Closed,
                was_cut: false,
            };
        }
        let room = self.buffer_bytes.saturating_sub(state.output.len());
        let count = bytes
            .len()
            .min(room)
            .min(1 + rng.below(self.chunk_bytes as u64) as usize);
        state.output.extend(&bytes[..count]);
        self.work.notify_one();
        let was_cut = count < bytes.len();
        if was_cut && count < room {
            self.queue(&mut state, Readiness::Writable);
        } else if was_cut {
            state.wants_writable = true;
        }
        Moved {
            outcome: Sent::Bytes(count),
            was_cut,
        }
    }

    /// The shard is done with it. What was sent still goes out.
    pub(crate) fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.closing = true;
        state.input.clear();
        self.room.notify_one();
        self.work.notify_one();
    }

    fn queue(self: &Rc<Self>, state: &mut State, readiness: Readiness) {
        let queued = match readiness {
            Readiness::Readable => &mut state.readable_queued,
            Readiness::Writable => &mut state.writable_queued,
        };
        if std::mem::replace(queued, true) {
            return;
        }
        let entry = (Rc::clone(self), readiness);
        self.inbox.ready.borrow_mut().push_back(entry);
        self.inbox.bell.notify_one();
    }

    /// Waits until there is room for input.
    async fn has_room(&self) -> usize {
        loop {
            let room = {
                let state = self.state.borrow();
                if state.closing {
                    return self.buffer_bytes;
                }
                self.buffer_bytes.saturating_sub(state.input.len())
            };
            if room > 0 {
                return room;
            }
            self.room.notified().await;
        }
    }

    fn arrived(self: &Rc<Self>, bytes: &[u8]) {
        let mut state = self.state.borrow_mut();
        if !state.closing {
            state.input.extend(bytes);
            self.queue(&mut state, Readiness::Readable);
        }
    }

    fn ended(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.input_ended = true;
        self.queue(&mut state, Readiness::Readable);
    }

    fn broke(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.broken = true;
        state.output.clear();
        self.queue(&mut state, Readiness::Writable);
    }

    /// Waits for output and takes a piece of it; none once the connection is closing and everything is out.
    async fn next_output(self: &Rc<Self>, rng: &mut Rng) -> Option<Vec<u8>> {
        loop {
            {
                let mut state = self.state.borrow_mut();
                if !state.output.is_empty() {
                    return Some(self.take_output(&mut state, rng));
                }
                if state.closing {
                    return None;
                }
            }
            self.work.notified().await;
        }
    }

    /// Sends one piece, which turmoil takes as a whole or not at all. A writer that waits for room is not woken when its peer
    /// resets the connection, as a kernel would wake it: so it gives up some time after the peer's end.
    async fn send_piece(&self, half: &mut OwnedWriteHalf, piece: &[u8]) -> io::Result<()> {
        loop {
            if let Ok(sent) = timeout(LINGER, half.write_all(piece)).await {
                return sent;
            }
            if self.state.borrow().input_ended {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            }
        }
    }

    fn take_output(self: &Rc<Self>, state: &mut State, rng: &mut Rng) -> Vec<u8> {
        let most = 1 + rng.below(self.chunk_bytes.max(64) as u64) as usize;
        let count = state.output.len().min(most);
        let piece = state.output.drain(..count).collect();
        if std::mem::take(&mut state.wants_writable) {
            self.queue(state, Readiness::Writable);
        }
        piece
    }
}

async fn read(connection: Rc<Connection>, mut half: OwnedReadHalf, mut rng: Rng) {
    let mut buffer = vec![0; connection.buffer_bytes];
    loop {
        let room = connection.has_room().await;
        let most = 1 + rng.below(room as u64) as usize;
        match half.read(&mut buffer[..most]).await {
            Ok(0) => return connection.ended(),
            Err(_) => {
                connection.broke();
                return connection.ended();
            }
            Ok(count) => connection.arrived(&buffer[..count]),
        }
    }
}

async fn write(
    connection: Rc<Connection>,
    mut half: OwnedWriteHalf,
    mut rng: Rng,
    reader: AbortHandle,
) {
    while let Some(piece) = connection.next_output(&mut rng).await {
        if connection.send_piece(&mut half, &piece).await.is_err() {
            connection.broke();
            break;
        }
    }
    // An error here means that the peer is gone already: nothing is left to say to it.
    let _ = half.shutdown().await;
    sleep(LINGER).await;
    if connection.state.borrow().closing {
        reader.abort();
    }
}
