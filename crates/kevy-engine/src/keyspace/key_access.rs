//! One key, found once, to be read and then changed.

use super::blob::Parts;
use super::{Encoding, Entry, Expiry, Keyspace, StringMut, Value};
use crate::EventClasses;
use crate::segmented::Place;
use kevy_proto::resp::ErrorReply;
use kevy_proto::time::{Now, UnixMillis};

/// A key of a keyspace, present or not. Emits no effects: that is the command's business.
#[derive(Debug)]
pub struct KeyAccess<'a> {
    keyspace: &'a mut Keyspace,
    key: &'a [u8],
    hash: u64,
    place: Option<Place>,
    now: Now,
}

impl<'a> KeyAccess<'a> {
    #[inline]
    pub(super) fn new(
        keyspace: &'a mut Keyspace,
        key: &'a [u8],
        hash: u64,
        place: Option<Place>,
        now: Now,
    ) -> Self {
        Self {
            keyspace,
            key,
            hash,
            place,
            now,
        }
    }

    /// Whether the key is there.
    pub fn exists(&self) -> bool {
        self.place.is_some()
    }

    /// What the key holds.
    #[inline]
    pub fn entry(&self) -> Option<&Entry> {
        self.keyspace.table.get(self.place?)
    }

    /// The string the key holds.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if it holds something else.
    #[inline]
    pub fn string(&self) -> Result<Option<&[u8]>, ErrorReply> {
        self.entry().map(Entry::string).transpose()
    }

    /// When the key goes, if it is there and ever goes.
    pub fn expiry(&self) -> Option<UnixMillis> {
        self.entry()?.deadline()
    }

    /// Sets a string whole, whatever the key held; allocates only if the size changes.
    #[inline]
    pub fn set_string(&mut self, value: &[u8], expiry: Expiry) {
        self.set_encoded(value, Encoding::of_string(value), expiry);
    }

    /// Sets a string whole in an encoding that Redis would not choose for it by itself (`INCRBYFLOAT`).
    #[inline]
    pub fn set_encoded(&mut self, value: &[u8], encoding: Encoding, expiry: Expiry) {
        let keyspace = &mut *self.keyspace;
        let mut parts = Parts {
            key: self.key,
            value,
            encoding,
            deadline: match expiry {
                Expiry::At(at) => Some(at.0),
                Expiry::Never | Expiry::Keep => None,
            },
            clock: 0,
        };
        let Some(entry) = self.place.and_then(|place| keyspace.table.get_mut(place)) else {
            parts.clock = keyspace.tracking.fresh(self.now);
            self.place = Some(keyspace.insert(self.hash, Entry::string_from(parts)));
            keyspace.note_event(EventClasses::NEW, "new", self.key);
            return;
        };
        let before = (entry.deadline_ms(), entry.memory_bytes());
        if expiry == Expiry::Keep {
            parts.deadline = before.0;
        }
        parts.clock = entry.clock();
        let part_deadline = entry.part_deadline_ms();
        entry.overwrite_string(parts);
        keyspace.used_bytes = keyspace.used_bytes - before.1 + entry.memory_bytes();
        keyspace.deadline_changed(self.hash, before.0, parts.deadline);
        keyspace.part_deadline_changed(self.hash, part_deadline, None);
    }

    /// Makes the key hold `value`, whatever it held.
    pub fn set_value(&mut self, value: Value, deadline: Option<UnixMillis>) {
        self.remove();
        let keyspace = &mut *self.keyspace;
        let clock = keyspace.tracking.fresh(self.now);
        let entry = Entry::of_value(self.key, value, deadline.map(|at| at.0), clock);
        self.place = Some(keyspace.insert(self.hash, entry));
        keyspace.note_event(EventClasses::NEW, "new", self.key);
    }

    /// Makes the key go at `deadline`, or stay; says whether there is such a key.
    pub fn set_expiry(&mut self, deadline: Option<UnixMillis>) -> bool {
        let keyspace = &mut *self.keyspace;
        let Some(entry) = self.place.and_then(|place| keyspace.table.get_mut(place)) else {
            return false;
        };
        let before = (entry.deadline_ms(), entry.memory_bytes());
        let after = deadline.map(|at| at.0);
        entry.set_deadline_ms(after);
        keyspace.used_bytes = keyspace.used_bytes - before.1 + entry.memory_bytes();
        keyspace.deadline_changed(self.hash, before.0, after);
        true
    }

    /// Write access to a string's bytes, with room for `more_bytes` if it has to move; a missing key becomes an empty
    /// string. From then on its encoding is raw.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if the key holds something else.
    pub fn string_mut(mut self, more_bytes: usize) -> Result<StringMut<'a>, ErrorReply> {
        if self.place.is_none() {
            self.set_encoded(b"", Encoding::Raw, Expiry::Never);
        }
        let keyspace = self.keyspace;
        let entry = self
            .place
            .and_then(|place| keyspace.table.get_mut(place))
            .ok_or(ErrorReply::NoSuchKey)?;
        let before = entry.memory_bytes();
        entry.growable(more_bytes)?;
        keyspace.used_bytes = keyspace.used_bytes - before + entry.memory_bytes();
        let bytes = entry.growable(0)?;
        Ok(StringMut::new(bytes, &mut keyspace.used_bytes))
    }

    /// Notes when and how often the key was used before it came here (`RESTORE .. IDLETIME .. FREQ ..`).
    pub fn set_access(&mut self, idle_seconds: u32, frequency: Option<u8>) {
        let clock = self
            .keyspace
            .tracking
            .restored(idle_seconds, frequency, self.now);
        let table = &mut self.keyspace.table;
        if let Some(entry) = self.place.and_then(|place| table.get_mut(place)) {
            entry.set_clock(clock);
        }
    }

    /// Notes that something happened to the key, if events of its class are wanted.
    #[inline]
    pub fn note_event(&mut self, class: EventClasses, name: &'static str) {
        self.keyspace.note_event(class, name, self.key);
    }

    /// Notes that the key was asked for, if it is not there.
    #[inline]
    pub(crate) fn note_miss(&mut self) {
        if self.place.is_none() {
            self.keyspace.note_miss(self.key);
        }
    }

    /// Removes the key; says whether it was there.
    pub fn remove(&mut self) -> bool {
        let removed = self
            .place
            .take()
            .and_then(|place| self.keyspace.remove_at(self.hash, place));
        removed.is_some()
    }
}
