//! The order of a large sorted set: a B+ tree of `(score, id)` whose nodes count what is below them.
//!
//! ```text
//! inner: [first element, count, child] ...     up to 32 children
//! leaf:  scores ..., ids ...                   up to 64 elements
//! ```
//!
//! The tree does not know members: who searches brings a function that says how an element lies to the one sought. A run
//! of elements that are removed together goes leaf by leaf.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

/// The most elements of a leaf.
const LEAF_ELEMENTS: usize = 64;
/// The most children of an inner node.
const CHILDREN: usize = 32;

/// Scores and ids in order.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    root: Node,
    leaves: usize,
}

/// An element: a score and the id of its member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Element {
    pub(super) score: f64,
    pub(super) id: u32,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Box<Leaf>),
    Inner(Box<Inner>),
}

#[derive(Clone, Debug)]
struct Leaf {
    scores: [f64; LEAF_ELEMENTS],
    ids: [u32; LEAF_ELEMENTS],
    len: usize,
}

#[derive(Clone, Debug)]
struct Inner {
    children: Vec<Child>,
}

#[derive(Clone, Debug)]
struct Child {
    /// Score and id of the first element below.
    score: f64,
    id: u32,
    /// Number of elements below.
    count: u32,
    node: Node,
}

impl Ranking {
    /// No elements.
    pub(super) fn new() -> Self {
        Self {
            root: Node::Leaf(Leaf::new()),
            leaves: 1,
        }
    }

    /// Bytes on the heap; inner nodes are reckoned with two in 32 of what the leaves take.
    pub(super) fn heap_bytes(&self) -> usize {
        self.leaves * (size_of::<Leaf>() + 2 * size_of::<Child>())
    }

    /// Adds an element; `order` says how another one lies to it.
    pub(super) fn insert(&mut self, element: Element, order: &impl Fn(Element) -> Ordering) {
        let Some(right) = self.root.insert(element, order, &mut self.leaves) else {
            return;
        };
        let left = core::mem::replace(&mut self.root, Node::Leaf(Leaf::new()));
        let children = [left, right].into_iter().filter_map(Child::new).collect();
        self.root = Node::Inner(Box::new(Inner { children }));
    }

    /// Takes out the element that is equal by `order`, and those after it in its leaf as long as they are fewer than
    /// `count` together; appends their ids to `ids`.
    pub(super) fn remove(
        &mut self,
        count: usize,
        order: &impl Fn(Element) -> Ordering,
        ids: &mut Vec<u32>,
    ) {
        self.root.remove(count, order, ids, &mut self.leaves);
        while let Node::Inner(inner) = &mut self.root
            && inner.children.len() < 2
        {
            self.root = match inner.children.pop() {
                Some(child) => child.node,
                None => Node::Leaf(Leaf::new()),
            };
        }
        self.leaves = self.leaves.max(1);
    }

    /// Gives the element that is equal by `order` another id.
    pub(super) fn rename(&mut self, id: u32, order: &impl Fn(Element) -> Ordering) {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Inner(inner) => {
                    let at = inner.child_of(order);
                    let child = &mut inner.children[at];
                    if order(child.first()) == Ordering::Equal {
                        child.id = id;
                    }
                    node = &mut child.node;
                }
                Node::Leaf(leaf) => {
                    let at = leaf.partition_point(|e| order(e) == Ordering::Less);
                    if at < leaf.len {
                        leaf.ids[at] = id;
                    }
                    return;
                }
            }
        }
    }

    /// How many elements come first that are `before` something: it must hold for a beginning of the order.
    pub(super) fn position(&self, before: &impl Fn(Element) -> bool) -> usize {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Inner(inner) => {
                    let children = &inner.children;
                    let at = children.partition_point(|child| before(child.first()));
                    let at = at.saturating_sub(1);
                    rank += children[..at]
                        .iter()
                        .map(|c| c.count as usize)
                        .sum::<usize>();
                    node = &children[at].node;
                }
                Node::Leaf(leaf) => return rank + leaf.partition_point(before),
            }
        }
    }

    /// The element at `rank`, if there is one.
    pub(super) fn at(&self, rank: usize) -> Option<Element> {
        let (leaf, at) = self.leaf_at(rank);
        (at < leaf.len).then(|| leaf.element(at))
    }

    /// The elements of these ranks, which exist, in order; from both ends.
    pub(super) fn range(&self, ranks: Range<usize>) -> Elements<'_> {
        Elements {
            ranking: self,
            front: self.leaf_at(ranks.start),
            back: None,
            ranks,
        }
    }

    /// Replaces everything by elements that are in order.
    pub(super) fn fill(&mut self, elements: impl Iterator<Item = Element>) {
        *self = Self::new();
        for element in elements {
            self.insert(element, &|_| Ordering::Less);
        }
    }

    fn leaf_at(&self, rank: usize) -> (&Leaf, usize) {
        let (mut node, mut rank) = (&self.root, rank);
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, rank),
                Node::Inner(inner) => {
                    let last = inner.children.len() - 1;
                    let mut at = 0;
                    while at < last && rank >= inner.children[at].count as usize {
                        rank -= inner.children[at].count as usize;
                        at += 1;
                    }
                    node = &inner.children[at].node;
                }
            }
        }
    }
}

