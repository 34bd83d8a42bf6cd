//! Data directories that earlier versions of the format have left: each must be read for ever.
//!
//! `KEVY_BLESS=1 cargo test -p kevy-tests --test sample_files` makes the files of the version that is written now anew. Once it
//! is released that must not happen any more: a new version gets a new directory.

use kevy_tests::binary::repository;
use kevy_tests::connection::Connection;
use kevy_tests::contents::{fill, run, state};
use kevy_tests::process::Signal;
use kevy_tests::server::Spec;
use kevy_tests::slots::key_on_each_shard;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SHARDS: u16 = 2;
/// What every key held, one line each.
const CONTENTS: &str = "contents.txt";

fn samples() -> PathBuf {
    repository().join("tests/data/format-1")
}

/// Longest text that is kept as it is.
const SHOWN_BYTES: usize = 400;

/// A text; of a long one its beginning, its length and a hash (FNV-1a) of all of it.
fn shown(text: &str) -> String {
    let Some(beginning) = text.get(..SHOWN_BYTES).filter(|_| text.len() > SHOWN_BYTES) else {
        return text.to_owned();
    };
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{beginning}... {} bytes, {hash:016x}", text.len())
}

/// What the commands show of every key.
fn contents(connection: &mut Connection) -> String {
    let keys = state(connection);
    let mut lines: Vec<String> = keys
        .iter()
        .map(|(key, seen)| format!("{} {}\n", key.escape_ascii(), shown(&seen.join(" "))))
        .collect();
    let fields = connection.run("HPEXPIRETIME deadlines FIELDS 2 a b");
    lines.push(format!("deadlines of fields {fields:?}\n"));
    lines.concat()
}

/// Part of it in a snapshot, part in the log: there a transaction over both shards, and changes to what the snapshot holds.
fn make(directory: &Path) {
    let server = Spec::threads(SHARDS)
        .durable()
        .start_in(TempDir::new().expect("a temporary directory"));
    let mut connection = server.connect();
    fill(&mut connection, "", 40);
    run(&mut connection, "SAVE");
    let pair = key_on_each_shard("pair:", SHARDS);
    for line in [
        "SET after snapshot".to_owned(),
        "HSET deadlines a 1 b 2".to_owned(),
        "HPEXPIREAT deadlines 4000000000000 FIELDS 1 a".to_owned(),
        "RPUSH 3:list more".to_owned(),
        "XADD 3:stream 99-1 f v".to_owned(),
        "DEL 3:set".to_owned(),
        format!("MSET {} one {} two", pair[0], pair[1]),
        "RENAME string renamed".to_owned(),
    ] {
        run(&mut connection, &line);
    }
    let text = contents(&mut connection);
    let (_, written) = server.stop(Signal::TERM);
    fs::create_dir_all(directory).expect("a directory");
    for entry in fs::read_dir(directory).expect("a directory") {
        fs::remove_file(entry.expect("an entry").path()).expect("an old sample");
    }
    fs::write(directory.join(CONTENTS), text).expect("it can be written");
    copy(written.path(), directory, |name| {
        name == "kevy.layout" || name.contains(".shard-")
    });
}

fn copy(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a plain name");
        if wanted(&name) {
            fs::copy(entry.path(), to.join(name)).expect("it can be copied");
        }
    }
}

#[test]
fn files_of_format_1_are_read() {
    if std::env::var_os("KEVY_BLESS").is_some() {
        make(&samples());
    }
    let expected = fs::read_to_string(samples().join(CONTENTS)).expect("the sample");
    assert!(expected.lines().count() > 20, "a sample of every type");
    // As many shards as it was written by, and others: then the keys are placed anew.
    for threads in [SHARDS, 3] {
        let directory = TempDir::new().expect("a temporary directory");
        copy(&samples(), directory.path(), |name| name != CONTENTS);
        let server = Spec::threads(threads).durable().start_in(directory);
        let found = contents(&mut server.connect());
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "{threads} shards");
        }
        assert_eq!(found.lines().count(), expected.lines().count());
    }
}
