//! Whether a file of frames is the one that a manifest names.

use kevy_proto::ids::ShardId;
use kevy_proto::log::{FileKind, SegmentHeader};

/// What the header of a file should say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) kind: FileKind,
    pub(super) shard: ShardId,
    pub(super) shards: u16,
    pub(super) number: u64,
    /// Where the log goes on, if that is known.
    pub(super) position: Option<u64>,
}

impl Expected {
    /// Says what is wrong with a header, if anything is.
    pub(super) fn check(&self, header: &SegmentHeader) -> Result<(), String> {
        if header.kind != self.kind {
            return Err("it is of another kind".to_owned());
        }
        if (header.shard, header.shards, header.segment) != (self.shard, self.shards, self.number) {
            return Err(format!(
                "it is number {} of shard {} of {}",
                header.segment, header.shard, header.shards
            ));
        }
        match self.position {
            Some(expected) if expected != header.position => Err(format!(
                "it begins at position {} of the log, but what comes before ends at {expected}",
                header.position
            )),
            Some(_) | None => Ok(()),
        }
    }
}
