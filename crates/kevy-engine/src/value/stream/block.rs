//! A run of entries in one allocation.
//!
//! ```text
//! block   = [number of fields][field]..[0] entry..           the fields of the block's first entry
//! entry   = [flags][ms - the block's][seq - the block's] fields [number of elements before this one in the entry]
//! fields  = [value]..                                          if they have the names of the block's fields
//!         | [number of fields] ([field][value])..              otherwise
//! flags   = 1: deleted, 2: has the block's fields
//! ```
//!
//! All of it are listpack elements, as in a node of a Redis stream; Redis keeps the two counts in there as well. A
//! deleted entry stays where it is until the whole block goes: what is behind it does not move.

use super::StreamId;
use crate::rdb::element::{self, Element, FRAME_BYTES};
use alloc::vec::Vec;
use kevy_proto::resp::Args;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// A run of entries.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    live: u32,
    deleted: u32,
    /// Where the first entry begins.
    entries_at: u32,
    bytes: Vec<u8>,
}

impl Block {
    /// A block without entries whose fields are those of `pairs`: names and values in turn.
    pub(super) fn new(pairs: Args<'_>) -> Self {
        let mut bytes = Vec::new();
        element::push_integer(&mut bytes, (pairs.len() / 2) as i64);
        for field in pairs.iter().step_by(2) {
            element::push_bytes(&mut bytes, field);
        }
        element::push_integer(&mut bytes, 0);
        Self {
            live: 0,
            deleted: 0,
            entries_at: bytes.len() as u32,
            bytes,
        }
    }

    /// A block from the elements of a node of a Redis stream that begins at `base`; `None` if they are damaged.
    ///
    /// ```text
    /// node  = [entries][deleted entries][number of fields][field]..[0] entry..
    /// ```
    pub(crate) fn from_node<'a>(
        base: StreamId,
        mut elements: impl Iterator<Item = Element<'a>>,
    ) -> Option<Self> {
        let node = &mut elements;
        let (live, deleted) = (small(node)?, small(node)?);
        let (mut bytes, mut live_found) = (Vec::new(), 0);
        let fields = copy_count(&mut bytes, node)?;
        copy(&mut bytes, node, fields)?;
        if copy_integer(&mut bytes, node)? != 0 {
            return None;
        }
        let entries_at = u32::try_from(bytes.len()).ok()?;
        for _ in 0..u64::from(live) + u64::from(deleted) {
            let flags = copy_entry(&mut bytes, node, fields)?;
            live_found += u32::from(flags & DELETED == 0);
        }
        bytes.shrink_to_fit();
        let block = Self {
            live,
            deleted,
            entries_at,
            bytes,
        };
        let whole = node.next().is_none() && live_found == live && block.is_ascending(base);
        whole.then_some(block)
    }

    /// Whether there are entries, all at or after `base` and each after the one before.
    fn is_ascending(&self, base: StreamId) -> bool {
        let ids = self.walk(base).map(|entry| entry.id);
        ids.clone().next().is_some_and(|first| first >= base) && ids.is_sorted_by(|a, b| a < b)
    }

    /// The elements of a node of a Redis stream without the two counts at its start, and these: live and deleted entries.
    pub(crate) fn node(&self) -> (u32, u32, &[u8]) {
        (self.live, self.deleted, &self.bytes)
    }

    /// Entries that are not deleted.
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// Entries, deleted ones included.
    pub(super) fn len(&self) -> usize {
        self.live as usize + self.deleted as usize
    }

    /// Bytes that Redis would count.
    pub(super) fn listpack_bytes(&self) -> usize {
        let counts = [self.live, self.deleted].map(|n| element::integer_bytes(i64::from(n)));
        FRAME_BYTES + counts[0] + counts[1] + self.bytes.len()
    }

    /// Bytes allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives back room to grow: no entry will follow.
    pub(super) fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Appends an entry to the block that begins at `base`.
    pub(super) fn append(&mut self, base: StreamId, id: StreamId, pairs: Args<'_>) {
        let same = self.has_fields(pairs);
        let out = &mut self.bytes;
        element::push_integer(out, if same { SAME_FIELDS } else { 0 });
        element::push_integer(out, id.ms.wrapping_sub(base.ms) as i64);
        element::push_integer(out, id.seq.wrapping_sub(base.seq) as i64);
        let elements = if same {
            for value in pairs.iter().skip(1).step_by(2) {
                element::push_bytes(out, value);
            }
            3 + pairs.len() / 2
        } else {
            element::push_integer(out, (pairs.len() / 2) as i64);
            pairs.iter().for_each(|arg| element::push_bytes(out, arg));
            4 + pairs.len()
        };
        element::push_integer(out, elements as i64);
        self.live += 1;
    }

    fn has_fields(&self, pairs: Args<'_>) -> bool {
        let Some((count, mut at)) = element::read_integer(&self.bytes, 0) else {
            return false;
        };
        count == (pairs.len() / 2) as i64
            && pairs.iter().step_by(2).all(|field| {
                element::read(&self.bytes, at).is_some_and(|(element, next)| {
                    at = next;
                    element.is(field)
                })
            })
    }

    /// Walks the entries, deleted ones included, of the block that begins at `base`.
    pub(super) fn walk(&self, base: StreamId) -> Walk<'_> {
        Walk {
            block: self,
            base,
            front: self.entries_at as usize,
            back: self.bytes.len(),
        }
    }

    /// Marks the entry at `entry.place` as deleted.
    pub(super) fn delete(&mut self, place: usize) {
        // Flags are small enough to be their own element's only byte before its length.
        if let Some(flags) = self.bytes.get_mut(place) {
            *flags |= DELETED as u8;
            self.live -= 1;
            self.deleted += 1;
        }
    }

    fn entry_at(&self, base: StreamId, place: usize) -> Option<(Entry<'_>, usize)> {
        let bytes = &self.bytes[..];
        let (flags, at) = element::read_integer(bytes, place)?;
        let (ms, at) = element::read_integer(bytes, at)?;
        let (seq, at) = element::read_integer(bytes, at)?;
        let same = flags & SAME_FIELDS != 0;
        let (fields_at, (count, mut at)) = if same {
            let (count, fields_at) = element::read_integer(bytes, 0)?;
            (Some(fields_at), (count, at))
        } else {
            (None, element::read_integer(bytes, at)?)
        };
        let entry = Entry {
            id: StreamId {
                ms: base.ms.wrapping_add(ms as u64),
                seq: base.seq.wrapping_add(seq as u64),
            },
            deleted: flags & DELETED != 0,
            place,
            count: count as usize,
            bytes,
            fields_at,
            values_at: at,
        };
        let elements = if same { count } else { 2 * count };
        // The count at the end is one more.
        for _ in 0..=elements {
            at = element::read(bytes, at)?.1;
        }
        Some((entry, at))
    }
}

