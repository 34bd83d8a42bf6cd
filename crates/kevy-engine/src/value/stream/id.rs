//! Entry ids: a time in milliseconds and a sequence number within it.

/// The id of an entry of a stream, in the order of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix milliseconds, or whatever number the client chose.
    pub ms: u64,
    /// Position among the entries of the same `ms`.
    pub seq: u64,
}

impl StreamId {
    /// The lowest id. No entry has it; where an id says "up to here", it says "nothing yet".
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The highest id.
    pub const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The id after this one, unless this is the highest.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The id before this one, unless this is the lowest.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// The id as clients see it: `ms-seq`.
    pub fn text(self) -> IdText {
        let mut text = IdText {
            bytes: [0; LONGEST_BYTES],
            length: 0,
        };
        let mut digits = itoa::Buffer::new();
        text.push(digits.format(self.ms).as_bytes());
        text.push(b"-");
        text.push(digits.format(self.seq).as_bytes());
        text
    }

    /// The sixteen bytes whose order is the order of ids: the keys of Redis's radix tree.
    pub(crate) fn to_be_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    pub(crate) fn from_be_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self {
            ms: (both >> 64) as u64,
            seq: both as u64,
        }
    }
}

/// Two numbers of twenty digits and a minus.
const LONGEST_BYTES: usize = 41;

/// The text of an id, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct IdText {
    bytes: [u8; LONGEST_BYTES],
    length: usize,
}

impl IdText {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_each_other() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
        assert_eq!(id(2, 0).previous(), Some(id(1, u64::MAX)));
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.previous(), None);
        assert_eq!(StreamId::from_be_bytes(id(1, 2).to_be_bytes()), id(1, 2));
    }

    #[test]
    fn the_longest_id_fits() {
        assert_eq!(
            StreamId::MAX.text().as_bytes(),
            b"18446744073709551615-18446744073709551615"
        );
        assert_eq!(StreamId::MIN.text().as_bytes(), b"0-0");
    }
}
