//! An intset: small sets of integers.
//!
//! ```text
//! [width: 4: 2, 4 or 8][number of integers: 4][integer: width bytes]..ascending          little endian
//! ```

use alloc::vec::Vec;

/// The integers in `bytes`; `None` if they are no intset.
pub(super) fn open(bytes: &[u8]) -> Option<impl Iterator<Item = i64>> {
    let (width, rest) = bytes.split_first_chunk()?;
    let (count, data) = rest.split_first_chunk()?;
    let width = u32::from_le_bytes(*width) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    let shape = matches!(width, 2 | 4 | 8) && count.checked_mul(width)? == data.len();
    if !shape {
        return None;
    }
    let numbers = data.chunks_exact(width).map(number);
    numbers
        .clone()
        .is_sorted_by(|a, b| a < b)
        .then_some(numbers)
}

fn number(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    wide[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(wide) >> (64 - 8 * bytes.len())
}

/// An intset of `numbers`, which are in ascending order, as narrow as they allow.
pub(super) fn build(numbers: &[i64]) -> Vec<u8> {
    let all_within = |low: i64, high: i64| {
        numbers.first().is_none_or(|&first| first >= low)
            && numbers.last().is_none_or(|&last| last <= high)
    };
    let width = if all_within(i16::MIN.into(), i16::MAX.into()) {
        2
    } else if all_within(i32::MIN.into(), i32::MAX.into()) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(8 + numbers.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read() {
        for (numbers, width) in [
            (&[][..], 2),
            (&[-32_768, 5, 32_767], 2),
            (&[-32_769, 0], 4),
            (&[0, 1 << 31], 8),
            (&[i64::MIN, i64::MAX], 8),
        ] {
            let bytes = build(numbers);
            assert_eq!(bytes.len(), 8 + numbers.len() * width);
            assert!(open(&bytes).unwrap().eq(numbers.iter().copied()));
        }
    }

    #[test]
    fn damage_is_found() {
        let good = build(&[1, 2, 300]);
        for cut in 0..good.len() {
            assert!(open(&good[..cut]).is_none(), "cut at {cut}");
        }
        for bad in [
            &b"\x03\0\0\0\x01\0\0\0\x01\0\0"[..],
            b"\x00\0\0\0\x00\0\0\0",
            b"\x02\0\0\0\x02\0\0\0\x05\0\x05\0",
            b"\x02\0\0\0\x02\0\0\0\x05\0\xff\xff",
            b"\x08\0\0\0\xff\xff\xff\xff\x05\0",
        ] {
            assert!(open(bad).is_none(), "{bad:?}");
        }
    }
}