/// A walk over neighbouring elements.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    ranking: &'a Ranking,
    ranks: Range<usize>,
    /// The leaf of the next element from the front, and where in it.
    front: (&'a Leaf, usize),
    /// The same from the back, one further; found when it is first wanted.
    back: Option<(&'a Leaf, usize)>,
}

impl Iterator for Elements<'_> {
    type Item = Element;

    #[inline]
    fn next(&mut self) -> Option<Element> {
        let rank = self.ranks.next()?;
        if self.front.1 >= self.front.0.len {
            self.front = self.ranking.leaf_at(rank);
        }
        let (leaf, at) = self.front;
        self.front.1 += 1;
        Some(leaf.element(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for Elements<'_> {
    fn next_back(&mut self) -> Option<Element> {
        let rank = self.ranks.next_back()?;
        let (leaf, after) = match self.back {
            Some((leaf, after)) if after > 0 => (leaf, after),
            Some(_) | None => {
                let (leaf, at) = self.ranking.leaf_at(rank);
                (leaf, at + 1)
            }
        };
        self.back = Some((leaf, after - 1));
        Some(leaf.element(after - 1))
    }
}

impl ExactSizeIterator for Elements<'_> {}

impl Node {
    /// Elements of a leaf, children of an inner node.
    fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len,
            Self::Inner(inner) => inner.children.len(),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Leaf(_) => LEAF_ELEMENTS,
            Self::Inner(_) => CHILDREN,
        }
    }

    fn first(&self) -> Option<Element> {
        match self {
            Self::Leaf(leaf) => (leaf.len > 0).then(|| leaf.element(0)),
            Self::Inner(inner) => inner.children.first().map(Child::first),
        }
    }

    /// Number of elements below.
    fn count(&self) -> u32 {
        match self {
            Self::Leaf(leaf) => leaf.len as u32,
            Self::Inner(inner) => inner.children.iter().map(|child| child.count).sum(),
        }
    }

    /// Adds an element; if the node had to split, gives the new right part.
    fn insert(
        &mut self,
        element: Element,
        order: &impl Fn(Element) -> Ordering,
        leaves: &mut usize,
    ) -> Option<Self> {
        match self {
            Self::Leaf(leaf) => {
                let at = leaf.partition_point(|e| order(e) == Ordering::Less);
                let right = leaf.insert(at, element)?;
                *leaves += 1;
                Some(Self::Leaf(right))
            }
            Self::Inner(inner) => {
                let at = inner.child_of(order);
                let right = inner.children[at].node.insert(element, order, leaves);
                inner.children[at].refresh();
                let right = inner.insert(at + 1, Child::new(right?)?)?;
                Some(Self::Inner(Box::new(right)))
            }
        }
    }

    fn remove(
        &mut self,
        count: usize,
        order: &impl Fn(Element) -> Ordering,
        ids: &mut Vec<u32>,
        leaves: &mut usize,
    ) {
        match self {
            Self::Leaf(leaf) => {
                let start = leaf.partition_point(|e| order(e) == Ordering::Less);
                let end = leaf.len.min(start + count);
                ids.extend_from_slice(&leaf.ids[start..end]);
                leaf.remove(start..end);
            }
            Self::Inner(inner) => {
                let at = inner.child_of(order);
                inner.children[at].node.remove(count, order, ids, leaves);
                if inner.children[at].node.len() == 0 {
                    let gone = inner.children.remove(at).node;
                    *leaves -= usize::from(matches!(gone, Self::Leaf(_)));
                    return;
                }
                inner.children[at].refresh();
                inner.balance(at, leaves);
            }
        }
    }

    /// Moves everything of `right`, a node of the same kind for which there is room, to the end of this one.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => left.append(&right),
            (Self::Inner(left), Self::Inner(right)) => left.children.extend(right.children),
            (Self::Leaf(_), Self::Inner(_)) | (Self::Inner(_), Self::Leaf(_)) => {}
        }
    }

    /// Splits off everything from `at` on.
    fn split(&mut self, at: usize) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Leaf(leaf.split(at)),
            Self::Inner(inner) => Self::Inner(Box::new(inner.split(at))),
        }
    }
}

