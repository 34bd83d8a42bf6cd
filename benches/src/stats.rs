//! The little arithmetic of a gate: medians, and ratios paired by round.
//!
//! On a noisy machine two servers measured in the same round saw the same weather, so a ratio is
//! taken within each round and the median of those ratios is reported, not the ratio of medians.

/// The median; the mean of the middle two for an even count. `None` when empty or when a value is NaN.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return Some(sorted[middle]);
    }
    Some(f64::midpoint(sorted[middle - 1], sorted[middle]))
}

/// `value / base`, unless the base is zero or either is not finite.
pub fn ratio(value: f64, base: f64) -> Option<f64> {
    let quotient = value / base;
    (base != 0.0 && quotient.is_finite()).then_some(quotient)
}

/// The median of `values[i] / base[i]` over the rounds both took part in.
pub fn paired_ratio(values: &[f64], base: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = values
        .iter()
        .zip(base)
        .filter_map(|(value, base)| ratio(*value, *base))
        .collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn ratio_refuses_a_zero_base() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
        assert_eq!(ratio(0.0, 0.0), None);
    }

    #[test]
    fn pairing_cancels_a_slow_round() {
        // The second round ran at half speed for both: the paired ratio does not care.
        assert_eq!(
            paired_ratio(&[20.0, 10.0, 22.0], &[10.0, 5.0, 11.0]),
            Some(2.0)
        );
        assert_eq!(paired_ratio(&[1.0], &[]), None);
    }
}
