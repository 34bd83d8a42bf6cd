//! A key whose value grows in place.
//!
//! Memory comes in steps of 16 bytes, so the struct is kept at 48: a deadline, which few such keys have, stands before the
//! key in the key's own allocation.

use super::entry::Value;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a deadline.
const DEADLINE_BYTES: usize = 8;

/// A key with a value that grows in place.
#[derive(Clone, Debug)]
pub struct Object {
    /// `[deadline: 8, Unix milliseconds, if there is one][key]`
    head: Box<[u8]>,
    has_deadline: bool,
    /// 24 bits.
    pub(super) clock: u32,
    pub(super) value: Value,
}

impl Object {
    /// A key with its value; `deadline` in Unix milliseconds.
    pub(super) fn new(key: &[u8], value: Value, deadline: Option<i64>, clock: u32) -> Self {
        Self {
            head: head(key, deadline),
            has_deadline: deadline.is_some(),
            clock,
            value,
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let start = usize::from(self.has_deadline) * DEADLINE_BYTES;
        &self.head[start..]
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// When the key goes, in Unix milliseconds.
    #[inline]
    pub(super) fn deadline(&self) -> Option<i64> {
        if !self.has_deadline {
            return None;
        }
        self.head.first_chunk().map(|at| i64::from_le_bytes(*at))
    }

    /// Changes the deadline; allocates only if there was none before or shall be none.
    pub(super) fn set_deadline(&mut self, deadline: Option<i64>) {
        match (deadline, self.head.first_chunk_mut()) {
            (Some(at), Some(place)) if self.has_deadline => *place = at.to_le_bytes(),
            _ if deadline.is_none() && !self.has_deadline => {}
            _ => {
                self.head = head(self.key(), deadline);
                self.has_deadline = deadline.is_some();
            }
        }
    }

    /// The same value under another key.
    pub(super) fn set_key(&mut self, key: &[u8]) {
        self.head = head(key, self.deadline());
    }

    /// Bytes of the key's allocation.
    pub(super) fn head_bytes(&self) -> usize {
        self.head.len()
    }
}

fn head(key: &[u8], deadline: Option<i64>) -> Box<[u8]> {
    let Some(at) = deadline else {
        return Box::from(key);
    };
    let mut bytes = Vec::with_capacity(DEADLINE_BYTES + key.len());
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_takes_48_bytes() {
        assert_eq!(size_of::<Object>(), 48);
    }

    #[test]
    fn deadlines_come_and_go() {
        for key in [&b""[..], b"key", b"a longer key"] {
            let mut object = Object::new(key, Value::String(Vec::new()), None, 7);
            for deadline in [None, Some(1), Some(i64::MIN), None, Some(i64::MAX)] {
                object.set_deadline(deadline);
                assert_eq!((object.key(), object.deadline()), (key, deadline));
            }
            object.set_key(b"other");
            let found = (object.key(), object.deadline());
            assert_eq!(found, (&b"other"[..], Some(i64::MAX)));
        }
    }
}
