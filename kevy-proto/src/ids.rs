//! Names for the parties of a kevy server, as numbers.

use core::fmt;

/// One shard: one executor pinned to one core, owner of a contiguous range of slots. Counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard's position in an array that holds one element per shard.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One client connection, unique within the process for its whole life (what `CLIENT ID` replies).
///
/// The shard that accepted the connection can be read from the number, so that ids need no shared counter:
/// `id = sequence * shards + shard + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The `sequence`-th connection (from 0) accepted by `shard` out of `shards`.
    pub fn new(sequence: u64, shard: ShardId, shards: u16) -> Self {
        Self(sequence * u64::from(shards) + u64::from(shard.0) + 1)
    }

    /// The shard that accepted this connection.
    pub fn shard(self, shards: u16) -> ShardId {
        ShardId((self.0.wrapping_sub(1) % u64::from(shards.max(1))) as u16)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One transaction over several shards, unique within the process: the coordinating shard and its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The shard whose connection asked for the transaction.
    pub coordinator: ShardId,
    /// Counts from 0 on each coordinator.
    pub sequence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_id_tells_its_shard() {
        for shards in 1..5_u16 {
            for shard in 0..shards {
                let id = ConnectionId::new(7, ShardId(shard), shards);
                assert_eq!(id.shard(shards), ShardId(shard));
            }
        }
        assert_eq!(ConnectionId::new(0, ShardId(0), 4), ConnectionId(1));
    }
}
