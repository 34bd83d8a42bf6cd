//! How long to wait before trying again.

use kevy_proto::rng::Rng;
use std::time::Duration;

/// Waits that double, with half of each left to chance, so that the replicas of a primary that comes back do not all come at
/// once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    attempts: u32,
    rng: Rng,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration, rng: Rng) -> Self {
        Self {
            min,
            max: max.max(min),
            attempts: 0,
            rng,
        }
    }

    /// The next wait: between half of what is due and all of it.
    pub(crate) fn next(&mut self) -> Duration {
        let doubled = self.min.saturating_mul(1 << self.attempts.min(20));
        self.attempts += 1;
        let full = doubled.min(self.max);
        let half = full / 2;
        let chance = self.rng.below(half.as_nanos() as u64 + 1);
        half + Duration::from_nanos(chance)
    }

    /// It went well.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(5));
        let mut backoff = Backoff::new(min, max, Rng::from_seed(1));
        for attempt in 0..40_u32 {
            let due = max.min(min * (1 << attempt.min(10)));
            let wait = backoff.next();
            assert!(due / 2 <= wait && wait <= due, "{attempt}: {wait:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= min);
    }
}
