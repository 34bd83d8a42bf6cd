//! Reading what is new: `XREAD`, and `XREADGROUP` as a consumer of a group.

use super::{GroupChange, GroupName, id, limit, no_group, reply_entry, reply_id, reply_range};
use crate::commands::is_option;
use crate::number::{integer, parse_i64};
use crate::value::EncodingLimits;
use crate::value::stream::{Entries, Group, Pending, Stream, StreamId};
use crate::{Command, Context};
use alloc::vec::Vec;
use bytes::BytesMut;
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RespVersion};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "xread",
        arity: -4,
        flags: Flags::READONLY
            .with(Flags::BLOCKING)
            .with(Flags::MOVABLEKEYS),
        keys: Keys::AfterOption { option: "STREAMS" },
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "For each stream mentioned: O(N) with N being the number of elements being returned, it means \
            that XREAD-ing with a fixed COUNT is O(1). Note that when the BLOCK option is used, XADD will pay O(M) \
            time in order to serve the M clients blocked on the stream getting new data.",
        summary: "Return never seen elements in multiple streams, with IDs greater than the ones reported by the \
            caller for each stream. Can block.",
        run: xread,
        subcommands: &[],
    },
    Row {
        name: "xreadgroup",
        arity: -7,
        flags: Flags::WRITE.with(Flags::BLOCKING).with(Flags::MOVABLEKEYS),
        keys: Keys::AfterOption { option: "STREAMS" },
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant \
            (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side \
            when XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the \
            stream getting new data.",
        summary: "Return new entries from a stream using a consumer group, or access the history of the pending \
            entries for a given consumer. Can block.",
        run: xreadgroup,
        subcommands: &[],
    },
];

/// A reading request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read<'a> {
    pub(super) args: Args<'a>,
    /// How long to wait, in milliseconds, 0 for ever; `None`: not at all.
    pub(super) block_ms: Option<i64>,
    /// The most entries per stream.
    limit: usize,
    pub(super) group: Option<GroupOption<'a>>,
    /// Position of the first key.
    pub(super) keys_at: usize,
    /// Number of streams: their ids follow their keys.
    pub(super) streams: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct GroupOption<'a> {
    pub(super) name: &'a [u8],
    consumer: &'a [u8],
    /// Nothing becomes pending.
    noack: bool,
}

impl<'a> Read<'a> {
    pub(super) fn parse(args: Args<'a>, in_group: bool) -> Result<Self, ErrorReply> {
        let (mut block_ms, mut count, mut group, mut noack) = (None, 0, None, false);
        let mut streams_at = None;
        let mut at = 1;
        while streams_at.is_none() && at < args.len() {
            let more = args.len() - at - 1;
            if is_option(args, at, "block") && more > 0 {
                block_ms = Some(parse_timeout_ms(args.at(at + 1))?);
                at += 2;
            } else if is_option(args, at, "count") && more > 0 {
                count = integer(args.at(at + 1))?;
                at += 2;
            } else if is_option(args, at, "streams") && more > 0 {
                if !more.is_multiple_of(2) {
                    return Err(ErrorReply::text(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    ));
                }
                streams_at = Some(at + 1);
            } else if is_option(args, at, "group") && more > 1 {
                only_in_group(in_group, GROUP_IN_XREAD)?;
                group = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if is_option(args, at, "noack") {
                only_in_group(in_group, NOACK_IN_XREAD)?;
                noack = true;
                at += 1;
            } else {
                return Err(ErrorReply::Syntax);
            }
        }
        let keys_at = streams_at.ok_or(ErrorReply::Syntax)?;
        if in_group && group.is_none() {
            return Err(ErrorReply::text("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(Self {
            args,
            block_ms,
            limit: limit(count),
            group: group.map(|(name, consumer)| GroupOption {
                name,
                consumer,
                noack,
            }),
            keys_at,
            streams: (args.len() - keys_at) / 2,
        })
    }

    fn key(&self, index: usize) -> &'a [u8] {
        self.args.at(self.keys_at + index)
    }

    /// The id that a stream is read after: for what the group did not see yet, the highest one.
    pub(super) fn after(&self, cx: &mut Context<'_>, index: usize) -> Result<StreamId, ErrorReply> {
        let key = self.key(index);
        let stream = cx.keyspace.collection::<Stream>(key, cx.now, cx.effects)?;
        if let Some(group) = self.group
            && stream.is_none_or(|stream| stream.group(group.name).is_none())
        {
            const AFTER: &str = " in XREADGROUP with GROUP option";
            return Err(no_group(key, group.name, AFTER));
        }
        let last_id = stream.map_or(StreamId::MIN, |stream| stream.entries().last_id());
        match (
            self.args.at(self.keys_at + self.streams + index),
            self.group,
        ) {
            (b"$", None) => Ok(last_id),
            (b">", Some(_)) => Ok(StreamId::MAX),
            (b"$", Some(_)) => Err(LAST_ID_IN_XREADGROUP),
            (b">", None) => Err(NEW_IN_XREAD),
            (text, _) => id::parse(text),
        }
    }
}

const GROUP_IN_XREAD: ErrorReply = ErrorReply::text(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
);
const NOACK_IN_XREAD: ErrorReply = ErrorReply::text(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
);
const NEW_IN_XREAD: ErrorReply = ErrorReply::text(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);
const LAST_ID_IN_XREADGROUP: ErrorReply = ErrorReply::text(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
     specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
);

fn only_in_group(in_group: bool, otherwise: ErrorReply) -> Result<(), ErrorReply> {
    if in_group { Ok(()) } else { Err(otherwise) }
}

fn parse_timeout_ms(text: &[u8]) -> Result<i64, ErrorReply> {
    let timeout = parse_i64(text).ok_or(ErrorReply::text(
        "ERR timeout is not an integer or out of range",
    ))?;
    if timeout < 0 {
        return Err(ErrorReply::text("ERR timeout is negative"));
    }
    Ok(timeout)
}

fn xread(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let read = Read::parse(args, false)?;
    let after: Vec<StreamId> = (0..read.streams)
        .map(|index| read.after(cx, index))
        .collect::<Result<_, _>>()?;
    let mut parts = Parts::new(cx.reply.version());
    for (index, after) in after.into_iter().enumerate() {
        let key = read.key(index);
        let stream = cx.keyspace.collection::<Stream>(key, cx.now, cx.effects)?;
        let entries = stream.map(Stream::entries);
        let newest = entries.and_then(|entries| Some((entries, entries.last()?.id)));
        if let (Some((entries, newest)), Some(start)) = (newest, after.next())
            && newest >= start
        {
            let mut reply = parts.next(key);
            reply_range(&mut reply, entries, (start, StreamId::MAX), read.limit);
        }
    }
    parts.write(&mut cx.reply);
    if parts.count == 0 {
        read.wait(cx);
    }
    Ok(())
}

fn xreadgroup(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let read = Read::parse(args, true)?;
    let after: Vec<StreamId> = (0..read.streams)
        .map(|index| read.after(cx, index))
        .collect::<Result<_, _>>()?;
    let Some(option) = read.group else {
        return Ok(());
    };
    let mut parts = Parts::new(cx.reply.version());
    for (index, after) in after.into_iter().enumerate() {
        let key = read.key(index);
        let mut turn = Turn {
            option,
            limit: read.limit,
            now_ms: cx.now.unix.0,
            change: GroupChange::default(),
        };
        let deliver = |stream: &mut Stream, _: &EncodingLimits| {
            stream.edit_group(option.name, |entries, group| {
                match after.next() {
                    None => turn.deliver_new(entries, group, || parts.next(key)),
                    Some(start) => turn.deliver_again(entries, group, start, parts.next(key)),
                }
                turn.change.at(group)
            })
        };
        let change = cx.keyspace.edit(key, cx.now, cx.effects, deliver)?;
        if let Some(change) = change.flatten() {
            let name = option.name;
            change.emit(GroupName { key, name }, option.consumer, cx);
        }
    }
    parts.write(&mut cx.reply);
    if parts.count == 0 {
        read.wait(cx);
    }
    Ok(())
}

/// One stream's turn in `XREADGROUP`.
struct Turn<'a> {
    option: GroupOption<'a>,
    limit: usize,
    now_ms: i64,
    change: GroupChange,
}

