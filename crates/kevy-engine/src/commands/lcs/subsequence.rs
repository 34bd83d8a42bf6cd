//! The longest common subsequence of two strings: time by the product of their lengths, memory by a 32nd of Redis's.
//!
//! Several subsequences may be the longest; Redis's choice is found by walking back from both ends. Where the last bytes
//! differ the walk needs to know one thing: whether leaving the last byte of the first string out gives a longer
//! subsequence than leaving out that of the second. One bit per pair of positions keeps that; lengths need two rows only.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// A run of equal bytes within the subsequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Where it lies in the first string.
    pub(super) first: RangeInclusive<usize>,
    /// Where it lies in the second string.
    pub(super) second: RangeInclusive<usize>,
}

impl Run {
    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        self.first.end() - self.first.start() + 1
    }
}

/// The length of the longest common subsequence.
pub(super) fn length(first: &[u8], second: &[u8]) -> usize {
    fill(first, second, |_| ())
}

/// The runs that make up the longest common subsequence, the last one first.
pub(super) fn runs(first: &[u8], second: &[u8]) -> Vec<Run> {
    let mut leave_first = vec![0_u64; (first.len() * second.len()).div_ceil(64)];
    fill(first, second, |cell| {
        leave_first[cell / 64] |= 1 << (cell % 64);
    });
    let mut runs: Vec<Run> = Vec::new();
    let (mut row, mut column) = (first.len(), second.len());
    while row > 0 && column > 0 {
        let cell = (row - 1) * second.len() + column - 1;
        if first[row - 1] == second[column - 1] {
            row -= 1;
            column -= 1;
            prepend(&mut runs, row, column);
        } else if leave_first[cell / 64] >> (cell % 64) & 1 == 1 {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    runs
}

/// The bytes of the subsequence that `runs` describe.
pub(super) fn collect(first: &[u8], runs: &[Run]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in runs.iter().rev() {
        bytes.extend_from_slice(&first[run.first.clone()]);
    }
    bytes
}

/// Computes the length; `leave_first` gets every cell (row times columns plus column) where leaving out the last byte of
/// the first string is better.
fn fill(first: &[u8], second: &[u8], mut leave_first: impl FnMut(usize)) -> usize {
    let mut above = vec![0_u32; second.len() + 1];
    let mut row = above.clone();
    for (row_index, a) in first.iter().enumerate() {
        let row_start = row_index * second.len();
        for (column, b) in second.iter().enumerate() {
            row[column + 1] = if a == b {
                above[column] + 1
            } else {
                let (up, left) = (above[column + 1], row[column]);
                if up > left {
                    leave_first(row_start + column);
                }
                up.max(left)
            };
        }
        core::mem::swap(&mut above, &mut row);
    }
    above.last().map_or(0, |&length| length as usize)
}

fn prepend(runs: &mut Vec<Run>, row: usize, column: usize) {
    match runs.last_mut() {
        Some(run) if *run.first.start() == row + 1 && *run.second.start() == column + 1 => {
            run.first = row..=*run.first.end();
            run.second = column..=*run.second.end();
        }
        Some(_) | None => runs.push(Run {
            first: row..=row,
            second: column..=column,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn redis_example() {
        let runs = runs(b"ohmytext", b"mynewtext");
        assert_eq!(
            runs,
            [
                Run {
                    first: 4..=7,
                    second: 5..=8
                },
                Run {
                    first: 2..=3,
                    second: 0..=1
                },
            ]
        );
        assert_eq!(collect(b"ohmytext", &runs), b"mytext");
        assert_eq!(length(b"ohmytext", b"mynewtext"), 6);
    }

    #[test]
    fn nothing_in_common() {
        for (first, second) in [
            (&b""[..], &b""[..]),
            (b"", b"a"),
            (b"a", b""),
            (b"abc", b"def"),
        ] {
            assert_eq!(runs(first, second), []);
            assert_eq!(length(first, second), 0);
        }
    }

    proptest! {
        #[test]
        fn the_result_is_a_subsequence_of_both(first in vec(0_u8..3, 0..30), second in vec(0_u8..3, 0..30)) {
            let runs = runs(&first, &second);
            let common = collect(&first, &runs);
            prop_assert_eq!(common.len(), length(&first, &second));
            prop_assert_eq!(common.len(), runs.iter().map(Run::length).sum::<usize>());
            for string in [&first, &second] {
                let mut rest = string.iter();
                prop_assert!(common.iter().all(|byte| rest.any(|other| other == byte)));
            }
        }
    }
}
