//! When and how often a key was used: 24 bits per key, read by eviction and `OBJECT IDLETIME` and `OBJECT FREQ`.
//!
//! Under an LRU policy they are the Unix second of the last access; under an LFU policy the minute of the last decay (16
//! bits) and a logarithmic counter (8 bits), as Redis documents them
//! (<https://redis.io/docs/latest/develop/reference/eviction/>).

use kevy_proto::rng::Rng;
use kevy_proto::time::Now;

/// The bits of an access clock.
const CLOCK_MASK: u32 = 0x00ff_ffff;
/// The counter of a new key under LFU, so that it is not evicted at once (Redis: `LFU_INIT_VAL`).
const FIRST_COUNT: u8 = 5;
/// Redis's default `lfu-log-factor`.
const LOG_FACTOR: f64 = 10.0;
/// Redis's default `lfu-decay-time`, in minutes.
const DECAY_MINUTES: u32 = 1;

/// What the access clock of a key means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTracking {
    /// The time of the last access.
    #[default]
    Lru,
    /// The frequency of accesses.
    Lfu,
}

impl AccessTracking {
    /// The clock of a new key.
    #[inline]
    pub(super) fn fresh(self, now: Now) -> u32 {
        match self {
            Self::Lru => seconds(now),
            Self::Lfu => pack(minutes(now), FIRST_COUNT),
        }
    }

    /// The clock of a key that is accessed now.
    #[inline]
    pub(super) fn touched(self, clock: u32, now: Now, rng: &mut Rng) -> u32 {
        match self {
            Self::Lru => seconds(now),
            Self::Lfu => pack(minutes(now), incremented(frequency(clock, now), rng)),
        }
    }

    /// The clock of a key whose last access was `idle_seconds` ago, or whose counter is `count`, whichever applies.
    pub(super) fn restored(self, idle_seconds: u32, count: Option<u8>, now: Now) -> u32 {
        match self {
            Self::Lru => seconds(now).wrapping_sub(idle_seconds.min(CLOCK_MASK)) & CLOCK_MASK,
            Self::Lfu => pack(minutes(now), count.unwrap_or(FIRST_COUNT)),
        }
    }
}

/// Seconds since the last access, by a clock kept under LRU.
pub(super) fn idle_seconds(clock: u32, now: Now) -> u32 {
    seconds(now).wrapping_sub(clock) & CLOCK_MASK
}

/// The counter of a clock kept under LFU, less one for each decay period since.
pub(super) fn frequency(clock: u32, now: Now) -> u8 {
    let [count, ..] = clock.to_le_bytes();
    let elapsed = minutes(now).wrapping_sub((clock >> 8) as u16);
    count.saturating_sub((u32::from(elapsed) / DECAY_MINUTES).min(255) as u8)
}

/// Counts one access with a probability that falls as the counter rises.
fn incremented(count: u8, rng: &mut Rng) -> u8 {
    let above = f64::from(count.saturating_sub(FIRST_COUNT));
    let chance = 1.0 / (above * LOG_FACTOR + 1.0);
    count.saturating_add(u8::from(rng.unit_f64() < chance))
}

fn seconds(now: Now) -> u32 {
    (now.unix.0 / 1000) as u32 & CLOCK_MASK
}

fn minutes(now: Now) -> u16 {
    (now.unix.0 / 60_000) as u16
}

fn pack(minutes: u16, count: u8) -> u32 {
    u32::from(minutes) << 8 | u32::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::time::{Instant, UnixMillis};

    fn at(unix_ms: i64) -> Now {
        Now {
            monotonic: Instant::default(),
            unix: UnixMillis(unix_ms),
        }
    }

    #[test]
    fn idle_time_counts_from_the_last_access() {
        let clock = AccessTracking::Lru.fresh(at(1_700_000_000_000));
        assert_eq!(idle_seconds(clock, at(1_700_000_012_345)), 12);
        let restored = AccessTracking::Lru.restored(100, None, at(1_700_000_000_000));
        assert_eq!(idle_seconds(restored, at(1_700_000_001_000)), 101);
    }

    #[test]
    fn frequency_rises_slowly_and_decays() {
        let mut rng = Rng::from_seed(1);
        let now = at(1_700_000_000_000);
        let mut clock = AccessTracking::Lfu.fresh(now);
        assert_eq!(frequency(clock, now), 5);
        for _ in 0..1000 {
            clock = AccessTracking::Lfu.touched(clock, now, &mut rng);
        }
        let count = frequency(clock, now);
        assert!((8..40).contains(&count), "{count}");
        assert_eq!(
            frequency(clock, at(1_700_000_000_000 + 3 * 60_000)),
            count - 3
        );
        assert_eq!(frequency(clock, at(1_700_000_000_000 + 600 * 60_000)), 0);
    }
}
