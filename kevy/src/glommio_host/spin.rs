//! How long it pays to poll before going to sleep, learned from what polling brought.
//!
//! Sleeping and being woken costs tens of microseconds, more than most requests. If the next event comes sooner than
//! that, polling for it is quicker and even cheaper; if not, polling burns a core for nothing, or takes it from somebody
//! who has work. So a shard polls for a while only as long as it keeps finding something:
//!
//! * a sleep that ended soon says that polling would have found it: the budget grows;
//! * a sleep that lasted says that it would not: the budget shrinks;
//! * many fruitless polls in a row switch polling off for ever longer.
//!
//! An idle server therefore does not poll at all. Nor does one whose core others want: see
//! [`contention`](super::contention).

use std::time::Duration;

/// Longest time that is spent polling before a sleep.
pub(crate) const LONGEST_SPIN: Duration = Duration::from_micros(60);
/// A sleep that ended within this time would perhaps have been found by polling: sleeping itself takes half of it.
const SHORT_SLEEP: Duration = Duration::from_micros(150);
/// The first budget, and the smallest that is worth it.
const SHORTEST_SPIN: Duration = Duration::from_micros(8);
/// That many fruitless polls in a row switch polling off.
const FAILURES_ALLOWED: u32 = 8;
/// For how many waits polling is off at first, and at most.
const WAITS_OFF: (u32, u32) = (16, 4096);
/// What one kind of waiting has taught.
#[derive(Debug)]
pub(crate) struct Spin {
    allowed: bool,
    budget: Duration,
    failures_in_a_row: u32,
    waits_off: u32,
    next_waits_off: u32,
}

impl Spin {
    /// Nothing learned yet. Not `allowed` (fewer cores than shards): never polls.
    pub(crate) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            budget: Duration::ZERO,
            failures_in_a_row: 0,
            waits_off: 0,
            next_waits_off: WAITS_OFF.0,
        }
    }

    /// How long to poll in the wait that begins now; zero: not at all.
    pub(crate) fn begin(&mut self) -> Duration {
        if !self.allowed {
            return Duration::ZERO;
        }
        if self.waits_off > 0 {
            self.waits_off -= 1;
            return Duration::ZERO;
        }
        self.budget
    }

    /// Polling found something.
    pub(crate) fn found(&mut self) {
        self.failures_in_a_row = 0;
        self.next_waits_off = WAITS_OFF.0;
    }

    /// The shard slept, after `spun` of polling that found nothing, until `waited` after the wait began.
    pub(crate) fn slept(&mut self, spun: Duration, waited: Duration) {
        if waited.saturating_sub(spun) > SHORT_SLEEP {
            self.budget /= 2;
            if self.budget < SHORTEST_SPIN {
                self.budget = Duration::ZERO;
            }
        } else {
            self.budget = (self.budget * 2).clamp(SHORTEST_SPIN, LONGEST_SPIN);
        }
        if !spun.is_zero() {
            self.count_failure();
        }
    }

    fn count_failure(&mut self) {
        self.failures_in_a_row += 1;
        if self.failures_in_a_row >= FAILURES_ALLOWED {
            self.failures_in_a_row = 0;
            self.waits_off = self.next_waits_off;
            self.next_waits_off = (self.next_waits_off * 2).min(WAITS_OFF.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(50);
    const LATE: Duration = Duration::from_millis(100);

    fn taught() -> Spin {
        let mut spin = Spin::new(true);
        (0..4).for_each(|_| spin.slept(Duration::ZERO, SOON));
        assert_eq!(spin.begin(), LONGEST_SPIN);
        spin
    }

    #[test]
    fn an_idle_shard_does_not_poll() {
        let mut spin = taught();
        for _ in 0..4 {
            let polled_for = spin.begin();
            spin.slept(polled_for, polled_for + LATE);
        }
        assert_eq!(spin.begin(), Duration::ZERO);
    }

    #[test]
    fn polling_that_pays_goes_on() {
        let mut spin = taught();
        (0..1000).for_each(|_| spin.found());
        assert_eq!(spin.begin(), LONGEST_SPIN);
    }

    #[test]
    fn polling_that_never_pays_becomes_rare() {
        let mut spin = taught();
        let mut polled = 0;
        for _ in 0..10_000 {
            // Always just too late for polling: each sleep is short.
            let polled_for = spin.begin();
            polled += u32::from(!polled_for.is_zero());
            spin.slept(polled_for, polled_for + SOON);
        }
        assert!(polled < 100, "polled {polled} times");
    }

    #[test]
    fn too_few_cores_mean_no_polling() {
        let mut spin = Spin::new(false);
        (0..4).for_each(|_| spin.slept(Duration::ZERO, SOON));
        assert_eq!(spin.begin(), Duration::ZERO);
    }
}
