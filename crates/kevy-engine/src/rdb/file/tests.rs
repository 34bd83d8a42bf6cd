//! Files that come back, in pieces of any size, and files that are damaged.

use super::super::tests::{NOW, examples, line, shown};
use super::super::{Decoded, Kind, payload};
use super::*;
use crate::Effects;
use crate::keyspace::{Entry, Expiry, Keyspace};
use crate::value::EncodingLimits;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use kevy_proto::time::UnixMillis;
use proptest::prelude::*;

/// A keyspace with each of the examples of values, the key being its name; every second one has a deadline.
fn filled() -> Keyspace {
    let mut all = Keyspace::new(1);
    for (index, (name, commands)) in examples().into_iter().enumerate() {
        let mut one = Keyspace::new(1);
        for command in &commands {
            line(&mut one, command);
        }
        if index % 2 == 1 {
            line(&mut one, "PEXPIREAT k 1800000000123");
        }
        let detached = one.take(b"k").expect("the example");
        all.put(detached.with_key(name.as_bytes()));
    }
    all
}

fn written(keyspace: &Keyspace, version: FileVersion) -> Vec<u8> {
    let mut writer = FileWriter::new(version);
    writer.aux(b"redis-ver", b"7.0.15");
    let with_deadline = keyspace.iter().filter(|entry| entry.deadline().is_some());
    writer.database(keyspace.len() as u64, with_deadline.count() as u64);
    let mut bytes = writer.take();
    for entry in keyspace.iter() {
        assert_eq!(writer.key(entry, NOW.unix.0), Ok(true));
        assert!(writer.waiting_bytes() > 0);
        bytes.extend_from_slice(&writer.take());
    }
    bytes.extend_from_slice(&writer.finish());
    bytes
}

/// What was read: the items in words, and the keys.
type Seen = (Vec<String>, Keyspace);

fn read(bytes: &[u8], piece: usize) -> Result<Seen, Fault> {
    let mut reader = FileReader::new(EncodingLimits::default());
    let (mut items, mut keyspace) = (Vec::new(), Keyspace::new(3));
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        while let Step::Item(item) = reader.next()? {
            if let Item::Key(found) = item {
                items.push(format!("{} at {}", found.key.escape_ascii(), found.offset));
                store(&mut keyspace, found);
            } else {
                items.push(format!("{item:?}"));
            }
        }
    }
    reader.end()?;
    Ok((items, keyspace))
}

fn store(keyspace: &mut Keyspace, found: KeyItem<'_>) {
    let mut effects = Effects::off();
    let mut access = keyspace.lookup_for_write(&found.key, NOW, &mut effects);
    match found.value {
        Decoded::String(text) => {
            access.set_string(&text, found.deadline.map_or(Expiry::Never, Expiry::At));
        }
        Decoded::Collection(value) => access.set_value(value, found.deadline),
    }
}

#[test]
fn every_type_comes_back_with_its_deadline() {
    let mut before = filled();
    let bytes = written(&before, FileVersion::Redis7_4);
    let (items, mut after) = read(&bytes, bytes.len()).unwrap();
    let count = before.len();
    assert_eq!(items[0], "Version(12)");
    assert!(items[1].starts_with("Aux"), "{items:?}");
    assert_eq!(items[2], "Database(0)");
    let sizes = format!("Sizes {{ keys: {count}, with_deadline: {} }}", count / 2);
    assert_eq!(items[3], sizes);
    assert_eq!(items.last().unwrap(), "End { checked: true }");
    assert_eq!(after.len(), count);
    for (name, _) in examples() {
        let key = name.as_bytes();
        let of = |keyspace: &mut Keyspace| {
            let mut one = Keyspace::new(1);
            one.put(keyspace.take(key).expect("the example").with_key(b"k"));
            let deadline = one.held(b"k").and_then(Entry::deadline);
            (shown(&mut one), deadline)
        };
        assert_eq!(of(&mut after), of(&mut before), "{name}");
    }
}

#[test]
fn pieces_do_not_matter() {
    let bytes = written(&filled(), FileVersion::Redis7_4);
    let (items, _) = read(&bytes, bytes.len()).unwrap();
    for piece in [1, 2, 7, 1000, 65_536] {
        assert_eq!(read(&bytes, piece).unwrap().0, items, "pieces of {piece}");
    }
}