impl Child {
    fn new(node: Node) -> Option<Self> {
        let Element { score, id } = node.first()?;
        Some(Self {
            score,
            id,
            count: node.count(),
            node,
        })
    }

    fn first(&self) -> Element {
        Element {
            score: self.score,
            id: self.id,
        }
    }

    /// Notes anew what is below.
    fn refresh(&mut self) {
        self.count = self.node.count();
        if let Some(Element { score, id }) = self.node.first() {
            (self.score, self.id) = (score, id);
        }
    }
}

impl Inner {
    /// The child whose elements enclose the place that `order` describes.
    fn child_of(&self, order: &impl Fn(Element) -> Ordering) -> usize {
        self.children
            .partition_point(|child| order(child.first()) != Ordering::Greater)
            .saturating_sub(1)
    }

    fn insert(&mut self, at: usize, child: Child) -> Option<Self> {
        if self.children.len() < CHILDREN {
            self.children.insert(at, child);
            return None;
        }
        if at == CHILDREN {
            // Elements come in order: leave full nodes behind.
            return Some(Self {
                children: Vec::from_iter([child]),
            });
        }
        let mut right = self.split(CHILDREN / 2);
        if at <= CHILDREN / 2 {
            self.children.insert(at, child);
        } else {
            right.children.insert(at - CHILDREN / 2, child);
        }
        Some(right)
    }

    fn split(&mut self, at: usize) -> Self {
        Self {
            children: self.children.split_off(at),
        }
    }

    /// Joins the child at `at` with a neighbour, or takes elements from there, if it is less than a quarter full.
    fn balance(&mut self, at: usize, leaves: &mut usize) {
        let (len, capacity) = {
            let node = &self.children[at].node;
            (node.len(), node.capacity())
        };
        if len >= capacity / 4 || self.children.len() < 2 {
            return;
        }
        let left = at.saturating_sub(1);
        let right = self.children.remove(left + 1).node;
        let node = &mut self.children[left].node;
        let together = node.len() + right.len();
        if together <= capacity {
            *leaves -= usize::from(matches!(right, Node::Leaf(_)));
            node.append(right);
        } else {
            let right = Child::new(node.share(right, together / 2));
            right
                .into_iter()
                .for_each(|child| self.children.insert(left + 1, child));
        }
        self.children[left].refresh();
    }
}

impl Node {
    /// Moves elements between this node and its right neighbour until this one has `len`; gives the neighbour.
    fn share(&mut self, mut right: Self, len: usize) -> Self {
        if self.len() > len {
            let mut moved = self.split(len);
            moved.append(right);
            return moved;
        }
        let rest = right.split(len - self.len());
        self.append(right);
        rest
    }
}

impl Leaf {
    fn new() -> Box<Self> {
        Box::new(Self {
            scores: [0.0; LEAF_ELEMENTS],
            ids: [0; LEAF_ELEMENTS],
            len: 0,
        })
    }

    #[inline]
    fn element(&self, at: usize) -> Element {
        Element {
            score: self.scores[at],
            id: self.ids[at],
        }
    }

