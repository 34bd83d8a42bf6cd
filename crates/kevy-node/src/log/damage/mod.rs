//! Every class of damage to a data directory, on a disk in memory: what the loader says, what an inspection says, and what
//! is left after a repair.

mod sample;

use super::directory::{DirectoryFault, load_directory};
use super::file_inspection::FileState;
use super::inspection::{Inspection, Leftover, inspect_directory};
use super::loader::{LoadFault, LoadReason};
use super::manifest::LAYOUT_FILE;
use super::memory_disk::{MemoryDisk, at_once};
use super::repair::{Remedy, cut_log, remedy};
use kevy_engine::Keyspace;
use kevy_proto::ids::ShardId;
use kevy_proto::log::{FileKind, SEGMENT_HEADER_BYTES, SegmentFault};
use sample::{FILES, Sample, UNIX_MS, first, last, opener, sample};
use std::collections::BTreeSet;

fn keys(loaded: &[Keyspace]) -> BTreeSet<String> {
    let all = loaded.iter().flat_map(Keyspace::iter);
    all.map(|entry| String::from_utf8_lossy(entry.key()).into_owned())
        .collect()
}

fn load(disk: &MemoryDisk) -> Result<BTreeSet<String>, DirectoryFault> {
    at_once(load_directory(&mut disk.clone(), &opener())).map(|loaded| keys(&loaded))
}

fn inspect(disk: &MemoryDisk) -> Inspection {
    let inspection = at_once(inspect_directory(&mut disk.clone(), &mut |_| {}));
    inspection.expect("there is a layout")
}

/// The first fault that an inspection shows.
fn fault(inspection: &Inspection) -> Option<LoadFault> {
    let mut files = inspection.shards.iter().flat_map(|shard| &shard.files);
    files.find_map(|file| match &file.state {
        FileState::Damaged(fault) => Some(fault.clone()),
        FileState::Whole
        | FileState::Torn { .. }
        | FileState::Missing
        | FileState::Unreadable(_) => None,
    })
}

/// Cuts whatever can be cut.
fn repair(disk: &mut MemoryDisk) -> Result<(), DirectoryFault> {
    let inspection = inspect(disk);
    for shard in &inspection.shards {
        if let Remedy::Cut(cut) = remedy(shard, UNIX_MS) {
            at_once(cut_log(disk, &inspection, &cut, 1))?;
        }
    }
    Ok(())
}

/// What shard 0 has before a frame of a segment; the other shard has all but the transaction.
fn expected_before(number: u64, frame: usize) -> BTreeSet<String> {
    let all = load(&sample().disk).expect("it is whole");
    let is_before = |key: &String| {
        let parts: Vec<&str> = key.split(':').collect();
        match parts[..] {
            ["1" | "0", "part"] => false,
            ["0", segment, at, _] => {
                let place: (u64, usize) = (segment.parse().unwrap(), at.parse().unwrap());
                place < (number, frame)
            }
            _ => true,
        }
    };
    all.into_iter().filter(is_before).collect()
}

/// Checks that the loader and an inspection agree on a fault, and that a repair leaves what is before it.
fn check_damage(disk: &MemoryDisk, number: u64, frame: usize, what: &str) {
    let refused = load(disk).expect_err(what);
    let inspection = inspect(disk);
    assert!(!inspection.is_whole(), "{what}");
    if let DirectoryFault::Load(found) = &refused {
        assert_eq!(fault(&inspection).as_ref(), Some(found), "{what}");
    }
    let mut repaired = disk.clone();
    repair(&mut repaired).expect(what);
    assert!(inspect(&repaired).is_whole(), "{what}");
    let left = load(&repaired).expect(what);
    assert_eq!(left, expected_before(number, frame), "{what}");
    let again = repaired.clone();
    repair(&mut repaired).expect(what);
    assert_eq!(
        repaired, again,
        "{what}: a repair changes nothing that is whole"
    );
}

