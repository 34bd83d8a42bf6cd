//! A data directory is damaged in every way that a disk, a crash or a person may damage it. What a crash may leave is cut and
//! kept aside at the next start; damage to what was durable keeps a server from starting, with exit code 1 and a message that
//! names file and offset. `kevy check` shows it, and `--repair` makes the server start with everything before it.
//!
//! The same, at every byte, is tested without a process in `kevy_node::log`.

use kevy_tests::process::Signal;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Ended, Spec, run_kevy};
use kevy_tests::slots::key_on_each_shard;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Keys that are written, one after the other: each is durable before the next is sent.
const KEYS: usize = 40;
const SEGMENT_HEADER: usize = 64;
const FRAME_HEADER: usize = 32;
/// The segment of the first run: the one before it was made with the directory and is empty.
const SEGMENT: u64 = 2;

fn key(number: usize) -> String {
    format!("key:{number:04};")
}

fn durable(shards: u16) -> Spec {
    Spec::threads(shards).durable()
}

/// The directory of a server that was killed after it had written [`KEYS`].
fn written(shards: u16) -> TempDir {
    let server = durable(shards).start();
    let mut connection = server.connect();
    assert_eq!(connection.run("CONFIG SET appendfsync always"), Reply::ok());
    for number in 0..KEYS {
        let reply = connection.run(&format!("SET {} {number}", key(number)));
        assert_eq!(reply, Reply::ok());
    }
    server.stop(Signal::KILL).1
}

fn copy(directory: &Path) -> TempDir {
    let to = TempDir::new().expect("a temporary directory");
    for entry in fs::read_dir(directory).expect("a directory") {
        let from = entry.expect("an entry").path();
        let name = from.file_name().expect("a name");
        fs::copy(&from, to.path().join(name)).expect("it can be copied");
    }
    to
}

fn segment(shard: u16) -> String {
    format!("1.shard-{shard}.{SEGMENT}.log")
}

fn change(directory: &Path, file: &str, how: impl FnOnce(&mut Vec<u8>)) {
    let path = directory.join(file);
    let mut bytes = fs::read(&path).expect("the file");
    how(&mut bytes);
    fs::write(path, bytes).expect("it can be written");
}

/// Where the frames of a segment begin: docs/PERSISTENCE.md draws them.
fn frames(segment: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = SEGMENT_HEADER;
    while at + FRAME_HEADER <= segment.len() {
        starts.push(at);
        let length = segment[at + 4..at + 8].try_into().expect("four bytes");
        at += FRAME_HEADER + u32::from_le_bytes(length) as usize;
    }
    starts
}

fn names_in(bytes: &[u8]) -> BTreeSet<usize> {
    let is_in = |number: &usize| {
        let name = key(*number);
        bytes
            .windows(name.len())
            .any(|window| window == name.as_bytes())
    };
    (0..KEYS).filter(is_in).collect()
}

/// The keys that are left if the log of shard 0 ends at `offset`.
fn left(directory: &Path, offset: usize) -> BTreeSet<usize> {
    let bytes = fs::read(directory.join(segment(0))).expect("the segment");
    let lost = names_in(&bytes[offset..]);
    (0..KEYS).filter(|number| !lost.contains(number)).collect()
}

/// Starts a server and looks which keys it has.
fn found(shards: u16, directory: TempDir) -> (BTreeSet<usize>, TempDir) {
    let server = durable(shards).start_in(directory);
    let mut connection = server.connect();
    let found = (0..KEYS).filter(|number| {
        let reply = connection.run(&format!("GET {}", key(*number)));
        assert!(reply == Reply::Null || reply == Reply::bulk(&number.to_string()));
        reply != Reply::Null
    });
    let found = found.collect();
    (found, server.stop(Signal::TERM).1)
}

fn check(directory: &Path, repair: bool) -> Ended {
    let directory = directory.to_str().expect("a path of plain characters");
    let mut arguments = vec!["check", directory];
    arguments.extend(repair.then_some("--repair"));
    run_kevy(&arguments, &[])
}

fn assert_ended(ended: &Ended, code: i32, words: &[&str]) {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

fn file_names(directory: &Path, part: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("a plain name"));
    names.filter(|name| name.contains(part)).collect()
}

/// Damage to what was durable, at `offset` of a file of shard 0: the server says so, and a repair leaves `expected`.
fn check_damage(
    shards: u16,
    directory: TempDir,
    file: &str,
    words: &str,
    expected: &BTreeSet<usize>,
) {
    let refused = durable(shards).end_in(directory.path());
    assert_ended(&refused, 1, &[file, words]);
    assert_ended(
        &check(directory.path(), false),
        1,
        &["DAMAGED", file, words],
    );
    let repaired = check(directory.path(), true);
    assert_ended(&repaired, 0, &["repaired: shard 0", "Lost: "]);
    let kept = file_names(directory.path(), ".damaged-");
    let again = check(directory.path(), true);
    assert_ended(&again, 0, &["whole"]);
    assert_eq!(file_names(directory.path(), ".damaged-"), kept);
    let (found, directory) = found(shards, directory);
    assert_eq!(found, *expected, "{file}, {words}");
    assert_ended(&check(directory.path(), false), 0, &["whole"]);
}

