//! A short-lived or never growing string with its key, in one allocation.
//!
//! Most keys hold such a string, so every byte and every pointer counts:
//!
//! ```text
//! [flags: 1][access clock: 3][key length: varint][deadline: 8, if flagged][key][value]
//! ```

use super::Encoding;
use crate::varint::{push_varint, read_varint, varint_len};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Flag: the eight bytes of a deadline follow the key length.
const HAS_DEADLINE: u8 = 1;
/// Where the encoding stands in the flags.
const ENCODING_SHIFT: u32 = 1;
/// Offset of the access clock.
const CLOCK_AT: usize = 1;
/// Offset of the key length.
const LENGTH_AT: usize = 4;
/// Bytes of a deadline.
const DEADLINE_BYTES: usize = 8;

/// A string value, its key and what belongs to both.
#[derive(Clone, Debug)]
pub struct Blob(
    /// Invariant: laid out as the module describes; written only by [`Blob::new`] and the setters below.
    Box<[u8]>,
);

/// What a blob is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) encoding: Encoding,
    /// Unix milliseconds.
    pub(super) deadline: Option<i64>,
    /// 24 bits.
    pub(super) clock: u32,
}

impl Parts<'_> {
    fn flags(&self) -> u8 {
        u8::from(self.deadline.is_some()) | ((self.encoding as u8) << ENCODING_SHIFT)
    }

    fn len_bytes(&self) -> usize {
        let deadline = if self.deadline.is_some() {
            DEADLINE_BYTES
        } else {
            0
        };
        LENGTH_AT + varint_len(self.key.len()) + deadline + self.key.len() + self.value.len()
    }
}

/// Where key and value lie; decoded once per access.
#[derive(Clone, Copy)]
struct Layout {
    key_start: usize,
    value_start: usize,
}

impl Blob {
    /// Allocates exactly what `parts` need.
    pub(super) fn new(parts: Parts<'_>) -> Self {
        let mut bytes = Vec::with_capacity(parts.len_bytes());
        bytes.push(parts.flags());
        bytes.extend_from_slice(&parts.clock.to_le_bytes()[..LENGTH_AT - CLOCK_AT]);
        push_varint(&mut bytes, parts.key.len());
        if let Some(deadline) = parts.deadline {
            bytes.extend_from_slice(&deadline.to_le_bytes());
        }
        bytes.extend_from_slice(parts.key);
        bytes.extend_from_slice(parts.value);
        Self(bytes.into_boxed_slice())
    }

    /// Replaces everything but the key, in place if the size stays the same.
    pub(super) fn overwrite(&mut self, parts: Parts<'_>) {
        let layout = self.layout();
        let same_layout = parts.deadline.is_some() == self.has_deadline()
            && self.0.len() - layout.value_start == parts.value.len();
        if !same_layout {
            *self = Self::new(parts);
            return;
        }
        self.0[0] = parts.flags();
        self.set_clock(parts.clock);
        if let Some(deadline) = parts.deadline {
            self.write_deadline(layout, deadline);
        }
        self.0[layout.value_start..].copy_from_slice(parts.value);
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let layout = self.layout();
        &self.0[layout.key_start..layout.value_start]
    }

