//! Which key goes when memory is short: Redis's eight policies, approximated by samples as in Redis
//! (<https://redis.io/docs/latest/develop/reference/eviction/>).

use super::{AccessTracking, Entry, Keyspace};
use crate::{Effects, EventClasses};
use alloc::vec::Vec;
use kevy_proto::time::Now;

/// How many keys are compared to find one that goes unless it is set otherwise (Redis's default `maxmemory-samples`).
pub(super) const DEFAULT_SAMPLES: u32 = 5;
/// Most keys that are compared, whatever is set: further ones hardly change the choice, and take their time.
const MAX_SAMPLES: u32 = 1000;
/// How many random keys are looked at for one that has an expiry, before the deadlines themselves are asked.
const VOLATILE_TRIES: usize = 16;

/// Which keys may go, and which of them goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None: writes that need memory are refused.
    #[default]
    NoEviction,
    /// Of all keys, the one not used for longest.
    AllKeysLru,
    /// Of all keys, the one used least often.
    AllKeysLfu,
    /// Of all keys, any.
    AllKeysRandom,
    /// Of the keys with an expiry, the one not used for longest.
    VolatileLru,
    /// Of the keys with an expiry, the one used least often.
    VolatileLfu,
    /// Of the keys with an expiry, any.
    VolatileRandom,
    /// Of the keys with an expiry, the one that goes next anyway.
    VolatileTtl,
}

impl EvictionPolicy {
    /// What has to be noted about accesses for this policy.
    pub fn tracking(self) -> AccessTracking {
        match self {
            Self::AllKeysLfu | Self::VolatileLfu => AccessTracking::Lfu,
            Self::NoEviction
            | Self::AllKeysLru
            | Self::AllKeysRandom
            | Self::VolatileLru
            | Self::VolatileRandom
            | Self::VolatileTtl => AccessTracking::Lru,
        }
    }

    fn wants_expiry(self) -> bool {
        match self {
            Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl => {
                true
            }
            Self::NoEviction | Self::AllKeysLru | Self::AllKeysLfu | Self::AllKeysRandom => false,
        }
    }

    /// The larger, the sooner `entry` goes.
    fn score(self, entry: &Entry, now: Now) -> u32 {
        match self {
            Self::AllKeysLru | Self::VolatileLru => entry.idle_seconds(now),
            Self::AllKeysLfu | Self::VolatileLfu => u32::from(u8::MAX - entry.frequency(now)),
            Self::NoEviction | Self::AllKeysRandom | Self::VolatileRandom | Self::VolatileTtl => 0,
        }
    }
}

impl Keyspace {
    /// Removes the key that `policy` would miss least, with its `DEL` effect. Says whether there was one to remove.
    pub fn evict(&mut self, policy: EvictionPolicy, now: Now, effects: &mut Effects) -> bool {
        let key = match policy {
            EvictionPolicy::NoEviction => None,
            EvictionPolicy::VolatileTtl => self.next_to_expire(),
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => self.sample(policy),
            EvictionPolicy::AllKeysLru
            | EvictionPolicy::AllKeysLfu
            | EvictionPolicy::VolatileLru
            | EvictionPolicy::VolatileLfu => self.worst_of_samples(policy, now),
        };
        let Some(key) = key else { return false };
        let hash = self.table.hash(&key);
        let Some(place) = self.find(hash, &key) else {
            return false;
        };
        self.remove_at(hash, place);
        self.stats.evicted += 1;
        effects.emit(&[b"DEL", &key]);
        self.note_event(EventClasses::EVICTED, "evicted", &key);
        true
    }

    fn worst_of_samples(&mut self, policy: EvictionPolicy, now: Now) -> Option<Vec<u8>> {
        let mut worst: Option<(u32, Vec<u8>)> = None;
        for _ in 0..self.eviction_samples.min(MAX_SAMPLES) {
            let key = self.sample(policy)?;
            let hash = self.table.hash(&key);
            let Some(entry) = self
                .find(hash, &key)
                .and_then(|place| self.table.get(place))
            else {
                continue;
            };
            let score = policy.score(entry, now);
            if worst.as_ref().is_none_or(|(other, _)| score > *other) {
                worst = Some((score, key));
            }
        }
        worst.map(|(_, key)| key)
    }

