//! What `ZUNION` and its relatives read: sorted sets, and sets as if every member had the score 1.

use crate::keyspace::{Entry, Keyspace, Value};
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
