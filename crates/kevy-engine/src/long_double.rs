//! Redis's `long double`: the 80-bit format of x87, in software, so that every machine gives the same digits.
//!
//! Numbers are read as C's `strtold` reads them, added with round-half-to-even to 64 bits, and written with 17 digits
//! after the point (`%.17Lf`) without trailing zeros. All steps are exact before their one rounding.

mod natural;

use alloc::vec::Vec;
use natural::Natural;

/// Longest text that is read as a number, in bytes (what redis-server 7.0 was seen to accept).
const MAX_TEXT_BYTES: usize = 5119;
/// Digits written after the point.
const FRACTION_DIGITS: usize = 17;
/// Ten to the power of [`FRACTION_DIGITS`].
const FRACTION_UNIT: u128 = 100_000_000_000_000_000;
/// Exponent of the smallest number above zero, 2^-16445.
const MIN_EXPONENT: i64 = -16445;
/// Exponent of the largest mantissa: all numbers are below 2^16384.
const MAX_EXPONENT: i64 = 16384 - 64;
/// Decimal numbers from ten to the power of this on are infinite.
const MAX_DECIMAL_EXPONENT: i64 = 4940;
/// Decimal numbers below ten to the power of this are zero.
const MIN_DECIMAL_EXPONENT: i64 = -4960;
/// Where a written exponent stops growing: beyond every length of text and every limit.
const EXPONENT_CAP: i64 = 1_000_000;
/// Largest power of ten of the short way: 10^18 takes 60 bits.
const SHORT_EXPONENT: usize = 18;

/// A number with a 64-bit mantissa and a 15-bit exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magnitude {
    /// `mantissa` times two to the power of `exponent`. Invariant: the mantissa's highest bit is set, or the exponent is
    /// [`MIN_EXPONENT`]; zero has that exponent too.
    Finite { mantissa: u64, exponent: i64 },
    /// `inf`, which may be written in a request but never becomes a result.
    Infinite,
}

const ZERO: Magnitude = Magnitude::Finite {
    mantissa: 0,
    exponent: MIN_EXPONENT,
};

impl LongDouble {
    /// Reads a decimal or hexadecimal number or infinity. `None` for everything else: spaces, NaN, more than 5119 bytes,
    /// numbers too large, and numbers that are not zero but too small.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let (negative, text) = split_sign(text);
        let magnitude = if is_infinity(text) {
            Magnitude::Infinite
        } else if let [b'0', b'x' | b'X', rest @ ..] = text {
            parse_hexadecimal(rest)?
        } else {
            parse_decimal(text)?
        };
        Some(Self {
            negative,
            magnitude,
        })
    }

    /// Whether it is infinity, of either sign.
    pub fn is_infinite(self) -> bool {
        self.magnitude == Magnitude::Infinite
    }

    /// The sum, rounded; `None` if it is infinite or no number.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let sum = add(
            (self.negative, self.magnitude),
            (other.negative, other.magnitude),
        )?;
        match sum.magnitude {
            Magnitude::Finite { .. } => Some(sum),
            Magnitude::Infinite => None,
        }
    }

    /// The digits as Redis writes them: up to 17 after the point, never an exponent. `None` for infinity.
    pub fn to_decimal(self) -> Option<Vec<u8>> {
        let Magnitude::Finite { mantissa, exponent } = self.magnitude else {
            return None;
        };
        let mut digits = match usize::try_from(exponent) {
            Ok(shift) => {
                let mut whole = Natural::from(mantissa);
                whole.shift_left(shift);
                whole.into_digits()
            }
            Err(_) => write_fraction(mantissa, exponent.unsigned_abs()),
        };
        if self.negative && digits != b"0" {
            digits.insert(0, b'-');
        }
        Some(digits)
    }
}

/// Whether `text` starts with a minus, and what follows its sign.
fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        Some(_) | None => (false, text),
    }
}

fn is_infinity(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity")
}

