//! How many nodes Redis's radix tree would have over the blocks' first ids: `XINFO STREAM` shows it.
//!
//! A key of sixteen bytes runs through branching nodes and, between them, nodes that hold a run of bytes; it ends in a
//! leaf. What a key adds to the tree is known from its neighbours alone, so that counting takes a few look-ups per block.

use super::StreamId;
use alloc::collections::BTreeMap;

/// Bytes of a key.
const DEPTH: usize = 16;

/// The nodes that `key` adds to the tree over `others`, which do not hold it.
pub(super) fn nodes_added<V>(key: StreamId, others: &BTreeMap<StreamId, V>) -> usize {
    let bytes = key.to_be_bytes();
    let before = others.range(..key).next_back().map(|(id, _)| *id);
    let after = others.range(key..).next().map(|(id, _)| *id);
    let shared = |other: &StreamId| shared_bytes(&bytes, &other.to_be_bytes());
    let Some(nearest) = before.into_iter().chain(after).max_by_key(shared) else {
        // The root holds the bytes; the leaf is new.
        return 1;
    };
    let depth = shared(&nearest);
    let mut branches = branches_of(nearest, others);
    let nodes_before = nodes_on_way(branches);
    branches |= 1 << depth;
    // The run of bytes behind the branch, and the leaf.
    let own = usize::from(depth + 1 < DEPTH) + 1;
    nodes_on_way(branches) - nodes_before + own
}

fn shared_bytes(a: &[u8; DEPTH], b: &[u8; DEPTH]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// At which depths other keys leave the way of `key`: a bit each.
fn branches_of<V>(key: StreamId, keys: &BTreeMap<StreamId, V>) -> u32 {
    let bytes = key.to_be_bytes();
    let mut branches = 0;
    // Every neighbour shares fewer bytes than the one before: the next one looked for lies outside of what they share.
    let (mut lowest, mut highest) = (Some(key), Some(key));
    while let Some((other, _)) = lowest.and_then(|below| keys.range(..below).next_back()) {
        let shared = shared_bytes(&bytes, &other.to_be_bytes());
        branches |= 1 << shared;
        lowest = Some(filled(&bytes, shared, 0));
    }
    while let Some((other, _)) = highest.and_then(|above| keys.range(above.next()?..).next()) {
        let shared = shared_bytes(&bytes, &other.to_be_bytes());
        branches |= 1 << shared;
        highest = Some(filled(&bytes, shared, 0xff));
    }
    branches
}

/// The first `kept` bytes, and `fill` for the others.
fn filled(bytes: &[u8; DEPTH], kept: usize, fill: u8) -> StreamId {
    let mut all = [fill; DEPTH];
    all[..kept].copy_from_slice(&bytes[..kept]);
    StreamId::from_be_bytes(all)
}

/// Nodes on the way of a key to its leaf: the branching ones, and one for every run of bytes between them.
fn nodes_on_way(branches: u32) -> usize {
    let mut run_from = 0;
    let mut nodes = 0;
    for depth in (0..DEPTH).filter(|depth| branches & 1 << depth != 0) {
        nodes += usize::from(depth > run_from) + 1;
        run_from = depth + 1;
    }
    nodes + usize::from(run_from < DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn id() -> impl Strategy<Value = StreamId> {
        // Few values per byte: many shared prefixes.
        prop::array::uniform16(prop_oneof![4 => Just(0_u8), 1 => 0..3_u8, 1 => Just(255)])
            .prop_map(StreamId::from_be_bytes)
    }

    /// The nodes of the tree over sorted `keys`, which agree in `depth` bytes, counted from the root.
    fn nodes(keys: &[StreamId], depth: usize) -> usize {
        let [first, .., last] = keys else {
            return usize::from(depth < DEPTH && !keys.is_empty()) + 1;
        };
        let branch = shared_bytes(&first.to_be_bytes(), &last.to_be_bytes());
        let groups = keys.chunk_by(|a, b| a.to_be_bytes()[branch] == b.to_be_bytes()[branch]);
        let below: usize = groups.map(|group| nodes(group, branch + 1)).sum();
        usize::from(branch > depth) + 1 + below
    }

    proptest! {
        #[test]
        fn what_keys_add_is_the_tree(ids in prop::collection::btree_set(id(), 0..60), order: Vec<prop::sample::Index>) {
            let mut blocks = BTreeMap::new();
            let mut ids: Vec<StreamId> = ids.into_iter().collect();
            let sorted = ids.clone();
            for index in order {
                if !ids.is_empty() {
                    let (last, other) = (ids.len() - 1, index.index(ids.len()));
                    ids.swap(last, other);
                }
            }
            let mut count = 1;
            for id in ids {
                count += nodes_added(id, &blocks);
                blocks.insert(id, b"any value");
            }
            prop_assert_eq!(count, nodes(&sorted, 0));
        }
    }
}
