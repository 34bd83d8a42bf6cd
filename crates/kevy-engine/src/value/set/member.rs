//! A member as text, wherever it comes from.

use core::ops::Deref;

/// The most characters of a 64-bit integer.
const MOST_DIGITS: usize = 20;

/// A member of a set: the text that it is, for integers written out here.
#[derive(Clone, Copy, Debug)]
pub enum Member<'a> {
    /// A string that the set holds.
    Text(&'a [u8]),
    /// An integer.
    Number {
        /// Its digits, at the start.
        digits: [u8; MOST_DIGITS],
        /// How many there are.
        length: u8,
    },
}

impl Deref for Member<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Number { digits, length } => &digits[..usize::from(*length)],
        }
    }
}

impl<'a> From<&'a [u8]> for Member<'a> {
    fn from(text: &'a [u8]) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Member<'_> {
    fn from(number: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut digits = [0; MOST_DIGITS];
        digits[..text.len()].copy_from_slice(text);
        Self::Number {
            digits,
            length: text.len() as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_their_digits() {
        assert_eq!(&*Member::from(i64::MIN), b"-9223372036854775808");
        assert_eq!(&*Member::from(0), b"0");
        assert_eq!(&*Member::from(&b"text"[..]), b"text");
    }
}