/// The digits of a number as they are written.
struct Written<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Written<'a> {
    /// Splits `digits[.digits][mark[sign]digits]`; `None` if `text` is not of that form.
    fn split(text: &'a [u8], mark: u8, is_digit: fn(&u8) -> bool) -> Option<Self> {
        let (whole, rest) = split_digits(text, is_digit);
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => split_digits(rest, is_digit),
            rest => (&[][..], rest),
        };
        let exponent = match rest {
            [] => 0,
            [first, exponent @ ..] if first.eq_ignore_ascii_case(&mark) => {
                parse_exponent(exponent)?
            }
            _ => return None,
        };
        (!whole.is_empty() || !fraction.is_empty()).then_some(Self {
            whole,
            fraction,
            exponent,
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + Clone + use<'a> {
        self.whole
            .iter()
            .chain(self.fraction)
            .copied()
            .skip_while(|&digit| digit == b'0')
    }
}

fn split_digits(text: &[u8], is_digit: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let length = text.iter().take_while(|byte| is_digit(byte)).count();
    text.split_at(length)
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let exponent = digits.iter().fold(0, |exponent, &digit| {
        (exponent * 10 + i64::from(digit - b'0')).min(EXPONENT_CAP)
    });
    Some(if negative { -exponent } else { exponent })
}

fn parse_decimal(text: &[u8]) -> Option<Magnitude> {
    let written = Written::split(text, b'e', u8::is_ascii_digit)?;
    let digits = written.digits();
    let count = digits.clone().count();
    if count == 0 {
        return Some(ZERO);
    }
    let exponent = written.exponent - written.fraction.len() as i64;
    let size = count as i64 + exponent;
    if !(MIN_DECIMAL_EXPONENT..=MAX_DECIMAL_EXPONENT).contains(&size) {
        return None;
    }
    // The checks above bound the exponent by the length of the text and the largest number.
    let scale = exponent.unsigned_abs() as usize;
    in_range(if exponent >= 0 {
        let mut number = Natural::from_digits(digits);
        number.multiply_power_of_ten(scale);
        let (bits, dropped, rest) = number.leading_bits();
        round(bits, dropped as i64, rest)
    } else if count <= SHORT_EXPONENT && scale <= SHORT_EXPONENT {
        divide_short(digits, scale)
    } else {
        divide_long(Natural::from_digits(digits), scale)
    })
}

/// The quotient of at most 18 digits and ten to the power of `scale`, at most 18: all in registers.
fn divide_short(digits: impl Iterator<Item = u8>, scale: usize) -> Magnitude {
    let number = digits.fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    let shift = number.leading_zeros() + 64;
    let dividend = u128::from(number) << shift;
    let divisor = 10_u128.pow(scale as u32);
    let rest = dividend % divisor != 0;
    round(dividend / divisor, -i64::from(shift), rest)
}

fn divide_long(mut number: Natural, scale: usize) -> Magnitude {
    // Two bits more than a mantissa, so that rounding sees the first bit it drops.
    const QUOTIENT_BITS: usize = 66;
    let mut divisor = Natural::from(1);
    divisor.multiply_power_of_ten(scale);
    let wanted = divisor.bit_length() + QUOTIENT_BITS;
    let shift = wanted.saturating_sub(number.bit_length());
    // A number much longer than its divisor is divided by a shifted divisor instead: the quotient stays short.
    let surplus = number.bit_length().saturating_sub(wanted);
    number.shift_left(shift);
    divisor.shift_left(surplus);
    let (quotient, rest) = number.divide(&divisor);
    round(quotient, surplus as i64 - shift as i64, rest)
}

fn parse_hexadecimal(text: &[u8]) -> Option<Magnitude> {
    let written = Written::split(text, b'p', u8::is_ascii_hexdigit)?;
    let (mut bits, mut dropped, mut rest) = (0_u128, 0_i64, false);
    for digit in written.digits() {
        let value = char::from(digit).to_digit(16).unwrap_or(0);
        if bits >> 124 == 0 {
            bits = bits << 4 | u128::from(value);
        } else {
            dropped += 4;
            rest |= value != 0;
        }
    }
    let exponent = written.exponent + dropped - 4 * written.fraction.len() as i64;
    if bits == 0 {
        return Some(ZERO);
    }
    in_range(round(bits, exponent, rest))
}

/// `None` for what `strtold` reports as out of range: infinity, and zero that was written as something else.
fn in_range(magnitude: Magnitude) -> Option<Magnitude> {
    (magnitude != Magnitude::Infinite && magnitude != ZERO).then_some(magnitude)
}

