//! Natural numbers of any size: only what converting a decimal number to binary and back needs.

use alloc::vec::Vec;

/// Decimal digits that one limb surely holds.
const DIGITS_PER_STEP: usize = 9;
/// Ten to the power of [`DIGITS_PER_STEP`].
const STEP: u32 = 1_000_000_000;

/// A natural number. Its size is bounded by whoever builds it (the longest number text, the largest exponent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Natural {
    /// Least significant limb first. Invariant: the last limb is not zero.
    limbs: Vec<u32>,
}

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        let mut natural = Self {
            limbs: alloc::vec![number as u32, (number >> 32) as u32],
        };
        natural.trim();
        natural
    }
}

impl Natural {
    /// The number that the ASCII `digits` write.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Self {
        let mut natural = Self { limbs: Vec::new() };
        let (mut factor, mut term) = (1, 0);
        for digit in digits {
            factor *= 10;
            term = term * 10 + u32::from(digit - b'0');
            if factor == STEP {
                natural.multiply_add(factor, term);
                (factor, term) = (1, 0);
            }
        }
        natural.multiply_add(factor, term);
        natural
    }

    /// Multiplies by ten to the power of `exponent`.
    pub(super) fn multiply_power_of_ten(&mut self, exponent: usize) {
        for _ in 0..exponent / DIGITS_PER_STEP {
            self.multiply_add(STEP, 0);
        }
        self.multiply_add(10_u32.pow((exponent % DIGITS_PER_STEP) as u32), 0);
    }

    /// Multiplies by two to the power of `bits`.
    pub(super) fn shift_left(&mut self, bits: usize) {
        self.multiply_add(1 << (bits % 32), 0);
        if !self.limbs.is_empty() {
            let zeros = core::iter::repeat_n(0, bits / 32);
            self.limbs.splice(0..0, zeros);
        }
    }

    /// Number of bits without leading zeros.
    pub(super) fn bit_length(&self) -> usize {
        self.limbs.last().map_or(0, |last| {
            self.limbs.len() * 32 - last.leading_zeros() as usize
        })
    }

    /// The highest 128 bits (fewer if there are not so many), how many bits follow them, and whether any of those is set.
    pub(super) fn leading_bits(&self) -> (u128, usize, bool) {
        let dropped = self.bit_length().saturating_sub(128);
        let mut bits = 0_u128;
        // Five limbs, aligned or not, hold the 128 bits.
        for index in (dropped / 32..self.limbs.len()).rev() {
            let limb = u128::from(self.limbs[index]);
            let position = index * 32;
            bits |= match position.checked_sub(dropped) {
                Some(shift) => limb << shift,
                None => limb >> (dropped - position),
            };
        }
        let rest = self.limbs.iter().take(dropped / 32).any(|&limb| limb != 0);
        let cut = self.limbs.get(dropped / 32).copied().unwrap_or(0);
        let lost = cut & ((1_u32 << (dropped % 32)) - 1) != 0;
        (bits, dropped, rest || lost)
    }

    /// Divides by `divisor`, which must not be zero: the quotient, which must be below 2^128, and whether a rest is left.
    pub(super) fn divide(mut self, divisor: &Self) -> (u128, bool) {
        let steps = (self.bit_length() + 1).saturating_sub(divisor.bit_length());
        debug_assert!(steps <= 128, "the quotient must fit");
        let mut divisor = divisor.clone();
        divisor.shift_left(steps);
        let mut quotient = 0_u128;
        for _ in 0..steps {
            divisor.halve();
            quotient <<= 1;
            if self.subtract_if_not_less(&divisor) {
                quotient |= 1;
            }
        }
        (quotient, !self.limbs.is_empty())
    }

    /// The decimal digits.
    pub(super) fn into_digits(mut self) -> Vec<u8> {
        let mut digits = Vec::new();
        while !self.limbs.is_empty() {
            let mut rest = self.divide_step();
            for _ in 0..DIGITS_PER_STEP {
                digits.push(b'0' + (rest % 10) as u8);
                rest /= 10;
            }
        }
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            digits.push(b'0');
        }
        digits.reverse();
        digits
    }

    fn multiply_add(&mut self, factor: u32, term: u32) {
        let mut carry = u64::from(term);
        for limb in &mut self.limbs {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        self.limbs.push(carry as u32);
        self.trim();
    }

    fn divide_step(&mut self) -> u32 {
        let mut rest = 0_u64;
        for limb in self.limbs.iter_mut().rev() {
            let dividend = rest << 32 | u64::from(*limb);
            *limb = (dividend / u64::from(STEP)) as u32;
            rest = dividend % u64::from(STEP);
        }
        self.trim();
        rest as u32
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut().rev() {
            let low = *limb & 1;
            *limb = *limb >> 1 | carry << 31;
            carry = low;
        }
        self.trim();
    }

    fn subtract_if_not_less(&mut self, other: &Self) -> bool {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        if by_length
            .then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
            .is_lt()
        {
            return false;
        }
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let subtrahend = other.limbs.get(index).copied().unwrap_or(0);
            let (difference, under) = limb.overflowing_sub(subtrahend);
            let (difference, under_again) = difference.overflowing_sub(u32::from(borrow));
            *limb = difference;
            borrow = under || under_again;
        }
        self.trim();
        true
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn natural(number: u128) -> Natural {
        Natural::from_digits(number.to_string().bytes())
    }

    #[test]
    fn digits_come_back() {
        for text in [
            "0",
            "1",
            "1000000000",
            "340282366920938463463374607431768211456",
        ] {
            assert_eq!(
                Natural::from_digits(text.bytes()).into_digits(),
                text.as_bytes()
            );
        }
    }

    proptest! {
        #[test]
        fn division_agrees_with_the_processor(dividend: u128, divisor in 1_u128..) {
            let (quotient, rest) = natural(dividend).divide(&natural(divisor));
            prop_assert_eq!(quotient, dividend / divisor);
            prop_assert_eq!(rest, dividend % divisor != 0);
        }

        #[test]
        fn leading_bits_and_the_rest_make_the_number(number: u128, shift in 0_usize..200, low in 0_u32..2) {
            prop_assume!(number != 0);
            let mut shifted = natural(number);
            shifted.shift_left(shift);
            shifted.multiply_add(1 << 31, low);
            let (bits, dropped, rest) = shifted.leading_bits();
            let mut back = natural(bits);
            back.shift_left(dropped);
            prop_assert_eq!(back == shifted, !rest);
            prop_assert_eq!(back.bit_length(), shifted.bit_length());
            prop_assert!(shifted.subtract_if_not_less(&back));
            prop_assert!(shifted.bit_length() <= dropped);
        }

        #[test]
        fn powers_of_ten_append_zeros(number in 1_u64.., exponent in 0_usize..60) {
            let mut scaled = Natural::from(number);
            scaled.multiply_power_of_ten(exponent);
            let mut digits = number.to_string().into_bytes();
            digits.resize(digits.len() + exponent, b'0');
            prop_assert_eq!(scaled.into_digits(), digits);
        }
    }
}
