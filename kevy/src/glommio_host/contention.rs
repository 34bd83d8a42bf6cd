//! Whether somebody else wants the core this shard runs on: then polling would take it from them, or wait behind them.
//!
//! The kernel counts, per thread, the time it was ready to run but did not (`/proc/thread-self/schedstat`). A shard with
//! a core for itself is never kept waiting for long. Giving up the core to find out (`sched_yield`) was tried: the thread
//! then waits for the other's whole time slice, while one that sleeps is scheduled as soon as it is woken.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Where the kernel counts.
const SCHEDSTAT: &str = "/proc/thread-self/schedstat";
/// How often the count is read, at most: reading takes a microsecond or two.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(2);
/// Longer ago than this, a sample says nothing of now.
const SAMPLE_AGE: Duration = Duration::from_millis(50);
/// Kept waiting for more than one in this many nanoseconds, the core is contended.
const CONTENDED_ONE_IN: u64 = 10;
/// How long the core then counts as contended, at first and at most.
const HOLD: (Duration, Duration) = (Duration::from_millis(16), Duration::from_millis(512));

/// Watches one thread's core. To be used on that thread only. Times are nanoseconds on the caller's monotonic clock.
#[derive(Debug)]
pub(crate) struct Contention {
    counts: Option<File>,
    sampled_at: u64,
    waited: u64,
    contended_until: u64,
    hold: Duration,
}

impl Contention {
    /// Watches the calling thread. Where the kernel does not count, no core is ever contended.
    pub(crate) fn of_this_thread() -> Self {
        Self {
            counts: File::open(SCHEDSTAT).ok(),
            sampled_at: 0,
            waited: 0,
            contended_until: 0,
            hold: HOLD.0,
        }
    }

    /// Whether the core is contended at `now`.
    pub(crate) fn is_contended(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.sampled_at) >= SAMPLE_INTERVAL.as_nanos() as u64
            && let Some(waited) = self.counts.as_ref().and_then(read_waited)
        {
            self.sample(now, waited);
        }
        now < self.contended_until
    }

    /// Takes in that the thread was kept waiting for `waited` nanoseconds in all its life.
    fn sample(&mut self, now: u64, waited: u64) {
        let elapsed = now.saturating_sub(self.sampled_at);
        let kept_waiting = waited.saturating_sub(self.waited);
        let is_recent = elapsed <= SAMPLE_AGE.as_nanos() as u64;
        self.sampled_at = now;
        self.waited = waited;
        if is_recent && kept_waiting > elapsed / CONTENDED_ONE_IN {
            self.contended_until = now + self.hold.as_nanos() as u64;
            self.hold = (self.hold * 2).min(HOLD.1);
        } else if now > self.contended_until + self.hold.as_nanos() as u64 {
            // Free for as long as it was contended.
            self.hold = HOLD.0;
        }
    }
}

/// The second number: nanoseconds on a run queue without running.
fn read_waited(counts: &File) -> Option<u64> {
    let mut buffer = [0; 96];
    let count = counts.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..count]).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn watched() -> Contention {
        let mut contention = Contention {
            counts: None,
            ..Contention::of_this_thread()
        };
        contention.sample(1000 * MS, 0);
        contention
    }

    #[test]
    fn a_thread_that_waits_for_its_core_sees_contention_for_a_while() {
        let mut contention = watched();
        contention.sample(1010 * MS, MS / 10);
        assert!(
            !contention.is_contended(1010 * MS),
            "one percent is no contention"
        );
        contention.sample(1020 * MS, 5 * MS);
        assert!(contention.is_contended(1021 * MS));
        assert!(!contention.is_contended(1020 * MS + HOLD.0.as_nanos() as u64));
    }

    #[test]
    fn contention_that_returns_is_believed_for_longer() {
        let mut contention = watched();
        let (mut now, mut waited) = (1000 * MS, 0);
        for _ in 0..20 {
            now = (now + 10 * MS).max(contention.contended_until);
            waited += 10 * MS;
            // What happened while nobody looked is no news.
            contention.sample(now, waited);
            now += 10 * MS;
            waited += 10 * MS;
            contention.sample(now, waited);
        }
        assert_eq!(contention.contended_until - now, HOLD.1.as_nanos() as u64);
        contention.sample(now + 2000 * MS, waited);
        assert_eq!(contention.hold, HOLD.0);
    }

    #[test]
    fn the_kernel_counts_on_this_machine() {
        let counts = File::open(SCHEDSTAT).unwrap();
        assert!(read_waited(&counts).is_some());
    }
}
