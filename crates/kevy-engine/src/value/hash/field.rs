//! One field as bytes.
//!
//! ```text
//! [length of name * 2 + has deadline: varint][length of value: varint][deadline: 8, if it has one][name][value]
//! ```

use crate::segmented::Keyed;
use crate::varint::{push_varint, read_varint, varint_len};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a deadline.
const DEADLINE_BYTES: usize = 8;

/// The latest deadline that a field may have, in Unix milliseconds: Redis 7.4 keeps 46 bits.
pub const LATEST_DEADLINE_MS: i64 = (1 << 46) - 1;

/// A field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What it holds.
    pub value: &'a [u8],
    /// When it goes, in Unix milliseconds.
    pub deadline: Option<i64>,
}

impl<'a> Field<'a> {
    /// Whether its time has come: strictly after its deadline, as in Redis.
    #[inline]
    pub fn is_due(&self, now_ms: i64) -> bool {
        self.deadline.is_some_and(|deadline| now_ms > deadline)
    }

    /// Bytes it takes.
    pub(super) fn len_bytes(self) -> usize {
        let deadline = if self.deadline.is_some() {
            DEADLINE_BYTES
        } else {
            0
        };
        varint_len(self.name.len() << 1)
            + varint_len(self.value.len())
            + deadline
            + self.name.len()
            + self.value.len()
    }

    /// Appends it to `bytes`.
    pub(super) fn push(self, bytes: &mut Vec<u8>) {
        push_varint(
            bytes,
            self.name.len() << 1 | usize::from(self.deadline.is_some()),
        );
        push_varint(bytes, self.value.len());
        if let Some(deadline) = self.deadline {
            bytes.extend_from_slice(&deadline.to_le_bytes());
        }
        bytes.extend_from_slice(self.name);
        bytes.extend_from_slice(self.value);
    }

    /// Its bytes alone.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len_bytes());
        self.push(&mut bytes);
        bytes
    }

    /// Reads the field that `bytes` begin with; returns it and what follows.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = read_length(bytes)?;
        let (value_len, rest) = read_length(rest)?;
        let (deadline, rest) = if head & 1 == 0 {
            (None, rest)
        } else {
            let (deadline, rest) = rest.split_first_chunk::<DEADLINE_BYTES>()?;
            (Some(i64::from_le_bytes(*deadline)), rest)
        };
        let (name, rest) = rest.split_at_checked(head >> 1)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        let field = Self {
            name,
            value,
            deadline,
        };
        Some((field, rest))
    }
}

#[inline]
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [] => None,
        [short, rest @ ..] if *short < 0x80 => Some((usize::from(*short), rest)),
        _ => {
            let (length, taken) = read_varint(bytes);
            Some((length, &bytes[taken..]))
        }
    }
}

/// A field in an allocation of its own.
#[derive(Clone, Debug)]
pub(super) struct OwnField(
    /// Invariant: written by [`Field::push`].
    Box<[u8]>,
);

impl OwnField {
    pub(super) fn new(field: Field<'_>) -> Self {
        Self(field.to_bytes().into_boxed_slice())
    }

    /// Replaces it; allocates only if the length changes.
    pub(super) fn replace(&mut self, field: Field<'_>) {
        let bytes = field.to_bytes();
        if bytes.len() == self.0.len() {
            self.0.copy_from_slice(&bytes);
        } else {
            self.0 = bytes.into_boxed_slice();
        }
    }

    #[inline]
    pub(super) fn field(&self) -> Field<'_> {
        match Field::read(&self.0) {
            Some((field, _)) => field,
            // Never: by the invariant.
            None => Field {
                name: &[],
                value: &[],
                deadline: None,
            },
        }
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.0.len()
    }
}

impl Keyed for OwnField {
    #[inline]
    fn key(&self) -> &[u8] {
        self.field().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_is_written_is_read() {
        for name_len in [0, 1, 63, 64, 10_000] {
            for value_len in [0, 127, 128] {
                for deadline in [None, Some(0), Some(i64::MAX)] {
                    let (name, value) = (vec![b'n'; name_len], vec![b'v'; value_len]);
                    let field = Field {
                        name: &name,
                        value: &value,
                        deadline,
                    };
                    let mut bytes = field.to_bytes();
                    assert_eq!(bytes.len(), field.len_bytes());
                    bytes.push(9);
                    assert_eq!(Field::read(&bytes), Some((field, &[9][..])));
                }
            }
        }
        assert_eq!(Field::read(&[]), None);
    }

    #[test]
    fn a_field_is_due_after_its_deadline() {
        let mut field = Field {
            name: b"",
            value: b"",
            deadline: Some(5),
        };
        assert!(!field.is_due(5) && field.is_due(6));
        field.deadline = None;
        assert!(!field.is_due(i64::MAX));
    }
}
