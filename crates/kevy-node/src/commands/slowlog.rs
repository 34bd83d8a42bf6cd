//! `SLOWLOG`: requests that took long.

use super::{ALWAYS, Answered, HELP, NodeCommand, Outcome, ROW, help, integer, observed};
use crate::observation::{Observation, Observed};
use crate::query::Finish;
use crate::session::Session;
use crate::shard::Shard;
use crate::slow_log::SlowRequest;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

const ADMIN: Flags = ALWAYS.with(Flags::ADMIN);
/// How many entries are shown if nobody says how many.
const DEFAULT_COUNT: usize = 10;

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "slowlog",
    group: "server",
    since: "2.2.12",
    summary: "A container for slow log commands.",
    subcommands: &[
        NodeCommand {
            name: "get",
            arity: -2,
            flags: ADMIN,
            group: "server",
            since: "2.2.12",
            complexity: "O(N) where N is the number of entries returned",
            summary: "Returns the slow log's entries.",
            run: get,
            ..ROW
        },
        NodeCommand {
            name: "len",
            arity: 2,
            flags: ADMIN,
            group: "server",
            since: "2.2.12",
            summary: "Returns the number of entries in the slow log.",
            run: len,
            ..ROW
        },
        NodeCommand {
            name: "reset",
            arity: 2,
            flags: ADMIN,
            group: "server",
            since: "2.2.12",
            complexity: "O(N) where N is the number of entries in the slowlog",
            summary: "Clears all entries from the slow log.",
            run: reset,
            ..ROW
        },
        NodeCommand {
            group: "server",
            since: "6.2.0",
            run: help_slowlog,
            ..HELP
        },
    ],
    ..ROW
}];

fn get(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    if args.len() > 3 {
        return Err(ErrorReply::quoting(
            "ERR unknown subcommand or wrong number of arguments for '",
            args.at(1),
            "'. Try SLOWLOG HELP.",
        ));
    }
    let mut count = DEFAULT_COUNT;
    if let Some(wanted) = args.get(2) {
        let wanted = integer(wanted).ok().filter(|wanted| *wanted >= -1);
        let wanted = wanted.ok_or(ErrorReply::text(
            "ERR count should be greater than or equal to -1",
        ))?;
        count = usize::try_from(wanted).unwrap_or(usize::MAX);
    }
    observe(Observation::SlowRequests(count), |answers, reply| {
        let entries: Vec<SlowRequest> = answers
            .into_iter()
            .flat_map(|answer| match answer {
                Observed::SlowRequests(entries) => entries,
                Observed::Count(_)
                | Observed::Latencies(_)
                | Observed::Forgotten(_)
                | Observed::Histograms(_)
                | Observed::Done => Vec::new(),
            })
            .collect();
        reply.array(entries.len());
        entries.iter().for_each(|entry| put(entry, reply));
    })
}

fn put(entry: &SlowRequest, reply: &mut Encoder<'_>) {
    reply.array(6);
    reply.integer(entry.id as i64);
    reply.integer(entry.at.0.div_euclid(1000));
    reply.integer(entry.micros as i64);
    reply.array(entry.arguments.len());
    entry
        .arguments
        .iter()
        .for_each(|argument| reply.bulk(argument));
    reply.bulk(entry.address.as_bytes());
    reply.bulk(&entry.client_name);
}

fn len(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    observe(Observation::SlowLogLength, |answers, reply| {
        let count = |answer: Observed| match answer {
            Observed::Count(count) => count,
            Observed::SlowRequests(_)
            | Observed::Latencies(_)
            | Observed::Forgotten(_)
            | Observed::Histograms(_)
            | Observed::Done => 0,
        };
        reply.length(answers.into_iter().map(count).sum());
    })
}

fn reset(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    observe(Observation::ResetSlowLog, |_, reply| reply.ok())
}

/// Asks the shards. All but the keeper of the log answer with nothing, which spares a second way of asking.
fn observe(
    observation: Observation,
    finish: impl FnOnce(Vec<Observed>, &mut Encoder<'_>) + 'static,
) -> Answered {
    let finish = Finish::new(move |_, _, answers, reply| finish(observed(answers), reply));
    Ok(Outcome::Ask(
        crate::query::Query::Observe(observation),
        finish,
    ))
}

fn help_slowlog(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
            "LEN",
            "    Return the length of the slowlog.",
            "RESET",
            "    Reset the slowlog.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
