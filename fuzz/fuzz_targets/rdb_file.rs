//! Bytes from a stranger as an RDB file: never a panic, never more memory than the bytes account for, the same outcome
//! however the file is cut into pieces, and what is read can be written and read again.
//!
//! The first byte of an input is the size of the pieces; the others follow the file's header.

#![no_main]

mod engine;

use engine::{Engine, LOW_LIMITS};
use kevy_engine::keyspace::{Expiry, ExpiryMode};
use kevy_engine::{Effects, Keyspace};
use kevy_engine::rdb::Decoded;
use kevy_engine::rdb::file::{Fault, FileReader, FileVersion, FileWriter, Item, KeyItem, Step};
use kevy_proto::time::Now;
use libfuzzer_sys::fuzz_target;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A compressed byte may become 88, and each two bytes of these an element with a place in a table.
const GROWTH: usize = 88 * 64;
const CONSTANT_BYTES: usize = 64 * 1024;
/// Before every deadline: no field of a hash is left out.
const LONG_AGO: i64 = i64::MIN;

fuzz_target!(|data: &[u8]| {
    let Some((&piece, body)) = data.split_first() else {
        return;
    };
    let file = [b"REDIS0012", body].concat();
    let region = Region::new(ALLOCATOR);
    let mut items = 0;
    let whole = read(&file, file.len(), |_| items += 1);
    let allocated = region.change().bytes_allocated;
    assert!(allocated <= GROWTH * file.len() + CONSTANT_BYTES);

    let mut keyspace = empty();
    let mut items_in_pieces = 0;
    let in_pieces = read(&file, usize::from(piece) + 1, |item| {
        items_in_pieces += 1;
        if let Item::Key(found) = item {
            put(&mut keyspace, found);
        }
    });
    assert_eq!(in_pieces, whole);
    assert_eq!(items_in_pieces, items);
    come_back(&keyspace);
});

/// A keyspace in which every key stays, whatever its deadline.
fn empty() -> Keyspace {
    let mut keyspace = Engine::new().keyspace;
    keyspace.set_expiry_mode(ExpiryMode::Ignore);
    keyspace
}

/// Reads `file`, showing each item; what ended it, if it did not end well.
fn read(file: &[u8], piece: usize, mut see: impl FnMut(Item<'_>)) -> Option<Fault> {
    let mut reader = FileReader::new(LOW_LIMITS);
    for piece in file.chunks(piece) {
        reader.push(piece);
        loop {
            match reader.next() {
                Ok(Step::Item(item)) => see(item),
                Ok(Step::NeedsMore | Step::Ended) => break,
                Err(fault) => return Some(fault),
            }
        }
    }
    reader.end().err()
}

fn put(keyspace: &mut Keyspace, found: KeyItem<'_>) {
    let mut effects = Effects::off();
    let mut access = keyspace.lookup_for_write(&found.key, Now::default(), &mut effects);
    match found.value {
        Decoded::String(text) => {
            access.set_string(&text, found.deadline.map_or(Expiry::Never, Expiry::At));
        }
        Decoded::Collection(value) => access.set_value(value, found.deadline),
    }
    access.set_access(found.idle_seconds, found.frequency);
}

/// What was read is written, and read again.
fn come_back(keyspace: &Keyspace) {
    let mut writer = FileWriter::new(FileVersion::Redis7_4);
    writer.database(keyspace.len() as u64, 0);
    for entry in keyspace.iter() {
        assert_eq!(writer.key(entry, LONG_AGO), Ok(true));
    }
    let file = writer.finish();
    let mut again = empty();
    let fault = read(&file, file.len(), |item| {
        if let Item::Key(found) = item {
            put(&mut again, found);
        }
    });
    assert_eq!(fault, None);
    assert_eq!(again.len(), keyspace.len());
    for entry in keyspace.iter() {
        let copy = again.copy_as(entry.key(), entry.key());
        let copy = copy.expect("the key came back");
        assert_eq!(copy.deadline(), entry.deadline());
        assert_eq!(copy.entry().type_name(), entry.type_name());
    }
}
