//! Which core each shard runs on.

use glommio::Placement;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::path::Path;

/// Where glommio looks up what cores there are.
const ONLINE_CORES: &str = "/sys/devices/system/cpu/online";

/// Where shards run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// For each shard its core; `None`: none has one.
    cores: Option<Vec<usize>>,
    /// Whether there are enough cores for shards to poll.
    may_spin: bool,
}

impl Plan {
    /// Gives each of `shards` a core of its own among those this process may use, if there are enough.
    ///
    /// `offset` turns the choice, so that small servers beside each other do not all use the first core.
    pub(crate) fn new(shards: u16, offset: u16) -> Self {
        let usable = if Path::new(ONLINE_CORES).exists() {
            usable_cores()
        } else {
            Vec::new()
        };
        // Less than the cores where a container has a quota.
        let parallelism = std::thread::available_parallelism().map_or(1, usize::from);
        Self::among(
            &usable,
            parallelism,
            usize::from(shards),
            usize::from(offset),
        )
    }

    fn among(usable: &[usize], parallelism: usize, shards: usize, offset: usize) -> Self {
        let chosen = || {
            (0..shards)
                .map(|shard| usable[(offset + shard) % usable.len()])
                .collect()
        };
        Self {
            cores: (shards <= usable.len()).then(chosen),
            may_spin: shards <= parallelism,
        }
    }

    /// Where the executor of `shard` is placed.
    pub(crate) fn placement(&self, shard: usize) -> Placement {
        match &self.cores {
            Some(cores) => Placement::Fixed(cores[shard]),
            None => Placement::Unbound,
        }
    }

    /// Whether each shard has a core of its own.
    pub(crate) fn is_pinned(&self) -> bool {
        self.cores.is_some()
    }

    /// Whether there are enough cores for shards to poll.
    pub(crate) fn may_spin(&self) -> bool {
        self.may_spin
    }
}

/// The cores that the affinity of this process allows.
fn usable_cores() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|&core| allowed.is_set(core))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_a_core_of_its_own_if_there_are_enough() {
        let plan = Plan::among(&[2, 3, 6], 3, 3, 1);
        assert_eq!(plan.cores, Some(vec![3, 6, 2]));
        assert!(plan.may_spin());
        let crowded = Plan::among(&[2, 3, 6], 3, 4, 0);
        assert!(!crowded.is_pinned() && !crowded.may_spin());
        assert!(
            !Plan::among(&[0, 1], 1, 2, 0).may_spin(),
            "a quota of one core"
        );
    }

    #[test]
    fn the_cores_of_this_machine_are_found() {
        assert!(Plan::new(1, 0).is_pinned());
    }
}
