//! The entries of a stream, in blocks, and what a stream remembers of those that are gone.

use super::StreamId;
use super::block::{Block, Entry};
use super::radix::nodes_added;
use super::tree_bytes;
use crate::value::EncodingLimits;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use kevy_proto::resp::Args;

/// No block becomes larger than this, whatever the limits say (as in Redis): its places fit in 32 bits.
const LARGEST_BLOCK_BYTES: usize = 1 << 30;

/// The entries of a stream.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// By the id of the first entry that a block had.
    blocks: BTreeMap<StreamId, Box<Block>>,
    /// Live entries.
    length: u64,
    first_id: StreamId,
    pub(super) last_id: StreamId,
    pub(super) max_deleted_id: StreamId,
    pub(super) added: i64,
    /// Nodes of Redis's radix tree besides its root.
    nodes_below_root: usize,
    block_bytes: usize,
}

/// Which entries `XTRIM` keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The newest so many.
    Newest(u64),
    /// Those whose id is at least this.
    From(StreamId),
}

/// How `XTRIM` removes old entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Which entries stay.
    pub keep: Keep,
    /// Whether only whole blocks go, so that more than wanted may stay.
    pub approximately: bool,
    /// The most entries that go at once; 0: no limit.
    pub limit: u64,
}

impl Entries {
    /// Entries from blocks in the order of their first ids, which must ascend from block to block. `added` and the ids are
    /// as the getters say. `None` if they contradict each other.
    pub(crate) fn from_blocks(
        blocks: Vec<(StreamId, Block)>,
        last_id: StreamId,
        max_deleted_id: StreamId,
        added: Option<i64>,
    ) -> Option<Self> {
        let mut entries = Self {
            last_id,
            max_deleted_id,
            ..Self::default()
        };
        let mut before = None;
        for (base, block) in blocks {
            let last = block.walk(base).next_back()?.id;
            if before.is_some_and(|before| base <= before) || last > last_id {
                return None;
            }
            before = Some(last);
            entries.length += block.live() as u64;
            entries.nodes_below_root += nodes_added(base, &entries.blocks);
            entries.block_bytes += block.heap_bytes();
            entries.blocks.insert(base, Box::new(block));
        }
        let length = i64::try_from(entries.length).ok()?;
        entries.added = added.unwrap_or(length);
        entries.find_first();
        (entries.added >= length).then_some(entries)
    }

    /// The blocks with their first ids, in order.
    pub(crate) fn all_blocks(&self) -> impl Iterator<Item = (StreamId, &Block)> {
        self.blocks.iter().map(|(base, block)| (*base, &**block))
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The id of the oldest entry, [`StreamId::MIN`] if there is none.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The highest id ever: the next one must be higher.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The highest id among the entries removed one by one.
    pub fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// How many entries were ever added.
    pub fn added(&self) -> i64 {
        self.added
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Number of nodes that Redis's radix tree over the blocks would have.
    pub fn radix_nodes(&self) -> usize {
        1 + self.nodes_below_root
    }

    /// Bytes on the heap, an estimate.
    pub(super) fn heap_bytes(&self) -> usize {
        let count = self.blocks.len();
        self.block_bytes
            + count * size_of::<Block>()
            + tree_bytes(count, size_of::<(StreamId, Box<Block>)>())
    }

    /// Appends an entry with the names and values `pairs`. Its id must be higher than [`Entries::last_id`].
    pub fn append(&mut self, id: StreamId, pairs: Args<'_>, limits: &EncodingLimits) {
        let value_bytes: usize = pairs.iter().map(<[u8]>::len).sum();
        let room = |block: &Block| has_room(block, value_bytes, limits);
        if !self
            .blocks
            .last_entry()
            .is_some_and(|last| room(last.get()))
        {
            self.open_block(id, pairs);
        }
        if let Some(mut last) = self.blocks.last_entry() {
            let (base, block) = (*last.key(), last.get_mut());
            self.block_bytes -= block.heap_bytes();
            block.append(base, id, pairs);
            self.block_bytes += block.heap_bytes();
        }
        self.length += 1;
        self.added = self.added.saturating_add(1);
        self.last_id = id;
        if self.length == 1 {
            self.first_id = id;
        }
    }

    fn open_block(&mut self, id: StreamId, pairs: Args<'_>) {
        if let Some(mut last) = self.blocks.last_entry() {
            self.block_bytes -= last.get().heap_bytes();
            last.get_mut().close();
            self.block_bytes += last.get().heap_bytes();
        }
        self.nodes_below_root += nodes_added(id, &self.blocks);
        let block = Block::new(pairs);
        self.block_bytes += block.heap_bytes();
        self.blocks.insert(id, Box::new(block));
    }

    fn remove_block(&mut self, base: StreamId) {
        if let Some(block) = self.blocks.remove(&base) {
            self.block_bytes -= block.heap_bytes();
            self.nodes_below_root -= nodes_added(base, &self.blocks);
        }
    }

    /// Removes an entry; says whether it was there.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some(place) = self.get(id).map(|entry| entry.place) else {
            return false;
        };
        let base = self.block_before(id);
        match self.blocks.get_mut(&base) {
            Some(block) if block.live() > 1 => block.delete(place),
            Some(_) | None => self.remove_block(base),
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    /// Removes old entries; says how many.
    pub fn trim(&mut self, trim: Trim) -> u64 {
        let before = self.length;
        while let Some((&base, block)) = self.blocks.first_key_value() {
            if matches!(trim.keep, Keep::Newest(count) if self.length <= count) {
                break;
            }
            let live = block.live() as u64;
            let removed = before - self.length;
            if trim.limit != 0 && removed + live > trim.limit {
                break;
            }
            let whole = match trim.keep {
                Keep::Newest(count) => self.length - live >= count,
                Keep::From(id) => block.walk(base).next_back().is_some_and(|e| e.id < id),
            };
            if whole {
                self.remove_block(base);
                self.length -= live;
                continue;
            }
            if !trim.approximately {
                self.trim_block(base, trim.keep);
            }
            break;
        }
        if self.length != before {
            self.find_first();
        }
        before - self.length
    }

    /// Removes old entries of the block at `base`, which keeps some.
    fn trim_block(&mut self, base: StreamId, keep: Keep) {
        let Some(block) = self.blocks.get_mut(&base) else {
            return;
        };
        let live = block.walk(base).filter(|entry| !entry.deleted);
        let surplus = match keep {
            Keep::Newest(count) => (self.length - count) as usize,
            Keep::From(id) => live.clone().take_while(|entry| entry.id < id).count(),
        };
        let places: Vec<usize> = live.take(surplus).map(|entry| entry.place).collect();
        for place in places {
            block.delete(place);
            self.length -= 1;
        }
    }

    fn find_first(&mut self) {
        self.first_id = self.first().map_or(StreamId::MIN, |entry| entry.id);
    }

    /// The oldest entry.
    pub fn first(&self) -> Option<Entry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX).next()
    }

