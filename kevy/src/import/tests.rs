//! What becomes of files, well made and not; the files of a real Redis are read in the tests package.

use super::loader::Loader;
use super::report::{Elsewhere, Report};
use super::source::Source;
use crate::transfer::{Progress, TransferError};
use kevy_engine::Keyspace;
use kevy_proto::time::{Instant, Now, UnixMillis};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const NOW: Now = Now {
    monotonic: Instant::from_nanos(0),
    unix: UnixMillis(1_700_000_000_000),
};

/// A directory with these files.
fn directory(files: &[(&str, &[u8])]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

fn load(path: &Path, database: Option<u64>) -> Result<(Keyspace, Report), TransferError> {
    let source = Source::find(path)?;
    let mut progress = Progress::new("import", source.size_bytes());
    let mut loader = Loader::new(1, NOW, database);
    for (path, is_last) in source.files() {
        loader.load(path, is_last, &mut progress)?;
    }
    loader.finish()
}

/// Loads one file.
fn one(bytes: &[u8], database: Option<u64>) -> Result<(Vec<String>, Report), TransferError> {
    let directory = directory(&[("file", bytes)]);
    let (keyspace, report) = load(&directory.path().join("file"), database)?;
    Ok((keys(&keyspace), report))
}

fn refused(bytes: &[u8]) -> String {
    one(bytes, None).map(|_| ()).unwrap_err().to_string()
}

/// Keys with what `GET` would say of them, in order.
fn keys(keyspace: &Keyspace) -> Vec<String> {
    let shown = keyspace.iter().map(|entry| {
        let value = entry.string().unwrap_or(b"(no string)");
        format!("{}={}", entry.key().escape_ascii(), value.escape_ascii())
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    shown
}

fn requests(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words = line.split(' ');
        bytes.extend(format!("*{}\r\n", words.clone().count()).bytes());
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
    }
    bytes
}

/// An RDB file of these records, without a checksum.
fn rdb(records: &[&[u8]]) -> Vec<u8> {
    [b"REDIS0010", &records.concat()[..], &[0xff], &[0; 8]].concat()
}

const PREAMBLE: &[u8] = b"\xfa\x08aof-base\xc0\x01";
const KEY: &[u8] = b"\0\x01a\x01v";

#[test]
fn keys_are_loaded_but_for_those_whose_time_has_come() {
    let past = [b"\xfc", &1_i64.to_le_bytes()[..], b"\0\x01b\x01v"].concat();
    let (keys, report) = one(&rdb(&[KEY, &past, b"\x02\x01c\0"]), None).unwrap();
    assert_eq!(keys, ["a=v"]);
    let expected = Report {
        keys: 1,
        expired: 1,
        empty: 1,
        unchecked: 1,
        ..Report::default()
    };
    assert_eq!(report, expected);
}

#[test]
fn one_database_is_taken() {
    let bytes = rdb(&[b"\xfe\0", KEY, b"\xfe\x03", KEY, b"\0\x01b\x01w"]);
    let words = refused(&bytes);
    assert!(words.contains("database 3: 2 keys"), "{words}");
    let (keys, report) = one(&bytes, Some(3)).unwrap();
    assert_eq!(keys, ["a=v", "b=w"]);
    assert_eq!(report.elsewhere().as_str(), "database 0: 1 keys");
    let lines = ["SELECT 0", "SET a 1", "SELECT 2", "SET a 2", "SET b 2"];
    let aof = requests(&lines);
    assert!(refused(&aof).contains("database 2: 2 requests"));
    assert_eq!(one(&aof, Some(2)).unwrap().0, ["a=2", "b=2"]);
    assert_eq!(one(&aof, Some(0)).unwrap().0, ["a=1"]);
    let flushed = requests(&[&lines[..], &["FLUSHALL", "SET c 2"]].concat());
    assert_eq!(one(&flushed, Some(0)).unwrap().0, [""; 0]);
}

#[test]
fn requests_are_carried_out_as_if_it_were_then() {
    let bytes = requests(&[
        "SELECT 0",
        "SET a 1",
        "PEXPIREAT a 1600000000000",
        "INCR a",
        "PERSIST a",
        "SET gone 1",
        "PEXPIREAT gone 1600000000000",
        "MULTI",
        "RENAME a b",
        "SUNIONSTORE none c",
        "EXEC",
        "PUBLISH channel word",
    ]);
    let (keys, report) = one(&bytes, None).unwrap();
    assert_eq!(keys, ["b=2"]);
    assert_eq!((report.requests, report.expired), (8, 1));
    assert_eq!(report.not_kept["PUBLISH"], 1);
}

#[test]
fn an_append_only_file_may_begin_with_an_rdb_file() {
    let tail = requests(&["SELECT 0", "APPEND a w"]);
    let both = [rdb(&[PREAMBLE, KEY]), tail.clone()].concat();
    assert_eq!(one(&both, None).unwrap().0, ["a=vw"]);
    // Without the preamble's mark it is a file with something behind its end.
    let (keys, report) = one(&[rdb(&[KEY]), tail.clone()].concat(), None).unwrap();
    assert_eq!(
        (keys, report.trailing_bytes),
        (vec!["a=v".to_owned()], tail.len() as u64)
    );
}

#[test]
fn what_is_unfinished_at_the_end_is_left_out() {
    let bytes = requests(&["SET a 1", "MULTI", "SET a 2"]);
    let whole = requests(&["SET a 1"]).len();
    let (keys, report) = one(&bytes, None).unwrap();
    assert_eq!(keys, ["a=1"]);
    assert_eq!(report.torn_bytes, (bytes.len() - whole) as u64);
    let manifest = b"file 1.base.aof seq 1 type b\nfile 1.incr.aof seq 1 type i\n";
    let files = directory(&[
        ("x.manifest", manifest),
        ("1.base.aof", &bytes),
        ("1.incr.aof", &requests(&["SET b 1"])),
    ]);
    let words = load(files.path(), None)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    let expected = format!("1.base.aof: at byte {whole}: the file ends in the middle");
    assert!(words.contains(&expected), "{words}");
}

#[test]
fn a_directory_is_read_in_the_order_of_its_manifest() {
    let manifest = b"file 2.base.rdb seq 2 type b\nfile 1.incr.aof seq 1 type h\n\
                     file 2.incr.aof seq 2 type i\nfile 3.incr.aof seq 3 type i\n";
    let files = directory(&[
        ("x.manifest", manifest),
        ("2.base.rdb", &rdb(&[PREAMBLE, KEY])),
        ("2.incr.aof", &requests(&["APPEND a 1"])),
        ("3.incr.aof", b""),
    ]);
    let (keyspace, _) = load(files.path(), None).unwrap();
    assert_eq!(keys(&keyspace), ["a=v1"]);
    fs::remove_file(files.path().join("2.incr.aof")).unwrap();
    let missing = load(files.path(), None).map(|_| ()).unwrap_err();
    assert!(matches!(missing, TransferError::Read { .. }), "{missing}");
    fs::write(files.path().join("y.manifest"), manifest).unwrap();
    let two = load(files.path(), None).map(|_| ()).unwrap_err();
    assert!(two.to_string().contains("holds 2 manifests"), "{two}");
}

#[test]
fn what_cannot_be_carried_out_is_named() {
    for (line, part) in [
        (
            "MOVE a 1",
            "MOVE cannot be carried out: it moves keys between databases",
        ),
        ("SWAPDB 0 1", "between databases"),
        ("COPY a b DB 1", "between databases"),
        (
            "EVAL x 0",
            "EVAL cannot be carried out: ERR unknown command",
        ),
        ("LPUSH a 1", "LPUSH cannot be carried out: WRONGTYPE"),
        (
            "SUBSCRIBE a",
            "SUBSCRIBE cannot be carried out: no append-only file should hold it",
        ),
        ("SELECT x", "SELECT cannot be carried out"),
    ] {
        let words = refused(&requests(&["SET a 1", line]));
        assert!(
            words.contains("file: at byte 27: ") && words.contains(part),
            "{line}: {words}"
        );
    }
    assert!(refused(b"hello").contains("at byte 0: this is no RDB file"));
    assert!(refused(b"REDIS0010\0\x01a").contains("the file ends in the middle"));
}

#[test]
fn other_databases_are_counted_by_what_they_hold() {
    let aof = [
        rdb(&[PREAMBLE, b"\xfe\x01", KEY]),
        requests(&["SELECT 1", "SET b 1", "SET c 1"]),
    ];
    let (_, report) = one(&aof.concat(), Some(0)).unwrap();
    let expected = Elsewhere {
        keys: 1,
        requests: 2,
    };
    assert_eq!(report.elsewhere[&1], expected);
}
