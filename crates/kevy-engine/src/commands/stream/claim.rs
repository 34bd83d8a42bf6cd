//! Pending entries that change hands: `XCLAIM XAUTOCLAIM`.

use super::{GroupChange, GroupName, id, no_group, reply_entry, reply_id};
use crate::commands::is_option;
use crate::keyspace::ExpiryMode;
use crate::number::{integer, parse_i64};
use crate::value::EncodingLimits;
use crate::value::stream::{ConsumerNumber, Entries, Group, Pending, Stream, StreamId};
use crate::{Command, Context};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "xclaim",
        arity: -6,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
        summary: "Changes (or acquires) ownership of a message in a consumer group, as if the message was delivered \
            to the specified consumer.",
        run: xclaim,
        subcommands: &[],
    },
    Row {
        name: "xautoclaim",
        arity: -6,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "6.2.0",
        complexity: "O(1) if COUNT is small.",
        summary: "Changes (or acquires) ownership of messages in a consumer group, as if the messages were delivered \
            to the specified consumer.",
        run: xautoclaim,
        subcommands: &[],
    },
];

/// How entries change hands.
#[derive(Debug)]
struct Claim<'a> {
    consumer: &'a [u8],
    min_idle_ms: i64,
    now_ms: i64,
    /// When the entries count as delivered.
    delivered_ms: i64,
    /// How often they count as delivered; `None`: once more, unless only ids are asked for.
    deliveries: Option<i64>,
    /// Entries that are not pending are claimed, too.
    force: bool,
    only_ids: bool,
}

/// What a claim finds out about one entry.
enum Outcome {
    Claimed,
    /// It was deleted from the stream, and no longer pends.
    Gone,
    /// It is not pending, or not idle enough.
    Left,
}

impl Claim<'_> {
    fn run(
        &self,
        entries: &Entries,
        group: &mut Group,
        id: StreamId,
        change: &mut GroupChange,
    ) -> Outcome {
        let pending = group.pending(id).copied();
        if entries.get(id).is_none() {
            if !group.release(id) {
                return Outcome::Left;
            }
            change.released.push(id);
            return Outcome::Gone;
        }
        let before = match pending {
            Some(pending) => {
                let idle_ms = self.now_ms.saturating_sub(pending.delivered_ms);
                if self.min_idle_ms > 0 && idle_ms < self.min_idle_ms {
                    return Outcome::Left;
                }
                pending.deliveries
            }
            None if self.force => 1,
            None => return Outcome::Left,
        };
        let deliveries = match self.deliveries {
            Some(deliveries) => deliveries,
            None if self.only_ids => before,
            None => before.saturating_add(1),
        };
        let pending = Pending {
            consumer: self.consumer(group, change),
            delivered_ms: self.delivered_ms,
            deliveries,
        };
        group.assign(id, pending);
        change.claimed.push((id, pending));
        Outcome::Claimed
    }

    /// The consumer, which is created for the first entry that it gets.
    fn consumer(&self, group: &mut Group, change: &mut GroupChange) -> ConsumerNumber {
        let (consumer, created) = group.see(self.consumer, self.now_ms);
        change.consumer_created |= created;
        consumer
    }

    fn reply(&self, reply: &mut Encoder<'_>, entries: &Entries, change: &GroupChange) {
        reply.array(change.claimed.len());
        for (id, _) in &change.claimed {
            match entries.get(*id).filter(|_| !self.only_ids) {
                Some(entry) => reply_entry(reply, &entry),
                None => reply_id(reply, *id),
            }
        }
    }
}

fn xclaim(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name) = (args.at(1), args.at(2));
    let stream = cx.keyspace.collection::<Stream>(key, cx.now, cx.effects)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_group(key, name, ""));
    }
    let (ids, last_id, claim) = parse_xclaim(cx, args)?;
    let reply = &mut cx.reply;
    let change = |stream: &mut Stream, _: &EncodingLimits| {
        stream.edit_group(name, |entries, group| {
            let mut change = GroupChange {
                advanced: last_id > group.last_id,
                ..GroupChange::default()
            };
            group.last_id = group.last_id.max(last_id);
            for id in ids {
                claim.run(entries, group, id, &mut change);
            }
            claim.reply(reply, entries, &change);
            change.at(group)
        })
    };
    let change = cx.keyspace.edit(key, cx.now, cx.effects, change)?;
    if let Some(change) = change.flatten() {
        change.emit(GroupName { key, name }, args.at(3), cx);
    }
    Ok(())
}

