//! LZF, the compression of long strings in Redis's files and `DUMP` payloads: decompression only.
//!
//! A control byte below 32 is followed by that many bytes plus one, taken literally. Any other is a copy of earlier output:
//! its top three bits are the length less two (7: the next byte adds to it), its other five bits and one more byte are how
//! far back the copy starts, less one.

use alloc::vec::Vec;

/// The most bytes that a copy of three bytes gives.
const MOST_PER_COPY: usize = 264;

/// Decompresses `packed`; `None` if it is damaged or does not give exactly `length` bytes.
pub(super) fn decompress(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // Never allocate what is merely announced.
    if length > packed.len().saturating_mul(MOST_PER_COPY) {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    let mut rest = packed;
    while let Some((&control, after)) = rest.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, after) = after.split_at_checked(control + 1)?;
            out.extend_from_slice(literal);
            rest = after;
        } else {
            let (count, after) = copy_length(control >> 5, after)?;
            let (&low, after) = after.split_first()?;
            let back = ((control & 31) << 8 | usize::from(low)) + 1;
            copy_back(&mut out, back, count)?;
            rest = after;
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

fn copy_length(short: usize, rest: &[u8]) -> Option<(usize, &[u8])> {
    if short < 7 {
        return Some((short + 2, rest));
    }
    let (&more, rest) = rest.split_first()?;
    Some((short + 2 + usize::from(more), rest))
}

/// Appends `count` bytes that start `back` bytes before the end; they may overlap what is appended.
fn copy_back(out: &mut Vec<u8>, back: usize, count: usize) -> Option<()> {
    let start = out.len().checked_sub(back)?;
    for at in start..start + count {
        out.push(out[at]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What redis-server 7.0.15 made of 168 bytes `abcabc...`.
    const PACKED: &[u8] = b"\x03abca\xe0\x99\x02\x01bc";

    #[test]
    fn what_redis_packed_is_unpacked() {
        let plain = b"abc".repeat(56);
        assert_eq!(decompress(PACKED, 168), Some(plain));
    }

    #[test]
    fn damage_is_found() {
        assert_eq!(decompress(PACKED, 167), None);
        assert_eq!(decompress(PACKED, 169), None);
        assert_eq!(decompress(b"\x03ab", 4), None);
        assert_eq!(decompress(b"\x00a\x20\x05", 4), None);
        assert_eq!(decompress(b"\x00a\xe0", 4), None);
        assert_eq!(decompress(b"\x00a", usize::MAX), None);
        for cut in 0..PACKED.len() {
            assert_eq!(decompress(&PACKED[..cut], 168), None, "cut at {cut}");
        }
    }
}
