//! A load of a given pace: SETs in small batches every millisecond, and single GETs whose times are kept.
//!
//! [`crate::load`] asks again as soon as it is answered, so it measures a server at its limit, where a
//! latency is little but the length of the queue. Here the server has time to spare, and a long latency is
//! its own fault. GETs leave at their times whether those before them are answered or not, so that a stall
//! counts once for each of them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{VALUE_BYTES, push_set};
use crate::control::{ANSWER_TIMEOUT, encode};
use crate::cores::{self, Cores};
use crate::error::{Doing, Error};
use crate::reply::{Reply, Skipper};
use crate::workload::key;

/// Between two batches of SETs.
const SET_PERIOD: Duration = Duration::from_millis(1);
/// Between two GETs.
const GET_PERIOD: Duration = Duration::from_micros(200);
/// What one read may take, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Latencies are kept up to this, in nanoseconds: longer ones count as this.
const MAX_LATENCY_NS: u64 = 60_000_000_000;
/// Significant decimal digits kept of a latency.
const LATENCY_DIGITS: u8 = 3;

/// What happened since it was last asked.
#[derive(Debug)]
pub(super) struct Seen {
    /// Times of the GETs, in nanoseconds.
    pub(super) get_ns: Histogram<u64>,
    /// SETs answered.
    pub(super) sets: u64,
    /// Since it was last asked.
    pub(super) span: Duration,
}

#[derive(Debug)]
struct Shared {
    must_stop: AtomicBool,
    sets: AtomicU64,
    get_ns: Mutex<Histogram<u64>>,
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.get_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The load at work. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Paced {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<(), Error>>>,
    since: Instant,
}

impl Paced {
    /// Begins to send: so many SETs per second to keys below `keys`, and GETs of them.
    ///
    /// # Errors
    /// [`Error::Io`] when a connection or a thread cannot be made.
    pub(super) fn start(
        addr: SocketAddr,
        keys: u64,
        sets_per_s: u32,
        cores: Option<&Cores>,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            must_stop: AtomicBool::new(false),
            sets: AtomicU64::new(0),
            get_ns: Mutex::new(histogram()?),
        });
        let mut paced = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            since: Instant::now(),
        };
        let mut line = Line::connect(addr)?;
        let batch = batch_size(sets_per_s);
        let counted = Arc::clone(&shared);
        paced.spawn(cores, move || write_sets(&mut line, &counted, keys, batch))?;
        let mut line = Line::connect(addr)?;
        let mut stream = line
            .stream
            .try_clone()
            .doing(|| "share a connection".to_owned())?;
        let (times, begun) = mpsc::channel();
        let asking = Arc::clone(&shared);
        paced.spawn(cores, move || {
            let outcome = ask_gets(&mut stream, &asking, keys, &times);
            // The server then ends the connection, and with it the other half.
            let _gone = stream.shutdown(Shutdown::Write);
            outcome
        })?;
        paced.spawn(cores, move || time_gets(&mut line, &shared, &begun))?;
        Ok(paced)
    }

    fn spawn(
        &mut self,
        cores: Option<&Cores>,
        work: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let cores = cores.cloned();
        let thread = std::thread::Builder::new()
            .name("paced".into())
            .spawn(move || {
                if let Some(cores) = cores {
                    cores::pin(cores.list())?;
                }
                work()
            })
            .doing(|| "start a generator thread".to_owned())?;
        self.threads.push(thread);
        Ok(())
    }

    /// Hands out what was seen since this was last called.
    ///
    /// # Errors
    /// Never with the constants above; the histogram's own check is passed on.
    pub(super) fn take(&mut self) -> Result<Seen, Error> {
        let fresh = histogram()?;
        let mut held = self.shared.held();
        let now = Instant::now();
        let span = now - self.since;
        self.since = now;
        Ok(Seen {
            get_ns: std::mem::replace(&mut held, fresh),
            sets: self.shared.sets.swap(0, Ordering::Relaxed),
            span,
        })
    }

    /// Ends the load.
    ///
    /// # Errors
    /// [`Error::Reply`] for the first wrong reply, [`Error::Io`] when a connection broke.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.shared.must_stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread
                .join()
                .map_err(|_| Error::Reply("a generator thread panicked".into()))??;
        }
        Ok(())
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.shared.must_stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

fn histogram() -> Result<Histogram<u64>, Error> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, LATENCY_DIGITS)
        .map_err(std::io::Error::other)
        .doing(|| "make a histogram".to_owned())
}

/// SETs of one batch.
fn batch_size(sets_per_s: u32) -> u64 {
    let batches_per_s = 1.0 / SET_PERIOD.as_secs_f64();
    ((f64::from(sets_per_s) / batches_per_s).round() as u64).max(1)
}

