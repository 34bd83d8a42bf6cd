//! Ranges of sorted sets as clients write them: by rank, by score, by member.

use crate::number::integer;
use crate::{double, value::SortedSet};
use core::cmp::Ordering;
use core::ops::Range;
use kevy_proto::resp::ErrorReply;

/// A range of ranks from `start` to `end`, both included and counted from the end if negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankBounds {
    start: i64,
    end: i64,
}

/// A range of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreBounds {
    min: f64,
    max: f64,
    min_excluded: bool,
    max_excluded: bool,
}

/// A range of members.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberBounds<'a> {
    min: MemberBound<'a>,
    max: MemberBound<'a>,
}

#[derive(Clone, Copy, Debug)]
enum MemberBound<'a> {
    /// `-`: before all members.
    Lowest,
    /// `+`: after all members.
    Highest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

/// One of the three.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds<'a> {
    Ranks(RankBounds),
    Scores(ScoreBounds),
    Members(MemberBounds<'a>),
}

impl Bounds<'_> {
    /// The ranks that are in the range; for ranks counted from the end if `reverse`.
    pub(super) fn ranks(&self, set: &SortedSet, reverse: bool) -> Range<usize> {
        match self {
            Self::Ranks(bounds) => bounds.ranks(set.len(), reverse),
            Self::Scores(bounds) => bounds.ranks(set),
            Self::Members(bounds) => bounds.ranks(set),
        }
    }
}

impl RankBounds {
    /// Reads two ranks.
    ///
    /// # Errors
    /// [`ErrorReply::NotInteger`].
    pub(super) fn parse(start: &[u8], end: &[u8]) -> Result<Self, ErrorReply> {
        Ok(Self {
            start: integer(start)?,
            end: integer(end)?,
        })
    }

    fn ranks(self, length: usize, reverse: bool) -> Range<usize> {
        let from_end = |index: i64| {
            let shift = if index < 0 { length as i64 } else { 0 };
            index.saturating_add(shift)
        };
        let start = from_end(self.start).max(0) as usize;
        let after = from_end(self.end).saturating_add(1).max(0) as usize;
        let after = after.min(length);
        if start >= after {
            return 0..0;
        }
        if reverse {
            length - after..length - start
        } else {
            start..after
        }
    }
}

impl ScoreBounds {
    /// Reads two scores, each excluded if `(` is before it.
    ///
    /// # Errors
    /// `ERR min or max is not a float`.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, ErrorReply> {
        let (min, min_excluded) = score_bound(min)?;
        let (max, max_excluded) = score_bound(max)?;
        Ok(Self {
            min,
            max,
            min_excluded,
            max_excluded,
        })
    }

    /// The range from `min` to `max`, both included but for the excluded.
    pub(in crate::commands) fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let below = |score| score < self.min || self.min_excluded && score <= self.min;
        let within = |score| score < self.max || !self.max_excluded && score <= self.max;
        let start = set.position_by_score(below);
        start..set.position_by_score(within).max(start)
    }
}

fn score_bound(text: &[u8]) -> Result<(f64, bool), ErrorReply> {
    let (number, excluded) = match text {
        [b'(', rest @ ..] => (rest, true),
        _ => (text, false),
    };
    match double::parse_leniently(number) {
        Some(number) => Ok((number, excluded)),
        None => Err(ErrorReply::text("ERR min or max is not a float")),
    }
}

impl<'a> MemberBounds<'a> {
    /// Reads two ends: `-`, `+`, `[included` or `(excluded`.
    ///
    /// # Errors
    /// `ERR min or max not valid string range item`.
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<Self, ErrorReply> {
        Ok(Self {
            min: member_bound(min)?,
            max: member_bound(max)?,
        })
    }

    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let start = set.position_by_member(|member| match self.min.order(member) {
            Ordering::Less => true,
            Ordering::Equal => matches!(self.min, MemberBound::Excluded(_)),
            Ordering::Greater => false,
        });
        let end = set.position_by_member(|member| match self.max.order(member) {
            Ordering::Less => true,
            Ordering::Equal => matches!(self.max, MemberBound::Included(_)),
            Ordering::Greater => false,
        });
        start..end.max(start)
    }
}

impl MemberBound<'_> {
    /// How `member` lies to this end.
    fn order(&self, member: &[u8]) -> Ordering {
        match self {
            Self::Lowest => Ordering::Greater,
            Self::Highest => Ordering::Less,
            Self::Included(bound) | Self::Excluded(bound) => member.cmp(bound),
        }
    }
}

fn member_bound(text: &[u8]) -> Result<MemberBound<'_>, ErrorReply> {
    match text {
        // A zero byte ends the sign, as in C.
        [b'-'] | [b'-', 0, ..] => Ok(MemberBound::Lowest),
        [b'+'] | [b'+', 0, ..] => Ok(MemberBound::Highest),
        [b'[', bound @ ..] => Ok(MemberBound::Included(bound)),
        [b'(', bound @ ..] => Ok(MemberBound::Excluded(bound)),
        _ => Err(ErrorReply::text(
            "ERR min or max not valid string range item",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_cut_to_the_set() {
        for (start, end, ranks, reversed) in [
            (0, -1, 0..5, 0..5),
            (1, 2, 1..3, 2..4),
            (-2, -1, 3..5, 0..2),
            (-9, 0, 0..1, 4..5),
            (3, 99, 3..5, 0..2),
            (5, 9, 0..0, 0..0),
            (2, 1, 0..0, 0..0),
            (0, -9, 0..0, 0..0),
            (i64::MIN, i64::MAX, 0..5, 0..5),
            (i64::MAX, i64::MIN, 0..0, 0..0),
        ] {
            let bounds = RankBounds { start, end };
            assert_eq!(bounds.ranks(5, false), ranks, "{start} {end}");
            assert_eq!(bounds.ranks(5, true), reversed, "{start} {end}");
            assert_eq!(bounds.ranks(0, false), 0..0);
        }
    }
}
