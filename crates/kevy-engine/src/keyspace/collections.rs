//! Access to values that are collections.

use super::entry::{Entry, Value};
use super::{Keyspace, Place};
use crate::value::{Collection, EncodingLimits};
use crate::{Effects, EventClasses};
use kevy_proto::resp::ErrorReply;
use kevy_proto::time::Now;

impl Keyspace {
    /// Up to which sizes collections are stored compactly.
    pub fn encoding_limits(&self) -> EncodingLimits {
        self.encoding_limits
    }

    /// Changes up to which sizes collections are stored compactly; what is there is stored anew when it is next changed.
    pub fn set_encoding_limits(&mut self, limits: EncodingLimits) {
        self.encoding_limits = EncodingLimits {
            hash_seed: self.seed,
            ..limits
        };
    }

    /// Reads the collection at `key`: counts a hit or a miss and notes the access.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if the key holds something else.
    pub fn collection<T: Collection>(
        &mut self,
        key: &[u8],
        now: Now,
        effects: &mut Effects,
    ) -> Result<Option<&T>, ErrorReply> {
        match self.lookup(key, now, effects) {
            None => Ok(None),
            Some(Entry::Object(object)) => T::view(&object.value)
                .ok_or(ErrorReply::WrongType)
                .map(Some),
            Some(Entry::String(_)) => Err(ErrorReply::WrongType),
        }
    }

    /// What `key` holds, as it is: no access is noted and nothing expires. For commands that read several keys at once and
    /// have looked each of them up before.
    pub fn held(&self, key: &[u8]) -> Option<&Entry> {
        self.table.get(self.find(self.table.hash(key), key)?)
    }

    /// Changes the collection at `key`, if there is one. If `change` leaves it vacant the key goes.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if the key holds something else.
    pub fn edit<T: Collection, R>(
        &mut self,
        key: &[u8],
        now: Now,
        effects: &mut Effects,
        change: impl FnOnce(&mut T, &EncodingLimits) -> R,
    ) -> Result<Option<R>, ErrorReply> {
        let hash = self.table.hash(key);
        match self.live(hash, key, now, effects) {
            Some(place) => self.edit_at(hash, place, now, change).map(Some),
            None => Ok(None),
        }
    }

    /// Changes the collection at `key`; a missing one is created first. If `change` leaves it vacant the key goes.
    ///
    /// # Errors
    /// [`ErrorReply::WrongType`] if the key holds something else.
    pub fn edit_or_create<T: Collection + Default, R>(
        &mut self,
        key: &[u8],
        now: Now,
        effects: &mut Effects,
        change: impl FnOnce(&mut T, &EncodingLimits) -> R,
    ) -> Result<R, ErrorReply> {
        let hash = self.table.hash(key);
        if let Some(place) = self.live(hash, key, now, effects) {
            return self.edit_at(hash, place, now, change);
        }
        let place = self.insert(hash, object(key, T::default().into_value()));
        self.touch(place, now);
        let (result, gone) = self.change_quietly(hash, place, change)?;
        if gone.is_none() {
            self.note_event(EventClasses::NEW, "new", key);
        }
        Ok(result)
    }

    /// Makes `key` hold `collection` and nothing else, without expiry; a vacant one removes the key. Says whether the key
    /// is there now.
    pub fn set_collection<T: Collection>(
        &mut self,
        key: &[u8],
        collection: T,
        now: Now,
        effects: &mut Effects,
    ) -> bool {
        let hash = self.table.hash(key);
        if let Some(place) = self.live(hash, key, now, effects) {
            self.remove_at(hash, place);
        }
        if collection.is_vacant() {
            return false;
        }
        let place = self.insert(hash, object(key, collection.into_value()));
        self.touch(place, now);
        true
    }

    fn edit_at<T: Collection, R>(
        &mut self,
        hash: u64,
        place: Place,
        now: Now,
        change: impl FnOnce(&mut T, &EncodingLimits) -> R,
    ) -> Result<R, ErrorReply> {
        self.touch(place, now);
        self.change_at(hash, place, change)
    }

    /// Changes the collection at `place` without noting an access.
    pub(super) fn change_at<T: Collection, R>(
        &mut self,
        hash: u64,
        place: Place,
        change: impl FnOnce(&mut T, &EncodingLimits) -> R,
    ) -> Result<R, ErrorReply> {
        let (result, gone) = self.change_quietly(hash, place, change)?;
        if let Some(entry) = gone {
            self.events.note_emptied(entry.key());
        }
        Ok(result)
    }

    /// As [`Keyspace::change_at`], without the event of a key that goes; gives the entry that is gone.
    fn change_quietly<T: Collection, R>(
        &mut self,
        hash: u64,
        place: Place,
        change: impl FnOnce(&mut T, &EncodingLimits) -> R,
    ) -> Result<(R, Option<Entry>), ErrorReply> {
        let limits = self.encoding_limits;
        self.preserve(hash, place);
        let Some(entry) = self.table.get_mut(place) else {
            return Err(ErrorReply::WrongType);
        };
        let before = entry.memory_bytes();
        let Entry::Object(object) = entry else {
            return Err(ErrorReply::WrongType);
        };
        let collection = T::view_mut(&mut object.value).ok_or(ErrorReply::WrongType)?;
        let part_before = collection.next_deadline();
        let result = change(collection, &limits);
        let part_after = collection.next_deadline();
        let vacant = collection.is_vacant();
        let after = entry.memory_bytes();
        self.used_bytes = (self.used_bytes + after).saturating_sub(before);
        self.part_deadline_changed(hash, part_before, part_after);
        let gone = if vacant {
            self.remove_at(hash, place)
        } else {
            None
        };
        Ok((result, gone))
    }
}

fn object(key: &[u8], value: Value) -> Entry {
    Entry::of_value(key, value, None, 0)
}