/// The number nearest to `bits` (plus a fraction, if `rest`) times two to the power of `exponent`; a tie goes to the even
/// one. With a rest, at least 66 bits must be significant, so that the rest lies below the first dropped bit.
fn round(bits: u128, exponent: i64, rest: bool) -> Magnitude {
    if bits == 0 {
        return ZERO;
    }
    let length = 128 - i64::from(bits.leading_zeros());
    let drop = (length - 64).max(MIN_EXPONENT - exponent);
    if drop > length {
        return ZERO;
    }
    let (mantissa, exponent) = if drop <= 0 {
        (bits << drop.unsigned_abs(), exponent + drop)
    } else {
        round_off(bits, drop as u32, rest, exponent)
    };
    if exponent > MAX_EXPONENT {
        return Magnitude::Infinite;
    }
    Magnitude::Finite {
        mantissa: mantissa as u64,
        exponent: if mantissa == 0 {
            MIN_EXPONENT
        } else {
            exponent
        },
    }
}

/// Drops the lowest `drop` bits, from 1 to 128, to the nearest, or even, mantissa of at most 64 bits.
fn round_off(bits: u128, drop: u32, rest: bool, exponent: i64) -> (u128, i64) {
    let kept = bits.checked_shr(drop).unwrap_or(0);
    let half = 1_u128 << (drop - 1);
    let dropped = bits & (half | (half - 1));
    let up = dropped > half || dropped == half && (rest || kept & 1 == 1);
    let kept = kept + u128::from(up);
    let exponent = exponent + i64::from(drop);
    if kept >> 64 == 0 {
        (kept, exponent)
    } else {
        (kept >> 1, exponent + 1)
    }
}

fn add(one: (bool, Magnitude), other: (bool, Magnitude)) -> Option<LongDouble> {
    let (
        (
            one_negative,
            Magnitude::Finite {
                mantissa: one_mantissa,
                exponent: one_exponent,
            },
        ),
        (
            other_negative,
            Magnitude::Finite {
                mantissa: other_mantissa,
                exponent: other_exponent,
            },
        ),
    ) = (one, other)
    else {
        return None;
    };
    if (one_exponent, one_mantissa) < (other_exponent, other_mantissa) {
        return add(other, one);
    }
    // One bit is left above for the carry, 63 below for what alignment shifts out.
    let large = u128::from(one_mantissa) << 63;
    let shift = u32::try_from(one_exponent - other_exponent).unwrap_or(u32::MAX);
    let unaligned = u128::from(other_mantissa) << 63;
    let small = unaligned.checked_shr(shift).unwrap_or(0);
    let rest = small.checked_shl(shift).unwrap_or(0) != unaligned;
    let bits = if one_negative == other_negative {
        large + small
    } else {
        // The fraction that alignment lost is taken away too: one less, and what is left of that one stays as the rest.
        large - small - u128::from(rest)
    };
    Some(LongDouble {
        negative: one_negative && bits != 0,
        magnitude: round(bits, one_exponent - 63, rest),
    })
}