    /// A random key of those that may go.
    fn sample(&mut self, policy: EvictionPolicy) -> Option<Vec<u8>> {
        if !policy.wants_expiry() {
            return self.random_entry().map(|entry| entry.key().to_vec());
        }
        if self.expires_len() == 0 {
            return None;
        }
        for _ in 0..VOLATILE_TRIES {
            let entry = self.random_entry()?;
            if entry.deadline().is_some() {
                return Some(entry.key().to_vec());
            }
        }
        self.next_to_expire()
    }

    fn next_to_expire(&self) -> Option<Vec<u8>> {
        let place = self.first_with_deadline()?;
        self.table.get(place).map(|entry| entry.key().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Expiry;
    use kevy_proto::time::{Instant, UnixMillis};

    fn at(seconds: i64) -> Now {
        Now {
            monotonic: Instant::default(),
            unix: UnixMillis(seconds * 1000),
        }
    }

    /// Keys `0..100`, of which the even ones have an expiry (later for larger ones); those from 50 on were used last.
    fn filled(policy: EvictionPolicy) -> Keyspace {
        let mut effects = Effects::off();
        let mut keyspace = Keyspace::new(7);
        keyspace.set_access_tracking(policy.tracking());
        for n in 0..100_i64 {
            let expiry = if n % 2 == 0 {
                Expiry::At(UnixMillis((1_000_000 + n) * 1000))
            } else {
                Expiry::Never
            };
            keyspace.set_string(
                alloc::format!("{n}").as_bytes(),
                b"v",
                expiry,
                at(1000),
                &mut effects,
            );
        }
        for n in 50..100 {
            for _ in 0..50 {
                keyspace.lookup(alloc::format!("{n}").as_bytes(), at(5000), &mut effects);
            }
        }
        keyspace
    }

    fn evict(keyspace: &mut Keyspace, policy: EvictionPolicy, count: usize) -> Vec<i64> {
        let mut effects = Effects::on();
        for _ in 0..count {
            if !keyspace.evict(policy, at(5001), &mut effects) {
                break;
            }
        }
        let key = |args: kevy_proto::resp::Args<'_>| {
            core::str::from_utf8(args.at(1)).unwrap().parse().unwrap()
        };
        effects.iter().map(key).collect()
    }

    #[test]
    fn the_least_used_keys_go_first() {
        use EvictionPolicy as P;
        for policy in [P::AllKeysLru, P::AllKeysLfu, P::VolatileLru, P::VolatileLfu] {
            let mut keyspace = filled(policy);
            let gone = evict(&mut keyspace, policy, 15);
            assert_eq!(gone.len(), 15);
            let unused = gone.iter().filter(|n| **n < 50).count();
            assert!(
                unused >= 12,
                "{policy:?}: only {unused} of the unused went: {gone:?}"
            );
            assert_eq!(keyspace.stats().evicted, 15);
        }
    }

    #[test]
    fn volatile_policies_spare_keys_without_expiry() {
        use EvictionPolicy as P;
        for policy in [
            P::VolatileLru,
            P::VolatileLfu,
            P::VolatileRandom,
            P::VolatileTtl,
        ] {
            let mut keyspace = filled(policy);
            let gone = evict(&mut keyspace, policy, 1000);
            assert_eq!(gone.len(), 50, "{policy:?}");
            assert!(gone.iter().all(|n| n % 2 == 0));
            assert_eq!(keyspace.len(), 50);
            assert_eq!(keyspace.expires_len(), 0);
        }
    }

    #[test]
    fn the_next_to_expire_goes_first_by_ttl() {
        let mut keyspace = filled(EvictionPolicy::VolatileTtl);
        assert_eq!(
            evict(&mut keyspace, EvictionPolicy::VolatileTtl, 4),
            [0, 2, 4, 6]
        );
    }

    #[test]
    fn all_keys_can_go_unless_none_may() {
        assert_eq!(
            evict(
                &mut filled(EvictionPolicy::AllKeysRandom),
                EvictionPolicy::AllKeysRandom,
                1000
            )
            .len(),
            100
        );
        assert!(
            evict(
                &mut filled(EvictionPolicy::NoEviction),
                EvictionPolicy::NoEviction,
                1
            )
            .is_empty()
        );
    }
}
