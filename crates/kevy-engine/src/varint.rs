//! Lengths in as few bytes as they need: seven bits to a byte, the lowest first, the top bit set where more follow (LEB128).

use alloc::vec::Vec;

/// Bytes that `number` takes.
pub(crate) fn varint_len(number: usize) -> usize {
    let bits = usize::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends `number`.
pub(crate) fn push_varint(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The number at the start of `bytes` and how many bytes it takes.
pub(crate) fn read_varint(bytes: &[u8]) -> (usize, usize) {
    let mut number = 0;
    let mut taken = 0;
    for &byte in bytes {
        number |= usize::from(byte & 0x7f) << (7 * taken);
        taken += 1;
        if byte < 0x80 {
            break;
        }
    }
    (number, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in [0, 1, 127, 128, 16_383, 16_384, usize::MAX >> 1, usize::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, number);
            assert_eq!(bytes.len(), varint_len(number));
            bytes.push(7);
            assert_eq!(read_varint(&bytes), (number, bytes.len() - 1));
        }
        assert_eq!(read_varint(&[]), (0, 0));
    }
}
