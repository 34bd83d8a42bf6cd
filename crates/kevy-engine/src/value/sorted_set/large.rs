//! The large form: a table of members beside their ranking.

use super::members::Members;
use super::ranking::{self, Element, Ranking};
use super::score::compare;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

/// A large sorted set. Every member is stored once; the ranking holds its id.
#[derive(Clone, Debug)]
pub(super) struct Large {
    members: Members,
    ranking: Ranking,
}

impl Large {
    /// An empty one; `seed` decides the hash function.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            members: Members::new(seed),
            ranking: Ranking::new(),
        }
    }

    /// Ranks `members`.
    pub(super) fn from_members(members: Members) -> Self {
        let mut large = Self {
            members,
            ranking: Ranking::new(),
        };
        let ordered = ordered(&large.members);
        large.ranking.fill(ordered.into_iter());
        large
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes on the heap, those of this struct included.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.members.heap_bytes() + self.ranking.heap_bytes()
    }

    /// The members, in no order.
    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// The score of a member.
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.find(member).map(|id| self.members.score(id))
    }

    /// The rank and the score of a member.
    pub(super) fn find(&self, member: &[u8]) -> Option<(usize, f64)> {
        let id = self.members.find(member)?;
        let order = order(&self.members, id);
        let rank = self.ranking.position(&|e| order(e) == Ordering::Less);
        Some((rank, self.members.score(id)))
    }

    /// How many elements come first whose scores are `before` something.
    pub(super) fn position_by_score(&self, before: impl Fn(f64) -> bool) -> usize {
        self.ranking.position(&|e| before(e.score))
    }

    /// How many elements come first whose members are `before` something.
    pub(super) fn position_by_member(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        self.ranking
            .position(&|e| before(self.members.member(e.id)))
    }

    /// The element at `rank`.
    pub(super) fn at(&self, rank: usize) -> Option<(&[u8], f64)> {
        let element = self.ranking.at(rank)?;
        Some((self.members.member(element.id), element.score))
    }

    /// The elements of these ranks, which exist.
    pub(super) fn range(&self, ranks: Range<usize>) -> Elements<'_> {
        Elements {
            members: &self.members,
            elements: self.ranking.range(ranks),
        }
    }

    /// Adds a member that is not there.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) {
        let id = self.members.insert(member, score);
        self.rank(id);
    }

    /// Gives a member the score that `decide` makes of its old one, `None` if it is missing; nothing if it says `None`.
    pub(super) fn update(
        &mut self,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) {
        let found = self.members.find(member);
        let new = decide(found.map(|id| self.members.score(id)));
        match (found, new) {
            (_, None) => {}
            (None, Some(score)) => self.insert(member, score),
            (Some(id), Some(score)) => {
                self.unrank(id);
                self.members.set_score(id, score);
                self.rank(id);
            }
        }
    }

    /// Takes out a member; gives its score if it was there.
    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let id = self.members.find(member)?;
        let score = self.members.score(id);
        self.unrank(id);
        self.forget(id);
        Some(score)
    }

    /// Takes out the elements of these ranks, which exist.
    pub(super) fn remove_range(&mut self, ranks: &Range<usize>) {
        let mut ids = Vec::with_capacity(ranks.len());
        while let Some(first) = self.ranking.at(ranks.start)
            && ids.len() < ranks.len()
        {
            let left = ranks.len() - ids.len();
            let order = order(&self.members, first.id);
            self.ranking.remove(left, &order, &mut ids);
        }
        // High ids first: then no id that is still to go moves.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.into_iter().for_each(|id| self.forget(id));
    }

    fn rank(&mut self, id: u32) {
        let score = self.members.score(id);
        let order = order(&self.members, id);
        self.ranking.insert(Element { score, id }, &order);
    }

    fn unrank(&mut self, id: u32) {
        let order = order(&self.members, id);
        self.ranking.remove(1, &order, &mut Vec::new());
    }

    /// Takes out a member that is not in the ranking any more. The member with the highest id gets the free one.
    fn forget(&mut self, id: u32) {
        let last = self.members.len() as u32 - 1;
        if id != last {
            self.ranking.rename(id, &order(&self.members, last));
        }
        self.members.remove(id);
    }
}

/// How an element lies to that of member `id`.
fn order(members: &Members, id: u32) -> impl Fn(Element) -> Ordering {
    let (member, score) = (members.member(id), members.score(id));
    move |e| {
        if e.id == id {
            return Ordering::Equal;
        }
        compare(e.score, score).then_with(|| members.member(e.id).cmp(member))
    }
}

/// All elements in order.
pub(super) fn ordered(members: &Members) -> Vec<Element> {
    let mut elements: Vec<Element> = members
        .iter()
        .zip(0..)
        .map(|((_, score), id)| Element { score, id })
        .collect();
    elements.sort_unstable_by(|a, b| {
        compare(a.score, b.score).then_with(|| members.member(a.id).cmp(members.member(b.id)))
    });
    elements
}

/// A walk over neighbouring elements, from both ends.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    members: &'a Members,
    elements: ranking::Elements<'a>,
}

impl<'a> Elements<'a> {
    fn resolve(&self, element: Element) -> (&'a [u8], f64) {
        (self.members.member(element.id), element.score)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        let element = self.elements.next()?;
        Some(self.resolve(element))
    }
}

impl DoubleEndedIterator for Elements<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let element = self.elements.next_back()?;
        Some(self.resolve(element))
    }
}