#[test]
fn a_whole_directory_is_told_in_numbers() {
    let Sample { disk, .. } = sample();
    let inspection = inspect(&disk);
    assert!(inspection.is_whole() && inspection.dropped.is_empty());
    let counts: Vec<_> = inspection.shards[0]
        .files
        .iter()
        .map(|file| {
            (
                file.kind,
                file.number,
                file.whole.frames,
                file.whole.entries,
                file.keys,
            )
        })
        .collect();
    // The snapshot: its first entry, what is settled, a key, its last entry.
    let expected = [
        (FileKind::Snapshot, 3, 1, 4, Some(1)),
        (FileKind::Log, 3, 3, 4, None),
        (FileKind::Log, 4, 3, 4, None),
    ];
    assert_eq!(counts, expected);
    for shard in &inspection.shards {
        for file in &shard.files {
            assert_eq!(file.bytes, disk.files[&file.file].len() as u64);
        }
        assert_eq!(shard.files[1].positions.1, shard.files[2].positions.0);
    }
}

#[test]
fn every_flipped_bit_of_what_was_durable_is_damage_and_can_be_cut() {
    let Sample { disk, starts } = sample();
    for (file, number) in [(first(), 3), (last(), 4)] {
        let starts = &starts[number as usize - 3];
        let length = disk.files[&file].len();
        // Nobody knows whether the last frame of the last segment was durable; the padding of headers says nothing.
        let end = if number == 4 { starts[2] } else { length };
        for byte in (0..48).chain(SEGMENT_HEADER_BYTES..end) {
            let mut damaged = disk.clone();
            damaged.files.get_mut(&file).unwrap()[byte] ^= 1 << (byte % 8);
            let frame = starts.iter().rposition(|start| *start <= byte).unwrap_or(0);
            check_damage(&damaged, number, frame, &format!("{file}, byte {byte}"));
        }
    }
}

#[test]
fn a_flipped_bit_in_the_last_frame_is_a_torn_tail() {
    let Sample { disk, starts } = sample();
    let expected = expected_before(4, 2);
    for byte in starts[1][2]..disk.files[&last()].len() {
        let mut torn = disk.clone();
        torn.files.get_mut(&last()).unwrap()[byte] ^= 1 << (byte % 8);
        check_torn(&torn, starts[1][2], &expected);
    }
}

/// The last segment of shard 0 is torn at `offset`; the rest is there, without the transaction that is torn with it.
fn check_torn(disk: &MemoryDisk, offset: usize, expected: &BTreeSet<String>) {
    let inspection = inspect(disk);
    let state = &inspection.shards[0].files[2].state;
    let offset = offset as u64;
    assert_eq!(*state, FileState::Torn { offset });
    assert!(inspection.is_whole());
    assert_eq!(inspection.dropped.len(), 1, "the other shard's part");
    assert_eq!(load(disk).as_ref(), Ok(expected));
    let mut repaired = disk.clone();
    repair(&mut repaired).expect("nothing to do");
    assert_eq!(repaired, *disk, "a torn tail is for the next start");
}

#[test]
fn the_log_may_end_at_every_byte_of_its_last_two_frames() {
    let Sample { disk, starts } = sample();
    for length in starts[1][1]..disk.files[&last()].len() {
        let mut torn = disk.clone();
        torn.files.get_mut(&last()).unwrap().truncate(length);
        let frame = starts[1]
            .iter()
            .rposition(|start| *start <= length)
            .unwrap();
        let expected = expected_before(4, frame);
        if starts[1].contains(&length) {
            assert_eq!(load(&torn), Ok(expected), "{length} bytes");
        } else {
            check_torn(&torn, starts[1][frame], &expected);
        }
    }
}

#[test]
fn zeros_behind_the_log_are_a_torn_tail() {
    let Sample { disk, starts } = sample();
    let mut zeros = disk.clone();
    let content = zeros.files.get_mut(&last()).unwrap();
    let whole = content.len();
    content.resize(whole + 5000, 0);
    let state = inspect(&zeros).shards[0].files[2].state.clone();
    let offset = whole as u64;
    assert_eq!(state, FileState::Torn { offset });
    assert_eq!(load(&zeros), load(&disk));
    let mut filled = disk;
    filled.files.get_mut(&last()).unwrap()[starts[1][2]..].fill(0);
    check_torn(&filled, starts[1][2], &expected_before(4, 2));
}

