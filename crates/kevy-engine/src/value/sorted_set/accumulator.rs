//! Results that come member by member, in any order.

use super::large::{self, Large};
use super::members::Members;
use super::packed::Packed;
use super::{Form, SortedSet, score};
use crate::value::EncodingLimits;
use alloc::boxed::Box;

/// Members with scores, not ranked yet: ranking them all at the end is cheaper than one by one.
#[derive(Debug)]
pub struct Accumulator {
    members: Members,
    limits: EncodingLimits,
}

impl Accumulator {
    /// No members; the limits are those of the result.
    pub fn new(limits: &EncodingLimits) -> Self {
        Self {
            members: Members::new(limits.hash_seed),
            limits: *limits,
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a member; if it is there already its score becomes what `combine` makes of the old and the new one.
    pub fn add(&mut self, member: &[u8], score: f64, combine: impl FnOnce(f64, f64) -> f64) {
        match self.members.find(member) {
            Some(id) => {
                let combined = combine(self.members.score(id), score);
                self.members.set_score(id, combined);
            }
            None => {
                self.members.insert(member, score);
            }
        }
    }

    /// Takes out a member, if it is there.
    pub fn remove(&mut self, member: &[u8]) {
        if let Some(id) = self.members.find(member) {
            self.members.remove(id);
        }
    }

    /// Ranks the members for a reply: the set is large whatever its size, and scores stay as they are (-0 too).
    pub fn into_large(self) -> SortedSet {
        SortedSet {
            form: Form::Large(Box::new(Large::from_members(self.members))),
        }
    }

    /// Ranks the members; the set is stored compactly if it is small enough.
    pub fn into_set(mut self) -> SortedSet {
        let (members, limits) = (&self.members, &self.limits);
        let fits = members.len() <= limits.zset_max_listpack_entries
            && members
                .iter()
                .all(|(member, _)| member.len() <= limits.zset_max_listpack_value);
        if !fits {
            for id in 0..self.members.len() as u32 {
                let score = score::stored(self.members.score(id));
                self.members.set_score(id, score);
            }
            return self.into_large();
        }
        let ordered = large::ordered(members).into_iter();
        let elements = ordered.map(|e| (members.member(e.id), e.score));
        SortedSet {
            form: Form::Packed(Packed::from_ordered(elements)),
        }
    }
}
