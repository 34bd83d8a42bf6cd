//! Strings as rows of bits: counted, searched and combined a word at a time.
//!
//! Bit 0 is the highest bit of the first byte, as in Redis.

use core::ops::Range;

/// Bytes of a word.
const WORD_BYTES: usize = size_of::<u64>();

/// A bitwise operation between strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    And,
    Or,
    Xor,
}

/// Number of set bits.
pub(super) fn count_ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let in_words: u64 = words
        .iter()
        .map(|word| u64::from(u64::from_ne_bytes(*word).count_ones()))
        .sum();
    let in_rest: u64 = rest.iter().map(|byte| u64::from(byte.count_ones())).sum();
    in_words + in_rest
}

/// Number of set bits at the positions in `range`, which must lie within `bytes`.
pub(super) fn count_range(bytes: &[u8], range: Range<usize>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = (range.start, range.end - 1);
    let before = bytes[first / 8] & !(0xff >> (first % 8));
    let after = bytes[last / 8] & (0x7f >> (last % 8));
    let whole = count_ones(&bytes[first / 8..=last / 8]);
    whole - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// The first position in `range`, which must lie within `bytes`, whose bit equals `bit`.
pub(super) fn find(bytes: &[u8], bit: bool, range: Range<usize>) -> Option<usize> {
    if range.is_empty() {
        return None;
    }
    let (first, last) = (range.start, range.end - 1);
    // Seen through this mask the bit sought is a one.
    let mask = if bit { 0 } else { u64::MAX };
    let head = (bytes[first / 8] ^ mask as u8) & (0xff >> (first % 8));
    let found = if head == 0 {
        let start = first / 8 + 1;
        find_one(&bytes[start..=last / 8], mask).map(|position| start * 8 + position)
    } else {
        Some(first / 8 * 8 + head.leading_zeros() as usize)
    };
    found.filter(|&position| position <= last)
}

fn find_one(bytes: &[u8], mask: u64) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let seen = words.iter().map(|word| u64::from_be_bytes(*word) ^ mask);
    if let Some((index, word)) = seen.enumerate().find(|&(_, word)| word != 0) {
        return Some(index * 64 + word.leading_zeros() as usize);
    }
    let seen = rest.iter().map(|byte| byte ^ mask as u8);
    let (index, byte) = seen.enumerate().find(|&(_, byte)| byte != 0)?;
    Some((words.len() * WORD_BYTES + index) * 8 + byte.leading_zeros() as usize)
}

/// Combines `source`, as if zeros followed it, into `target`, which is at least as long.
pub(super) fn combine(target: &mut [u8], source: &[u8], operation: Operation) {
    let (head, tail) = target.split_at_mut(source.len());
    match operation {
        Operation::And => {
            zip_words(head, source, |a, b| a & b);
            tail.fill(0);
        }
        Operation::Or => zip_words(head, source, |a, b| a | b),
        Operation::Xor => zip_words(head, source, |a, b| a ^ b),
    }
}

/// Turns every bit around.
pub(super) fn invert(bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<WORD_BYTES>();
    for word in words {
        *word = (!u64::from_ne_bytes(*word)).to_ne_bytes();
    }
    for byte in rest {
        *byte = !*byte;
    }
}

fn zip_words(target: &mut [u8], source: &[u8], operation: impl Fn(u64, u64) -> u64) {
    let (words, rest) = target.as_chunks_mut::<WORD_BYTES>();
    let (source_words, source_rest) = source.as_chunks::<WORD_BYTES>();
    for (word, source) in words.iter_mut().zip(source_words) {
        let result = operation(u64::from_ne_bytes(*word), u64::from_ne_bytes(*source));
        *word = result.to_ne_bytes();
    }
    for (byte, source) in rest.iter_mut().zip(source_rest) {
        *byte = operation(u64::from(*byte), u64::from(*source)) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type OfBytes = fn(u8, u8) -> u8;

    fn bit(bytes: &[u8], position: usize) -> bool {
        bytes[position / 8] >> (7 - position % 8) & 1 == 1
    }

    proptest! {
        #[test]
        fn counting_agrees_with_one_bit_at_a_time(bytes in vec(any::<u8>(), 1..40), ends: (usize, usize)) {
            let (first, last) = (ends.0 % (bytes.len() * 8), ends.1 % (bytes.len() * 8));
            let expected = (first..=last).filter(|&at| bit(&bytes, at)).count();
            prop_assert_eq!(count_range(&bytes, first..last + 1), expected as u64);
        }

        #[test]
        fn searching_agrees_with_one_bit_at_a_time(
            length in 1_usize..40, odd in vec(any::<usize>(), 0..3), sought: bool, ends: (usize, usize)
        ) {
            // Long runs of one value with few exceptions: a search that skips words must not skip those.
            let mut bytes = alloc::vec![if sought { 0 } else { 0xff }; length];
            for at in odd {
                bytes[at / 8 % length] ^= 1 << (at % 8);
            }
            let (first, last) = (ends.0 % (length * 8), ends.1 % (length * 8));
            let expected = (first..=last).find(|&at| bit(&bytes, at) == sought);
            prop_assert_eq!(find(&bytes, sought, first..last + 1), expected);
        }

        #[test]
        fn combining_agrees_with_one_byte_at_a_time(mut target in vec(any::<u8>(), 0..40), source in vec(any::<u8>(), 0..40)) {
            if target.len() < source.len() {
                target.resize(source.len(), 0);
            }
            let operations: [(Operation, OfBytes); 3] = [
                (Operation::And, |a, b| a & b),
                (Operation::Or, |a, b| a | b),
                (Operation::Xor, |a, b| a ^ b),
            ];
            for (operation, of_bytes) in operations {
                let padded = source.iter().copied().chain(core::iter::repeat(0));
                let expected: Vec<u8> = target.iter().zip(padded).map(|(&a, b)| of_bytes(a, b)).collect();
                let mut combined = target.clone();
                combine(&mut combined, &source, operation);
                prop_assert_eq!(combined, expected);
            }
        }

        #[test]
        fn inverting_twice_changes_nothing(bytes in vec(any::<u8>(), 0..40)) {
            let mut inverted = bytes.clone();
            invert(&mut inverted);
            prop_assert_eq!(count_ones(&bytes) + count_ones(&inverted), bytes.len() as u64 * 8);
            invert(&mut inverted);
            prop_assert_eq!(inverted, bytes);
        }
    }
}