#[test]
fn bytes_that_came_in_between_or_went_missing_are_damage() {
    let Sample { disk, starts } = sample();
    for (file, number) in [(first(), 3), (last(), 4)] {
        let at = starts[number as usize - 3][1] + 7;
        let mut grown = disk.clone();
        let content = grown.files.get_mut(&file).unwrap();
        content.splice(at..at, *b"8 bytes!");
        // In the last segment nothing behind the fault is where it says it is: nobody can tell it from a torn tail.
        if number == 3 {
            check_damage(&grown, number, 1, "grown");
        } else {
            check_torn(&grown, starts[1][1], &expected_before(4, 1));
        }
        let mut overwritten = disk.clone();
        overwritten.files.get_mut(&file).unwrap()[at..at + 8].copy_from_slice(b"8 bytes!");
        check_damage(&overwritten, number, 1, "overwritten");
    }
    let mut cut = disk;
    let length = starts[0][2];
    cut.files.get_mut(&first()).unwrap().truncate(length);
    check_damage(
        &cut,
        3,
        2,
        "the first segment ends early, with a whole frame",
    );
}

#[test]
fn missing_segments_are_named_and_what_is_before_them_stays() {
    for (file, number) in [(first(), 3), (last(), 4)] {
        let Sample { mut disk, .. } = sample();
        disk.files.remove(&file);
        assert_eq!(load(&disk), Err(DirectoryFault::Missing(file.clone())));
        check_damage(&disk, number, 0, &file);
    }
}

#[test]
fn another_shards_file_is_not_taken_for_ones_own() {
    for kind in ["log", "snapshot"] {
        let Sample { mut disk, .. } = sample();
        let from = format!("1.shard-1.3.{kind}");
        let foreign = disk.files.remove(&from).unwrap();
        disk.files.insert(format!("1.shard-0.3.{kind}"), foreign);
        let found = fault(&inspect(&disk)).expect("a fault");
        assert_eq!(
            found.to_string(),
            format!(
                "1.shard-0.3.{kind}, byte 0: it is not where it belongs: it is number 3 of shard 1 of 2"
            )
        );
        assert_eq!(load(&disk), Err(DirectoryFault::Load(found)));
    }
}

#[test]
fn a_missing_layout_or_manifest_is_beyond_repair() {
    let Sample { mut disk, .. } = sample();
    let name = FILES.manifest(ShardId(0));
    disk.files.remove(&name);
    let missing = DirectoryFault::Missing(name);
    assert_eq!(load(&disk), Err(missing.clone()));
    let inspection = inspect(&disk);
    assert_eq!(inspection.shards[0].manifest, Err(missing.clone()));
    assert!(!inspection.is_whole() && inspection.leftovers.is_empty());
    let found = remedy(&inspection.shards[0], UNIX_MS);
    assert_eq!(found, Remedy::Beyond(missing.to_string()));

    disk.files.remove(LAYOUT_FILE);
    let refused = at_once(inspect_directory(&mut disk, &mut |_| {}));
    let missing = DirectoryFault::Missing(LAYOUT_FILE.to_owned());
    assert_eq!(refused.err(), Some(missing));
}

#[test]
fn a_damaged_snapshot_is_named_and_left_alone() {
    let name = FILES.snapshot(ShardId(0), 3);
    let Sample { disk, .. } = sample();
    let length = disk.files[&name].len();
    for byte in (0..48).chain(SEGMENT_HEADER_BYTES..length) {
        let mut damaged = disk.clone();
        damaged.files.get_mut(&name).unwrap()[byte] ^= 1 << (byte % 8);
        check_snapshot(&damaged, &name);
        let mut cut = disk.clone();
        cut.files.get_mut(&name).unwrap().truncate(byte);
        check_snapshot(&cut, &name);
    }
}

fn check_snapshot(disk: &MemoryDisk, name: &str) {
    let found = fault(&inspect(disk)).expect("a fault");
    assert_eq!(&*found.file, name);
    assert_eq!(load(disk), Err(DirectoryFault::Load(found)));
    let mut repaired = disk.clone();
    repair(&mut repaired).expect("nothing is done");
    assert_eq!(repaired, *disk);
}

