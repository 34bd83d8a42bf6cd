//! One field: an integer of 1 to 64 bits at any bit of a string.

/// Bytes that a field can touch: 64 bits that do not start at a byte.
const WINDOW_BYTES: usize = 9;

/// What happens when a value leaves the range of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The highest bits are cut.
    Wrap,
    /// The value stops at the end of the range.
    Saturate,
    /// Nothing is written.
    Fail,
}

/// Type and place of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) signed: bool,
    /// From 1 to 64; at most 63 without a sign.
    pub(super) bits: u32,
    /// Offset of its highest bit.
    pub(super) offset: usize,
}

impl Field {
    /// Length that a string needs to hold the field, in bytes.
    pub(super) fn end_bytes(self) -> usize {
        (self.offset + self.bits as usize).div_ceil(8)
    }

    /// The value in `bytes`, which are followed by zeros.
    pub(super) fn read(self, bytes: &[u8]) -> i64 {
        let value = self.window(bytes) >> self.shift() & self.mask();
        self.extend(value as u64)
    }

    /// Writes the lowest bits of `value`; `bytes` must be at least [`Field::end_bytes`] long.
    pub(super) fn write(self, bytes: &mut [u8], value: i64) {
        let kept = self.window(bytes) & !(self.mask() << self.shift());
        let window = kept | (u128::from(value as u64) & self.mask()) << self.shift();
        let window = window.to_be_bytes();
        let bytes = &mut bytes[self.offset / 8..self.end_bytes()];
        for (byte, new) in bytes.iter_mut().zip(&window[16 - WINDOW_BYTES..]) {
            *byte = *new;
        }
    }

    /// What `SET` writes for `value`; an unsigned field takes its 64 bits as a number without sign.
    pub(super) fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        if !self.signed {
            return self.limit(i128::from(value as u64), overflow);
        }
        let (_, max) = self.limits();
        // Redis computes the distance to the maximum in 64 bits: from numbers this low it overflows, and they saturate
        // at the wrong end.
        if overflow == Overflow::Saturate
            && self.bits < 64
            && max - i128::from(value) > i128::from(i64::MAX)
        {
            return Some(max as i64);
        }
        self.limit(i128::from(value), overflow)
    }

    /// What `INCRBY` writes; `old` is what [`Field::read`] gave.
    pub(super) fn increment(self, old: i64, by: i64, overflow: Overflow) -> Option<i64> {
        self.limit(i128::from(old) + i128::from(by), overflow)
    }

    fn limit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = self.limits();
        if (min..=max).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.extend(value as u64 & self.mask() as u64)),
            Overflow::Saturate => Some(value.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }

    /// The smallest and the largest value.
    fn limits(self) -> (i128, i128) {
        if self.signed {
            (-1_i128 << (self.bits - 1), (1_i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1_i128 << self.bits) - 1)
        }
    }

    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// Bits of the window below the field.
    fn shift(self) -> u32 {
        WINDOW_BYTES as u32 * 8 - (self.offset % 8) as u32 - self.bits
    }

    fn window(self, bytes: &[u8]) -> u128 {
        let start = self.offset / 8;
        (start..start + WINDOW_BYTES).fold(0, |window, index| {
            window << 8 | u128::from(bytes.get(index).copied().unwrap_or(0))
        })
    }

    fn extend(self, value: u64) -> i64 {
        if self.signed {
            let unused = 64 - self.bits;
            (value << unused) as i64 >> unused
        } else {
            value as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn any_field() -> impl Strategy<Value = Field> {
        (any::<bool>(), 1_u32..=64, 0_usize..100).prop_map(|(signed, bits, offset)| Field {
            signed,
            bits: if signed { bits } else { bits.min(63) },
            offset,
        })
    }

    #[test]
    fn overflow_does_what_it_is_told() {
        let (i8, u8) = (
            Field {
                signed: true,
                bits: 8,
                offset: 0,
            },
            Field {
                signed: false,
                bits: 8,
                offset: 0,
            },
        );
        let cases = [
            (i8, 100, 100, -56, 127),
            (i8, -100, -100, 56, -128),
            (u8, 250, 10, 4, 255),
            (u8, 5, -9, 252, 0),
            (u8, 0, i64::MIN, 0, 0),
        ];
        for (field, old, by, wrapped, saturated) in cases {
            assert_eq!(field.increment(old, by, Overflow::Wrap), Some(wrapped));
            assert_eq!(
                field.increment(old, by, Overflow::Saturate),
                Some(saturated)
            );
            assert_eq!(field.increment(old, by, Overflow::Fail), None);
        }
        // Observed on redis-server 7.0.15: -1 is a large number for an unsigned field.
        assert_eq!(u8.fit(-1, Overflow::Saturate), Some(255));
        assert_eq!(i8.fit(-200, Overflow::Saturate), Some(-128));
        assert_eq!(i8.fit(i64::MIN + 127, Overflow::Saturate), Some(127));
        assert_eq!(i8.fit(i64::MIN + 128, Overflow::Saturate), Some(-128));
        assert_eq!(i8.fit(200, Overflow::Wrap), Some(-56));
        assert_eq!(u8.fit(300, Overflow::Fail), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_the_rest_stays(
            field in any_field(), mut bytes in vec(any::<u8>(), 30), value: i64
        ) {
            let before = bytes.clone();
            let fitting = field.fit(value, Overflow::Wrap).unwrap();
            field.write(&mut bytes, fitting);
            prop_assert_eq!(field.read(&bytes), fitting);
            for at in (0..240).filter(|at| !(field.offset..field.offset + field.bits as usize).contains(at)) {
                prop_assert_eq!(bytes[at / 8] >> (7 - at % 8) & 1, before[at / 8] >> (7 - at % 8) & 1);
            }
        }

        #[test]
        fn a_field_reads_its_bits_in_order(field in any_field(), bytes in vec(any::<u8>(), 0..30)) {
            let bits = (field.offset..field.offset + field.bits as usize)
                .map(|at| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1));
            let unsigned = bits.fold(0_u64, |value, bit| value << 1 | u64::from(bit));
            prop_assert_eq!(field.read(&bytes), field.extend(unsigned));
        }
    }
}
