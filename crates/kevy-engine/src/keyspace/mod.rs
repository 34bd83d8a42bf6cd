//! The keys of one shard: a table from key to entry, with absolute expiry.
//!
//! Every access takes the current time and treats an entry whose deadline has passed as absent (and removes it: lazy
//! expiry); [`Keyspace::expire_due`] removes the rest in the order of their deadlines (active expiry). Each removal by
//! expiry emits the effect `DEL key`; all other effects are the commands' business.
//!
//! * Reading: [`Keyspace::lookup`], [`Keyspace::string`], [`Keyspace::peek`].
//! * Changing: [`Keyspace::lookup_for_write`] gives a [`KeyAccess`]: one hash and one probe for reading and writing a key.
//! * Moving: [`Keyspace::take`] and [`Keyspace::put`] carry an entry to another keyspace as it is.
//! * Walking: [`Keyspace::scan`], [`Keyspace::iter`], [`Keyspace::random_entry`].
//! * Keeping: [`Keyspace::begin_snapshot`], [`Keyspace::advance_snapshot`].

mod access;
mod blob;
mod collections;
mod detached;
mod entry;
mod eviction;
mod expiry;
mod growable;
mod key_access;
mod object;
mod part_expiry;
mod snapshot;
mod walk;

pub use access::AccessTracking;
pub use blob::Blob;
pub use detached::Detached;
pub(crate) use entry::allocated;
pub use entry::{EMBSTR_LIMIT_BYTES, Encoding, Entry, Value};
pub use eviction::EvictionPolicy;
pub use expiry::{Expiry, ExpiryMode};
pub use growable::StringMut;
pub use key_access::KeyAccess;
pub use object::Object;
pub use snapshot::SnapshotProgress;
pub use walk::{Cursor, Partition, ScanStep};

use crate::events::Events;
use crate::segmented::{Keyed, Place, SegmentedTable};
use crate::value::EncodingLimits;
use crate::{Effects, Event, EventClasses};
use alloc::boxed::Box;
use alloc::vec::Vec;
use expiry::Deadlines;
use kevy_proto::resp::ErrorReply;
use kevy_proto::rng::Rng;
use kevy_proto::time::{Now, UnixMillis};
use snapshot::Snapshot;

/// The longest string that a command may make unless it is set otherwise, in bytes: Redis's default `proto-max-bulk-len`.
pub const LONGEST_STRING_BYTES: usize = 512 * 1024 * 1024;

/// Counters of a keyspace since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys removed because their time had come.
    pub expired: u64,
    /// Fields of hashes removed because their time had come.
    pub expired_fields: u64,
    /// Keys removed because memory was short.
    pub evicted: u64,
}

impl Keyed for Entry {
    #[inline]
    fn key(&self) -> &[u8] {
        Self::key(self)
    }
}

/// The keys of one shard.
#[derive(Debug)]
pub struct Keyspace {
    table: SegmentedTable<Entry>,
    deadlines: Deadlines,
    /// The earliest deadline of a part of each value that has such parts.
    part_deadlines: Deadlines,
    stats: KeyspaceStats,
    rng: Rng,
    seed: u64,
    partition: Partition,
    tracking: AccessTracking,
    touching: bool,
    expiry_mode: ExpiryMode,
    active_expire: bool,
    /// The sum of the entries' [`Entry::memory_bytes`].
    used_bytes: usize,
    encoding_limits: EncodingLimits,
    events: Events,
    longest_string_bytes: usize,
    eviction_samples: u32,
    /// Set while a snapshot is taken.
    snapshot: Option<Box<Snapshot>>,
}

impl Keyspace {
    /// An empty keyspace that is alone. `seed` decides hashing and random choices: the same seed, the same behaviour.
    pub fn new(seed: u64) -> Self {
        Self::with_partition(seed, Partition::default())
    }

    /// An empty keyspace that is one of several.
    pub fn with_partition(seed: u64, partition: Partition) -> Self {
        Self {
            table: SegmentedTable::new(seed),
            deadlines: Deadlines::default(),
            part_deadlines: Deadlines::default(),
            stats: KeyspaceStats::default(),
            rng: Rng::from_seed(seed),
            seed,
            partition,
            tracking: AccessTracking::default(),
            touching: true,
            expiry_mode: ExpiryMode::default(),
            active_expire: true,
            used_bytes: 0,
            encoding_limits: EncodingLimits {
                hash_seed: seed,
                ..EncodingLimits::default()
            },
            events: Events::default(),
            longest_string_bytes: LONGEST_STRING_BYTES,
            eviction_samples: eviction::DEFAULT_SAMPLES,
            snapshot: None,
        }
    }

