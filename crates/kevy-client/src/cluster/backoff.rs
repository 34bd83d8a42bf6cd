//! How long to wait before trying again.

use std::time::Duration;

/// Doublings beyond this change nothing any more.
const MAX_DOUBLINGS: u32 = 20;

/// The wait after the `failures`-th failure in a row (1 is the first): it doubles from `min` up to `max`, and chance takes up
/// to half of it away, so that clients that failed together do not come back together.
pub(crate) fn backoff(
    failures: u32,
    min: Duration,
    max: Duration,
    rng: &mut fastrand::Rng,
) -> Duration {
    let doublings = failures.saturating_sub(1).min(MAX_DOUBLINGS);
    jittered(min.saturating_mul(1 << doublings).min(max), rng)
}

/// Between a half and the whole of `wait`.
pub(crate) fn jittered(wait: Duration, rng: &mut fastrand::Rng) -> Duration {
    wait.mul_f64(0.5 + rng.f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (min, max) = (Duration::from_millis(10), Duration::from_secs(1));
        for (failures, whole) in [(1, 10), (2, 20), (5, 160), (8, 1000), (u32::MAX, 1000)] {
            for _ in 0..100 {
                let wait = backoff(failures, min, max, &mut rng);
                let whole = Duration::from_millis(whole);
                assert!((whole / 2..=whole).contains(&wait), "{failures}: {wait:?}");
            }
        }
    }
}
