//! What `ZUNION` and its relatives read: sorted sets, and sets as if every member had the score 1.

use crate::keyspace::{Entry, Value};
use crate::value::{Set, SortedSet};
use kevy_proto::resp::ErrorReply;

/// One input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Missing,
    SortedSet(&'a SortedSet),
    Set(&'a Set),
}

impl<'a> Source<'a> {
    /// What `key` holds.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if it is neither a sorted set nor a set.
    pub(super) fn of(entry: Option<&'a Entry>) -> Result<Self, ErrorReply> {
        let Some(entry) = entry else {
            return Ok(Self::Missing);
        };
        let Entry::Object(object) = entry else {
            return Err(ErrorReply::WrongType);
        };
        match object.value() {
            Value::SortedSet(set) => Ok(Self::SortedSet(set)),
            Value::Set(set) => Ok(Self::Set(set)),
            Value::String(_) | Value::List(_) | Value::Hash(_) | Value::Stream(_) => {
                Err(ErrorReply::WrongType)
            }
        }
    }
}

impl Source<'_> {
    /// Number of members.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Missing => 0,
            Self::SortedSet(set) => set.len(),
            Self::Set(set) => set.len(),
        }
    }

    /// The score of a member.
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Missing => None,
            Self::SortedSet(set) => set.score(member),
            Self::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    /// Gives every member and its score to `visit`, until that says false.
    pub(super) fn each(&self, mut visit: impl FnMut(&[u8], f64) -> bool) {
        match self {
            Self::Missing => {}
            Self::SortedSet(set) => {
                let _all = set.elements().all(|(member, score)| visit(member, score));
            }
            Self::Set(set) => {
                let _all = set.iter().all(|member| visit(&member, 1.0));
            }
        }
    }
}
