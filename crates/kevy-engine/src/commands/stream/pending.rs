//! Looking at what is pending: `XPENDING`.

use super::{id, no_group, reply_id};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::stream::{Group, Pending, Stream, StreamId};
use crate::{Command, Context};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[Row {
    name: "xpending",
    arity: -3,
    flags: Flags::READONLY,
    keys: ONE_KEY,
    placement: Placement::Together,
    group: "stream",
    since: "5.0.0",
    complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per \
        call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the \
        command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an \
        additional O(N) time for iterating every consumer.",
    summary: "Return information and entries from a stream consumer group pending entries list, that are messages \
        fetched but never acknowledged.",
    run: xpending,
    subcommands: &[],
}];

/// The extended form: which pending entries to show.
#[derive(Debug)]
struct Filter<'a> {
    min_idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    /// Reads `[[IDLE ms] start end count [consumer]]`.
    fn parse(args: Args<'a>) -> Result<Option<Self>, ErrorReply> {
        const LONGEST: usize = 9;
        if args.len() == 3 {
            return Ok(None);
        }
        if !(6..=LONGEST).contains(&args.len()) {
            return Err(ErrorReply::Syntax);
        }
        let (mut at, mut min_idle_ms) = (3, 0);
        if is_option(args, at, "idle") {
            min_idle_ms = integer(args.at(4))?;
            if args.len() < 8 {
                return Err(ErrorReply::Syntax);
            }
            at = 5;
        }
        let count = integer(args.at(at + 2))?;
        Ok(Some(Self {
            min_idle_ms,
            start: id::parse_start(args.at(at))?,
            end: id::parse_end(args.at(at + 1))?,
            count: count.max(0) as usize,
            consumer: args.get(at + 3),
        }))
    }

    fn find<'g>(&self, group: &'g Group, now_ms: i64) -> Vec<(StreamId, &'g Pending)> {
        let idle_enough = |(_, pending): &(StreamId, &Pending)| {
            self.min_idle_ms <= 0 || now_ms.saturating_sub(pending.delivered_ms) >= self.min_idle_ms
        };
        match self.consumer {
            None => group
                .pending_range(self.start, self.end)
                .filter(idle_enough)
                .take(self.count)
                .collect(),
            Some(name) => group
                .find(name)
                .into_iter()
                .flat_map(|consumer| group.pending_of(consumer, self.start, self.end))
                .filter(idle_enough)
                .take(self.count)
                .collect(),
        }
    }
}

fn xpending(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let filter = Filter::parse(args)?;
    let (key, name) = (args.at(1), args.at(2));
    let stream = cx.keyspace.collection::<Stream>(key, cx.now, cx.effects)?;
    let group = stream
        .and_then(|stream| stream.group(name))
        .ok_or_else(|| no_group(key, name, ""))?;
    match filter {
        None => reply_summary(&mut cx.reply, group),
        Some(filter) => {
            let now_ms = cx.now.unix.0;
            let found = filter.find(group, now_ms);
            cx.reply.array(found.len());
            for (id, pending) in found {
                let consumer = group.consumer(pending.consumer);
                cx.reply.array(4);
                reply_id(&mut cx.reply, id);
                cx.reply
                    .bulk(consumer.map_or(b"", |consumer| consumer.name()));
                let idle_ms = now_ms.saturating_sub(pending.delivered_ms).max(0);
                cx.reply.integer(idle_ms);
                cx.reply.integer(pending.deliveries);
            }
        }
    }
    Ok(())
}

/// How many, from which id to which, and how many for whom.
fn reply_summary(reply: &mut Encoder<'_>, group: &Group) {
    reply.array(4);
    reply.length(group.pending_len());
    let mut ids = group.pending_range(StreamId::MIN, StreamId::MAX);
    let Some((first, _)) = ids.next() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    let last = ids.next_back().map_or(first, |(last, _)| last);
    reply_id(reply, first);
    reply_id(reply, last);
    let consumers = group
        .consumers()
        .filter(|consumer| consumer.pending_len() > 0);
    reply.array(consumers.clone().count());
    for consumer in consumers {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_integer(consumer.pending_len() as i64);
    }
}
