//! Lists: read, changed in place, pushed to, popped and moved from.

pub(super) mod blocking;
pub(super) mod change;
pub(super) mod pop;
pub(super) mod push;
pub(super) mod read;
pub(super) mod shift;

use super::is_option;
use crate::value::End;
use kevy_proto::resp::{Args, ErrorReply};

/// Reads `LEFT` or `RIGHT`.
fn end_at(args: Args<'_>, position: usize) -> Result<End, ErrorReply> {
    if is_option(args, position, "left") {
        Ok(End::Left)
    } else if is_option(args, position, "right") {
        Ok(End::Right)
    } else {
        Err(ErrorReply::Syntax)
    }
}

/// The name of an end in requests.
fn end_name(end: End) -> &'static [u8] {
    match end {
        End::Left => b"LEFT",
        End::Right => b"RIGHT",
    }
}

/// An index counted from the end if negative, as a position in `0..length`.
fn position_of(index: i64, length: usize) -> Option<usize> {
    let from_start = if index < 0 {
        index.checked_add(length as i64)?
    } else {
        index
    };
    usize::try_from(from_start).ok().filter(|&at| at < length)
}

/// A range with both ends included, counted from the end if negative, cut to `0..length`. Empty ranges are `0..0`.
fn range_of(start: i64, end: i64, length: usize) -> core::ops::Range<usize> {
    let from_start = |index: i64| {
        if index < 0 {
            index.saturating_add(length as i64)
        } else {
            index
        }
    };
    let start = from_start(start).max(0);
    let end = from_start(end).min(length as i64 - 1);
    if start > end {
        return 0..0;
    }
    start as usize..end as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_from_both_ends() {
        assert_eq!(position_of(0, 3), Some(0));
        assert_eq!(position_of(-1, 3), Some(2));
        assert_eq!(position_of(-3, 3), Some(0));
        for index in [3, -4, i64::MIN, i64::MAX] {
            assert_eq!(position_of(index, 3), None);
        }
        assert_eq!(position_of(0, 0), None);
    }

    #[test]
    fn ranges_are_cut_to_the_list() {
        assert_eq!(range_of(0, -1, 3), 0..3);
        assert_eq!(range_of(-100, 100, 3), 0..3);
        assert_eq!(range_of(1, 1, 3), 1..2);
        assert_eq!(range_of(i64::MIN, i64::MAX, 3), 0..3);
        for (start, end) in [(2, 1), (3, 5), (-100, -50), (i64::MAX, i64::MIN)] {
            assert_eq!(range_of(start, end, 3), 0..0);
        }
        assert_eq!(range_of(0, -1, 0), 0..0);
    }
}
