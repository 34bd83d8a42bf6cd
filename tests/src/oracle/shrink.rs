//! Makes a failing sequence as short as it can, and prints it for a person.

use std::fmt::Write as _;

use super::pair::Difference;
use crate::connection::{Args, quoted};

/// How many sequences may be tried to make one shorter.
const TRIES: usize = 2_000;

/// Removes parts of `commands` as long as `differs` still finds a difference: halves first, single
/// commands at last (delta debugging). The result fails, and with tries to spare it fails with no single
/// command less.
pub fn shrink(
    commands: Vec<Args>,
    mut differs: impl FnMut(&[Args]) -> Option<Difference>,
) -> (Vec<Args>, Difference) {
    let mut difference = differs(&commands).expect("a sequence to shrink fails");
    let mut kept = commands;
    kept.truncate(difference.index + 1);
    let (mut part, mut tries) = (kept.len() / 2, 0);
    while part > 0 && tries < TRIES {
        let (mut start, mut removed) = (0, false);
        while start < kept.len() && tries < TRIES {
            let shorter = without(&kept, start, part);
            tries += 1;
            if let Some(found) = differs(&shorter) {
                kept = shorter;
                kept.truncate(found.index + 1);
                difference = found;
                removed = true;
            } else {
                start += part;
            }
        }
        if !removed || part > 1 {
            part /= 2;
        }
    }
    (kept, difference)
}

fn without(commands: &[Args], start: usize, count: usize) -> Vec<Args> {
    let end = (start + count).min(commands.len());
    [&commands[..start], &commands[end..]].concat()
}

/// The sequence as lines that redis-cli reads, and both replies to its last command.
pub fn report(commands: &[Args], difference: &Difference) -> String {
    let mut text = String::new();
    for args in commands {
        let _ = writeln!(text, "  {}", quoted(args));
    }
    let _ = writeln!(text, "  redis: {}", difference.redis.escape_ascii());
    let _ = write!(text, "  kevy:  {}", difference.kevy.escape_ascii());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::args;

    /// A server that goes wrong at the second "x" after a "y".
    fn broken(commands: &[Args]) -> Option<Difference> {
        let is = |index: &usize, word: &[u8]| commands[*index][0] == word;
        let y = (0..commands.len()).find(|i| is(i, b"y"))?;
        let index = (y..commands.len()).filter(|i| is(i, b"x")).nth(1)?;
        let (redis, kevy) = (b"+OK\r\n".to_vec(), b"-ERR\r\n".to_vec());
        Some(Difference { index, redis, kevy })
    }

    #[test]
    fn what_is_left_is_needed() {
        let noise = |n: usize| vec![args!["noise"]; n];
        let parts = [
            noise(33),
            vec![args!["y"]],
            noise(20),
            vec![args!["x"]; 2],
            noise(9),
        ];
        let (left, difference) = shrink(parts.concat(), broken);
        assert_eq!(left, [args!["y"], args!["x"], args!["x"]]);
        assert_eq!(difference.index, 2);
        let text = report(&left, &difference);
        assert!(
            text.ends_with("redis: +OK\\r\\n\n  kevy:  -ERR\\r\\n"),
            "{text}"
        );
    }
}
