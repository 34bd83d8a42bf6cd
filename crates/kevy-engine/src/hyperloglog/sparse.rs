//! Sparse registers: runs of equal ones, each run written as
//!
//! ```text
//! 00llllll            l + 1 zeros, 1 to 64
//! 01llllll llllllll   l + 1 zeros, 1 to 16384
//! 1vvvvvll            l + 1 registers (1 to 4) that hold v + 1 (1 to 32)
//! ```
//!
//! Which of several ways to write the same registers is chosen, and when neighbours are joined, equals what redis-server was
//! seen to do: payloads are compared byte for byte.

use super::{Corrupted, Observation};
use alloc::vec::Vec;

/// The most zeros that one byte says.
const SHORT_ZEROS: usize = 64;
/// The longest run of registers that are not zero.
const LONGEST_VALUES: usize = 4;
/// The largest value.
const LARGEST_VALUE: u8 = 32;
/// How many runs after a change are looked at for joining.
const JOIN_RUNS: usize = 5;

/// Equal registers in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// What they hold.
    pub(super) count: u8,
    /// How many they are: at least 1.
    pub(super) length: usize,
    /// Bytes the run is written in.
    pub(super) bytes: usize,
}

/// The runs of sparse registers; ends early at a run cut short.
pub(super) struct Runs<'a>(pub(super) &'a [u8]);

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let (run, rest) = match *self.0 {
            [byte, ref rest @ ..] if byte & 0x80 != 0 => {
                let run = Run {
                    count: (byte >> 2 & 0x1f) + 1,
                    length: usize::from(byte & 3) + 1,
                    bytes: 1,
                };
                (run, rest)
            }
            [byte, ref rest @ ..] if byte & 0x40 == 0 => (zeros(usize::from(byte) + 1, 1), rest),
            [high, low, ref rest @ ..] => {
                let length = usize::from(high & 0x3f) << 8 | usize::from(low);
                (zeros(length + 1, 2), rest)
            }
            [] | [_] => return None,
        };
        self.0 = rest;
        Some(run)
    }
}

fn zeros(length: usize, bytes: usize) -> Run {
    Run {
        count: 0,
        length,
        bytes,
    }
}

/// Appends a run of `length` zeros: at most 16384, nothing if there are none.
pub(super) fn push_zeros(bytes: &mut Vec<u8>, length: usize) {
    match length.checked_sub(1) {
        None => {}
        Some(coded) if length <= SHORT_ZEROS => bytes.push(coded as u8),
        Some(coded) => bytes.extend([(coded >> 8) as u8 | 0x40, coded as u8]),
    }
}

/// Appends a run of `length` registers that hold `count`; nothing if there are none.
fn push_values(bytes: &mut Vec<u8>, count: u8, length: usize) {
    if length > 0 {
        bytes.push(value_run(count, length));
    }
}

fn value_run(count: u8, length: usize) -> u8 {
    0x80 | (count - 1) << 2 | (length - 1) as u8
}

/// What became of a register to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// It held enough.
    No,
    /// It holds the new count now.
    Yes,
    /// This encoding cannot hold it; nothing changed.
    NoRoom,
}

/// Raises a register of `bytes`, whose registers begin at `head`. They may become up to `max_bytes` in all.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    head: usize,
    observation: Observation,
    max_bytes: usize,
) -> Result<Raised, Corrupted> {
    let Observation { index, count } = observation;
    if count > LARGEST_VALUE {
        return Ok(Raised::NoRoom);
    }
    let place = Place::of(bytes, head, index)?;
    let run = place.run;
    if run.count >= count {
        return Ok(Raised::No);
    }
    let end = place.at + run.bytes;
    let before = index - place.first;
    let after = run.length - before - 1;
    let mut new = Vec::with_capacity(5);
    push_run(&mut new, run.count, before);
    push_values(&mut new, count, 1);
    push_run(&mut new, run.count, after);
    if new.len() > run.bytes && bytes.len() + new.len() - run.bytes > max_bytes {
        return Ok(Raised::NoRoom);
    }
    bytes.splice(place.at..end, new);
    join(bytes, place.previous);
    Ok(Raised::Yes)
}

fn push_run(bytes: &mut Vec<u8>, count: u8, length: usize) {
    if count == 0 {
        push_zeros(bytes, length);
    } else {
        push_values(bytes, count, length);
    }
}

/// The run that covers a register.
struct Place {
    run: Run,
    /// Where the run is written.
    at: usize,
    /// Where the run before it is written; its own place if it is the first.
    previous: usize,
    /// The run's first register.
    first: usize,
}

impl Place {
    fn of(bytes: &[u8], head: usize, index: usize) -> Result<Self, Corrupted> {
        let (mut at, mut previous, mut first) = (head, head, 0);
        for run in Runs(bytes.get(head..).unwrap_or_default()) {
            if index < first + run.length {
                return Ok(Self {
                    run,
                    at,
                    previous,
                    first,
                });
            }
            previous = at;
            at += run.bytes;
            first += run.length;
        }
        Err(Corrupted)
    }
}

/// Joins runs of equal values, which are not zero, from the one written at `at`.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOIN_RUNS {
        let mut runs = Runs(bytes.get(at..).unwrap_or_default());
        let (Some(run), next) = (runs.next(), runs.next()) else {
            return;
        };
        if let Some(next) = next
            && run.count > 0
            && run.count == next.count
            && run.length + next.length <= LONGEST_VALUES
        {
            bytes[at] = value_run(run.count, run.length + next.length);
            bytes.remove(at + 1);
        } else {
            at += run.bytes;
        }
    }
}
