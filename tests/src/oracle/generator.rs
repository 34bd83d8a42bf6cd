//! Random command sequences from a seed.

use fastrand::Rng;

use super::values::{in_some_case, spoiler};
use super::{generic, strings};
use crate::connection::Args;

/// How often a command comes in relation to the others, and what makes it.
pub(super) type Row = (u32, fn(&mut Rng) -> Args);

/// One command in so many is spoiled.
const SPOILED_ONE_IN: u32 = 12;

/// An endless supply of commands that depends on its seed alone.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    weight: u32,
}

impl Generator {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            weight: rows().map(|row| row.0).sum(),
        }
    }

    /// The next `count` commands.
    pub fn commands(&mut self, count: usize) -> Vec<Args> {
        (0..count).map(|_| self.command()).collect()
    }

    fn command(&mut self) -> Args {
        let mut args = self.pick()(&mut self.rng);
        if !steps_of_the_harness(&args[0]) {
            args[0] = in_some_case(&mut self.rng, &args[0]);
            if self.rng.u32(..SPOILED_ONE_IN) == 0 {
                self.spoil(&mut args);
            }
        }
        args
    }

    fn pick(&mut self) -> fn(&mut Rng) -> Args {
        let mut left = self.rng.u32(..self.weight);
        let chosen = rows().find(|row| {
            let here = left < row.0;
            left = left.saturating_sub(row.0);
            here
        });
        chosen.expect("a number below the sum of weights").1
    }

    /// Breaks a command: an argument too few, too many, twice, or of the wrong kind.
    fn spoil(&mut self, args: &mut Args) {
        let at = self.rng.usize(..args.len());
        match self.rng.u8(..5) {
            0 if at > 0 => drop(args.remove(at)),
            1 => args.push(spoiler(&mut self.rng)),
            2 if at > 0 => args.insert(at, args[at].clone()),
            3 => args.truncate(at.max(1)),
            _ if at > 0 => args[at] = spoiler(&mut self.rng),
            _ => {}
        }
    }
}

/// Commands of which the harness makes several: a spoiled one would not be one command any more.
fn steps_of_the_harness(name: &[u8]) -> bool {
    [&b"SCAN"[..], b"ROUNDTRIP", b"RANDOMKEY", b"DBSIZE"].contains(&name)
}

fn rows() -> impl Iterator<Item = &'static Row> {
    strings::ROWS.iter().chain(generic::ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_decides_the_sequence() {
        let of = |seed| Generator::new(seed).commands(200);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn every_row_comes_up() {
        let commands = Generator::new(3).commands(20_000);
        let names: BTreeSet<_> = commands.iter().map(|c| c[0].to_ascii_uppercase()).collect();
        for name in [
            "SET",
            "BITFIELD_RO",
            "SORT_RO",
            "ROUNDTRIP",
            "FLUSHDB",
            "NOSUCH",
        ] {
            assert!(names.contains(name.as_bytes()), "{name}");
        }
    }
}