/// Reads `XCLAIM key group consumer min-idle id.. options`: the ids, the option `LASTID`, and the rest.
fn parse_xclaim<'a>(
    cx: &Context<'_>,
    args: Args<'a>,
) -> Result<(Vec<StreamId>, StreamId, Claim<'a>), ErrorReply> {
    const BAD_MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XCLAIM";
    let now_ms = cx.now.unix.0;
    let mut claim = Claim {
        consumer: args.at(3),
        min_idle_ms: number_or(args.at(4), BAD_MIN_IDLE)?.max(0),
        now_ms,
        delivered_ms: now_ms,
        deliveries: None,
        force: false,
        only_ids: false,
    };
    let ids: Vec<StreamId> = args
        .skip(5)
        .iter()
        .map_while(|id| id::parse(id).ok())
        .collect();
    let (mut delivered_ms, mut last_id) = (None, StreamId::MIN);
    let mut at = 5 + ids.len();
    while at < args.len() {
        let value = args.get(at + 1);
        at += 1;
        match (args.at(at - 1).to_ascii_lowercase().as_slice(), value) {
            (b"force", _) => {
                claim.force = true;
                continue;
            }
            (b"justid", _) => {
                claim.only_ids = true;
                continue;
            }
            (b"idle", Some(value)) => {
                let idle_ms = number_or(value, "ERR Invalid IDLE option argument for XCLAIM")?;
                delivered_ms = Some(now_ms.saturating_sub(idle_ms));
            }
            (b"time", Some(value)) => {
                let time = number_or(value, "ERR Invalid TIME option argument for XCLAIM")?;
                delivered_ms = Some(time);
            }
            (b"retrycount", Some(value)) => {
                const BAD_COUNT: &str = "ERR Invalid RETRYCOUNT option argument for XCLAIM";
                claim.deliveries = Some(number_or(value, BAD_COUNT)?).filter(|count| *count >= 0);
            }
            (b"lastid", Some(value)) => last_id = id::parse(value)?,
            _ => {
                let before = "ERR Unrecognized XCLAIM option '";
                return Err(ErrorReply::quoting(before, args.at(at - 1), "'"));
            }
        }
        at += 1;
    }
    if let Some(time) = delivered_ms {
        // When a log is applied the time was checked already, and the clock here says nothing about it.
        let applies = cx.keyspace.expiry_mode() == ExpiryMode::Ignore;
        let sane = time >= 0 && (applies || time <= now_ms);
        claim.delivered_ms = if sane { time } else { now_ms };
    }
    Ok((ids, last_id, claim))
}

fn number_or(text: &[u8], fault: &'static str) -> Result<i64, ErrorReply> {
    parse_i64(text).ok_or(ErrorReply::text(fault))
}

fn xautoclaim(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (key, name) = (args.at(1), args.at(2));
    let (start, count, claim) = parse_xautoclaim(cx, args)?;
    let reply = &mut cx.reply;
    let change = |stream: &mut Stream, _: &EncodingLimits| {
        stream.edit_group(name, |entries, group| {
            let mut change = GroupChange::default();
            let next = claim_from(start, count, &claim, (entries, group), &mut change);
            reply.array(3);
            reply_id(reply, next);
            claim.reply(reply, entries, &change);
            reply.array(change.released.len());
            for id in &change.released {
                reply_id(reply, *id);
            }
            change.at(group)
        })
    };
    let change = cx.keyspace.edit(key, cx.now, cx.effects, change)?;
    if change.is_none() {
        cx.keyspace.note_miss(key);
    }
    let change = change.flatten().ok_or_else(|| no_group(key, name, ""))?;
    change.emit(GroupName { key, name }, args.at(3), cx);
    Ok(())
}

/// Pending entries looked at for each one that may be claimed.
const ATTEMPTS_FACTOR: i64 = 10;
/// Bytes of an id in the array that Redis allocates: they decide which counts it accepts.
const REDIS_ID_BYTES: i64 = 16;

/// Claims what is pending from `start` on, at most `count` entries; says where to go on, [`StreamId::MIN`] at the end.
fn claim_from(
    start: StreamId,
    count: i64,
    claim: &Claim<'_>,
    (entries, group): (&Entries, &mut Group),
    change: &mut GroupChange,
) -> StreamId {
    let next_pending = |group: &Group, from: StreamId| {
        let mut pending = group.pending_range(from, StreamId::MAX);
        pending.next().map(|(id, _)| id)
    };
    let (mut next, mut left) = (next_pending(group, start), count);
    for _ in 0..count.saturating_mul(ATTEMPTS_FACTOR) {
        let Some(id) = next.filter(|_| left > 0) else {
            break;
        };
        match claim.run(entries, group, id, change) {
            Outcome::Claimed | Outcome::Gone => left -= 1,
            Outcome::Left => {}
        }
        next = id.next().and_then(|from| next_pending(group, from));
    }
    next.unwrap_or(StreamId::MIN)
}

/// Reads `XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID]`.
fn parse_xautoclaim<'a>(
    cx: &Context<'_>,
    args: Args<'a>,
) -> Result<(StreamId, i64, Claim<'a>), ErrorReply> {
    const BAD_MIN_IDLE: &str = "ERR Invalid min-idle-time argument for XAUTOCLAIM";
    const MOST: i64 = i64::MAX / REDIS_ID_BYTES;
    let now_ms = cx.now.unix.0;
    let mut claim = Claim {
        consumer: args.at(3),
        min_idle_ms: number_or(args.at(4), BAD_MIN_IDLE)?.max(0),
        now_ms,
        delivered_ms: now_ms,
        deliveries: None,
        force: false,
        only_ids: false,
    };
    let start = id::parse_start(args.at(5))?;
    let mut count = 100;
    let mut at = 6;
    while at < args.len() {
        if is_option(args, at, "count") && at + 1 < args.len() {
            count = integer(args.at(at + 1))
                .ok()
                .filter(|count| (1..=MOST).contains(count))
                .ok_or(ErrorReply::text("ERR COUNT must be > 0"))?;
            at += 2;
        } else if is_option(args, at, "justid") {
            claim.only_ids = true;
            at += 1;
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok((start, count, claim))
}
