//! Makes a failing sequence as short as it can, and prints it for a person.

use std::fmt::Write as _;

use super::pair::Difference;
use crate::connection::{Args, quoted};

/// How many sequences may be tried to make one shorter.
const TRIES: usize = 2_000;

/// Removes parts of `commands` as long as `differs` still finds a difference: halves first, single
/// commands at last (delta debugging); then arguments in the same way, and what is left is made simple.
/// The result fails, and with tries to spare it fails with no single command less. A sequence that fails only
/// sometimes may stay as long as it is.
pub fn shrink(
    commands: Vec<Args>,
    difference: Difference,
    differs: impl FnMut(&[Args]) -> Option<Difference>,
) -> (Vec<Args>, Difference) {
    let mut shrinking = Shrinking {
        kept: commands,
        difference,
        tries: TRIES,
        differs,
    };
    shrinking.kept.truncate(shrinking.difference.index + 1);
    shrinking.remove_commands();
    for at in 0..shrinking.kept.len() {
        shrinking.remove_arguments(at);
        shrinking.simplify_arguments(at);
    }
    (shrinking.kept, shrinking.difference)
}

struct Shrinking<D> {
    kept: Vec<Args>,
    difference: Difference,
    tries: usize,
    differs: D,
}

impl<D: FnMut(&[Args]) -> Option<Difference>> Shrinking<D> {
    /// Keeps `simpler` if it fails as well.
    fn accepts(&mut self, simpler: Vec<Args>) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let Some(found) = (self.differs)(&simpler) else {
            return false;
        };
        self.kept = simpler;
        self.kept.truncate(found.index + 1);
        self.difference = found;
        true
    }

    fn remove_commands(&mut self) {
        let mut part = self.kept.len() / 2;
        while part > 0 && self.tries > 0 {
            let (mut start, mut removed) = (0, false);
            while start < self.kept.len() && self.tries > 0 {
                if self.accepts(without(&self.kept, start, part)) {
                    removed = true;
                } else {
                    start += part;
                }
            }
            if !removed || part > 1 {
                part /= 2;
            }
        }
    }

    fn remove_arguments(&mut self, at: usize) {
        let mut part = self.length(at) / 2;
        while part > 0 {
            let mut start = 1;
            while start < self.length(at) {
                let shorter = without(&self.kept[at], start, part);
                if !self.accepts(self.with(at, shorter)) {
                    start += part;
                }
            }
            part /= 2;
        }
    }

    fn simplify_arguments(&mut self, at: usize) {
        for word in 1..self.length(at) {
            for simple in ["a", "1", "0"] {
                let mut args = match self.kept.get(at) {
                    Some(args) if args.get(word).is_some_and(|old| simpler(simple, old)) => {
                        args.clone()
                    }
                    _ => continue,
                };
                args[word] = simple.into();
                if self.accepts(self.with(at, args)) {
                    break;
                }
            }
        }
    }

    fn length(&self, at: usize) -> usize {
        self.kept.get(at).map_or(0, Vec::len)
    }

    fn with(&self, at: usize, args: Args) -> Vec<Args> {
        let mut commands = self.kept.clone();
        commands[at] = args;
        commands
    }
}

/// Whether `new` says the same kind of thing as `old` with fewer letters: a number stays one.
fn simpler(new: &str, old: &[u8]) -> bool {
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    old.len() > 1 && is_number(old) == is_number(new.as_bytes())
}

fn without<T: Clone>(all: &[T], start: usize, count: usize) -> Vec<T> {
    let end = (start + count).min(all.len());
    [&all[..start], &all[end..]].concat()
}

/// The sequence as lines that redis-cli reads, and both replies to its last command.
pub fn report(commands: &[Args], difference: &Difference) -> String {
    let mut text = String::new();
    for args in commands {
        let _ = writeln!(text, "  {}", quoted(args));
    }
    if commands.last() != Some(&difference.args) {
        let _ = writeln!(text, "  in it: {}", quoted(&difference.args));
    }
    let _ = writeln!(text, "  redis: {}", difference.redis.escape_ascii());
    let _ = write!(text, "  kevy:  {}", difference.kevy.escape_ascii());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::args;

    /// A server that goes wrong at the second "x" after a "y", if that has a "bad" argument.
    fn broken(commands: &[Args]) -> Option<Difference> {
        let is = |index: &usize, word: &[u8]| commands[*index][0] == word;
        let y = (0..commands.len()).find(|i| is(i, b"y"))?;
        let index = (y..commands.len()).filter(|i| is(i, b"x")).nth(1)?;
        let args = commands[index].clone();
        let bad = args.iter().any(|word| word == b"bad");
        let (redis, kevy) = (b"+OK\r\n".to_vec(), b"-ERR\r\n".to_vec());
        bad.then_some(Difference {
            index,
            args,
            redis,
            kevy,
        })
    }

    #[test]
    fn what_is_left_is_needed() {
        let noise = |n: usize| vec![args!["noise", "1", "2"]; n];
        let parts = [
            noise(33),
            vec![args!["y", "z"]],
            noise(20),
            vec![args!["x", "k", "1234", "bad", "7"]; 2],
            noise(9),
        ];
        let commands = parts.concat();
        let difference = broken(&commands).expect("it fails");
        let (left, difference) = shrink(commands, difference, broken);
        assert_eq!(left, [args!["y"], args!["x"], args!["x", "bad"]]);
        assert_eq!(difference.index, 2);
        let text = report(&left, &difference);
        assert!(
            text.ends_with("redis: +OK\\r\\n\n  kevy:  -ERR\\r\\n"),
            "{text}"
        );
    }
}
