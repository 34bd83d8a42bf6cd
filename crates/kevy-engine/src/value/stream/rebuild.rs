//! The requests that make a stream anew.
//!
//! Entries that are pending but deleted need care: a claim needs an entry. So such entries are added first, claimed, and
//! removed by a trim, which leaves no trace; then the last id is set back and the entries that are there follow.

use super::{Group, Pending, Stream, StreamId};
use crate::Effects;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Emits the requests that make `stream` under `key`, one per entry, group, consumer and pending entry.
pub(super) fn emit(stream: &Stream, key: &[u8], effects: &mut Effects) {
    let mut gone = pending_but_gone(stream);
    let nothing_else = stream.entries.is_empty() && stream.groups.is_empty();
    if nothing_else {
        gone.insert(StreamId { ms: 0, seq: 1 });
    }
    for id in &gone {
        effects.emit(&[b"XADD", key, id.text().as_bytes(), b"", b""]);
    }
    for (name, group) in stream.groups() {
        emit_group(key, name, group, effects);
        emit_pending(key, name, group, effects, |id| gone.contains(&id));
    }
    if !gone.is_empty() {
        effects.emit(&[b"XTRIM", key, b"MAXLEN", b"=", b"0"]);
        effects.emit(&[b"XSETID", key, StreamId::MIN.text().as_bytes()]);
    }
    emit_entries(stream, key, effects);
    for (name, group) in stream.groups() {
        emit_pending(key, name, group, effects, |id| !gone.contains(&id));
    }
    emit_ids(stream, key, effects);
}

fn pending_but_gone(stream: &Stream) -> BTreeSet<StreamId> {
    let pending = stream
        .groups
        .values()
        .flat_map(|group| group.pending_range(StreamId::MIN, StreamId::MAX));
    pending
        .map(|(id, _)| id)
        .filter(|id| stream.entries.get(*id).is_none())
        .collect()
}

fn emit_entries(stream: &Stream, key: &[u8], effects: &mut Effects) {
    let mut texts = Vec::new();
    let mut ends = Vec::new();
    for entry in stream.entries.range(StreamId::MIN, StreamId::MAX) {
        texts.clear();
        ends.clear();
        for element in entry.elements() {
            element.with_text(|text| texts.extend_from_slice(text));
            ends.push(texts.len());
        }
        let id = entry.id.text();
        let mut request: Vec<&[u8]> = Vec::with_capacity(ends.len() + 3);
        request.extend([&b"XADD"[..], key, id.as_bytes()]);
        let mut start = 0;
        for &end in &ends {
            request.push(&texts[start..end]);
            start = end;
        }
        effects.emit(&request);
    }
}

fn emit_group(key: &[u8], name: &[u8], group: &Group, effects: &mut Effects) {
    let mut digits = itoa::Buffer::new();
    effects.emit(&[
        b"XGROUP",
        b"CREATE",
        key,
        name,
        group.last_id.text().as_bytes(),
        b"MKSTREAM",
        b"ENTRIESREAD",
        digits.format(group.entries_read.unwrap_or(-1)).as_bytes(),
    ]);
    for consumer in group.consumers() {
        effects.emit(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer.name()]);
    }
}

fn emit_pending(
    key: &[u8],
    name: &[u8],
    group: &Group,
    effects: &mut Effects,
    wanted: impl Fn(StreamId) -> bool,
) {
    let pending = group.pending_range(StreamId::MIN, StreamId::MAX);
    for (id, pending) in pending.filter(|(id, _)| wanted(*id)) {
        emit_claim(key, name, group, (id, pending), effects);
    }
}

/// Emits the request that makes one entry pending as it is.
fn emit_claim(
    key: &[u8],
    name: &[u8],
    group: &Group,
    (id, pending): (StreamId, &Pending),
    effects: &mut Effects,
) {
    let consumer = group.consumer(pending.consumer);
    let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
    effects.emit(&[
        b"XCLAIM",
        key,
        name,
        consumer.map_or(b"", |consumer| consumer.name()),
        b"0",
        id.text().as_bytes(),
        b"TIME",
        time.format(pending.delivered_ms).as_bytes(),
        b"RETRYCOUNT",
        count.format(pending.deliveries).as_bytes(),
        b"FORCE",
        b"JUSTID",
    ]);
}

fn emit_ids(stream: &Stream, key: &[u8], effects: &mut Effects) {
    let entries = &stream.entries;
    let mut digits = itoa::Buffer::new();
    let (last, deleted) = (entries.last_id(), entries.max_deleted_id());
    // `XSETID` does not take a last id below the highest deleted one, but goes back there when nobody mentions that.
    let highest = last.max(deleted);
    effects.emit(&[
        b"XSETID",
        key,
        highest.text().as_bytes(),
        b"ENTRIESADDED",
        digits.format(entries.added()).as_bytes(),
        b"MAXDELETEDID",
        deleted.text().as_bytes(),
    ]);
    if last != highest {
        effects.emit(&[b"XSETID", key, last.text().as_bytes()]);
    }
}
