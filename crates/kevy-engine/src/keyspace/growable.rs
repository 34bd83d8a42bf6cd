//! A string that changes in place: what `APPEND`, `SETRANGE`, `SETBIT` and `BITFIELD` write to.

use super::entry::allocated;
use alloc::vec::Vec;

/// Up to this size a growing string doubles; beyond, it grows by an eighth.
const DOUBLE_BELOW_BYTES: usize = 1 << 20;

/// Write access to the bytes of one string; its encoding is raw from now on.
#[derive(Debug)]
pub struct StringMut<'a> {
    bytes: &'a mut Vec<u8>,
    used_bytes: &'a mut usize,
    /// What the allocation cost before the change.
    cost_before: usize,
}

impl<'a> StringMut<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>, used_bytes: &'a mut usize) -> Self {
        let cost_before = allocated(bytes.capacity());
        Self {
            bytes,
            used_bytes,
            cost_before,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// The bytes, to be changed where they stand.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Adds `more` at the end; the cost is amortised over a string's growth.
    pub fn append(&mut self, more: &[u8]) {
        grow(self.bytes, self.bytes.len() + more.len());
        self.bytes.extend_from_slice(more);
    }

    /// Makes the string at least `length` bytes long by zeros at its end. The caller checked `length` against the
    /// longest allowed string.
    pub fn extend_to(&mut self, length: usize) {
        if length > self.bytes.len() {
            grow(self.bytes, length);
            self.bytes.resize(length, 0);
        }
    }

    /// Writes `data` at `offset`, filling a gap with zeros.
    pub fn write_at(&mut self, offset: usize, data: &[u8]) {
        self.extend_to(offset + data.len());
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
    }
}

impl Drop for StringMut<'_> {
    /// Keeps the keyspace's memory count right.
    fn drop(&mut self) {
        *self.used_bytes += allocated(self.bytes.capacity());
        *self.used_bytes -= self.cost_before;
    }
}

/// Makes room for `length` bytes and, if that needs an allocation, for some growth after.
pub(super) fn grow(bytes: &mut Vec<u8>, length: usize) {
    if length <= bytes.capacity() {
        return;
    }
    let slack = if length < DOUBLE_BELOW_BYTES {
        length
    } else {
        length / 8
    };
    bytes.reserve_exact(length + slack - bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_zeros_and_memory_is_counted() {
        let mut bytes = Vec::new();
        let mut used = 0;
        let mut string = StringMut::new(&mut bytes, &mut used);
        string.write_at(2, b"ab");
        string.append(b"c");
        assert_eq!(string.bytes(), b"\0\0abc");
        string.write_at(0, b"xy");
        assert_eq!(string.bytes(), b"xyabc");
        string.write_at(5, b"");
        drop(string);
        assert_eq!(used, allocated(bytes.capacity()));
    }

    #[test]
    fn appending_allocates_rarely() {
        let mut bytes = Vec::new();
        let mut allocations = 0;
        for _ in 0..1_000_000 {
            let before = bytes.capacity();
            let length = bytes.len() + 3;
            grow(&mut bytes, length);
            bytes.extend_from_slice(b"abc");
            allocations += usize::from(bytes.capacity() != before);
        }
        assert!(allocations < 40, "{allocations}");
    }
}
