//! The clocks of the machine.

use kevy_node::host::Clock;
use kevy_proto::time::{Instant, Now, UnixMillis};
use std::sync::LazyLock;
use std::time::SystemTime;

/// What every monotonic reading of this process is counted from, so that they all compare: those that begin a turn with
/// those in the midst of it, and those of different shards.
static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// Reads std's clocks. All shards of a process share one start, so that instants of different shards compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    start: std::time::Instant,
}

impl HostClock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { start: *ORIGIN }
    }

    /// The monotonic clock, on the same scale as [`HostClock::monotonic`].
    pub(crate) fn read_now() -> Instant {
        Instant::from_nanos(ORIGIN.elapsed().as_nanos() as u64)
    }

    /// The monotonic clock alone.
    pub(crate) fn monotonic(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

impl Clock for HostClock {
    fn now(&self) -> Now {
        // A wall clock set before 1970 counts as 1970.
        let unix = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            monotonic: self.monotonic(),
            unix: UnixMillis(unix.as_millis() as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_run_forward() {
        let clock = HostClock::start();
        let first = clock.now();
        let second = clock.now();
        assert!(second.monotonic >= first.monotonic);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let origin = HostClock::start().monotonic();
        assert!(origin >= second.monotonic, "another start, the same scale");
        assert!(HostClock::read_now() >= origin, "within a turn, too");
        // 2020-01-01: any machine this runs on is past that.
        assert!(first.unix.0 > 1_577_836_800_000);
    }
}
