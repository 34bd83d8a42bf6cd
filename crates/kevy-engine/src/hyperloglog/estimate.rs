//! The estimate from how many registers hold what: Ertl's improved raw estimator, in the order of operations that
//! redis-server 7.0's results show (Otmar Ertl, "New cardinality estimation algorithms for `HyperLogLog` sketches", 2017,
//! <https://arxiv.org/abs/1702.01284>, algorithm 6).

use super::{REGISTERS, RUN_BITS};

/// How many values a register can hold.
pub(super) const VALUES: usize = 64;
/// The limit of the estimator's constant for many registers, 1 / (2 ln 2).
const ALPHA: f64 = 0.5 / core::f64::consts::LN_2;

/// Estimates the number of different elements; `histogram` says how many registers hold each value.
pub(super) fn estimate(histogram: &[usize; VALUES]) -> i64 {
    let registers = REGISTERS as f64;
    let longest = RUN_BITS as usize + 1;
    let mut z = registers * tau((registers - histogram[longest] as f64) / registers);
    for &count in histogram[1..longest].iter().rev() {
        z += count as f64;
        z *= 0.5;
    }
    z += registers * sigma(histogram[0] as f64 / registers);
    round(ALPHA * registers * registers / z)
}

/// To the nearest integer, halves away from zero. What is too large becomes the smallest number, as in Redis.
fn round(number: f64) -> i64 {
    /// Two to the power of 63.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    if number.is_nan() || number >= TOO_LARGE {
        return i64::MIN;
    }
    let whole = number as i64;
    whole + i64::from(number - whole as f64 >= 0.5)
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let mut y = 1.0;
    let mut z = x;
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let mut y = 1.0;
    let mut z = 1.0 - x;
    loop {
        x = square_root(x);
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

/// The square root of a number between 1/16384 and 1, correctly rounded. (`core` has none.)
fn square_root(x: f64) -> f64 {
    /// Two to the power of 126: the root of a number scaled by it has 63 bits, ten more than are kept.
    const SCALE: f64 = 85_070_591_730_234_615_865_843_651_857_942_052_864.0;
    /// The root of that.
    const ROOT_SCALE: f64 = 9_223_372_036_854_775_808.0;
    let scaled = (x * SCALE) as u128;
    let root = scaled.isqrt();
    // A last bit for what is left over rounds it the right way.
    let sticky = root | u128::from(root * root < scaled);
    sticky as f64 / ROOT_SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_roots_are_those_of_the_machine() {
        extern crate std;
        let mut x = 0.999_999_9;
        while x > 1.0 / 16_384.0 {
            assert_eq!(square_root(x).to_bits(), f64::sqrt(x).to_bits(), "{x}");
            x *= 0.998_7;
        }
    }

    #[test]
    fn extremes_have_a_result() {
        let mut histogram = [0; VALUES];
        histogram[0] = REGISTERS;
        assert_eq!(estimate(&histogram), 0);
        histogram[0] = 0;
        histogram[63] = REGISTERS;
        assert_eq!(estimate(&histogram), i64::MIN);
        histogram[63] = 0;
        histogram[51] = REGISTERS;
        assert_eq!(estimate(&histogram), i64::MIN);
        histogram[51] = REGISTERS / 2;
        histogram[3] = REGISTERS / 2;
        assert!(estimate(&histogram) > 0);
    }
}