#[test]
fn a_hash_with_deadlines_needs_the_newer_version() {
    let mut keyspace = Keyspace::new(1);
    line(&mut keyspace, "HSET k f v");
    let needed = |keyspace: &Keyspace| keyspace.iter().map(FileVersion::needed_by).max();
    assert_eq!(needed(&keyspace), Some(FileVersion::Redis7_0));
    line(&mut keyspace, "HPEXPIREAT k 1800000000000 FIELDS 1 f");
    assert_eq!(needed(&keyspace), Some(FileVersion::Redis7_4));
    let mut writer = FileWriter::new(FileVersion::Redis7_0);
    let before = writer.waiting_bytes();
    let entry = keyspace.held(b"k").unwrap();
    let refused = writer.key(entry, NOW.unix.0);
    assert_eq!(refused, Err(NeedsNewer { key: b"k".to_vec() }));
    assert_eq!(writer.waiting_bytes(), before);
    assert_eq!(writer.key(entry, 1_900_000_000_000), Ok(false));
}

/// A file of these records, without a checksum.
fn file(version: &str, records: &[&[u8]]) -> Vec<u8> {
    let head = format!("REDIS{version}").into_bytes();
    [&head, &records.concat()[..], b"\xff\0\0\0\0\0\0\0\0"].concat()
}

fn items(bytes: &[u8]) -> Vec<String> {
    read(bytes, 3).unwrap().0
}

fn fault(bytes: &[u8]) -> Fault {
    read(bytes, 3).map(|_| ()).unwrap_err()
}

#[test]
fn records_of_every_kind_are_read() {
    let bytes = file(
        "0011",
        &[
            b"\xf5\x03lib",
            b"\xf7\x81\0\0\0\0\0\0\x04\0\x02\x02\x05\x01a\0",
            b"\xfe\x07\xfb\x01\0\xf4\x01\x02\x03",
            b"\xfd\x05\0\0\0\xf8\x09\xf9\x02\0\x01k\x01v",
            b"\x02\x01e\0",
        ],
    );
    let expected = [
        "Version(11)",
        "Function([108, 105, 98])",
        "ModuleAux(ModuleId(1024))",
        "Database(7)",
        "Sizes { keys: 1, with_deadline: 0 }",
        "SlotSizes { slot: 1, keys: 2, with_deadline: 3 }",
        "k at 48",
        "EmptyKey([101])",
        "End { checked: false }",
    ];
    assert_eq!(items(&bytes), expected);
}

#[test]
fn keys_without_elements_are_left_out_however_they_are_packed() {
    let ziplist = b"\x0b\0\0\0\x0a\0\0\0\0\0\xff";
    let listpack = b"\x07\0\0\0\0\0\xff";
    let packed: [(u8, &[u8]); 8] = [
        (9, b"\0\xff"),
        (10, ziplist),
        (11, b"\x02\0\0\0\0\0\0\0"),
        (12, ziplist),
        (13, ziplist),
        (16, listpack),
        (17, listpack),
        (20, listpack),
    ];
    for (kind, value) in packed {
        let head = [kind, 1, b'k', value.len() as u8];
        let found = items(&file("0012", &[&head, value]));
        assert_eq!(found[1], "EmptyKey([107])", "kind {kind}");
        let damaged = [&value[..value.len() - 1], &[1]].concat();
        assert!(read(&file("0012", &[&head, &damaged]), 100).is_err());
    }
}

#[test]
fn what_is_said_of_a_key_is_said_of_the_next_one_only() {
    let bytes = file(
        "0009",
        &[
            b"\xfd\xfe\xff\xff\xff\xf8\x09\0\x01k\x01v",
            b"\xf9\x02\0\x01l\x01v",
        ],
    );
    let mut reader = FileReader::new(EncodingLimits::default());
    reader.push(&bytes);
    let mut seen = Vec::new();
    while let Step::Item(item) = reader.next().unwrap() {
        if let Item::Key(key) = item {
            seen.push((key.deadline, key.idle_seconds, key.frequency));
        }
    }
    let expected = [(Some(UnixMillis(-2000)), 9, None), (None, 0, Some(2))];
    assert_eq!(seen, expected);
}

