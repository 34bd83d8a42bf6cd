//! What happened in a simulation, in order, as one number: two runs of one seed are the same run if their hashes are equal.
//!
//! Every event is folded into an FNV-1a hash at once; its text is kept only when a dump was asked for.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::time::Duration;

/// One thing that happened. Numbers are as small as they are so that an event is one line in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A shard accepted a connection at a slot.
    Connected {
        /// The shard.
        shard: u16,
        /// The slot.
        slot: u32,
    },
    /// The node read these bytes from a connection.
    Received {
        /// The shard.
        shard: u16,
        /// The slot.
        slot: u32,
        /// What it read.
        bytes: &'a [u8],
    },
    /// The node gave these bytes to a connection.
    Sent {
        /// The shard.
        shard: u16,
        /// The slot.
        slot: u32,
        /// What was taken of it.
        bytes: &'a [u8],
    },
    /// The node saw the end of a connection.
    Ended {
        /// The shard.
        shard: u16,
        /// The slot.
        slot: u32,
    },
    /// The node closed a connection.
    Closed {
        /// The shard.
        shard: u16,
        /// The slot.
        slot: u32,
    },
    /// A message was queued between two shards.
    Queued {
        /// The sender.
        from: u16,
        /// The receiver.
        to: u16,
        /// The kind of message.
        kind: &'static str,
    },
    /// A message found its queue full.
    Full {
        /// The sender.
        from: u16,
        /// The receiver.
        to: u16,
    },
    /// A message was taken out of its queue.
    Delivered {
        /// The sender.
        from: u16,
        /// The receiver.
        to: u16,
        /// The kind of message.
        kind: &'static str,
    },
    /// A shard began a turn.
    Turn {
        /// The shard.
        shard: u16,
    },
    /// A shard began an operation on a file.
    Disk {
        /// The shard.
        shard: u16,
        /// What it does.
        what: &'static str,
    },
    /// The node crashed.
    Crashed,
    /// A shard stood still for a while.
    Paused {
        /// The shard.
        shard: u16,
        /// For how long, in milliseconds.
        millis: u64,
    },
    /// A client did or saw something.
    Client {
        /// Its number.
        client: u32,
        /// What, in a word.
        what: &'static str,
        /// The request's number, or 0.
        number: u64,
    },
}

/// The trace of one simulation.
#[derive(Debug)]
pub struct Trace {
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    hash: Fnv,
    events: u64,
    text: Option<String>,
}

impl Trace {
    /// An empty trace; with `keep_text` every event is kept as a line.
    pub fn new(keep_text: bool) -> Self {
        let text = keep_text.then(String::new);
        let inner = Inner {
            hash: Fnv::default(),
            events: 0,
            text,
        };
        Self {
            inner: RefCell::new(inner),
        }
    }

    /// Records that `event` happened at `at` of simulated time.
    pub fn record(&self, at: Duration, event: Event<'_>) {
        let mut inner = self.inner.borrow_mut();
        inner.events += 1;
        inner.hash.event(at, event);
        if let Some(text) = &mut inner.text {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>12} {}", at.as_nanos(), line(event));
        }
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.inner.borrow().hash.0
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.inner.borrow().events
    }

    /// The dump, if it was asked for: one line an event, nanoseconds of simulated time first.
    pub fn take_text(&self) -> Option<String> {
        self.inner.borrow_mut().text.take()
    }
}

fn line(event: Event<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match event {
        Event::Connected { shard, slot } => format!("shard {shard} connected {slot}"),
        Event::Received { shard, slot, bytes } => {
            format!("shard {shard} received {slot} {}", text(bytes))
        }
        Event::Sent { shard, slot, bytes } => format!("shard {shard} sent {slot} {}", text(bytes)),
        Event::Ended { shard, slot } => format!("shard {shard} ended {slot}"),
        Event::Closed { shard, slot } => format!("shard {shard} closed {slot}"),
        Event::Queued { from, to, kind } => format!("mesh {from}->{to} queued {kind}"),
        Event::Full { from, to } => format!("mesh {from}->{to} full"),
        Event::Delivered { from, to, kind } => format!("mesh {from}->{to} delivered {kind}"),
        Event::Turn { shard } => format!("shard {shard} turn"),
        Event::Paused { shard, millis } => format!("shard {shard} paused {millis} ms"),
        Event::Disk { shard, what } => format!("shard {shard} disk {what}"),
        Event::Crashed => "node crashed".to_owned(),
        Event::Client {
            client,
            what,
            number,
        } => format!("client {client} {what} {number}"),
    }
}

/// FNV-1a, 64 bits: the same on every machine and in every version, which `std`'s hashers do not promise.
#[derive(Clone, Copy, Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    fn event(&mut self, at: Duration, event: Event<'_>) {
        self.number(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
        let (tag, a, b, bytes): (u8, u64, u64, &[u8]) = match event {
            Event::Connected { shard, slot } => (1, shard.into(), slot.into(), b""),
            Event::Received { shard, slot, bytes } => (2, shard.into(), slot.into(), bytes),
            Event::Sent { shard, slot, bytes } => (3, shard.into(), slot.into(), bytes),
            Event::Ended { shard, slot } => (4, shard.into(), slot.into(), b""),
            Event::Closed { shard, slot } => (5, shard.into(), slot.into(), b""),
            Event::Queued { from, to, kind } => (6, from.into(), to.into(), kind.as_bytes()),
            Event::Full { from, to } => (7, from.into(), to.into(), b""),
            Event::Delivered { from, to, kind } => (8, from.into(), to.into(), kind.as_bytes()),
            Event::Turn { shard } => (9, shard.into(), 0, b""),
            Event::Paused { shard, millis } => (10, shard.into(), millis, b""),
            Event::Disk { shard, what } => (12, shard.into(), 0, what.as_bytes()),
            Event::Crashed => (13, 0, 0, b""),
            Event::Client {
                client,
                what,
                number,
            } => (11, client.into(), number, what.as_bytes()),
        };
        self.bytes(&[tag]);
        self.number(a);
        self.number(b);
        self.text(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_millis(3);

    fn hash_of(events: &[Event<'_>]) -> u64 {
        let trace = Trace::new(false);
        for event in events {
            trace.record(AT, *event);
        }
        trace.hash()
    }

    #[test]
    fn equal_events_give_equal_hashes_and_order_counts() {
        let first = Event::Turn { shard: 1 };
        let second = Event::Full { from: 0, to: 1 };
        assert_eq!(hash_of(&[first, second]), hash_of(&[first, second]));
        assert_ne!(hash_of(&[first, second]), hash_of(&[second, first]));
    }

    #[test]
    fn every_field_counts() {
        let bytes = |bytes, slot| Event::Received {
            shard: 0,
            slot,
            bytes,
        };
        let hashes = [
            hash_of(&[bytes(b"a", 0)]),
            hash_of(&[bytes(b"b", 0)]),
            hash_of(&[bytes(b"a", 1)]),
            hash_of(&[bytes(b"a", 0), bytes(b"", 0)]),
        ];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash), "event {index}");
        }
    }

    #[test]
    fn the_dump_shows_what_was_hashed() {
        let trace = Trace::new(true);
        trace.record(
            AT,
            Event::Sent {
                shard: 2,
                slot: 7,
                bytes: b"+OK\r\n",
            },
        );
        let text = trace.take_text().unwrap();
        assert_eq!(text.trim(), r"3000000 shard 2 sent 7 +OK\r\n");
        assert_eq!(trace.events(), 1);
    }
}