fn write_sets(line: &mut Line, shared: &Shared, keys: u64, batch: u64) -> Result<(), Error> {
    let value = [b'x'; VALUE_BYTES];
    let mut random = fastrand::Rng::new();
    let mut requests = Vec::new();
    let mut due = Instant::now();
    while !shared.must_stop.load(Ordering::Relaxed) {
        requests.clear();
        for _ in 0..batch {
            push_set(&mut requests, random.u64(0..keys), &value);
        }
        line.ask(&requests, batch, Reply::Status(b"OK"))?;
        shared.sets.fetch_add(batch, Ordering::Relaxed);
        // What could not be sent in time is not made up for: the pace is a limit.
        due = (due + SET_PERIOD).max(Instant::now().checked_sub(SET_PERIOD).unwrap_or(due));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Sends a GET at each due time, answered or not. One that leaves late by the sleep's own fault is not late.
fn ask_gets(
    stream: &mut TcpStream,
    shared: &Shared,
    keys: u64,
    sent: &Sender<Instant>,
) -> Result<(), Error> {
    let mut random = fastrand::Rng::new();
    let mut due = Instant::now();
    while !shared.must_stop.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let key = key(random.u64(0..keys));
        let request = encode([&b"GET"[..], &key].into_iter());
        // Told before it is sent: its reply finds it there. Nobody listens if the other half has failed.
        if sent.send(Instant::now()).is_err() {
            return Ok(());
        }
        stream
            .write_all(&request)
            .doing(|| "send a GET".to_owned())?;
        due += GET_PERIOD;
    }
    Ok(())
}

/// Takes the time of each reply until the connection ends, as it must once nothing more is asked.
fn time_gets(line: &mut Line, shared: &Shared, sent: &Receiver<Instant>) -> Result<(), Error> {
    loop {
        let more = line.receive(Reply::Bulk(VALUE_BYTES), || {
            if let Ok(begun) = sent.recv() {
                let took_ns = begun.elapsed().as_nanos() as u64;
                shared.held().saturating_record(took_ns);
            }
        })?;
        if !more && shared.must_stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !more {
            return Err(ended());
        }
    }
}

fn ended() -> Error {
    Error::Reply("the connection ended under load".into())
}

/// A blocking connection.
struct Line {
    stream: TcpStream,
    skipper: Skipper,
    buffer: Vec<u8>,
}

impl Line {
    fn connect(addr: SocketAddr) -> Result<Self, Error> {
        let doing = || format!("connect to {addr}");
        let stream = TcpStream::connect_timeout(&addr, ANSWER_TIMEOUT).doing(doing)?;
        stream.set_nodelay(true).doing(doing)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).doing(doing)?;
        Ok(Self {
            stream,
            skipper: Skipper::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Sends the requests and waits for as many replies, all of which must be `wanted`.
    fn ask(&mut self, requests: &[u8], count: u64, wanted: Reply<'_>) -> Result<(), Error> {
        self.stream
            .write_all(requests)
            .doing(|| "send requests".to_owned())?;
        let mut seen = 0;
        while seen < count {
            if !self.receive(wanted, || seen += 1)? {
                return Err(ended());
            }
        }
        Ok(())
    }

    /// Waits for replies, all of which must be `wanted`, and calls `each` for each of them; false at the end.
    fn receive(&mut self, wanted: Reply<'_>, mut each: impl FnMut()) -> Result<bool, Error> {
        let length = self
            .stream
            .read(&mut self.buffer)
            .doing(|| "wait for replies".to_owned())?;
        let mut wrong = None;
        let fed = self.skipper.feed(&self.buffer[..length], |reply| {
            each();
            if wrong.is_none() && reply != wanted {
                wrong = Some(reply.to_string());
            }
        });
        fed.map_err(|broken| Error::Reply(broken.to_string()))?;
        wrong.map_or(Ok(length > 0), |text| Err(Error::Reply(text)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_batch_is_a_millisecond_of_sets() {
        assert_eq!(batch_size(50_000), 50);
        assert_eq!(batch_size(1), 1);
    }

    #[test]
    fn gets_are_asked_without_waiting_and_each_is_timed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut line = Line::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let shared = Shared {
            must_stop: AtomicBool::new(true),
            sets: AtomicU64::new(0),
            get_ns: Mutex::new(histogram().unwrap()),
        };
        let (times, begun) = mpsc::channel();
        for _ in 0..2 {
            times.send(Instant::now()).unwrap();
            let value = [b'x'; VALUE_BYTES];
            let mut reply = Vec::new();
            crate::control::push_bulk(&mut reply, &value);
            server.write_all(&reply).unwrap();
        }
        drop(server);
        time_gets(&mut line, &shared, &begun).unwrap();
        assert_eq!(shared.held().len(), 2);
        shared.must_stop.store(false, Ordering::Relaxed);
        assert!(time_gets(&mut line, &shared, &begun).is_err());
    }

    #[test]
    fn every_reply_must_be_the_one_wanted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut line = Line::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"+OK\r\n+OK\r\n").unwrap();
        line.ask(b"", 2, Reply::Status(b"OK")).unwrap();
        server.write_all(b"-MISCONF no\r\n").unwrap();
        let wrong = line.ask(b"", 1, Reply::Status(b"OK")).unwrap_err();
        assert!(wrong.to_string().contains("-MISCONF no"), "{wrong}");
        drop(server);
        assert!(line.ask(b"", 1, Reply::Status(b"OK")).is_err());
    }
}
