//! Strings: read and set whole ([`get`], [`set`]), changed in place ([`change`]), counted with ([`increment`]).

pub(super) mod change;
mod expiry_option;
pub(super) mod get;
pub(super) mod increment;
pub(super) mod set;

use crate::Effects;
use crate::keyspace::{Encoding, ExpiryMode, KeyAccess};
use core::ops::Range;
use kevy_proto::resp::ErrorReply;
use kevy_proto::time::{Now, UnixMillis};

/// Whether a string of `length` bytes may get `more`, where `longest` bytes are allowed.
fn check_length(length: usize, more: usize, longest: usize) -> Result<(), ErrorReply> {
    let fits = length
        .checked_add(more)
        .is_some_and(|total| total <= longest);
    fits.then_some(()).ok_or(ErrorReply::StringTooLong)
}

/// Whether a change in place changes nothing but, perhaps, bytes: any other string becomes raw by it.
pub(super) fn is_raw(access: &KeyAccess<'_>) -> bool {
    access
        .entry()
        .is_some_and(|entry| entry.encoding() == Encoding::Raw)
}

/// Whether a key that is to go at `deadline` goes at once. Never when the log is applied: there, later effects may still
/// change the key.
fn is_past(deadline: UnixMillis, now: Now, mode: ExpiryMode) -> bool {
    deadline <= now.unix && mode != ExpiryMode::Ignore
}

/// Tells the log that `key` holds `value` now, until `deadline`.
fn emit_set(effects: &mut Effects, key: &[u8], value: &[u8], deadline: Option<UnixMillis>) {
    match deadline {
        None => effects.emit(&[b"SET", key, value]),
        Some(UnixMillis(at)) => {
            let mut digits = itoa::Buffer::new();
            effects.emit(&[b"SET", key, value, b"PXAT", digits.format(at).as_bytes()]);
        }
    }
}

/// Whether a range counted from the end is the wrong way round. `GETRANGE` and `BITCOUNT` find nothing in it, even if
/// both ends lie before the first position.
pub(super) fn is_backwards(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// The part of `0..length` from `start` to `end`, both included and counted from the end if negative; what lies before
/// the first position counts as the first position.
pub(super) fn clamped_range(start: i64, end: i64, length: usize) -> Range<usize> {
    let from_end = |index: i64| {
        let index = if index < 0 {
            index.saturating_add(length as i64)
        } else {
            index
        };
        index.max(0) as usize
    };
    let (start, end) = (from_end(start), from_end(end).min(length.saturating_sub(1)));
    if start > end || length == 0 {
        return 0..0;
    }
    start..end + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_redis() {
        // Each observed on redis-server 7.0.15.
        let cases = [
            (0, -1, 3, 0..3),
            (-2, -1, 3, 1..3),
            (-100, 100, 3, 0..3),
            (-100, -50, 3, 0..1),
            (-50, -100, 3, 0..1),
            (-1, -2, 3, 0..0),
            (5, 10, 3, 0..0),
            (2, 1, 3, 0..0),
            (0, 0, 0, 0..0),
            (i64::MIN, i64::MAX, 3, 0..3),
            (i64::MAX, i64::MIN, 3, 0..0),
        ];
        for (start, end, length, expected) in cases {
            assert_eq!(
                clamped_range(start, end, length),
                expected,
                "{start} {end} {length}"
            );
        }
        assert!(is_backwards(-50, -100) && !is_backwards(-100, -50) && !is_backwards(5, -100));
    }

    #[test]
    fn the_longest_string_is_allowed_and_no_byte_more() {
        assert_eq!(check_length(99, 1, 100), Ok(()));
        for (length, more) in [(100, 1), (1, usize::MAX)] {
            assert_eq!(
                check_length(length, more, 100),
                Err(ErrorReply::StringTooLong)
            );
        }
    }
}
