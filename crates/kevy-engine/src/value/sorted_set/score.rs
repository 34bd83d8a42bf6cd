//! Scores: how they are ordered, and how a few bytes hold one.
//!
//! Most scores are small integers or have few decimals, so the compact form is a tag and as few bytes as needed:
//!
//! ```text
//! 0..=191                     the score itself
//! 192 + scale * 8 + (n - 1)   n bytes of a signed integer follow, little endian; the score is it / 10^scale
//! 255                         the 8 bytes of the double follow
//! ```

use core::cmp::Ordering;

/// Integers below it are their own tag.
const SMALL_BELOW: u8 = 192;
/// The tag before a whole double.
const WHOLE: u8 = 255;
/// Ten to the powers that the tag can name.
const SCALES: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
/// The most bytes of a scaled integer: seven, of which a double gives 53 bits.
const MAX_INTEGER_BYTES: usize = 7;
/// Integers up to this are exact in a double.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The order of scores. There is no NaN among them, and -0 equals 0.
pub(super) fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// A score as it is stored: 0 for -0, as in Redis's compact form. Redis's large form keeps -0; kevy's does not, because
/// then the same elements would not be the same in a replica that adds them in another order.
pub(super) fn stored(score: f64) -> f64 {
    // Zero plus -0 is 0; every other number stays.
    score + 0.0
}

/// A score in its compact form.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedScore {
    bytes: [u8; 9],
    length: usize,
}

impl PackedScore {
    /// Packs a score.
    pub(super) fn new(score: f64) -> Self {
        let score = stored(score);
        SCALES
            .iter()
            .enumerate()
            .find_map(|(scale, &unit)| Self::scaled(score, scale, unit))
            .unwrap_or_else(|| Self::tagged(WHOLE, &score.to_le_bytes()))
    }

    /// The packed bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// As an integer over `unit`, if that gives exactly `score` back.
    fn scaled(score: f64, scale: usize, unit: f64) -> Option<Self> {
        let product = score * unit;
        if !(-MAX_EXACT..=MAX_EXACT).contains(&product) {
            return None;
        }
        // Half away from zero: the cast then cuts the rest.
        let integer = (product + if product < 0.0 { -0.5 } else { 0.5 }) as i64;
        if (integer as f64 / unit).to_bits() != score.to_bits() {
            return None;
        }
        match u8::try_from(integer) {
            Ok(small) if scale == 0 && small < SMALL_BELOW => Some(Self::tagged(small, &[])),
            Ok(_) | Err(_) => {
                let length = integer_bytes(integer);
                let tag = SMALL_BELOW + (scale * 8 + length - 1) as u8;
                Some(Self::tagged(tag, &integer.to_le_bytes()[..length]))
            }
        }
    }

    fn tagged(tag: u8, rest: &[u8]) -> Self {
        let mut bytes = [0; 9];
        bytes[0] = tag;
        bytes[1..=rest.len()].copy_from_slice(rest);
        Self {
            bytes,
            length: 1 + rest.len(),
        }
    }
}

/// How many bytes hold `integer` with its sign.
fn integer_bytes(integer: i64) -> usize {
    let significant = 65 - (integer ^ (integer >> 63)).leading_zeros();
    (significant as usize)
        .div_ceil(8)
        .clamp(1, MAX_INTEGER_BYTES)
}

/// How many bytes the packed score takes whose first byte is `tag`.
pub(super) fn packed_length(tag: u8) -> usize {
    match tag {
        WHOLE => 9,
        SMALL_BELOW.. => 2 + usize::from((tag - SMALL_BELOW) % 8),
        _ => 1,
    }
}

/// Reads a packed score; `packed` holds at least [`packed_length`] bytes.
pub(super) fn unpack(packed: &[u8]) -> f64 {
    let tag = packed[0];
    if tag < SMALL_BELOW {
        return f64::from(tag);
    }
    let mut bytes = [0; 8];
    let rest = &packed[1..packed_length(tag)];
    if tag == WHOLE {
        bytes.copy_from_slice(rest);
        return f64::from_le_bytes(bytes);
    }
    bytes[8 - rest.len()..].copy_from_slice(rest);
    let integer = i64::from_le_bytes(bytes) >> (64 - 8 * rest.len());
    integer as f64 / SCALES[usize::from((tag - SMALL_BELOW) / 8)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(score: f64) -> f64 {
        let packed = PackedScore::new(score);
        let bytes = packed.as_bytes();
        assert_eq!(bytes.len(), packed_length(bytes[0]));
        unpack(bytes)
    }

    #[test]
    fn usual_scores_take_few_bytes() {
        for (score, length) in [
            (0.0, 1),
            (191.0, 1),
            (192.0, 3),
            (-1.0, 2),
            (-129.0, 3),
            (1.5, 2),
            (3.99, 3),
            (99.999, 4),
            (1_700_000_000.0, 5),
            (1_700_000_000_123.0, 7),
            (9_007_199_254_740_992.0, 8),
            (1e300, 9),
            (0.1 + 0.2, 9),
            (f64::INFINITY, 9),
            (f64::NEG_INFINITY, 9),
        ] {
            assert_eq!(PackedScore::new(score).as_bytes().len(), length, "{score}");
            assert_eq!(round_trip(score).to_bits(), score.to_bits(), "{score}");
        }
        assert_eq!(round_trip(-0.0).to_bits(), 0.0_f64.to_bits());
    }

    proptest! {
        #[test]
        fn every_score_comes_back(bits: u64) {
            let score = f64::from_bits(bits);
            prop_assume!(!score.is_nan() && score != 0.0);
            prop_assert_eq!(round_trip(score).to_bits(), bits);
        }

        #[test]
        fn decimals_come_back(thousandths: i64, scale in 0..4_usize) {
            let score = (thousandths >> 12) as f64 / SCALES[scale];
            prop_assert_eq!(round_trip(score).to_bits(), score.to_bits());
        }
    }
}
