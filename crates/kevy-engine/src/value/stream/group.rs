//! Consumer groups: who got which entries and has not acknowledged them.

use super::{StreamId, tree_bytes};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A consumer group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The highest id delivered.
    pub last_id: StreamId,
    /// How many entries the group has read, counted from the first one ever; `None` if nobody knows.
    pub entries_read: Option<i64>,
    /// Entries delivered and not acknowledged. Invariant: each is pending for exactly the consumer it names.
    pending: BTreeMap<StreamId, Pending>,
    /// By number; `None` where one was removed.
    consumers: Vec<Option<Consumer>>,
    free: Vec<ConsumerNumber>,
    numbers: BTreeMap<Arc<[u8]>, ConsumerNumber>,
    name_bytes: usize,
}

/// An entry delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// To whom.
    pub consumer: ConsumerNumber,
    /// When last, in Unix milliseconds.
    pub delivered_ms: i64,
    /// How often.
    pub deliveries: i64,
}

/// A consumer in its group, as long as it is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerNumber(u32);

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// When it last asked for something, in Unix milliseconds.
    pub seen_ms: i64,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The entries pending for it.
    pub(crate) fn pending_ids(&self) -> impl Iterator<Item = StreamId> {
        self.pending.iter().copied()
    }

    /// Number of entries pending for it.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

impl Group {
    /// A group without consumers that has been given everything up to `last_id`.
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Self {
        Self {
            last_id,
            entries_read,
            ..Self::default()
        }
    }

    /// The consumers, by name.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> + Clone {
        self.numbers
            .values()
            .filter_map(|number| self.consumer(*number))
    }

    /// Number of consumers.
    pub fn consumers_len(&self) -> usize {
        self.numbers.len()
    }

    /// The number of the consumer with this name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerNumber> {
        self.numbers.get(name).copied()
    }

    /// The consumer with this number.
    pub fn consumer(&self, number: ConsumerNumber) -> Option<&Consumer> {
        self.consumers.get(number.0 as usize)?.as_ref()
    }

    /// The consumer that asks for something now, created if it is new; says whether it is.
    pub fn see(&mut self, name: &[u8], now_ms: i64) -> (ConsumerNumber, bool) {
        if let Some(number) = self.find(name) {
            if let Some(consumer) = self.slot(number) {
                consumer.seen_ms = now_ms;
            }
            return (number, false);
        }
        let consumer = Consumer {
            name: Arc::from(name),
            seen_ms: now_ms,
            pending: BTreeSet::new(),
        };
        self.name_bytes += name.len();
        let name = Arc::clone(&consumer.name);
        let number = self.place(consumer);
        self.numbers.insert(name, number);
        (number, true)
    }

    fn place(&mut self, consumer: Consumer) -> ConsumerNumber {
        if let Some(number) = self.free.pop() {
            if let Some(slot) = self.consumers.get_mut(number.0 as usize) {
                *slot = Some(consumer);
            }
            return number;
        }
        self.consumers.push(Some(consumer));
        ConsumerNumber(self.consumers.len() as u32 - 1)
    }

    /// Removes a consumer and all that is pending for it; says how much that was.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.numbers.remove(name)?;
        let consumer = self.consumers.get_mut(number.0 as usize)?.take()?;
        self.name_bytes -= name.len();
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        self.free.push(number);
        Some(consumer.pending.len())
    }

    /// Number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// What is pending under this id.
    pub fn pending(&self, id: StreamId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// What is pending from `start` to `end`, both included.
    pub fn pending_range(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl DoubleEndedIterator<Item = (StreamId, &Pending)> {
        self.pending
            .range(start.min(end)..=end)
            .filter(move |_| start <= end)
            .map(|(id, pending)| (*id, pending))
    }

    /// What is pending for one consumer from `start` to `end`, both included.
    pub fn pending_of(
        &self,
        consumer: ConsumerNumber,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = (StreamId, &Pending)> {
        self.consumer(consumer)
            .filter(|_| start <= end)
            .into_iter()
            .flat_map(move |consumer| consumer.pending.range(start..=end))
            .filter_map(|id| self.pending.get(id).map(|pending| (*id, pending)))
    }

    /// Makes an entry pending as `pending` says, whoever had it before.
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        let Some(consumer) = self.slot(pending.consumer) else {
            return;
        };
        consumer.pending.insert(id);
        let before = self.pending.insert(id, pending);
        let previous = before.map(|before| before.consumer);
        if let Some(previous) = previous.filter(|previous| *previous != pending.consumer)
            && let Some(previous) = self.slot(previous)
        {
            previous.pending.remove(&id);
        }
    }

    /// Makes an entry no longer pending; says whether it was.
    pub fn release(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        if let Some(consumer) = self.slot(pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    fn slot(&mut self, number: ConsumerNumber) -> Option<&mut Consumer> {
        self.consumers.get_mut(number.0 as usize)?.as_mut()
    }

    /// Bytes on the heap, an estimate.
    pub(super) fn heap_bytes(&self) -> usize {
        // The consumers' sets together are as large as the map, and each consumer's own has at least one node.
        tree_bytes(self.pending.len(), size_of::<(StreamId, Pending)>())
            + tree_bytes(self.pending.len(), size_of::<StreamId>())
            + tree_bytes(self.numbers.len(), size_of::<(Arc<[u8]>, ConsumerNumber)>())
            + self.numbers.len() * size_of::<Consumer>()
            + self.name_bytes
    }
}