    /// The string.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.0[self.layout().value_start..]
    }

    /// When the key goes, in Unix milliseconds.
    #[inline]
    pub(super) fn deadline(&self) -> Option<i64> {
        if !self.has_deadline() {
            return None;
        }
        let start = self.layout().key_start - DEADLINE_BYTES;
        let bytes = self.0[start..].first_chunk::<DEADLINE_BYTES>()?;
        Some(i64::from_le_bytes(*bytes))
    }

    /// Changes the deadline; allocates only if there was none before or shall be none.
    pub(super) fn set_deadline(&mut self, deadline: Option<i64>) {
        match deadline {
            Some(at) if self.has_deadline() => self.write_deadline(self.layout(), at),
            None if !self.has_deadline() => {}
            Some(_) | None => {
                *self = Self::new(Parts {
                    deadline,
                    ..self.parts()
                });
            }
        }
    }

    /// How the value was set.
    pub(super) fn encoding(&self) -> Encoding {
        match self.0[0] >> ENCODING_SHIFT {
            0 => Encoding::Int,
            1 => Encoding::Embstr,
            _ => Encoding::Raw,
        }
    }

    /// The access clock: 24 bits.
    #[inline]
    pub(super) fn clock(&self) -> u32 {
        let [low, middle, high] = [self.0[CLOCK_AT], self.0[CLOCK_AT + 1], self.0[CLOCK_AT + 2]];
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// Sets the access clock: 24 bits.
    #[inline]
    pub(super) fn set_clock(&mut self, clock: u32) {
        self.0[CLOCK_AT..LENGTH_AT].copy_from_slice(&clock.to_le_bytes()[..LENGTH_AT - CLOCK_AT]);
    }

    /// Everything, to build another blob from.
    pub(super) fn parts(&self) -> Parts<'_> {
        Parts {
            key: self.key(),
            value: self.value(),
            encoding: self.encoding(),
            deadline: self.deadline(),
            clock: self.clock(),
        }
    }

    /// Bytes of the allocation.
    pub(super) fn len_bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn has_deadline(&self) -> bool {
        self.0[0] & HAS_DEADLINE != 0
    }

    fn write_deadline(&mut self, layout: Layout, deadline: i64) {
        self.0[layout.key_start - DEADLINE_BYTES..layout.key_start]
            .copy_from_slice(&deadline.to_le_bytes());
    }

    #[inline]
    fn layout(&self) -> Layout {
        let first = usize::from(self.0[LENGTH_AT]);
        let (key_len, varint) = if first < 0x80 {
            (first, 1)
        } else {
            read_varint(&self.0[LENGTH_AT..])
        };
        let deadline = usize::from(self.0[0] & HAS_DEADLINE) * DEADLINE_BYTES;
        let key_start = LENGTH_AT + varint + deadline;
        Layout {
            key_start,
            value_start: key_start + key_len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn parts<'a>(key: &'a [u8], value: &'a [u8], deadline: Option<i64>) -> Parts<'a> {
        Parts {
            key,
            value,
            encoding: Encoding::Raw,
            deadline,
            clock: 0x00ab_cdef,
        }
    }

    #[test]
    fn what_goes_in_comes_out_for_every_key_length() {
        for key_len in [0, 1, 127, 128, 16_383, 16_384, 3_000_000] {
            for deadline in [None, Some(i64::MAX), Some(-1)] {
                let key = vec![b'k'; key_len];
                let blob = Blob::new(parts(&key, b"value", deadline));
                assert_eq!(blob.key(), key);
                assert_eq!(blob.value(), b"value");
                assert_eq!(blob.deadline(), deadline);
                assert_eq!(blob.encoding(), Encoding::Raw);
                assert_eq!(blob.clock(), 0x00ab_cdef);
                let expected = LENGTH_AT
                    + varint_len(key_len)
                    + key_len
                    + 5
                    + usize::from(deadline.is_some()) * 8;
                assert_eq!(blob.len_bytes(), expected);
            }
        }
    }

    #[test]
    fn an_equal_size_is_overwritten_in_place() {
        let mut blob = Blob::new(parts(b"key", b"value", Some(5)));
        let before = blob.0.as_ptr();
        blob.overwrite(parts(b"key", b"other", Some(6)));
        assert_eq!(blob.0.as_ptr(), before);
        assert_eq!((blob.key(), blob.value()), (&b"key"[..], &b"other"[..]));
        assert_eq!(blob.deadline(), Some(6));
        blob.overwrite(parts(b"key", b"longer than that", None));
        assert_eq!(
            (blob.value(), blob.deadline()),
            (&b"longer than that"[..], None)
        );
    }

    #[test]
    fn deadlines_come_and_go() {
        let mut blob = Blob::new(parts(b"key", b"value", None));
        for deadline in [None, Some(1), Some(2), None] {
            blob.set_deadline(deadline);
            assert_eq!(blob.deadline(), deadline);
            assert_eq!((blob.key(), blob.value()), (&b"key"[..], &b"value"[..]));
        }
    }
}
