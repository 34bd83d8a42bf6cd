//! A small data directory, made by hand.

use crate::log::directory::Opener;
use crate::log::manifest::{Files, LAYOUT_FILE, Layout, Manifest, SnapshotFile};
use crate::log::memory_disk::MemoryDisk;
use crate::log::operation::DiskAction;
use crate::log::snapshot::SnapshotWriter;
use bytes::BytesMut;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::log::{
    FileKind, SEGMENT_HEADER_BYTES, SegmentHeader, TransactionPart, encode_frame, push_effects,
    push_part,
};
use kevy_proto::resp::RequestBuffer;
use kevy_proto::time::{Instant, Now, UnixMillis};

pub(super) const SHARDS: u16 = 2;
pub(super) const FILES: Files = Files { generation: 1 };
pub(super) const RUN: u64 = 77;
pub(super) const UNIX_MS: i64 = 1_000;

pub(super) fn opener() -> Opener {
    Opener {
        shards: SHARDS,
        run: 99,
        seed: 5,
        now: Now {
            monotonic: Instant::default(),
            unix: UnixMillis(UNIX_MS),
        },
    }
}

pub(super) fn set(key: &str) -> RequestBuffer {
    RequestBuffer::from_slices([&b"SET"[..], key.as_bytes(), b"value"])
}

pub(super) fn header(kind: FileKind, shard: u16, segment: u64, position: u64) -> SegmentHeader {
    SegmentHeader {
        kind,
        shard: ShardId(shard),
        shards: SHARDS,
        segment,
        position,
        run: RUN,
    }
}

/// The bytes of a segment, and where its frames begin in the file. Each frame knows all before it to be durable.
pub(super) fn segment(header: &SegmentHeader, frames: &[BytesMut]) -> (Vec<u8>, Vec<usize>) {
    let mut file = header.encode().to_vec();
    let mut starts = Vec::new();
    for entries in frames {
        let position = header.position + (file.len() - SEGMENT_HEADER_BYTES) as u64;
        starts.push(file.len());
        file.extend_from_slice(&encode_frame(position, position, 1, entries));
        file.extend_from_slice(entries);
    }
    (file, starts)
}

pub(super) fn entries_of(keys: &[String]) -> BytesMut {
    let mut entries = BytesMut::new();
    for key in keys {
        push_effects(&mut entries, [set(key).args()].into_iter());
    }
    entries
}

pub(super) fn part_of(key: &str) -> BytesMut {
    let part = TransactionPart {
        id: TransactionId {
            coordinator: ShardId(0),
            sequence: 4,
        },
        settled_below: 0,
        participants: vec![ShardId(0), ShardId(1)],
        epoch: 1,
        is_isolated: true,
    };
    let mut entries = BytesMut::new();
    push_part(&mut entries, &part, [set(key).args()].into_iter());
    entries
}

pub(super) fn snapshot(shard: u16) -> Vec<u8> {
    let header = header(FileKind::Snapshot, shard, 3, 100);
    let mut writer = SnapshotWriter::new("".into(), &header, &[], true);
    writer.push([set(&format!("{shard}:snapshot")).args()].into_iter());
    writer.complete(1);
    let mut bytes = Vec::new();
    while let Some(action) = writer.poll_action() {
        if let DiskAction::Write { bytes: more, .. } = action {
            bytes.extend_from_slice(&more);
        }
        writer.handle_done();
    }
    bytes
}

/// Two shards, each with a snapshot and two segments of three frames; the last frame is half of a transaction.
pub(super) struct Sample {
    pub(super) disk: MemoryDisk,
    /// For the two segments of shard 0: where their frames begin.
    pub(super) starts: [Vec<usize>; 2],
}

pub(super) fn sample() -> Sample {
    let mut disk = MemoryDisk::default();
    let mut starts: [Vec<usize>; 2] = Default::default();
    for shard in 0..SHARDS {
        let mut position = 100;
        for number in [3, 4] {
            let key = |frame: usize, entry: usize| format!("{shard}:{number}:{frame}:{entry}");
            let mut frames = vec![
                entries_of(&[key(0, 0)]),
                entries_of(&[key(1, 0), key(1, 1)]),
            ];
            frames.push(if number == 4 {
                part_of(&format!("{shard}:part"))
            } else {
                entries_of(&[key(2, 0)])
            });
            let (file, at) = segment(&header(FileKind::Log, shard, number, position), &frames);
            position += (file.len() - SEGMENT_HEADER_BYTES) as u64;
            disk.files
                .insert(FILES.segment(ShardId(shard), number), file);
            if shard == 0 {
                starts[number as usize - 3] = at;
            }
        }
        let manifest = Manifest {
            shard: ShardId(shard),
            shards: SHARDS,
            snapshot: Some(SnapshotFile {
                number: 3,
                position: 100,
            }),
            segments: (3, 4),
        };
        disk.files
            .insert(FILES.snapshot(ShardId(shard), 3), snapshot(shard));
        let text = manifest.to_string().into_bytes();
        disk.files.insert(FILES.manifest(ShardId(shard)), text);
    }
    let layout = Layout {
        generation: 1,
        shards: SHARDS,
    };
    let text = layout.to_string().into_bytes();
    disk.files.insert(LAYOUT_FILE.to_owned(), text);
    Sample { disk, starts }
}

pub(super) fn first() -> String {
    FILES.segment(ShardId(0), 3)
}

pub(super) fn last() -> String {
    FILES.segment(ShardId(0), 4)
}