impl Turn<'_> {
    /// Delivers what the group did not see yet, if there is anything.
    fn deliver_new<'p>(
        &mut self,
        entries: &Entries,
        group: &mut Group,
        part: impl FnOnce() -> Encoder<'p>,
    ) {
        let Some(start) = group.last_id.next() else {
            return;
        };
        let count = entries.count(start, StreamId::MAX, self.limit);
        if count == 0 {
            return;
        }
        let (consumer, created) = group.see(self.option.consumer, self.now_ms);
        self.change.consumer_created = created;
        self.change.advanced = true;
        let mut reply = part();
        reply.array(count);
        for entry in entries.range(start, StreamId::MAX).take(count) {
            reply_entry(&mut reply, &entry);
            group.advance(entries, entry.id);
            if !self.option.noack {
                let pending = Pending {
                    consumer,
                    delivered_ms: self.now_ms,
                    deliveries: 1,
                };
                group.assign(entry.id, pending);
                self.change.claimed.push((entry.id, pending));
            }
        }
    }

    /// Delivers again what is pending for the consumer from `start` on; for what is gone there is only its id.
    fn deliver_again(
        &mut self,
        entries: &Entries,
        group: &mut Group,
        start: StreamId,
        mut reply: Encoder<'_>,
    ) {
        let (consumer, created) = group.see(self.option.consumer, self.now_ms);
        self.change.consumer_created = created;
        let pending: Vec<(StreamId, Pending)> = group
            .pending_of(consumer, start, StreamId::MAX)
            .take(self.limit)
            .map(|(id, pending)| (id, *pending))
            .collect();
        reply.array(pending.len());
        for (id, mut pending) in pending {
            let Some(entry) = entries.get(id) else {
                reply.array(2);
                reply_id(&mut reply, id);
                reply.null_array();
                continue;
            };
            reply_entry(&mut reply, &entry);
            pending.delivered_ms = self.now_ms;
            pending.deliveries = pending.deliveries.saturating_add(1);
            group.assign(id, pending);
            self.change.claimed.push((id, pending));
        }
    }
}

/// The parts of a reply, one per stream that has something: how many is known only at the end.
struct Parts {
    bytes: BytesMut,
    version: RespVersion,
    count: usize,
}

impl Parts {
    fn new(version: RespVersion) -> Self {
        Self {
            bytes: BytesMut::new(),
            version,
            count: 0,
        }
    }

    /// Begins the part of one stream.
    fn next(&mut self, key: &[u8]) -> Encoder<'_> {
        self.count += 1;
        let mut reply = Encoder::new(&mut self.bytes, self.version);
        if self.version == RespVersion::V2 {
            reply.array(2);
        }
        reply.bulk(key);
        reply
    }

    fn write(&self, reply: &mut Encoder<'_>) {
        if self.count == 0 {
            return reply.null_array();
        }
        match self.version {
            RespVersion::V2 => reply.array(self.count),
            RespVersion::V3 => reply.map(self.count),
        }
        reply.raw(&self.bytes);
    }
}
