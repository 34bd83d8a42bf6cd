//! Stream: entries in the order of their ids, and groups of consumers that share them.
//!
//! * [`Entries`]: the log itself, in blocks of packed entries.
//! * [`Group`]: how far a group has read, and what is pending for whom.
//!
//! A stream may be empty and stays: it remembers its last id, its counters and its groups.

mod block;
mod entries;
mod group;
mod id;
mod radix;
mod rebuild;

pub use crate::rdb::Element;
pub(crate) use block::Block;
pub use block::Entry;
pub use entries::{Entries, Keep, Trim};
pub use group::{Consumer, ConsumerNumber, Group, Pending};
pub use id::{IdText, StreamId};

use super::Collection;
use crate::Effects;
use crate::keyspace::{Encoding, Value};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use kevy_proto::resp::ErrorReply;

/// A stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    entries: Entries,
    groups: BTreeMap<Box<[u8]>, Box<Group>>,
    group_bytes: usize,
}

impl Stream {
    /// A stream of these entries, without groups.
    pub(crate) fn from_entries(entries: Entries) -> Self {
        Self {
            entries,
            ..Self::default()
        }
    }

    /// The entries.
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The entries, to be changed.
    pub fn entries_mut(&mut self) -> &mut Entries {
        &mut self.entries
    }

    /// The groups, by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups
            .iter()
            .map(|(name, group)| (&name[..], &**group))
    }

    /// The group with this name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name).map(|group| &**group)
    }

    /// Adds a group; says whether its name was free.
    pub fn create_group(&mut self, name: &[u8], group: Group) -> bool {
        let free = !self.groups.contains_key(name);
        if free {
            self.group_bytes += group_bytes(name, &group);
            self.groups.insert(Box::from(name), Box::new(group));
        }
        free
    }

    /// Removes a group; says whether it was there.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        let removed = self.groups.remove(name);
        if let Some(group) = &removed {
            self.group_bytes -= group_bytes(name, group);
        }
        removed.is_some()
    }

    /// Changes a group, if there is one with this name.
    pub fn edit_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&Entries, &mut Group) -> R,
    ) -> Option<R> {
        let group = self.groups.get_mut(name)?;
        let before = group.heap_bytes();
        let result = change(&self.entries, group);
        self.group_bytes = self.group_bytes - before + group.heap_bytes();
        Some(result)
    }

    /// `XSETID`: says that the stream's last id is `last_id`, and perhaps how many entries were added and which was the
    /// highest one deleted.
    ///
    /// # Errors
    /// The entries that are there contradict it.
    pub fn set_id(
        &mut self,
        last_id: StreamId,
        added: Option<i64>,
        max_deleted_id: Option<StreamId>,
    ) -> Result<(), ErrorReply> {
        let entries = &mut self.entries;
        if entries.last().is_some_and(|top| last_id < top.id) {
            return Err(ErrorReply::text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| (added as u64) < entries.len()) {
            return Err(ErrorReply::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
        entries.last_id = last_id;
        entries.added = added.unwrap_or(entries.added);
        entries.max_deleted_id = max_deleted_id.unwrap_or(entries.max_deleted_id);
        Ok(())
    }
}

impl Entries {
    /// How many entries a reader of everything up to `id` has read, counted from the first one ever; `None` if entries
    /// deleted meanwhile hide it.
    pub fn read_up_to(&self, id: StreamId) -> Option<i64> {
        if self.added() == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last_id() {
            return Some(self.added());
        }
        if id == self.last_id() {
            return Some(self.added());
        }
        let gapless = self.max_deleted_id() < self.first_id();
        let before_first = self.added() - self.len() as i64;
        match id.cmp(&self.first_id()) {
            _ if id > self.last_id() || !gapless => None,
            core::cmp::Ordering::Less => Some(before_first),
            core::cmp::Ordering::Equal => Some(before_first + 1),
            core::cmp::Ordering::Greater => None,
        }
    }

    /// Whether an entry was deleted, as far as one can tell, at or after `id` and not before all that is left.
    pub fn deleted_since(&self, id: StreamId) -> bool {
        !self.is_empty() && id.max(self.first_id()) <= self.max_deleted_id()
    }
}

impl Group {
    /// Notes that the entry `id` was delivered for the first time.
    pub fn advance(&mut self, entries: &Entries, id: StreamId) {
        if id <= self.last_id {
            return;
        }
        self.entries_read = match self.entries_read {
            Some(read) if !entries.deleted_since(id) => Some(read.saturating_add(1)),
            read if entries.added() == 0 => read,
            _ => entries.read_up_to(id),
        };
        self.last_id = id;
    }

    /// How many entries the group has still to read; `None` if entries deleted meanwhile hide it.
    pub fn lag(&self, entries: &Entries) -> Option<i64> {
        if entries.added() == 0 {
            return Some(0);
        }
        let read = self
            .entries_read
            .filter(|_| !entries.deleted_since(self.last_id))
            .or_else(|| entries.read_up_to(self.last_id))?;
        Some(entries.added().saturating_sub(read))
    }
}

fn group_bytes(name: &[u8], group: &Group) -> usize {
    name.len() + size_of::<Group>() + group.heap_bytes()
}

/// What a B-tree of `len` entries takes: filled in ascending order its nodes are half full, but there is a whole one.
fn tree_bytes(len: usize, entry_bytes: usize) -> usize {
    const NODE_ENTRIES: usize = 11;
    if len == 0 {
        return 0;
    }
    (2 * len).max(NODE_ENTRIES) * entry_bytes
}

impl Collection for Stream {
    fn view(value: &Value) -> Option<&Self> {
        if let Value::Stream(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn view_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Stream(found) = value {
            Some(found)
        } else {
            None
        }
    }

    fn into_value(self) -> Value {
        Value::Stream(Box::new(self))
    }

    fn is_vacant(&self) -> bool {
        false
    }

    fn encoding(&self) -> Encoding {
        Encoding::Stream
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.entries.heap_bytes()
            + self.group_bytes
            + tree_bytes(self.groups.len(), size_of::<(Box<[u8]>, Box<Group>)>())
    }

    fn emit_rebuild(&self, key: &[u8], effects: &mut Effects) {
        rebuild::emit(self, key, effects);
    }
}
