//! What is measured: a cell of the sweep, its commands, and the keys they touch.
//!
//! Keys are 16 bytes, `key:` and twelve digits, drawn evenly from the key space and written out
//! beforehand on a *tape* that every connection reads from a place of its own: a request costs the
//! generator a copy of twelve bytes.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use crc16::{State, XMODEM};
use serde::{Deserialize, Serialize};

/// Number of hash slots of a Redis cluster.
pub const SLOTS: u16 = 16_384;
/// What every key begins with.
pub const KEY_PREFIX: &[u8] = b"key:";
/// Digits of a key.
pub const KEY_DIGITS: usize = 12;
/// Length of a key, in bytes.
pub const KEY_BYTES: usize = KEY_PREFIX.len() + KEY_DIGITS;
/// Values of one key space together, in bytes: it is made smaller where values are large.
pub const MAX_VALUES_BYTES: usize = 256 << 20;
/// Entries of a tape.
const TAPE_KEYS: usize = 1 << 20;
/// How often a key of a small key space stands on the tape, on average.
const TAPE_ROUNDS: usize = 8;
/// Share of GETs in `mixed` when none is given, in percent.
const DEFAULT_GET_PERCENT: u8 = 80;

/// What the connections of a cell send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Command {
    /// SET key value
    Set,
    /// GET key, of keys loaded before
    Get,
    /// PING: network and dispatch alone
    Ping,
    /// SETs with this share of GETs, in percent
    Mixed(u8),
}

impl FromStr for Command {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "set" => Ok(Self::Set),
            "get" => Ok(Self::Get),
            "ping" => Ok(Self::Ping),
            "mixed" => Ok(Self::Mixed(DEFAULT_GET_PERCENT)),
            _ => lower
                .strip_prefix("mixed:")
                .and_then(|percent| percent.parse().ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Mixed)
                .ok_or_else(|| format!("`{text}` is none of set, get, ping, mixed, mixed:PERCENT")),
        }
    }
}

impl TryFrom<String> for Command {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Command> for String {
    fn from(command: Command) -> Self {
        command.to_string()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set => f.write_str("set"),
            Self::Get => f.write_str("get"),
            Self::Ping => f.write_str("ping"),
            Self::Mixed(percent) => write!(f, "mixed:{percent}"),
        }
    }
}

/// When a server that logs its writes makes them durable; names as in `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Once a second
    Everysec,
    /// Before each reply
    Always,
}

impl fmt::Display for Fsync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everysec => "everysec",
            Self::Always => "always",
        })
    }
}

/// One cell of the sweep: everything about the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// What is sent.
    pub command: Command,
    /// How many connections send it.
    pub connections: usize,
    /// Requests in flight on each.
    pub pipeline: usize,
    /// Length of a value, in bytes.
    pub value_bytes: usize,
    /// Share of keys that another shard than the connection's owns; none: keys as they come.
    pub hop_percent: Option<u8>,
    /// The servers log their writes with this policy; none: they keep nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync: Option<Fsync>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} c={} P={} d={}",
            self.command, self.connections, self.pipeline, self.value_bytes
        )?;
        self.hop_percent
            .map_or(Ok(()), |hop| write!(f, " hop={hop}"))?;
        self.fsync.map_or(Ok(()), |fsync| write!(f, " {fsync}"))
    }
}

/// The keys of a cell, parted by whether the connection's own shard owns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpace {
    own: Vec<u64>,
    other: Vec<u64>,
    hop_percent: u8,
}

impl KeySpace {
    /// `keys` keys, fewer where [`MAX_VALUES_BYTES`] would be passed; all are drawn alike.
    pub fn even(keys: usize, value_bytes: usize) -> Self {
        Self {
            own: (0..bounded(keys, value_bytes)).collect(),
            other: Vec::new(),
            hop_percent: 0,
        }
    }

    /// As [`Self::even`], parted by slot: `is_own` says which slots the connection's shard owns.
    ///
    /// # Errors
    /// A text when one side has no key to draw.
    pub fn parted(
        keys: usize,
        value_bytes: usize,
        hop_percent: u8,
        is_own: impl Fn(u16) -> bool,
    ) -> Result<Self, String> {
        let (own, other): (Vec<u64>, Vec<u64>) =
            (0..bounded(keys, value_bytes)).partition(|id| is_own(slot(&key(*id))));
        if (own.is_empty() && hop_percent < 100) || (other.is_empty() && hop_percent > 0) {
            return Err("all keys belong to one shard: more threads or keys are needed".into());
        }
        Ok(Self {
            own,
            other,
            hop_percent,
        })
    }