    /// Reads a key: counts a hit or a miss and notes the access. The result borrows from the keyspace alone.
    #[inline]
    pub fn lookup(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> Option<&Entry> {
        let place = self.counted(key, now, effects)?;
        self.touch(place, now);
        self.table.get(place)
    }

    /// Looks at a key without noting the access (`OBJECT`, `TTL`, `TYPE`, `EXISTS`); counts a hit or a miss.
    pub fn peek(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> Option<&Entry> {
        let place = self.counted(key, now, effects)?;
        self.table.get(place)
    }

    /// Looks at a key for its administration (`OBJECT`): as [`Keyspace::peek`], but that a key is not there is no event.
    pub fn inspect(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> Option<&Entry> {
        let place = self.visible(key, now, effects);
        self.count(place.is_some());
        self.table.get(place?)
    }

    /// Reads a string like [`Keyspace::lookup`].
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if the key holds something else.
    #[inline]
    pub fn string(
        &mut self,
        key: &[u8],
        now: Now,
        effects: &mut Effects,
    ) -> Result<Option<&[u8]>, ErrorReply> {
        self.lookup(key, now, effects)
            .map(Entry::string)
            .transpose()
    }

    /// Finds a key, which may be missing, to read and then change it: one hash and one probe for both.
    #[inline]
    pub fn lookup_for_write<'a>(
        &'a mut self,
        key: &'a [u8],
        now: Now,
        effects: &mut Effects,
    ) -> KeyAccess<'a> {
        let hash = self.table.hash(key);
        let place = self.live(hash, key, now, effects);
        if let Some(place) = place {
            self.preserve(hash, place);
            self.touch(place, now);
        }
        KeyAccess::new(self, key, hash, place, now)
    }

    /// Sets a string whole, whatever the key held. Emits nothing but the removal of an expired predecessor.
    #[inline]
    pub fn set_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
        now: Now,
        effects: &mut Effects,
    ) {
        self.lookup_for_write(key, now, effects)
            .set_string(value, expiry);
    }