    /// The newest entry.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.range_back(StreamId::MIN, StreamId::MAX).next()
    }

    /// The entry with this id.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// The entries from `start` to `end`, both included, the oldest first.
    pub fn range(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'_>> + Clone + use<'_> {
        self.blocks_of(start, end)
            .flat_map(|(base, block)| block.walk(*base))
            .skip_while(move |entry| entry.id < start)
            .take_while(move |entry| entry.id <= end)
            .filter(|entry| !entry.deleted)
    }

    /// The entries from `start` to `end`, both included, the newest first.
    pub fn range_back(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Entry<'_>> + Clone + use<'_> {
        self.blocks_of(start, end)
            .rev()
            .flat_map(|(base, block)| block.walk(*base).rev())
            .skip_while(move |entry| entry.id > end)
            .take_while(move |entry| entry.id >= start)
            .filter(|entry| !entry.deleted)
    }

    /// How many entries there are from `start` to `end`, both included; counting stops at `limit`. Blocks that lie in the
    /// range as a whole are not walked.
    pub fn count(&self, start: StreamId, end: StreamId, limit: usize) -> usize {
        let mut count = 0;
        for (&base, block) in self.blocks_of(start, end) {
            if count >= limit {
                break;
            }
            let whole = start <= base && block.walk(base).next_back().is_some_and(|e| e.id <= end);
            count += if whole {
                block.live()
            } else {
                block
                    .walk(base)
                    .filter(|e| !e.deleted && (start..=end).contains(&e.id))
                    .count()
            };
        }
        count.min(limit)
    }

    /// The blocks that may hold ids from `start` to `end`.
    fn blocks_of(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl DoubleEndedIterator<Item = (&StreamId, &Block)> + Clone {
        self.blocks
            .range(self.block_before(start).min(end)..=end)
            .map(|(base, block)| (base, &**block))
    }

    /// Where the block begins that holds `id`, if it is there.
    fn block_before(&self, id: StreamId) -> StreamId {
        let before = self.blocks.range(..=id).next_back();
        before.map_or(id, |(base, _)| *base)
    }
}

fn has_room(block: &Block, more_bytes: usize, limits: &EncodingLimits) -> bool {
    let most_bytes = match limits.stream_node_max_bytes {
        0 => LARGEST_BLOCK_BYTES,
        limit => limit.min(LARGEST_BLOCK_BYTES),
    };
    let entries = limits.stream_node_max_entries;
    block.listpack_bytes() + more_bytes < most_bytes && (entries == 0 || block.len() < entries)
}
