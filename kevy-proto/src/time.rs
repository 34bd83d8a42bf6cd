//! Time as numbers that the host hands in. Inner crates never read a clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment on the host's monotonic clock, in nanoseconds since a start that the host chose. Measures durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since the host's start.
    pub nanos: u64,
}

impl Instant {
    /// Builds an instant `nanos` nanoseconds after the host's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// The duration since `earlier`, or zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self {
            nanos: self
                .nanos
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        }
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

/// Wall-clock time: milliseconds since 1970-01-01 UTC. Only expiry deadlines and what clients see use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// Both clocks, read once per turn of a shard, so that everything in the turn happens at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For durations and deadlines inside the process.
    pub monotonic: Instant,
    /// For expiry and for clients.
    pub unix: UnixMillis,
}
