//! How long it pays to poll before going to sleep, learned from what polling brought.
//!
//! Sleeping and being woken costs tens of microseconds, more than most requests. If the next event comes sooner than
//! that, polling for it is quicker and even cheaper; if not, polling burns a core for nothing, or takes it from somebody
//! who has work. So a shard polls for a while only as long as it keeps finding something:
//!
//! * a sleep that ended soon says that polling would have found it: the budget grows;
//! * a sleep that lasted says that it would not: the budget shrinks;
//! * many fruitless polls in a row switch polling off for ever longer;
//! * a core that others want (giving it up took time) is left to them for a while.
//!
//! An idle server therefore does not poll at all.

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
/// Giving up the core for longer than this means that somebody else ran.
pub(crate) const CONTENDED_YIELD: Duration = Duration::from_micros(25);
/// How long polling is off once somebody else wants the core, at first and at most.
const CONTENDED_PAUSE: (Duration, Duration) =
    (Duration::from_millis(2), Duration::from_millis(128));

/// What one kind of waiting has taught.
#[derive(Debug)]
pub(crate) struct Spin {
    allowed: bool,
    budget: Duration,
    failures_in_a_row: u32,
    waits_off: u32,
    next_waits_off: u32,
    /// On the caller's clock, in nanoseconds.
    contended_until_nanos: u64,
    contended_pause: Duration,
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
            contended_until_nanos: 0,
            contended_pause: CONTENDED_PAUSE.0,
        }
    }

    /// How long to poll in the wait that begins at `now_nanos`; zero: not at all.
    pub(crate) fn begin(&mut self, now_nanos: u64) -> Duration {
        if !self.allowed || now_nanos < self.contended_until_nanos {
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
        self.contended_pause = CONTENDED_PAUSE.0;
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

    /// Somebody else wants the core.
    pub(crate) fn contended(&mut self, now_nanos: u64) {
        self.contended_until_nanos = now_nanos + self.contended_pause.as_nanos() as u64;
        self.contended_pause = (self.contended_pause * 2).min(CONTENDED_PAUSE.1);
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
        assert_eq!(spin.begin(0), LONGEST_SPIN);
        spin
    }

    #[test]
    fn an_idle_shard_does_not_poll() {
        let mut spin = taught();
        for _ in 0..4 {
            let spun = spin.begin(0);
            spin.slept(spun, spun + LATE);
        }
        assert_eq!(spin.begin(0), Duration::ZERO);
    }

    #[test]
    fn polling_that_pays_goes_on() {
        let mut spin = taught();
        (0..1000).for_each(|_| spin.found());
        assert_eq!(spin.begin(0), LONGEST_SPIN);
    }

    #[test]
    fn polling_that_never_pays_becomes_rare() {
        let mut spin = taught();
        let mut polled = 0;
        for _ in 0..10_000 {
            // Always just too late for polling: each sleep is short.
            let spun = spin.begin(0);
            polled += u32::from(!spun.is_zero());
            spin.slept(spun, spun + SOON);
        }
        assert!(polled < 100, "polled {polled} times");
    }

    #[test]
    fn a_core_that_others_want_is_left_to_them() {
        let mut spin = taught();
        spin.contended(1000);
        assert_eq!(spin.begin(2000), Duration::ZERO);
        let later = 1000 + CONTENDED_PAUSE.0.as_nanos() as u64;
        assert_eq!(spin.begin(later), LONGEST_SPIN);
        spin.contended(later);
        assert_eq!(
            spin.begin(later + CONTENDED_PAUSE.0.as_nanos() as u64),
            Duration::ZERO
        );
    }

    #[test]
    fn too_few_cores_mean_no_polling() {
        let mut spin = Spin::new(false);
        (0..4).for_each(|_| spin.slept(Duration::ZERO, SOON));
        assert_eq!(spin.begin(0), Duration::ZERO);
    }
}