    /// Every key, for loading them.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.own.iter().chain(&self.other).copied()
    }

    fn len(&self) -> usize {
        self.own.len() + self.other.len()
    }

    /// A tape of keys drawn from here with this seed.
    pub fn tape(&self, seed: u64) -> Tape {
        let mut random = fastrand::Rng::with_seed(seed);
        let draw = |random: &mut fastrand::Rng| {
            let hops = random.u8(0..100) < self.hop_percent;
            let side = if hops { &self.other } else { &self.own };
            digits(side[random.usize(0..side.len())])
        };
        let count = TAPE_KEYS.min(TAPE_ROUNDS * self.len());
        Tape((0..count).map(|_| draw(&mut random)).collect())
    }
}

fn bounded(keys: usize, value_bytes: usize) -> u64 {
    keys.min(MAX_VALUES_BYTES / value_bytes.max(1)).max(1) as u64
}

/// Key digits in the order in which they are asked for; it starts again at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tape(Vec<[u8; KEY_DIGITS]>);

impl Tape {
    /// The digits at this place, which is below the period.
    ///
    /// # Panics
    /// When it is not.
    pub fn at(&self, place: usize) -> &[u8; KEY_DIGITS] {
        &self.0[place]
    }

    /// Entries before it starts again.
    pub fn period(&self) -> usize {
        self.0.len()
    }
}

/// The twelve digits of a key.
pub fn digits(id: u64) -> [u8; KEY_DIGITS] {
    let mut out = [b'0'; KEY_DIGITS];
    let mut rest = id;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out
}

/// The whole key.
pub fn key(id: u64) -> [u8; KEY_BYTES] {
    let mut out = [0; KEY_BYTES];
    out[..KEY_PREFIX.len()].copy_from_slice(KEY_PREFIX);
    out[KEY_PREFIX.len()..].copy_from_slice(&digits(id));
    out
}

/// The slot of a key without a hash tag.
pub fn slot(key: &[u8]) -> u16 {
    State::<XMODEM>::calculate(key) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_round_trip_through_text() {
        for text in ["set", "get", "ping", "mixed:80", "mixed:0", "mixed:100"] {
            assert_eq!(text.parse::<Command>().unwrap().to_string(), text);
        }
        assert_eq!("MIXED".parse(), Ok(Command::Mixed(80)));
        for bad in ["", "del", "mixed:", "mixed:101", "mixed:-1"] {
            assert!(bad.parse::<Command>().is_err(), "{bad}");
        }
    }

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
    }

    #[test]
    fn keys_are_sixteen_bytes() {
        assert_eq!(&key(42), b"key:000000000042");
        assert_eq!(&digits(123_456_789_012), b"123456789012");
    }

    #[test]
    fn large_values_shrink_the_key_space() {
        assert_eq!(KeySpace::even(1000, 64).len(), 1000);
        assert_eq!(KeySpace::even(1000, 1 << 20).len(), 256);
        assert_eq!(KeySpace::even(1000, 1 << 30).len(), 1);
    }

    #[test]
    fn hopping_keys_are_drawn_in_the_share_asked_for() {
        let is_own = |slot: u16| slot < SLOTS / 2;
        for (percent, low, high) in [(0, 0, 0), (50, 45, 55), (100, 100, 100)] {
            let space = KeySpace::parted(10_000, 64, percent, is_own).unwrap();
            let tape = space.tape(7);
            let mut whole = key(0);
            let hops = (0..tape.period())
                .filter(|place| {
                    whole[KEY_PREFIX.len()..].copy_from_slice(tape.at(*place));
                    !is_own(slot(&whole))
                })
                .count();
            let share = 100 * hops / tape.period();
            assert!((low..=high).contains(&share), "{percent}: {share}");
        }
        assert!(KeySpace::parted(100, 64, 50, |_| true).is_err());
        assert!(KeySpace::parted(100, 64, 0, |_| true).is_ok());
    }
}
