//! Clocks and dice of a simulated node: simulated time, possibly at a slightly wrong rate, and numbers from the seed.

use kevy_node::host::{Clock, Entropy};
use kevy_proto::rng::Rng;
use kevy_proto::time::{Instant, Now, UnixMillis};
use std::time::Duration;

/// What the wall clock says when a simulation starts: 2030-01-01 00:00 UTC, so that no date of today matters.
pub const UNIX_START_MILLIS: i64 = 1_893_456_000_000;

/// What the monotonic clock says when a simulation starts: not 0, so that code which takes 0 for "never" is found out.
const MONOTONIC_START: Duration = Duration::from_hours(1);

const MILLION: i128 = 1_000_000;

/// True time since the simulation began, as only the simulator knows it.
pub fn simulated_time() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}

/// The clocks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock {
    drift_ppm: i64,
    unix_offset_millis: i64,
}

impl NodeClock {
    /// Clocks that run `drift_ppm` millionths too fast (negative: too slow), the wall clock `unix_offset_millis` off.
    pub fn new(drift_ppm: i64, unix_offset_millis: i64) -> Self {
        Self {
            drift_ppm,
            unix_offset_millis,
        }
    }

    /// What both clocks say at `elapsed` of true time.
    pub fn at(&self, elapsed: Duration) -> Now {
        let seen = self.seen(elapsed);
        let monotonic = MONOTONIC_START + seen;
        let unix = UNIX_START_MILLIS + self.unix_offset_millis + seen.as_millis() as i64;
        Now {
            monotonic: Instant::from_nanos(monotonic.as_nanos() as u64),
            unix: UnixMillis(unix),
        }
    }

    /// True time from `now` until the monotonic clock says `deadline`, rounded up to the millisecond that timers know.
    pub fn true_time_until(&self, deadline: Instant, now: Now) -> Duration {
        let seen = i128::from(deadline.nanos.saturating_sub(now.monotonic.nanos));
        let nanos = seen * MILLION / (MILLION + i128::from(self.drift_ppm));
        let millis = u64::try_from(nanos / MILLION + 1).unwrap_or(u64::MAX);
        Duration::from_millis(if seen == 0 { 0 } else { millis })
    }

    fn seen(&self, elapsed: Duration) -> Duration {
        let nanos = elapsed.as_nanos() as i128;
        let drifted = nanos + nanos * i128::from(self.drift_ppm) / MILLION;
        Duration::from_nanos(drifted as u64)
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Now {
        self.at(simulated_time())
    }
}

/// Dice that roll what the seed says.
#[derive(Clone, Debug)]
pub struct SeededEntropy(Rng);

impl SeededEntropy {
    /// Starts the sequence of `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self(Rng::from_seed(seed))
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_gains() {
        let true_clock = NodeClock::new(0, 0);
        let fast = NodeClock::new(50_000, 7);
        let hour = Duration::from_secs(1000);
        let gained = fast.at(hour).monotonic - true_clock.at(hour).monotonic;
        assert_eq!(gained, Duration::from_secs(50));
        let ahead = fast.at(hour).unix.0 - true_clock.at(hour).unix.0;
        assert_eq!(ahead, 50_007);
    }

    #[test]
    fn waiting_reaches_the_deadline_at_any_drift() {
        for drift in [0, 200, -200, 50_000, -50_000] {
            let clock = NodeClock::new(drift, 0);
            let start = Duration::from_millis(5);
            let now = clock.at(start);
            for wait in [0, 1, 999_999, 1_000_000, 123_456_789] {
                let deadline = now.monotonic + Duration::from_nanos(wait);
                let slept = clock.true_time_until(deadline, now);
                assert!(clock.at(start + slept).monotonic >= deadline);
            }
        }
    }
}
