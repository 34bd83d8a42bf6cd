//! Floating-point numbers as text, in the notation of C's `%.17g`, which is what Redis's clients have always seen.

/// Longest text: sign, 17 digits, point, `e-308`.
const MAX_TEXT_BYTES: usize = 32;
/// `%.17g` has an exponent from 1e17 on and below 1e-4.
const MAX_PLAIN_EXPONENT: i32 = 16;
const MIN_PLAIN_EXPONENT: i32 = -4;
/// Integers below it are exact, and printed without a search for the shortest digits.
const EXACT_INTEGERS_BELOW: f64 = 1e15;

/// Room for the text of one double.
///
/// The digits are the fewest that give the same number back, as in Redis 7.2 (`0.1`); Redis 7.0 prints all 17
/// (`0.10000000000000001`). The notation is that of both: `100000000`, `1e+17`, `0.0001`, `1e-05`, `inf`, `-inf`, `nan`.
#[derive(Clone, Copy, Debug)]
pub struct DoubleBuffer {
    bytes: [u8; MAX_TEXT_BYTES],
    length: usize,
}

impl Default for DoubleBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl DoubleBuffer {
    /// Empty room.
    pub fn new() -> Self {
        Self {
            bytes: [0; MAX_TEXT_BYTES],
            length: 0,
        }
    }

    /// The text of `number`.
    pub fn format(&mut self, number: f64) -> &str {
        self.length = 0;
        if number.is_nan() {
            self.put(b"nan");
        } else if number.is_infinite() {
            self.put(if number > 0.0 { b"inf" } else { b"-inf" });
        } else {
            self.put_finite(number);
        }
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    fn put_finite(&mut self, number: f64) {
        if number.is_sign_negative() {
            self.put(b"-");
        }
        let number = number.abs();
        // Exact below 2^53, so that a comparison of floats says whether there is a fraction.
        #[expect(
            clippy::float_cmp,
            reason = "asks whether the number is an integer, exactly"
        )]
        if number < EXACT_INTEGERS_BELOW && number == (number as u64) as f64 {
            self.put(itoa::Buffer::new().format(number as u64).as_bytes());
        } else {
            self.put_decimal(&Decimal::shortest(number));
        }
    }

    fn put_decimal(&mut self, decimal: &Decimal) {
        let (digits, exponent) = (decimal.digits(), decimal.exponent);
        if !(MIN_PLAIN_EXPONENT..=MAX_PLAIN_EXPONENT).contains(&exponent) {
            self.put_with_point(digits, 1);
            self.put_exponent(exponent);
        } else if exponent < 0 {
            self.put(b"0.");
            self.put(&b"000"[..exponent.unsigned_abs() as usize - 1]);
            self.put(digits);
        } else {
            self.put_with_point(digits, exponent.unsigned_abs() as usize + 1);
        }
    }

    /// Writes `digits`, of which `whole` stand before the point; zeros where there are fewer.
    fn put_with_point(&mut self, digits: &[u8], whole: usize) {
        const ZEROS: [u8; MAX_PLAIN_EXPONENT as usize + 1] = [b'0'; 17];
        let (before, after) = digits.split_at(whole.min(digits.len()));
        self.put(before);
        self.put(&ZEROS[..whole - before.len()]);
        if !after.is_empty() {
            self.put(b".");
            self.put(after);
        }
    }

    /// As in C, an exponent has a sign and at least two digits.
    fn put_exponent(&mut self, exponent: i32) {
        self.put(if exponent < 0 { b"e-" } else { b"e+" });
        let exponent = exponent.unsigned_abs();
        if exponent < 10 {
            self.put(b"0");
        }
        self.put(itoa::Buffer::new().format(exponent).as_bytes());
    }

    fn put(&mut self, text: &[u8]) {
        let end = self.length + text.len();
        self.bytes[self.length..end].copy_from_slice(text);
        self.length = end;
    }
}

/// A positive number as `d.ddd` times a power of ten.
struct Decimal {
    digits: [u8; Self::MAX_DIGITS],
    length: usize,
    exponent: i32,
}

impl Decimal {
    const MAX_DIGITS: usize = 17;

    /// The fewest digits that give `number` back. It must be finite and positive.
    fn shortest(number: f64) -> Self {
        let mut decimal = Self {
            digits: [0; Self::MAX_DIGITS],
            length: 0,
            exponent: 0,
        };
        // Ryu writes `12.5`, `1e20`, `1.5e-7`: the point and the power of ten are to be moved.
        let mut buffer = ryu::Buffer::new();
        let text = buffer.format_finite(number);
        let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let leading_zeros = decimal.take(whole.bytes().chain(fraction.bytes()));
        let power: i32 = power.parse().unwrap_or(0);
        decimal.exponent = power + whole.len() as i32 - 1 - leading_zeros;
        decimal
    }

    /// Keeps the digits from the first to the last that is not zero; gives the number of zeros before.
    fn take(&mut self, digits: impl Iterator<Item = u8>) -> i32 {
        let (mut leading_zeros, mut trailing_zeros) = (0, 0);
        for digit in digits {
            match digit {
                b'0' if self.length == 0 => leading_zeros += 1,
                b'0' => trailing_zeros += 1,
                digit => {
                    let at = self.length + trailing_zeros;
                    self.digits[self.length..at].fill(b'0');
                    self.digits[at] = digit;
                    self.length = at + 1;
                    trailing_zeros = 0;
                }
            }
        }
        leading_zeros
    }

    fn digits(&self) -> &[u8] {
        &self.digits[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_notation_is_that_of_c() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (0.1, "0.1"),
            (-12.25, "-12.25"),
            (100_000_000.0, "100000000"),
            (17_179_869_184.5, "17179869184.5"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1.234_567_890_123_456_8e16, "12345678901234568"),
            (1e17, "1e+17"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (1e-4, "0.0001"),
            (1.25e-3, "0.00125"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (number, text) in cases {
            assert_eq!(DoubleBuffer::new().format(number), text);
        }
    }

    proptest! {
        #[test]
        fn every_number_comes_back(bits: u64) {
            let number = f64::from_bits(bits);
            let mut buffer = DoubleBuffer::new();
            let back: f64 = buffer.format(number).parse().unwrap();
            prop_assert!(back.to_bits() == bits || number.is_nan() && back.is_nan());
        }

        #[test]
        fn decimals_of_people_come_back(cents in -1_000_000_000_i64..1_000_000_000) {
            let number = cents as f64 / 100.0;
            let mut buffer = DoubleBuffer::new();
            let text = buffer.format(number);
            prop_assert_eq!(text, alloc::format!("{}", number));
        }
    }
}