    fn partition_point(&self, before: impl Fn(Element) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(self.element(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn insert(&mut self, at: usize, element: Element) -> Option<Box<Self>> {
        if self.len < LEAF_ELEMENTS {
            self.put(at, element);
            return None;
        }
        // Elements that come in order leave full leaves behind.
        let middle = if at == LEAF_ELEMENTS {
            LEAF_ELEMENTS
        } else {
            LEAF_ELEMENTS / 2
        };
        let mut right = self.split(middle);
        if at < middle {
            self.put(at, element);
        } else {
            right.put(at - middle, element);
        }
        Some(right)
    }

    fn put(&mut self, at: usize, element: Element) {
        self.scores.copy_within(at..self.len, at + 1);
        self.ids.copy_within(at..self.len, at + 1);
        self.scores[at] = element.score;
        self.ids[at] = element.id;
        self.len += 1;
    }

    fn remove(&mut self, range: Range<usize>) {
        self.scores.copy_within(range.end..self.len, range.start);
        self.ids.copy_within(range.end..self.len, range.start);
        self.len -= range.len();
    }

    fn split(&mut self, at: usize) -> Box<Self> {
        let mut right = Self::new();
        right.append_parts(&self.scores[at..self.len], &self.ids[at..self.len]);
        self.len = at;
        right
    }

    fn append(&mut self, other: &Self) {
        self.append_parts(&other.scores[..other.len], &other.ids[..other.len]);
    }

    fn append_parts(&mut self, scores: &[f64], ids: &[u32]) {
        let end = self.len + scores.len();
        self.scores[self.len..end].copy_from_slice(scores);
        self.ids[self.len..end].copy_from_slice(ids);
        self.len = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(number: u32) -> Element {
        Element {
            score: f64::from(number / 4),
            id: number,
        }
    }

    /// Elements are ordered by score and id here.
    fn order_of(number: u32) -> impl Fn(Element) -> Ordering {
        move |e| e.id.cmp(&number)
    }

    fn numbers(ranking: &Ranking, count: usize) -> Vec<u32> {
        ranking.range(0..count).map(|e| e.id).collect()
    }

    /// Checks counts, first elements and sizes of everything below; gives the number of leaves.
    fn check(node: &Node, is_root: bool) -> usize {
        match node {
            Node::Leaf(leaf) => {
                assert!(is_root || leaf.len > 0);
                1
            }
            Node::Inner(inner) => {
                assert!(!inner.children.is_empty() && inner.children.len() <= CHILDREN);
                assert!(!is_root || inner.children.len() > 1);
                for child in &inner.children {
                    assert_eq!(child.node.first(), Some(child.first()));
                    assert_eq!(child.node.count(), child.count);
                }
                inner.children.iter().map(|c| check(&c.node, false)).sum()
            }
        }
    }

    fn check_all(ranking: &Ranking) {
        assert_eq!(check(&ranking.root, true), ranking.leaves);
    }

    #[test]
    fn elements_in_order_fill_their_leaves() {
        let mut ranking = Ranking::new();
        ranking.fill((0..100_000).map(element));
        check_all(&ranking);
        assert_eq!(ranking.leaves, 100_000_usize.div_ceil(LEAF_ELEMENTS));
        assert!(numbers(&ranking, 100_000).into_iter().eq(0..100_000));
        assert!(
            ranking
                .range(99..777)
                .rev()
                .map(|e| e.id)
                .eq((99..777).rev())
        );
        assert_eq!(ranking.position(&|e| e.id < 70_001), 70_001);
        assert_eq!(ranking.at(70_001), Some(element(70_001)));
        assert_eq!(ranking.at(100_000), None);
    }

    #[test]
    fn both_ends_of_a_walk_meet() {
        let mut ranking = Ranking::new();
        ranking.fill((0..300).map(element));
        let mut walk = ranking.range(10..290);
        let mut count = 0;
        while let (Some(low), Some(high)) = (walk.next(), walk.next_back()) {
            assert_eq!(low.id + high.id, 299);
            count += 2;
        }
        assert_eq!(count, 280);
    }

    #[test]
    fn runs_go_leaf_by_leaf() {
        let mut ranking = Ranking::new();
        ranking.fill((0..10_000).map(element));
        let mut ids = Vec::new();
        while ids.len() < 9000 {
            let next = 500 + ids.len() as u32;
            let left = 9000 - ids.len();
            ranking.remove(left, &order_of(next), &mut ids);
            check_all(&ranking);
        }
        assert!(ids.into_iter().eq(500..9500));
        assert!(
            numbers(&ranking, 1000)
                .into_iter()
                .eq((0..500).chain(9500..10_000))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_order_is_that_of_a_sorted_list(
            adds in proptest::collection::vec(0..3000_u32, 0..3000),
            takes in proptest::collection::vec((0..3000_u32, 1..100_usize), 0..300),
        ) {
            let mut ranking = Ranking::new();
            let mut model = alloc::collections::BTreeSet::new();
            for number in adds {
                if model.insert(number) {
                    ranking.insert(element(number), &order_of(number));
                }
            }
            check_all(&ranking);
            for (number, count) in takes {
                let Some(&first) = model.range(number..).next() else { continue };
                let mut ids = Vec::new();
                ranking.remove(count, &order_of(first), &mut ids);
                prop_assert!(!ids.is_empty() && ids.len() <= count);
                let expected: Vec<u32> = model.range(first..).copied().take(ids.len()).collect();
                prop_assert_eq!(&ids, &expected);
                for id in ids {
                    model.remove(&id);
                }
                check_all(&ranking);
                prop_assert_eq!(ranking.position(&|e| e.id < number), model.range(..number).count());
            }
            prop_assert!(numbers(&ranking, model.len()).into_iter().eq(model));
        }
    }
}