    /// Write access to a string's bytes; a missing key becomes an empty string. From then on its encoding is raw.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if the key holds something else.
    pub fn string_mut<'a>(
        &'a mut self,
        key: &'a [u8],
        now: Now,
        effects: &mut Effects,
    ) -> Result<StringMut<'a>, ErrorReply> {
        self.lookup_for_write(key, now, effects).string_mut(0)
    }

    /// Removes a key; says whether it was there.
    pub fn remove(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> bool {
        let hash = self.table.hash(key);
        let place = self.live(hash, key, now, effects);
        place.is_some_and(|place| self.remove_at(hash, place).is_some())
    }

    /// When a key goes: `None` if there is no such key, `Some(None)` if it stays. Notes no access.
    pub fn expiry_of(
        &mut self,
        key: &[u8],
        now: Now,
        effects: &mut Effects,
    ) -> Option<Option<UnixMillis>> {
        self.peek(key, now, effects).map(Entry::deadline)
    }

    /// Makes a key go at `deadline`, or stay; says whether there is such a key.
    pub fn set_expiry(
        &mut self,
        key: &[u8],
        deadline: Option<UnixMillis>,
        now: Now,
        effects: &mut Effects,
    ) -> bool {
        self.lookup_for_write(key, now, effects)
            .set_expiry(deadline)
    }

    /// Removes every key. The switches, the counters and the hash function stay; a snapshot that is being taken is
    /// given up.
    pub fn clear(&mut self) {
        self.snapshot = None;
        self.table = SegmentedTable::new(self.seed);
        self.deadlines = Deadlines::default();
        self.part_deadlines = Deadlines::default();
        self.used_bytes = 0;
    }

    /// Number of keys, those included whose time has come but that nobody met yet.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters since the start.
    pub fn stats(&self) -> KeyspaceStats {
        self.stats
    }

    /// Sets the counters back to zero (`CONFIG RESETSTAT`).
    pub fn reset_stats(&mut self) {
        self.stats = KeyspaceStats::default();
    }

    /// An estimate of the memory that the keys take.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Which part of a larger keyspace this is.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// What the access clocks mean.
    pub fn access_tracking(&self) -> AccessTracking {
        self.tracking
    }

    /// Chooses what the access clocks mean from now on (by the `maxmemory-policy`).
    pub fn set_access_tracking(&mut self, tracking: AccessTracking) {
        self.tracking = tracking;
    }

    /// Whether accesses are noted (`CLIENT NO-TOUCH`).
    pub fn set_touching(&mut self, touching: bool) {
        self.touching = touching;
    }

    /// Chooses which events are noted from now on.
    pub fn want_events(&mut self, classes: EventClasses) {
        self.events.want(classes);
    }

    /// Notes that something happened to `key`, if events of its class are wanted.
    #[inline]
    pub fn note_event(&mut self, class: EventClasses, name: &'static str, key: &[u8]) {
        self.events.note(class, name, key);
    }

    /// Notes what a command did that stores its result in `key`: it is there now, or not, and was there before, or not.
    pub(crate) fn note_stored(
        &mut self,
        (class, name): (EventClasses, &'static str),
        key: &[u8],
        (before, now): (bool, bool),
    ) {
        if now && !before {
            self.note_event(EventClasses::NEW, "new", key);
        }
        if now {
            self.note_event(class, name, key);
        } else if before {
            self.note_event(EventClasses::GENERIC, "del", key);
        }
    }

    /// Whether there are events to take.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the events noted, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.take()
    }

    /// The longest string that a command may make, in bytes.
    pub fn longest_string_bytes(&self) -> usize {
        self.longest_string_bytes
    }

    /// Changes how long a string a command may make, in bytes (`proto-max-bulk-len`).
    pub fn set_longest_string(&mut self, bytes: usize) {
        self.longest_string_bytes = bytes;
    }

    /// Changes how many keys are compared to find the one to evict (`maxmemory-samples`).
    pub fn set_eviction_samples(&mut self, samples: u32) {
        self.eviction_samples = samples;
    }

    /// The generator of random choices of the keyspace.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Finds a key that a reader may see and counts a hit or a miss.
    #[inline]
    fn counted(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> Option<Place> {
        let place = self.visible(key, now, effects);
        self.count(place.is_some());
        if place.is_none() {
            self.note_miss(key);
        }
        place
    }

    #[inline]
    fn count(&mut self, is_there: bool) {
        if is_there {
            self.stats.hits += 1;
        } else {
            self.stats.misses += 1;
        }
    }

    /// Notes that a key was asked for that is not there.
    #[inline]
    pub(crate) fn note_miss(&mut self, key: &[u8]) {
        self.events.note(EventClasses::MISS, "keymiss", key);
    }

    /// Finds a key that a reader may see, removing it if its time has come and this keyspace removes.
    #[inline]
    fn visible(&mut self, key: &[u8], now: Now, effects: &mut Effects) -> Option<Place> {
        let hash = self.table.hash(key);
        if self.expiry_mode == ExpiryMode::Hide {
            let place = self.find(hash, key)?;
            let due = self.table.get(place).is_some_and(|e| is_due(e, now));
            return (!due).then_some(place);
        }
        self.live(hash, key, now, effects)
    }

    /// Finds a key, removing it if its time has come.
    #[inline]
    fn live(&mut self, hash: u64, key: &[u8], now: Now, effects: &mut Effects) -> Option<Place> {
        let place = self.find(hash, key)?;
        let due = self.table.get(place).is_some_and(|e| is_due(e, now));
        if due && self.expiry_mode != ExpiryMode::Ignore {
            self.expire_at(hash, place, effects);
            return None;
        }
        Some(place)
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<Place> {
        self.table.find(hash, |entry| entry.key() == key)
    }

    #[inline]
    fn touch(&mut self, place: Place, now: Now) {
        if !self.touching {
            return;
        }
        let Some(entry) = self.table.get_mut(place) else {
            return;
        };
        let before = entry.clock();
        let after = self.tracking.touched(before, now, &mut self.rng);
        // Most accesses fall into the same second: spare the write.
        if after != before {
            entry.set_clock(after);
        }
    }

    /// Adds an entry whose key is not there.
    fn insert(&mut self, hash: u64, entry: Entry) -> Place {
        self.leave_out(hash, entry.key());
        self.used_bytes += entry.memory_bytes();
        if let Some(deadline) = entry.deadline_ms() {
            self.deadlines.add(deadline, hash);
        }
        if let Some(deadline) = entry.part_deadline_ms() {
            self.part_deadlines.add(deadline, hash);
        }
        self.table.insert(hash, entry)
    }

    fn remove_at(&mut self, hash: u64, place: Place) -> Option<Entry> {
        self.preserve(hash, place);
        let entry = self.table.remove(hash, place)?;
        self.used_bytes -= entry.memory_bytes();
        if let Some(deadline) = entry.deadline_ms() {
            self.forget_deadline(deadline, hash);
        }
        self.part_deadline_changed(hash, entry.part_deadline_ms(), None);
        Some(entry)
    }
}

/// Whether the time of `entry` has come: strictly after its deadline, as in Redis.
#[inline]
fn is_due(entry: &Entry, now: Now) -> bool {
    entry
        .deadline_ms()
        .is_some_and(|deadline| now.unix.0 > deadline)
}
