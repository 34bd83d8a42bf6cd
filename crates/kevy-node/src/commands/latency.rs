//! `LATENCY`: what took long, and how long commands take.

mod graph;
mod report;

use super::{ADMIN, Answered, HELP, NodeCommand, Outcome, ROW, help, observed};
use crate::command_table::CommandTable;
use crate::histogram::{Histogram, Histograms};
use crate::latency::Latencies;
use crate::observation::{Observation, Observed};
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use std::collections::BTreeSet;

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "latency",
    group: "server",
    since: "2.8.13",
    summary: "A container for latency diagnostics commands.",
    subcommands: &[
        NodeCommand {
            name: "latest",
            arity: 2,
            flags: ADMIN,
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            summary: "Returns the latest latency samples for all events.",
            run: latest,
            ..ROW
        },
        NodeCommand {
            name: "history",
            arity: 3,
            flags: ADMIN,
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            summary: "Returns timestamp-latency samples for an event.",
            run: history,
            ..ROW
        },
        NodeCommand {
            name: "graph",
            arity: 3,
            flags: ADMIN,
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            summary: "Returns a latency graph for an event.",
            run: graph,
            ..ROW
        },
        NodeCommand {
            name: "doctor",
            arity: 2,
            flags: ADMIN,
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            summary: "Returns a human-readable latency analysis report.",
            run: doctor,
            ..ROW
        },
        NodeCommand {
            name: "histogram",
            arity: -2,
            flags: ADMIN,
            group: "server",
            since: "7.0.0",
            complexity: "O(N) where N is the number of commands with latency information being retrieved.",
            summary: "Returns the cumulative distribution of latencies of a subset or all commands.",
            run: histogram,
            ..ROW
        },
        NodeCommand {
            name: "reset",
            arity: -2,
            flags: ADMIN,
            group: "server",
            since: "2.8.13",
            complexity: "O(1)",
            summary: "Resets the latency data for one or more events.",
            run: reset,
            ..ROW
        },
        NodeCommand {
            group: "server",
            since: "2.8.13",
            run: help_latency,
            ..HELP
        },
    ],
    ..ROW
}];

/// Asks all shards for their events and hands them to `finish` as one.
fn ask(finish: impl FnOnce(&Shard, Latencies, &mut Encoder<'_>) + 'static) -> Answered {
    let finish = Finish::new(move |shard, _, answers, reply| {
        let all = observed(answers)
            .into_iter()
            .filter_map(|answer| match answer {
                Observed::Latencies(latencies) => Some(latencies),
                Observed::SlowRequests(_)
                | Observed::Count(_)
                | Observed::Forgotten(_)
                | Observed::Histograms(_)
                | Observed::Done => None,
            });
        finish(shard, Latencies::merged(all), reply);
    });
    Ok(Outcome::Ask(Query::Observe(Observation::Latencies), finish))
}

fn latest(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    ask(|_, latencies, reply| {
        reply.array(latencies.iter().count());
        for (event, series) in latencies.iter() {
            let last = series.samples.back();
            reply.array(4);
            reply.bulk(event.name().as_bytes());
            reply.integer(last.map_or(0, |sample| sample.at));
            reply.integer(last.map_or(0, |sample| sample.millis as i64));
            reply.integer(series.max_millis as i64);
        }
    })
}

fn history(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let name = args.at(2).to_vec();
    ask(move |_, latencies, reply| {
        let Some((_, series)) = latencies.named(&name) else {
            return reply.array(0);
        };
        reply.array(series.samples.len());
        for sample in &series.samples {
            reply.array(2);
            reply.integer(sample.at);
            reply.integer(sample.millis as i64);
        }
    })
}

fn graph(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let name = args.at(2).to_vec();
    ask(
        move |shard, latencies, reply| match latencies.named(&name) {
            Some((event, series)) => {
                let now = shard.now.unix.0.div_euclid(1000);
                let text = graph::draw(event, series, now);
                reply.verbatim(b"txt", text.as_bytes());
            }
            None => reply.error(&ErrorReply::quoting(
                "ERR No samples available for event '",
                &name,
                "'",
            )),
        },
    )
}

fn doctor(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    ask(|shard, latencies, reply| {
        let text = report::write(&latencies, &shard.settings.monitoring);
        reply.verbatim(b"txt", text.as_bytes());
    })
}

fn reset(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let names = args.skip(2).iter().map(<[u8]>::to_vec).collect();
    let finish = Finish::new(|_, _, answers, reply| {
        let names = observed(answers)
            .into_iter()
            .flat_map(|answer| match answer {
                Observed::Forgotten(names) => names,
                Observed::SlowRequests(_)
                | Observed::Count(_)
                | Observed::Latencies(_)
                | Observed::Histograms(_)
                | Observed::Done => Vec::new(),
            });
        reply.length(names.collect::<BTreeSet<_>>().len());
    });
    let query = Query::Observe(Observation::ResetLatencies(names));
    Ok(Outcome::Ask(query, finish))
}

fn histogram(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let names: Vec<String> = args
        .skip(2)
        .iter()
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect();
    let finish = Finish::new(move |shard, _, answers, reply| {
        let all = merged(observed(answers));
        let wanted = chosen(&shard.commands, &names);
        let shown = wanted
            .into_iter()
            .filter_map(|index| Some((index, all.of(index)?)));
        let shown: Vec<_> = shown.collect();
        reply.map(shown.len());
        for (index, histogram) in shown {
            reply.bulk(shard.commands.all()[index].full_name.as_bytes());
            put_histogram(histogram, reply);
        }
    });
    Ok(Outcome::Ask(
        Query::Observe(Observation::Histograms),
        finish,
    ))
}

/// The histograms of all shards as one.
pub(super) fn merged(answers: Vec<Observed>) -> Histograms {
    let mut all = Histograms::default();
    for answer in answers {
        if let Observed::Histograms(histograms) = answer {
            all.merge(&histograms);
        }
    }
    all
}

/// The numbers of the commands that are named; of a container, its subcommands. All if none is named.
fn chosen(commands: &CommandTable, names: &[String]) -> Vec<usize> {
    if names.is_empty() {
        return (0..commands.all().len()).collect();
    }
    let mut chosen = Vec::new();
    for name in names {
        if let Some(index) = commands.position_of_full_name(name) {
            let subcommands = &commands.all()[index].subcommands;
            chosen.extend(std::iter::once(index).chain(subcommands.iter().copied()));
        }
    }
    chosen
}

fn put_histogram(histogram: &Histogram, reply: &mut Encoder<'_>) {
    let bounds = histogram.doubling_bounds();
    reply.map(2);
    reply.bulk(b"calls");
    reply.integer(histogram.total() as i64);
    reply.bulk(b"histogram_usec");
    reply.map(bounds.len());
    for (micros, count) in bounds {
        reply.integer(micros as i64);
        reply.integer(count as i64);
    }
}

fn help_latency(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "DOCTOR",
            "    Return a human readable latency analysis report.",
            "GRAPH <event>",
            "    Return an ASCII latency graph for the <event> class.",
            "HISTORY <event>",
            "    Return time-latency samples for the <event> class.",
            "LATEST",
            "    Return the latest latency samples for all events.",
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
            "HISTOGRAM [COMMAND ...]",
            "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
            "    If no commands are specified then all histograms are replied.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