#[test]
fn damage_to_what_was_durable_is_refused_shown_and_cut() {
    for shards in [1, 4] {
        let whole = written(shards);
        let bytes = fs::read(whole.path().join(segment(0))).expect("the segment");
        let starts = frames(&bytes);
        let middle = starts[starts.len() / 2];
        for (byte, offset) in [
            (20, 0),
            (middle, middle),
            (middle + 5, middle),
            (middle + 9, middle),
            (middle + FRAME_HEADER + 3, middle),
            (
                starts[starts.len() - 2] + FRAME_HEADER,
                starts[starts.len() - 2],
            ),
        ] {
            let damaged = copy(whole.path());
            change(damaged.path(), &segment(0), |bytes| bytes[byte] ^= 0x10);
            let expected = left(whole.path(), offset);
            let words = format!("byte {offset}: ");
            check_damage(shards, damaged, &segment(0), &words, &expected);
        }
        let spliced = copy(whole.path());
        let at = middle + FRAME_HEADER;
        change(spliced.path(), &segment(0), |bytes| {
            bytes[at..at + 8].copy_from_slice(b"8 bytes!");
        });
        let words = format!("byte {middle}: ");
        let expected = left(whole.path(), middle);
        check_damage(shards, spliced, &segment(0), &words, &expected);
    }
}

/// What a crash may leave: the server starts, and keeps aside what it cuts.
fn check_torn(shards: u16, directory: TempDir, offset: usize, expected: &BTreeSet<usize>) {
    let bytes = fs::read(directory.path().join(segment(0))).expect("the segment");
    let words = format!(
        "torn tail of {} bytes at byte {offset}",
        bytes.len() - offset
    );
    assert_ended(&check(directory.path(), false), 0, &[&words]);
    assert_ended(&check(directory.path(), true), 0, &[&words]);
    let (found, directory) = found(shards, directory);
    assert_eq!(found, *expected, "{words}");
    let torn = file_names(directory.path(), ".torn-");
    assert_eq!(torn.len(), 1, "{torn:?}");
    let kept = fs::read(directory.path().join(&torn[0])).expect("what was cut");
    assert_eq!(kept, bytes[offset..]);
    assert_ended(&check(directory.path(), false), 0, &[&torn[0]]);
}

