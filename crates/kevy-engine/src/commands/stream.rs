//! Streams: added to and shortened ([`write`]), read by range ([`range`]) and in turn ([`read`]), shared by consumer
//! groups ([`group`]), whose entries pend ([`pending`]) until they are acknowledged or change hands ([`claim`]), and
//! looked into ([`info`]).

pub(super) mod claim;
pub(super) mod group;
mod id;
pub(super) mod info;
pub(super) mod pending;
pub(super) mod range;
pub(super) mod read;
mod wait;
pub(super) mod write;

pub use wait::request_for_stream;
pub(crate) use wait::{group_has_news, stream_blocks};

use crate::value::stream::{Element, Entries, Entry, Group, Pending, StreamId};
use crate::{Context, Effects, EventClasses, Keyspace};
use alloc::format;
use alloc::vec::Vec;
use kevy_proto::resp::{Encoder, ErrorReply};

/// Replies an id.
fn reply_id(reply: &mut Encoder<'_>, id: StreamId) {
    reply.bulk(id.text().as_bytes());
}

/// Replies an entry: id and fields.
fn reply_entry(reply: &mut Encoder<'_>, entry: &Entry<'_>) {
    reply.array(2);
    reply_id(reply, entry.id);
    reply.array(2 * entry.len());
    for element in entry.elements() {
        match element {
            Element::Integer(number) => reply.bulk_integer(number),
            Element::Bytes(bytes) => reply.bulk(bytes),
        }
    }
}

/// Replies the entries from `start` to `end`, both included, the oldest first, at most `limit`.
fn reply_range(
    reply: &mut Encoder<'_>,
    entries: &Entries,
    (start, end): (StreamId, StreamId),
    limit: usize,
) {
    let count = entries.count(start, end, limit);
    reply.array(count);
    for entry in entries.range(start, end).take(count) {
        reply_entry(reply, &entry);
    }
}

/// Emits a request whose tail is made only if somebody wants it.
fn emit_with_tail<'a>(
    effects: &mut Effects,
    head: &[&'a [u8]],
    tail: impl Iterator<Item = &'a [u8]>,
) {
    if !effects.wanted() {
        return effects.emit(head);
    }
    let mut request: Vec<&[u8]> = head.to_vec();
    request.extend(tail);
    effects.emit(&request);
}

/// A group of a stream, as its effects name it.
#[derive(Clone, Copy, Debug)]
struct GroupName<'a> {
    key: &'a [u8],
    name: &'a [u8],
}

/// What a command made of a group, to be told to the log.
#[derive(Debug, Default)]
struct GroupChange {
    /// Whether the consumer that asked is new.
    consumer_created: bool,
    /// What is pending now for the consumer that asked.
    claimed: Vec<(StreamId, Pending)>,
    /// What is no longer pending.
    released: Vec<StreamId>,
    /// Whether the group advanced.
    advanced: bool,
    last_id: StreamId,
    entries_read: Option<i64>,
}

impl GroupChange {
    /// Notes how far the group has come.
    fn at(mut self, group: &Group) -> Self {
        self.last_id = group.last_id;
        self.entries_read = group.entries_read;
        self
    }

    fn emit(&self, group: GroupName<'_>, consumer: &[u8], cx: &mut Context<'_>) {
        let GroupName { key, name } = group;
        if self.consumer_created {
            note_consumer_created(cx.keyspace, key);
        }
        let effects = &mut *cx.effects;
        if self.consumer_created {
            effects.emit(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer]);
        }
        for id in &self.released {
            effects.emit(&[b"XACK", key, name, id.text().as_bytes()]);
        }
        for (id, pending) in &self.claimed {
            self.emit_claim(group, consumer, (*id, pending), effects);
        }
        if self.advanced {
            emit_progress(group, self.last_id, self.entries_read, effects);
        }
    }

    fn emit_claim(
        &self,
        group: GroupName<'_>,
        consumer: &[u8],
        (id, pending): (StreamId, &Pending),
        effects: &mut Effects,
    ) {
        let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
        effects.emit(&[
            b"XCLAIM",
            group.key,
            group.name,
            consumer,
            b"0",
            id.text().as_bytes(),
            b"TIME",
            time.format(pending.delivered_ms).as_bytes(),
            b"RETRYCOUNT",
            count.format(pending.deliveries).as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            self.last_id.text().as_bytes(),
        ]);
    }
}

/// Emits how far a group has come.
fn emit_progress(
    group: GroupName<'_>,
    last_id: StreamId,
    entries_read: Option<i64>,
    effects: &mut Effects,
) {
    let mut digits = itoa::Buffer::new();
    effects.emit(&[
        b"XGROUP",
        b"SETID",
        group.key,
        group.name,
        last_id.text().as_bytes(),
        b"ENTRIESREAD",
        digits.format(entries_read.unwrap_or(-1)).as_bytes(),
    ]);
}

/// There is no such group, or no stream that could have it; what `after` adds is the command's own.
fn no_group(key: &[u8], group: &[u8], after: &str) -> ErrorReply {
    const MIDDLE: &[u8] = b"' or consumer group '";
    let names = [shown(key), MIDDLE, shown(group)].concat();
    ErrorReply::quoting("NOGROUP No such key '", &names, &["'", after].concat())
}

/// There is such a stream, but no such group.
fn no_group_in_key(key: &[u8], group: &[u8]) -> ErrorReply {
    let names = [shown(group), b"' for key name '", shown(key)].concat();
    ErrorReply::quoting("NOGROUP No such consumer group '", &names, "'")
}

/// The options do not fit the subcommand `given` of `container`.
fn bad_subcommand(given: &[u8], container: &str) -> ErrorReply {
    const LONGEST_QUOTED_BYTES: usize = 128;
    let given = &given[..given.len().min(LONGEST_QUOTED_BYTES)];
    ErrorReply::quoting(
        "ERR unknown subcommand or wrong number of arguments for '",
        given,
        &format!("'. Try {container} HELP."),
    )
}

/// An argument as Redis shows it in errors: to its first zero byte.
fn shown(argument: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, argument).unwrap_or(argument.len());
    &argument[..end]
}

/// The count of a `COUNT` option that means "all" if it is not positive.
fn limit(count: i64) -> usize {
    if count <= 0 {
        usize::MAX
    } else {
        count as usize
    }
}

/// A consumer of a group of the stream at `key` is new.
fn note_consumer_created(keyspace: &mut Keyspace, key: &[u8]) {
    keyspace.note_event(EventClasses::STREAM, "xgroup-createconsumer", key);
}