/// The next element as a count.
fn small<'a>(node: &mut impl Iterator<Item = Element<'a>>) -> Option<u32> {
    u32::try_from(node.next()?.integer()?).ok()
}

/// Copies so many elements.
fn copy<'a>(
    out: &mut Vec<u8>,
    node: &mut impl Iterator<Item = Element<'a>>,
    count: i64,
) -> Option<()> {
    for _ in 0..count {
        element::push(out, node.next()?);
    }
    Some(())
}

/// Copies an element that must be an integer; gives it.
fn copy_integer<'a>(
    out: &mut Vec<u8>,
    node: &mut impl Iterator<Item = Element<'a>>,
) -> Option<i64> {
    let number = node.next()?.integer()?;
    element::push_integer(out, number);
    Some(number)
}

/// As [`copy_integer`], for a number of fields.
fn copy_count<'a>(out: &mut Vec<u8>, node: &mut impl Iterator<Item = Element<'a>>) -> Option<i64> {
    copy_integer(out, node).filter(|&count| (0..=i64::from(u32::MAX)).contains(&count))
}

/// Copies an entry of a node with so many fields of its own; gives its flags.
fn copy_entry<'a>(
    out: &mut Vec<u8>,
    node: &mut impl Iterator<Item = Element<'a>>,
    fields: i64,
) -> Option<i64> {
    let flags = copy_integer(out, node).filter(|flags| (0..4).contains(flags))?;
    copy_integer(out, node)?;
    copy_integer(out, node)?;
    let elements = if flags & SAME_FIELDS != 0 {
        copy(out, node, fields)?;
        3 + fields
    } else {
        let count = copy_count(out, node)?;
        copy(out, node, 2 * count)?;
        4 + 2 * count
    };
    (copy_integer(out, node)? == elements).then_some(flags)
}

/// One entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its id.
    pub id: StreamId,
    pub(super) deleted: bool,
    /// Where it begins in its block.
    pub(super) place: usize,
    count: usize,
    bytes: &'a [u8],
    /// Where the names begin, if they are the block's.
    fields_at: Option<usize>,
    /// Where the values, or names and values, begin.
    values_at: usize,
}

impl<'a> Entry<'a> {
    /// Number of fields.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no fields: never, but asked for beside [`Entry::len`].
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names and values in turn.
    pub fn elements(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let (bytes, mut fields_at, mut values_at) = (self.bytes, self.fields_at, self.values_at);
        (0..2 * self.count).map_while(move |index| {
            let at = match &mut fields_at {
                Some(fields_at) if index % 2 == 0 => fields_at,
                Some(_) | None => &mut values_at,
            };
            let (element, next) = element::read(bytes, *at)?;
            *at = next;
            Some(element)
        })
    }
}

/// The entries of a block, from both ends.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    block: &'a Block,
    base: StreamId,
    front: usize,
    back: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.front >= self.back {
            return None;
        }
        let (entry, next) = self.block.entry_at(self.base, self.front)?;
        self.front = next;
        Some(entry)
    }
}

impl DoubleEndedIterator for Walk<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let bytes = &self.block.bytes;
        let mut at = element::before(bytes, self.back)?;
        let (elements, _) = element::read_integer(bytes, at)?;
        for _ in 0..elements {
            at = element::before(bytes, at)?;
        }
        self.back = at;
        self.block.entry_at(self.base, at).map(|(entry, _)| entry)
    }
}