#[test]
fn what_follows_the_end_is_left() {
    let mut reader = FileReader::new(EncodingLimits::default());
    reader.push(&[&file("0010", &[])[..], b"*1\r\n"].concat());
    while let Step::Item(_) = reader.next().unwrap() {}
    assert!(matches!(reader.next(), Ok(Step::Ended)));
    assert_eq!(reader.rest(), b"*1\r\n");
    assert_eq!((reader.end(), reader.offset()), (Ok(()), 18));
}

#[test]
fn what_is_not_read_is_named() {
    let kind = |bytes: &[u8]| fault(bytes).kind;
    assert_eq!(kind(b"*3\r\n$3\r\n"), FaultKind::NotRdb);
    assert_eq!(kind(b"REDIS00x1"), FaultKind::NotRdb);
    assert_eq!(kind(&file("0005", &[])), FaultKind::Version(5));
    assert_eq!(kind(&file("0013", &[])), FaultKind::Version(13));
    assert_eq!(
        kind(&file("0012", &[b"\xc8"])),
        FaultKind::UnknownRecord(200)
    );
    assert_eq!(
        kind(&file("0012", &[b"\x06"])),
        FaultKind::ModuleValue(None)
    );
    let module = fault(&file("0012", &[b"\x07\x01m\x05"]));
    assert_eq!(module.key.as_deref(), Some(&b"m"[..]));
    assert_eq!(module.kind, FaultKind::ModuleValue(Some(ModuleId(5))));
    let damaged = fault(&file("0012", &[b"\xfe\0", b"\x02\x01s\x02\x01a\x01a"]));
    let expected = Fault {
        offset: 11,
        key: Some(b"s".to_vec()),
        kind: FaultKind::DamagedValue(Kind::Set),
    };
    assert_eq!(damaged, expected);
    let long = b"\0\x01k\x81\xff\0\0\0\0\0\0\0";
    assert!(matches!(
        kind(&file("0012", &[long])),
        FaultKind::TooLong(_)
    ));
}

#[test]
fn nothing_is_kept_for_what_is_merely_announced() {
    let mut reader = FileReader::new(EncodingLimits::default());
    reader.push(b"REDIS0012\0\x01k\x80\x7f\xff\xff\xff");
    while let Step::Item(_) = reader.next().unwrap() {}
    for _ in 0..1000 {
        reader.push(b"x");
        assert!(matches!(reader.next(), Ok(Step::NeedsMore)));
    }
    assert!(reader.held_bytes() < 5000, "{}", reader.held_bytes());
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed() {
    let mut keyspace = Keyspace::new(1);
    for command in [
        "RPUSH l a 1",
        "SET s v PXAT 1800000000000",
        "XADD x 1-1 f v",
        "ZADD z 1 a",
    ] {
        line(&mut keyspace, command);
    }
    let bytes = written(&keyspace, FileVersion::Redis7_0);
    for end in 0..bytes.len() {
        let cut = read(&bytes[..end], 5).map(|_| ()).unwrap_err();
        assert_eq!(cut.kind, FaultKind::Truncated, "cut at {end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x11;
        assert!(read(&changed, 100).is_err(), "byte {at}");
    }
}

/// As [`file`], with the checksum that it should have.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = [b"REDIS0012", body, b"\xff"].concat();
    let sum = crc_fast::checksum(payload::CHECKSUM, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn no_bytes_are_a_panic(body in prop::collection::vec(any::<u8>(), 0..80), piece in 1..90_usize) {
        let bytes = sealed(&body);
        let whole = read(&bytes, bytes.len()).map(|seen| seen.0);
        prop_assert_eq!(read(&bytes, piece).map(|seen| seen.0), whole);
    }

    #[test]
    fn changed_files_are_read_alike_however_they_are_cut(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        piece in 1..5000_usize,
    ) {
        let mut bytes = written(&filled(), FileVersion::Redis7_4);
        // No checksum: what is wrong is to be found in the records, or not at all.
        let end = bytes.len() - 8;
        bytes[end..].copy_from_slice(&[0; 8]);
        for (at, byte) in changes {
            let at = at.index(end);
            bytes[at] = byte;
        }
        let whole = read(&bytes, bytes.len()).map(|seen| seen.0);
        prop_assert_eq!(read(&bytes, piece).map(|seen| seen.0), whole);
    }
}
