//! Slots: the 16384 parts of the key space, as Redis Cluster defines them (spec C1).
//!
//! `slot = CRC16/XMODEM(hash part of the key) mod 16384`. A shard owns a contiguous range of slots; ranges differ in
//! size by at most one.

use crate::ids::ShardId;
use core::ops::RangeInclusive;
use memchr::memchr;

/// How many slots there are (Redis Cluster specification).
pub const SLOTS: u16 = 16384;

/// The slot of `key`: of its hash tag if it has one, else of all its bytes.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(hash_part(key)) % SLOTS
}

/// The part of `key` that decides its slot: what stands between the first `{` and the next `}`, if that is not empty;
/// else the whole key.
pub fn hash_part(key: &[u8]) -> &[u8] {
    let Some(open) = memchr(b'{', key) else {
        return key;
    };
    let rest = &key[open + 1..];
    match memchr(b'}', rest) {
        Some(length) if length > 0 => &rest[..length],
        Some(_) | None => key,
    }
}

/// How the slots are dealt to shards: shard `i` of `n` owns the `i`-th contiguous part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMap {
    /// Invariant: `1..=SLOTS`.
    shards: u16,
}

impl SlotMap {
    /// A map for `shards` shards; numbers outside `1..=16384` are clamped.
    pub fn new(shards: u16) -> Self {
        Self {
            shards: shards.clamp(1, SLOTS),
        }
    }

    /// How many shards share the slots.
    pub fn shards(self) -> u16 {
        self.shards
    }

    /// The shard that owns `slot`.
    pub fn owner(self, slot: u16) -> ShardId {
        // The inverse of `first`: the largest i with i * SLOTS / n <= slot.
        let n = u32::from(self.shards);
        ShardId((u32::from(slot % SLOTS) * n / u32::from(SLOTS)) as u16)
    }

    /// The shard that owns `key`.
    pub fn owner_of_key(self, key: &[u8]) -> ShardId {
        if self.shards == 1 {
            ShardId(0)
        } else {
            self.owner(slot_of(key))
        }
    }

    /// The slots that `shard` owns.
    pub fn range(self, shard: ShardId) -> RangeInclusive<u16> {
        self.first(shard.0)..=self.first(shard.0 + 1) - 1
    }

    /// The first slot of shard `index`: `ceil(index * SLOTS / n)`, so that N = 4 gives 0, 4096, 8192, 12288.
    fn first(self, index: u16) -> u16 {
        (u32::from(index) * u32::from(SLOTS)).div_ceil(u32::from(self.shards)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_redis_cluster_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(
            slot_of(b"{user1000}.following"),
            slot_of(b"{user1000}.followers")
        );
        assert_eq!(hash_part(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_part(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_part(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_part(b"foo{bar"), b"foo{bar");
    }

    #[test]
    fn four_shards_own_quarters() {
        let map = SlotMap::new(4);
        assert_eq!(map.range(ShardId(0)), 0..=4095);
        assert_eq!(map.range(ShardId(3)), 12288..=16383);
    }

    #[test]
    fn every_slot_has_one_owner_and_ranges_differ_by_at_most_one() {
        for shards in [1, 2, 3, 4, 5, 7, 10, 16, 100, 1000, 16384] {
            let map = SlotMap::new(shards);
            let mut sizes = (u16::MAX, 0);
            let mut next = 0_u32;
            for shard in 0..shards {
                let range = map.range(ShardId(shard));
                assert_eq!(u32::from(*range.start()), next);
                let size = range.end() - range.start() + 1;
                sizes = (sizes.0.min(size), sizes.1.max(size));
                for slot in [*range.start(), *range.end()] {
                    assert_eq!(map.owner(slot), ShardId(shard));
                }
                next += u32::from(size);
            }
            assert_eq!(next, u32::from(SLOTS));
            assert!(sizes.1 - sizes.0 <= 1);
        }
    }
}