/// Writes `mantissa` divided by two to the power of `shift`, rounded to 17 digits after the point.
fn write_fraction(mantissa: u64, shift: u64) -> Vec<u8> {
    // At most 121 bits: from a shift of 128 on it is less than half of the last digit.
    let scaled = u128::from(mantissa) * FRACTION_UNIT;
    let units = match u32::try_from(shift) {
        Ok(shift @ 1..128) => {
            let half = 1_u128 << (shift - 1);
            let dropped = scaled & (half | (half - 1));
            let kept = scaled >> shift;
            let up = dropped > half || dropped == half && kept & 1 == 1;
            kept + u128::from(up)
        }
        _ => 0,
    };
    let mut text = Vec::new();
    let mut buffer = itoa::Buffer::new();
    text.extend_from_slice(buffer.format(units / FRACTION_UNIT).as_bytes());
    let fraction = units % FRACTION_UNIT;
    if fraction != 0 {
        // The unit in front keeps the leading zeros of the fraction.
        let padded = buffer.format(FRACTION_UNIT + fraction).as_bytes();
        let zeros = padded.iter().rev().take_while(|&&b| b == b'0').count();
        text.push(b'.');
        text.extend_from_slice(&padded[1..=FRACTION_DIGITS - zeros]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::{String, ToString};
    use proptest::prelude::*;

    fn sum(one: &str, other: &str) -> Option<String> {
        let sum =
            LongDouble::parse(one.as_bytes())?.checked_add(LongDouble::parse(other.as_bytes())?)?;
        String::from_utf8(sum.to_decimal()?).ok()
    }

    #[test]
    fn sums_are_those_of_redis() {
        // Each observed on redis-server 7.0.15 (x86-64).
        let cases = [
            ("0", "1.5", "1.5"),
            ("1", "0.1", "1.1"),
            ("0", "3.0e3", "3000"),
            ("5.0e3", "2.0e2", "5200"),
            ("10.5", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("47.356518", "55.923391", "103.27990900000000001"),
            ("0", "-0", "0"),
            ("0", "-1e-30", "0"),
            ("0", "0x10", "16"),
            ("0", "0x1p-3", "0.125"),
            ("0", "0X1.8P1", "3"),
            ("0", "0x.8", "0.5"),
            ("0", "0x1.", "1"),
            ("0", ".5", "0.5"),
            ("0", "5.", "5"),
            ("0", "0.000000000000000005", "0"),
            ("0", "0.000000000000000015", "0.00000000000000002"),
            ("0", "18446744073709551617", "18446744073709551616"),
            (
                "0",
                "123456789012345678901234567890",
                "123456789012345678899921813504",
            ),
            (
                "-9223372036854775807",
                "0.00000000000000001",
                "-9223372036854775807",
            ),
            ("0", "0e999999999", "0"),
            ("0", "1e-4950", "0"),
            ("0", "3e-4951", "0"),
        ];
        for (one, other, expected) in cases {
            assert_eq!(
                sum(one, other).as_deref(),
                Some(expected),
                "{one} + {other}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let texts = [
            "",
            "-",
            "+",
            " 1",
            "1 ",
            "1e",
            "1e+",
            "0x",
            "0x1p",
            "0x1p+",
            "0x1e+2",
            "0x.",
            ".",
            "1_0",
            "1,5",
            "1p3",
            "nan",
            "nan(1)",
            "infin",
            "--1",
            "1e-4951",
            "1e-5000",
            "1.2e4932",
            "1e4933",
            "1e99999999999999999999",
            "1e-99999999999999999999",
        ];
        for text in texts {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; MAX_TEXT_BYTES + 1]), None);
    }

    #[test]
    fn a_result_is_never_infinite() {
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-INFINITY"), None);
        assert_eq!(sum("1e4932", "1e4932"), None);
        assert_eq!(sum("1e4932", "-1e4932").as_deref(), Some("0"));
    }

    proptest! {
        #[test]
        fn the_short_and_the_long_division_agree(number in 1..10_u64.pow(18), scale in 1_usize..=18) {
            let long = divide_long(Natural::from(number), scale);
            prop_assert_eq!(divide_short(number.to_string().bytes(), scale), long);
        }

        #[test]
        fn integers_of_64_bits_are_exact(number: i64) {
            prop_assert_eq!(sum(&number.to_string(), "0"), Some(number.to_string()));
        }

        #[test]
        fn binary_fractions_add_up(one in -10_i64.pow(12)..10_i64.pow(12), other in -10_i64.pow(12)..10_i64.pow(12)) {
            let decimal = |eighths: i64| {
                let sign = if eighths < 0 { "-" } else { "" };
                format!("{sign}{}.{:03}", eighths.abs() / 8, eighths.abs() % 8 * 125)
            };
            let expected = decimal(one + other);
            let expected = expected.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(
                sum(&decimal(one), &decimal(other)),
                Some(expected.to_string())
            );
        }

        #[test]
        fn no_text_is_a_panic(text in "[-+]?(0x)?[0-9a-fA-F]{0,30}\\.?[0-9a-f]{0,40}([ep][-+]?[0-9]{0,6})?") {
            if let Some(number) = LongDouble::parse(text.as_bytes()) {
                let _ = number.checked_add(number).and_then(LongDouble::to_decimal);
            }
        }
    }
}
