//! The requests that one connection has in flight, built beforehand.
//!
//! A batch of one command is a buffer in which only the key digits are written anew; a mixed batch
//! is put together from two templates each time, because SET and GET differ in length.

use std::sync::Arc;

use crate::control::encode;
use crate::reply::Reply;
use crate::workload::{Cell, Command, KEY_DIGITS, KEY_PREFIX, Tape, key};

/// What one request was, which decides what its reply must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Answered `+OK`
    Set,
    /// Answered by a bulk of the value's length
    Get,
    /// Answered `+PONG`
    Ping,
}

impl Kind {
    /// Whether this reply is what the request must be answered with.
    pub(super) fn accepts(self, reply: Reply<'_>, value_bytes: usize) -> bool {
        match self {
            Self::Set => reply == Reply::Status(b"OK"),
            Self::Get => reply == Reply::Bulk(value_bytes),
            Self::Ping => reply == Reply::Status(b"PONG"),
        }
    }
}

/// One request with any key, and where the key's digits stand.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    digits_at: Option<usize>,
}

impl Template {
    fn new(kind: Kind, value: &[u8]) -> Self {
        let key = key(0);
        let words: Vec<&[u8]> = match kind {
            Kind::Set => vec![b"SET", &key, value],
            Kind::Get => vec![b"GET", &key],
            Kind::Ping => vec![b"PING"],
        };
        let bytes = encode(words.into_iter());
        let digits_at = memchr::memmem::find(&bytes, &key).map(|at| at + KEY_PREFIX.len());
        Self { bytes, digits_at }
    }
}

/// The batch of one connection.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    kinds: Vec<Kind>,
    digits_at: Vec<usize>,
    tape: Arc<Tape>,
    place: usize,
    mix: Option<Mix>,
}

/// What a mixed batch is put together from.
#[derive(Clone, Debug)]
struct Mix {
    get_percent: u8,
    set: Template,
    get: Template,
    random: fastrand::Rng,
}

impl Batch {
    /// For this cell, reading the tape from a place that `seed` decides.
    pub(super) fn new(cell: &Cell, tape: Arc<Tape>, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let place = random.usize(0..tape.period());
        let value = vec![b'x'; cell.value_bytes];
        let mut batch = Self {
            bytes: Vec::new(),
            kinds: Vec::new(),
            digits_at: Vec::new(),
            tape,
            place,
            mix: None,
        };
        let kind = match cell.command {
            Command::Set | Command::Mixed(_) => Kind::Set,
            Command::Get => Kind::Get,
            Command::Ping => Kind::Ping,
        };
        let template = Template::new(kind, &value);
        for _ in 0..cell.pipeline {
            batch.push(kind, &template);
        }
        if let Command::Mixed(get_percent) = cell.command {
            batch.mix = Some(Mix {
                get_percent,
                set: template,
                get: Template::new(Kind::Get, &value),
                random,
            });
        }
        batch
    }

    /// Makes the next requests in place of the last.
    pub(super) fn renew(&mut self) {
        if let Some(mut mix) = self.mix.take() {
            self.remix(&mut mix);
            self.mix = Some(mix);
        }
        for at in &self.digits_at {
            self.bytes[*at..*at + KEY_DIGITS].copy_from_slice(self.tape.at(self.place));
            self.place += 1;
            if self.place == self.tape.period() {
                self.place = 0;
            }
        }
    }

    fn remix(&mut self, mix: &mut Mix) {
        let count = self.kinds.len();
        self.bytes.clear();
        self.kinds.clear();
        self.digits_at.clear();
        for _ in 0..count {
            if mix.random.u8(0..100) < mix.get_percent {
                self.push(Kind::Get, &mix.get);
            } else {
                self.push(Kind::Set, &mix.set);
            }
        }
    }

    fn push(&mut self, kind: Kind, template: &Template) {
        let start = self.bytes.len();
        self.digits_at
            .extend(template.digits_at.map(|at| start + at));
        self.bytes.extend_from_slice(&template.bytes);
        self.kinds.push(kind);
    }

    /// The requests as they go to the wire.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the requests are, in order.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::KeySpace;

    fn batch(command: Command, pipeline: usize) -> Batch {
        let cell = Cell {
            command,
            connections: 1,
            pipeline,
            value_bytes: 3,
            hop_percent: None,
            fsync: None,
        };
        let tape = Arc::new(KeySpace::even(1000, 3).tape(1));
        let mut batch = Batch::new(&cell, tape, 5);
        batch.renew();
        batch
    }

    #[test]
    fn a_set_batch_changes_its_keys_only() {
        let mut sets = batch(Command::Set, 2);
        let first = sets.bytes().to_vec();
        sets.renew();
        let second = sets.bytes();
        assert_eq!(first.len(), second.len());
        assert_ne!(first, second);
        let text = String::from_utf8(second.to_vec()).unwrap();
        assert_eq!(text.matches("*3\r\n$3\r\nSET\r\n$16\r\nkey:").count(), 2);
        assert_eq!(text.matches("\r\n$3\r\nxxx\r\n").count(), 2);
    }

    #[test]
    fn a_mixed_batch_keeps_its_share_and_its_count() {
        let mut mixed = batch(Command::Mixed(75), 100);
        let mut gets = 0;
        for _ in 0..100 {
            mixed.renew();
            assert_eq!(mixed.kinds().len(), 100);
            gets += mixed.kinds().iter().filter(|k| **k == Kind::Get).count();
        }
        assert!((7000..8000).contains(&gets), "{gets}");
    }

    #[test]
    fn a_ping_has_no_key() {
        assert_eq!(batch(Command::Ping, 1).bytes(), b"*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn only_the_right_reply_is_accepted() {
        assert!(Kind::Set.accepts(Reply::Status(b"OK"), 3));
        assert!(!Kind::Set.accepts(Reply::Status(b"QUEUED"), 3));
        assert!(Kind::Get.accepts(Reply::Bulk(3), 3));
        assert!(!Kind::Get.accepts(Reply::Bulk(4), 3));
        assert!(!Kind::Get.accepts(Reply::Nil, 3));
        assert!(!Kind::Ping.accepts(Reply::Error(b"ERR"), 3));
    }
}
