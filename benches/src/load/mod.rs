//! The load generator: threads that keep a batch of requests in flight on every connection.
//!
//! Each thread owns its connections and one epoll instance. A window is marked by a phase that all
//! threads look at once per turn; latencies are kept only for the window, faults for the whole time.

mod batch;
mod connection;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};

use self::batch::Batch;
use self::connection::Connection;
pub use self::connection::{Faults, Tally};
use crate::cores::{self, Cores};
use crate::error::{Doing, Error};
use crate::workload::{Cell, Tape};

/// What one read may take, in bytes.
const READ_BYTES: usize = 256 << 10;
/// Events taken per turn.
const EVENTS: usize = 1024;
/// How long a turn waits before it looks at the phase again.
const TURN: Duration = Duration::from_millis(10);

const WARM_UP: u8 = 0;
const WINDOW: u8 = 1;
const STOP: u8 = 2;

/// What the threads and their owner tell each other.
#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    replies: AtomicU64,
}

/// A generator at work. Dropping it stops it, too.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<Tally, Error>>>,
}

impl Load {
    /// Connects all of the cell's connections and begins to send.
    ///
    /// # Errors
    /// [`Error::Io`] when a connection or a thread cannot be made.
    pub fn start(
        addr: SocketAddr,
        cell: &Cell,
        tape: &Arc<Tape>,
        cores: Option<&Cores>,
        seed: u64,
    ) -> Result<Self, Error> {
        let count = cores.map_or(1, |c| c.list().len()).min(cell.connections);
        let mut portions: Vec<Vec<Connection>> = (0..count).map(|_| Vec::new()).collect();
        for number in 0..cell.connections {
            let batch = Batch::new(cell, Arc::clone(tape), seed.wrapping_add(number as u64));
            let stream = connect(addr).doing(|| format!("connection {number} to {addr}"))?;
            portions[number % count].push(Connection::new(stream, batch, cell.value_bytes));
        }
        let shared = Arc::new(Shared::default());
        let mut load = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for (number, share) in portions.into_iter().enumerate() {
            let core = cores.map(|cores| cores.list()[number]);
            let thread = spawn(core, share, Arc::clone(&shared))?;
            load.threads.push(thread);
        }
        Ok(load)
    }

    /// From now on latencies count.
    pub fn begin_window(&self) {
        self.shared.phase.store(WINDOW, Ordering::Relaxed);
    }

    /// Replies received since the start; a turn's replies are added at its end.
    pub fn replies(&self) -> u64 {
        self.shared.replies.load(Ordering::Relaxed)
    }

    /// How many threads send.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Ends the load and adds up what its threads saw.
    ///
    /// # Errors
    /// What broke a connection, if one broke.
    pub fn finish(mut self) -> Result<Tally, Error> {
        self.shared.phase.store(STOP, Ordering::Relaxed);
        let mut whole = Tally::new().doing(|| "make a histogram".to_owned())?;
        for thread in self.threads.drain(..) {
            let part = thread
                .join()
                .map_err(|_| Error::Reply("a generator thread panicked".into()))??;
            whole.faults.merge(part.faults);
            // Equal bounds, so adding cannot fail.
            whole
                .latency_ns
                .add(&part.latency_ns)
                .map_err(io::Error::other)
                .doing(|| "add histograms".to_owned())?;
        }
        Ok(whole)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.phase.store(STOP, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

fn connect(addr: SocketAddr) -> io::Result<mio::net::TcpStream> {
    let stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(mio::net::TcpStream::from_std(stream))
}

fn spawn(
    core: Option<usize>,
    share: Vec<Connection>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<Result<Tally, Error>>, Error> {
    std::thread::Builder::new()
        .name("load".into())
        .spawn(move || {
            if let Some(core) = core {
                cores::pin(&[core])?;
            }
            drive(share, &shared).doing(|| "a connection under load".to_owned())
        })
        .doing(|| "start a generator thread".to_owned())
}

fn drive(mut share: Vec<Connection>, shared: &Shared) -> io::Result<Tally> {
    let mut poll = Poll::new()?;
    for (number, connection) in share.iter_mut().enumerate() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(connection.stream(), Token(number), interest)?;
        connection.begin()?;
    }
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; READ_BYTES];
    let mut tally = Tally::new()?;
    let mut seen = WARM_UP;
    loop {
        wait(&mut poll, &mut events)?;
        let now = shared.phase.load(Ordering::Relaxed);
        if now == STOP {
            return Ok(tally);
        }
        if now != seen {
            tally.begin_window();
            seen = now;
        }
        for event in &events {
            let connection = &mut share[event.token().0];
            if event.is_writable() {
                connection.send()?;
            }
            if event.is_readable() {
                connection.receive(&mut buffer, &mut tally)?;
            }
        }
        shared
            .replies
            .fetch_add(tally.take_replies(), Ordering::Relaxed);
    }
}

fn wait(poll: &mut Poll, events: &mut Events) -> io::Result<()> {
    match poll.poll(events, Some(TURN)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        outcome => outcome,
    }
}