/// Changes the bytes of a segment.
type Way<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn a_torn_tail_is_cut_and_kept_aside() {
    for shards in [1, 4] {
        let whole = written(shards);
        let bytes = fs::read(whole.path().join(segment(0))).expect("the segment");
        let starts = frames(&bytes);
        let (last, before) = (starts[starts.len() - 1], starts[starts.len() - 2]);
        let ways: [(usize, Way<'_>); 8] = [
            (before, &|bytes| bytes.truncate(before + 1)),
            (before, &|bytes| bytes.truncate(last - 1)),
            (last, &|bytes| bytes.truncate(last + FRAME_HEADER)),
            (last, &|bytes| bytes.truncate(bytes.len() - 1)),
            (last, &|bytes| bytes[last + 6] ^= 1),
            (last, &|bytes| bytes[last + FRAME_HEADER + 2] ^= 1),
            (last, &|bytes| bytes[last..].fill(0)),
            (bytes.len(), &|bytes| bytes.resize(bytes.len() + 4096, 0)),
        ];
        for (offset, how) in ways {
            let torn = copy(whole.path());
            change(torn.path(), &segment(0), how);
            check_torn(shards, torn, offset, &left(whole.path(), offset));
        }
        // What grew in the middle of the last segment leaves nothing behind it where it says it is.
        let grown = copy(whole.path());
        change(grown.path(), &segment(0), |bytes| {
            bytes.splice(before..before, *b"8 bytes!");
        });
        check_torn(shards, grown, before, &left(whole.path(), before));
    }
}

#[test]
fn missing_files_are_named() {
    for shards in [1, 4] {
        let whole = written(shards);
        let directory = copy(whole.path());
        fs::remove_file(directory.path().join(segment(0))).expect("it was there");
        let expected = left(whole.path(), 0);
        check_damage(shards, directory, &segment(0), "missing", &expected);

        let directory = copy(whole.path());
        let manifest = "1.shard-0.manifest";
        fs::remove_file(directory.path().join(manifest)).expect("it was there");
        let words = [manifest, "is missing"];
        assert_ended(&durable(shards).end_in(directory.path()), 1, &words);
        assert_ended(&check(directory.path(), false), 1, &words);
        assert_ended(
            &check(directory.path(), true),
            1,
            &["not repaired: shard 0"],
        );

        let directory = copy(whole.path());
        let layout = "kevy.layout";
        fs::remove_file(directory.path().join(layout)).expect("it was there");
        let words = [layout, "is missing"];
        assert_ended(&durable(shards).end_in(directory.path()), 1, &words);
        assert_ended(&check(directory.path(), true), 1, &words);
    }
}

#[test]
fn unfinished_snapshots_are_removed() {
    for shards in [1, 4] {
        let directory = written(shards);
        let half = ["1.shard-0.9.snapshot", "2.shard-0.1.snapshot"];
        for name in half {
            fs::write(directory.path().join(name), "KEVYSNP\n").expect("it can be written");
        }
        fs::write(directory.path().join("kevy.layout.tmp"), "kevy").expect("it can be written");
        let words = [half[0], half[1], "unfinished"];
        assert_ended(&check(directory.path(), false), 0, &words);
        let (found, directory) = found(shards, directory);
        assert_eq!(found.len(), KEYS);
        for name in half {
            assert!(!directory.path().join(name).exists(), "{name}");
        }
    }
}

#[test]
fn a_damaged_snapshot_is_refused_and_left_alone() {
    for shards in [1, 4] {
        let server = durable(shards).start_in(written(shards));
        assert_eq!(server.connect().run("SAVE"), Reply::ok());
        let (_, directory) = server.stop(Signal::TERM);
        let names = file_names(directory.path(), "1.shard-0.");
        let is_snapshot = |name: &&String| name.ends_with(".snapshot");
        let name = names.iter().find(is_snapshot).expect("a snapshot");
        change(directory.path(), name, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        let damaged = fs::read(directory.path().join(name)).expect("the snapshot");
        let words = [name.as_str(), "byte 64: "];
        assert_ended(&durable(shards).end_in(directory.path()), 1, &words);
        assert_ended(&check(directory.path(), false), 1, &words);
        let words = [name.as_str(), "not repaired", "backup"];
        assert_ended(&check(directory.path(), true), 1, &words);
        let still = fs::read(directory.path().join(name)).expect("the snapshot");
        assert!(still == damaged, "it is left alone");
    }
}

#[test]
fn another_shards_file_is_not_taken_for_ones_own() {
    let whole = written(4);
    let directory = copy(whole.path());
    let (from, to) = (segment(1), segment(0));
    fs::rename(directory.path().join(from), directory.path().join(&to)).expect("it is there");
    let words = [
        to.as_str(),
        "byte 0: it is not where it belongs",
        "of shard 1 of 4",
    ];
    assert_ended(&durable(4).end_in(directory.path()), 1, &words);
    assert_ended(&check(directory.path(), false), 1, &words);
}

#[test]
fn transactions_whose_parts_were_cut_are_judged_at_the_next_start() {
    let directory = written(4);
    let server = durable(4).start_in(directory);
    let mut connection = server.connect();
    assert_eq!(connection.run("CONFIG SET appendfsync always"), Reply::ok());
    let keys = key_on_each_shard("pair:", 4);
    let request = format!("MSET {}", keys.join(" 1 ") + " 1");
    assert_eq!(connection.run(&request), Reply::ok());
    let (_, directory) = server.stop(Signal::KILL);
    let file = "1.shard-0.3.log";
    change(directory.path(), file, |bytes| {
        // Only a frame behind the transaction could prove that it was durable.
        let last = *frames(bytes).last().expect("a frame");
        bytes.truncate(last + 10);
    });
    assert_ended(
        &check(directory.path(), false),
        0,
        &["1 are incomplete and are dropped"],
    );
    let server = durable(4).start_in(directory);
    let mut connection = server.connect();
    let reply = connection.run(&format!("EXISTS {}", keys.join(" ")));
    assert_eq!(reply.integer(), 0, "all or nothing");
}

#[test]
fn a_directory_in_use_or_without_data_is_not_checked() {
    let server = durable(1).start();
    let ended = check(server.directory(), true);
    assert_ended(&ended, 1, &["is used by another kevy"]);
    let empty = TempDir::new().expect("a temporary directory");
    assert_ended(&check(empty.path(), false), 1, &["no data"]);
    assert_eq!(file_names(empty.path(), "").len(), 0, "nothing is made");
    assert_ended(&check(&empty.path().join("none"), false), 1, &["no data"]);
    assert_ended(&run_kevy(&["check"], &[]), 2, &["Usage"]);
}

/// A clean stop ends the log with a frame that bears witness of everything before it, whatever `appendfsync` is.
#[test]
fn after_a_clean_stop_every_changed_byte_is_damage() {
    let server = durable(1).start();
    let mut connection = server.connect();
    for number in 0..KEYS {
        connection.run(&format!("SET {} {number}", key(number)));
    }
    let (_, directory) = server.stop(Signal::TERM);
    let bytes = fs::read(directory.path().join(segment(0))).expect("the segment");
    let frames = frames(&bytes);
    let mut spans = frames.iter().zip(frames.iter().skip(1));
    let (first, _) = spans
        .rfind(|(from, to)| !names_in(&bytes[**from..**to]).is_empty())
        .expect("a frame with keys");
    let damaged = copy(directory.path());
    let at = first + FRAME_HEADER + 1;
    change(damaged.path(), &segment(0), |bytes| bytes[at] ^= 1);
    let ended = durable(1).end_in(damaged.path());
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&segment(0)), "{}", ended.stderr);
}
