//! Streams.
//!
//! ```text
//! stream   = [number of nodes]([first id, as a string][listpack])..[entries][last id] counters groups
//! counters = [first id][highest id deleted][entries ever added]            since kind 2
//! groups   = [number]([name][last id][entries read, since kind 2] pending consumers)..
//! pending  = [number]([id: 16][delivered at: 8][deliveries])..
//! consumers = [number]([name][seen at: 8][active at: 8, since kind 3][number]([id: 16])..)..
//! ```
//!
//! An id is two lengths, but 16 bytes in big endian order where it says so.

use super::primitive::{Reader, put_bytes, put_length, put_string};
use super::{Kind, listpack};
use crate::value::Stream;
use crate::value::stream::{Block, Entries, Group, Pending, StreamId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The number of entries read that says that nobody knows it.
const UNKNOWN: u64 = u64::MAX;
/// Bytes of an id in big endian order.
const ID_BYTES: usize = 16;

/// Reads a stream; `None` if it is damaged.
pub(super) fn decode(kind: Kind, reader: &mut Reader<'_>) -> Option<Stream> {
    // The blocks come before the ids that they are checked against.
    let mut nodes = Vec::new();
    for _ in 0..reader.length()? {
        nodes.push(node(reader)?);
    }
    let length = reader.length()?;
    let last_id = id(reader)?;
    let (mut max_deleted_id, mut added) = (StreamId::MIN, None);
    if kind != Kind::Stream1 {
        id(reader)?;
        max_deleted_id = id(reader)?;
        added = Some(number(reader)?);
    }
    let entries = Entries::from_blocks(nodes, last_id, max_deleted_id, added)?;
    if entries.len() != length {
        return None;
    }
    let mut stream = Stream::from_entries(entries);
    for _ in 0..reader.length()? {
        let name = reader.string()?;
        let group = group(kind, reader, stream.entries())?;
        if !stream.create_group(&name, group) {
            return None;
        }
    }
    Some(stream)
}

fn node(reader: &mut Reader<'_>) -> Option<(StreamId, Block)> {
    let base: [u8; ID_BYTES] = (*reader.string()?).try_into().ok()?;
    let base = StreamId::from_be_bytes(base);
    let bytes = reader.string()?;
    Some((base, Block::from_node(base, listpack::open(&bytes)?)?))
}

fn id(reader: &mut Reader<'_>) -> Option<StreamId> {
    Some(StreamId {
        ms: reader.length()?,
        seq: reader.length()?,
    })
}

fn number(reader: &mut Reader<'_>) -> Option<i64> {
    i64::try_from(reader.length()?).ok()
}

fn group(kind: Kind, reader: &mut Reader<'_>, entries: &Entries) -> Option<Group> {
    let last_id = id(reader)?;
    let entries_read = if kind == Kind::Stream1 {
        entries.read_up_to(last_id)
    } else {
        match reader.length()? {
            UNKNOWN => None,
            read => Some(i64::try_from(read).ok()?),
        }
    };
    let mut group = Group::new(last_id, entries_read);
    let mut pending = BTreeMap::new();
    for _ in 0..reader.length()? {
        let id = StreamId::from_be_bytes(reader.array()?);
        let delivery = (reader.milliseconds()?, number(reader)?);
        if pending.insert(id, delivery).is_some() {
            return None;
        }
    }
    for _ in 0..reader.length()? {
        consumer(kind, reader, &mut group, &mut pending)?;
    }
    // What is pending is pending for somebody.
    pending.is_empty().then_some(group)
}

fn consumer(
    kind: Kind,
    reader: &mut Reader<'_>,
    group: &mut Group,
    pending: &mut BTreeMap<StreamId, (i64, i64)>,
) -> Option<()> {
    let name = reader.string()?;
    let seen_ms = reader.milliseconds()?;
    if kind == Kind::Stream3 {
        // When it was last given something: Redis 7.0 does not show that.
        reader.milliseconds()?;
    }
    let (number, is_new) = group.see(&name, seen_ms);
    if !is_new {
        return None;
    }
    for _ in 0..reader.length()? {
        let id = StreamId::from_be_bytes(reader.array()?);
        let (delivered_ms, deliveries) = pending.remove(&id)?;
        let delivery = Pending {
            consumer: number,
            delivered_ms,
            deliveries,
        };
        group.assign(id, delivery);
    }
    Some(())
}

/// Appends a stream, in kind [`Kind::Stream2`].
pub(super) fn encode(out: &mut Vec<u8>, stream: &Stream) {
    let entries = stream.entries();
    put_length(out, entries.blocks() as u64);
    for (base, block) in entries.all_blocks() {
        let (live, deleted, elements) = block.node();
        let mut packed = listpack::Builder::new();
        packed.push_integer(live.into());
        packed.push_integer(deleted.into());
        packed.push_packed(elements);
        put_bytes(out, &base.to_be_bytes());
        put_bytes(out, &packed.finish());
    }
    put_length(out, entries.len());
    put_id(out, entries.last_id());
    put_id(out, entries.first_id());
    put_id(out, entries.max_deleted_id());
    put_length(out, entries.added().cast_unsigned());
    put_length(out, stream.groups().len() as u64);
    for (name, group) in stream.groups() {
        put_string(out, name);
        put_group(out, group);
    }
}

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put_length(out, id.ms);
    put_length(out, id.seq);
}

fn put_group(out: &mut Vec<u8>, group: &Group) {
    put_id(out, group.last_id);
    put_length(out, group.entries_read.map_or(UNKNOWN, i64::cast_unsigned));
    put_length(out, group.pending_len() as u64);
    for (id, pending) in group.pending_range(StreamId::MIN, StreamId::MAX) {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        put_length(out, pending.deliveries.cast_unsigned());
    }
    put_length(out, group.consumers_len() as u64);
    for consumer in group.consumers() {
        put_string(out, consumer.name());
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        put_length(out, consumer.pending_len() as u64);
        for id in consumer.pending_ids() {
            out.extend_from_slice(&id.to_be_bytes());
        }
    }
}