#[test]
fn what_a_newer_version_wrote_is_not_cut() {
    let Sample { mut disk, .. } = sample();
    let content = disk.files.get_mut(&last()).unwrap();
    content[8] = 2;
    let sum = kevy_proto::log::checksum(&content[..44]);
    content[44..48].copy_from_slice(&sum.to_le_bytes());
    let inspection = inspect(&disk);
    let reason = fault(&inspection).expect("a fault").reason;
    assert_eq!(reason, LoadReason::Header(SegmentFault::Format(2)));
    let found = remedy(&inspection.shards[0], UNIX_MS);
    assert!(matches!(found, Remedy::Beyond(_)), "{found:?}");
}

#[test]
fn a_repair_says_what_is_lost_and_keeps_it() {
    let Sample { mut disk, starts } = sample();
    let at = starts[0][1];
    disk.files.get_mut(&first()).unwrap()[at + 40] ^= 1;
    let before = disk.clone();
    let inspection = inspect(&disk);
    let Remedy::Cut(cut) = remedy(&inspection.shards[0], UNIX_MS) else {
        panic!("it can be cut");
    };
    let lengths = [first(), last()].map(|name| before.files[&name].len());
    assert_eq!((cut.segment, cut.offset), (3, at as u64));
    assert_eq!(cut.lost_bytes, (lengths[0] - at + lengths[1]) as u64);
    // Of the damaged frame nobody knows; behind it one, and three of the next segment.
    assert_eq!((cut.lost.frames, cut.lost.entries), (4, 5));
    at_once(cut_log(&mut disk, &inspection, &cut, 1)).expect("the disk works");
    let kept = |name: &str| &disk.files[&format!("{name}.damaged-{UNIX_MS}")];
    assert_eq!(*kept(&first()), before.files[&first()][at..]);
    assert_eq!(*kept(&last()), before.files[&last()]);
    let leftovers = inspect(&disk).leftovers;
    assert!(
        leftovers
            .iter()
            .all(|(_, what)| *what == Leftover::DamagedPart)
    );
    assert_eq!(leftovers.len(), 2);
}

#[test]
fn a_repair_may_be_cut_short_anywhere() {
    let Sample { disk, starts } = sample();
    for (file, byte, number, frame) in [
        (first(), starts[0][1], 3, 1),
        (first(), 20, 3, 0),
        (last(), 20, 4, 0),
    ] {
        let mut damaged = disk.clone();
        damaged.files.get_mut(&file).unwrap()[byte] ^= 1;
        for changes in 0.. {
            let mut crashed = damaged.clone();
            crashed.changes_left = Some(changes);
            let ended = repair(&mut crashed);
            crashed.changes_left = None;
            // Every byte is still there: in its place, or copied aside.
            for name in [first(), last()] {
                let is_cut_within = name == file && byte >= SEGMENT_HEADER_BYTES;
                let from = if is_cut_within { byte } else { 0 };
                let content = &damaged.files[&name];
                let is_kept = |kept: &Vec<u8>| kept == content || kept[..] == content[from..];
                let mut all = crashed.files.values();
                assert!(all.any(is_kept), "{name} after {changes} changes");
            }
            repair(&mut crashed).expect("the disk works again");
            let left = load(&crashed).expect("it is repaired");
            assert_eq!(left, expected_before(number, frame), "{changes} changes");
            if ended.is_ok() {
                assert!(changes > 3, "a repair takes several steps");
                break;
            }
        }
    }
}

#[test]
fn leftovers_are_named() {
    let Sample { mut disk, .. } = sample();
    for name in [
        "1.shard-0.9.snapshot",
        "2.shard-0.1.log",
        "0.shard-0.1.log.premigration.5",
        "1.shard-1.4.log.torn-5",
        "kevy.toml",
    ] {
        disk.files.insert(name.to_owned(), b"half".to_vec());
    }
    let inspection = inspect(&disk);
    assert!(inspection.is_whole());
    let found: Vec<_> = inspection
        .leftovers
        .iter()
        .map(|(n, l)| (n.as_str(), *l))
        .collect();
    let expected = [
        (
            "0.shard-0.1.log.premigration.5",
            Leftover::EarlierGeneration,
        ),
        ("1.shard-0.9.snapshot", Leftover::Unfinished),
        ("1.shard-1.4.log.torn-5", Leftover::TornTail),
        ("2.shard-0.1.log", Leftover::Unfinished),
    ];
    assert_eq!(found, expected);
}
