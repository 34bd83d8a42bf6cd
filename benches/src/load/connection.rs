//! One connection of the generator: send a batch, check its replies, send the next.
//!
//! Readiness is edge-triggered. A read that does not fill the buffer has emptied the socket
//! (epoll(7)), so a turn of a connection is one read and one write.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

use hdrhistogram::Histogram;
use mio::net::TcpStream;

use super::batch::{Batch, Kind};
use crate::reply::{Malformed, Skipper};

/// Latencies are kept up to this, in nanoseconds: longer ones count as this.
const MAX_LATENCY_NS: u64 = 60_000_000_000;
/// Significant decimal digits kept of a latency.
const LATENCY_DIGITS: u8 = 3;

/// Replies that were not what they had to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// What the first one was.
    pub first: Option<String>,
}

impl Faults {
    /// Counts one; `text` is only made for the first.
    pub fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(text());
        }
    }

    /// Adds another count.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }
}

/// What a generator thread has seen.
#[derive(Clone, Debug)]
pub struct Tally {
    /// From sending a batch to its last reply, once per request, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Replies received since the last [`Self::take_replies`], right or wrong.
    replies: u64,
    /// Replies that were wrong, from the first connection on: never forgotten.
    pub faults: Faults,
}

impl Tally {
    /// Nothing seen yet.
    ///
    /// # Errors
    /// Never with the constants above; the histogram's own check is passed on.
    pub fn new() -> io::Result<Self> {
        let latency_ns = Histogram::new_with_bounds(1, MAX_LATENCY_NS, LATENCY_DIGITS)
            .map_err(io::Error::other)?;
        Ok(Self {
            latency_ns,
            replies: 0,
            faults: Faults::default(),
        })
    }

    /// Forgets the latencies of the warm-up, but not its faults.
    pub fn begin_window(&mut self) {
        self.latency_ns.reset();
    }

    /// Replies since this was last asked.
    pub fn take_replies(&mut self) -> u64 {
        std::mem::take(&mut self.replies)
    }
}

/// One connection and where it stands.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    batch: Batch,
    skipper: Skipper,
    value_bytes: usize,
    sent_bytes: usize,
    answered: usize,
    begun: Instant,
}

impl Connection {
    /// Takes over a connected, non-blocking stream.
    pub(super) fn new(stream: TcpStream, batch: Batch, value_bytes: usize) -> Self {
        Self {
            stream,
            batch,
            skipper: Skipper::default(),
            value_bytes,
            sent_bytes: 0,
            answered: 0,
            begun: Instant::now(),
        }
    }

    /// The stream, to register it.
    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Begins a new batch and sends what the socket takes.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.batch.renew();
        self.sent_bytes = 0;
        self.answered = 0;
        self.begun = Instant::now();
        self.send()
    }

    /// Sends what is left of the batch, as far as the socket takes it.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.sent_bytes < self.batch.bytes().len() {
            match self.stream.write(&self.batch.bytes()[self.sent_bytes..]) {
                Ok(count) => self.sent_bytes += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until the socket is empty; every batch that ends begins the next.
    ///
    /// # Errors
    /// When the connection breaks, ends, or stops speaking the protocol.
    pub(super) fn receive(&mut self, buffer: &mut [u8], tally: &mut Tally) -> io::Result<()> {
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.take(&buffer[..count], tally)?;
            if count < buffer.len() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, bytes: &[u8], tally: &mut Tally) -> io::Result<()> {
        let kinds = self.batch.kinds();
        let before = self.answered;
        let answered = check(
            &mut self.skipper,
            bytes,
            &kinds[before..],
            self.value_bytes,
            &mut tally.faults,
        )
        .map_err(|broken| io::Error::new(ErrorKind::InvalidData, broken))?;
        self.answered += answered;
        tally.replies += answered as u64;
        if self.answered < self.batch.kinds().len() {
            return Ok(());
        }
        let latency_ns = self.begun.elapsed().as_nanos() as u64;
        tally
            .latency_ns
            .saturating_record_n(latency_ns, self.answered as u64);
        self.begin()
    }
}

/// Feeds the bytes and checks each reply against the request it answers; how many there were.
fn check(
    skipper: &mut Skipper,
    bytes: &[u8],
    kinds: &[Kind],
    value_bytes: usize,
    faults: &mut Faults,
) -> Result<usize, Malformed> {
    let mut answered = 0;
    let mut surplus = false;
    skipper.feed(bytes, |reply| {
        match kinds.get(answered) {
            Some(kind) if kind.accepts(reply, value_bytes) => {}
            Some(kind) => faults.add(|| format!("{kind:?} answered {reply}")),
            None => surplus = true,
        }
        answered += 1;
    })?;
    if surplus {
        return Err(Malformed("more replies than requests".into()));
    }
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(bytes: &[u8], kinds: &[Kind]) -> (Result<usize, Malformed>, Faults) {
        let mut faults = Faults::default();
        let outcome = check(&mut Skipper::default(), bytes, kinds, 2, &mut faults);
        (outcome, faults)
    }

    #[test]
    fn right_replies_are_counted() {
        let (outcome, faults) = checked(b"+OK\r\n$2\r\nxx\r\n", &[Kind::Set, Kind::Get]);
        assert_eq!(outcome, Ok(2));
        assert_eq!(faults, Faults::default());
    }

    #[test]
    fn wrong_replies_are_faults_and_the_first_is_told() {
        let (outcome, faults) = checked(b"-ERR a\r\n$-1\r\n", &[Kind::Set, Kind::Get]);
        assert_eq!(outcome, Ok(2));
        assert_eq!(faults.count, 2);
        assert_eq!(faults.first.as_deref(), Some("Set answered -ERR a"));
    }

    #[test]
    fn a_reply_nobody_asked_for_breaks_the_connection() {
        assert!(checked(b"+OK\r\n+OK\r\n", &[Kind::Set]).0.is_err());
    }
}
