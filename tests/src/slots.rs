//! Which slot and shard a key belongs to, computed here from the published definition and not by kevy.

/// Slots of a Redis Cluster.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: CRC16/XMODEM of its hash tag, if it has one that is not empty, or of all of it.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// The shard that owns a key when `shards` is a power of two, where equal ranges leave no doubt.
pub fn shard_of(key: &[u8], shards: u16) -> u16 {
    assert!(shards.is_power_of_two());
    slot_of(key) / (SLOTS / shards)
}

/// One key for each of `shards` shards (a power of two), named `<prefix><number>`.
pub fn key_on_each_shard(prefix: &str, shards: u16) -> Vec<String> {
    let find = |shard| {
        let mut names = (0..).map(|n| format!("{prefix}{n}"));
        names.find(|name| shard_of(name.as_bytes(), shards) == shard)
    };
    (0..shards).filter_map(find).collect()
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&b| b == b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        // The check value of CRC16/XMODEM, then slots that redis-server 7.0 answered.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, slot) in [
            ("foo", 12_182),
            ("bar", 5061),
            ("", 0),
            ("{user1000}.a", 3443),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}"), slot_of(b"{bar"));
    }
}
