//! `MEMORY`, but for `MEMORY USAGE`, which is the engine's.

use super::info::Total;
use super::{Answered, HELP, NodeCommand, Outcome, ROW, help, ok};
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::resp::{Args, Encoder};

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "memory",
    group: "server",
    since: "4.0.0",
    summary: "A container for memory diagnostics commands.",
    subcommands: &[
        NodeCommand {
            name: "stats",
            arity: 2,
            group: "server",
            since: "4.0.0",
            complexity: "O(1)",
            summary: "Returns details about memory usage.",
            run: stats,
            ..ROW
        },
        NodeCommand {
            name: "doctor",
            arity: 2,
            group: "server",
            since: "4.0.0",
            complexity: "O(1)",
            summary: "Outputs a memory problems report.",
            run: doctor,
            ..ROW
        },
        NodeCommand {
            name: "purge",
            arity: 2,
            group: "server",
            since: "4.0.0",
            complexity: "Depends on how much memory is allocated, could be slow",
            summary: "Asks the allocator to release memory.",
            run: purge,
            ..ROW
        },
        NodeCommand {
            name: "malloc-stats",
            arity: 2,
            group: "server",
            since: "4.0.0",
            complexity: "Depends on how much memory is allocated, could be slow",
            summary: "Returns the allocator's statistics.",
            run: malloc_stats,
            ..ROW
        },
        NodeCommand {
            group: "server",
            since: "4.0.0",
            run: help_memory,
            ..HELP
        },
    ],
    ..ROW
}];

/// With less data than this Redis's doctor has nothing to say, in bytes.
const EMPTY_BYTES: u64 = 5 << 20;
const EMPTY: &str = "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n";
const HEALTHY: &str = "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n";
/// The peak is high from this part of what is used on.
const PEAK_FACTOR: f64 = 1.5;

/// A number of `MEMORY STATS`.
enum Figure {
    Whole(u64),
    Ratio(f64),
}

fn stats(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    let finish = Finish::new(|shard, _, answers, reply| {
        let total = Total::of(answers);
        let figures = figures(shard, &total);
        let (before, after) = figures.split_at(8);
        reply.map(figures.len() + 1);
        before.iter().for_each(|figure| put(figure, reply));
        reply.bulk(b"db.0");
        reply.map(2);
        reply.bulk(b"overhead.hashtable.main");
        reply.integer(0);
        reply.bulk(b"overhead.hashtable.expires");
        reply.integer(0);
        after.iter().for_each(|figure| put(figure, reply));
    });
    Ok(Outcome::Ask(Query::Summary { histograms: false }, finish))
}

fn put((name, figure): &(&str, Figure), reply: &mut Encoder<'_>) {
    reply.bulk(name.as_bytes());
    match figure {
        Figure::Whole(number) => reply.integer(*number as i64),
        Figure::Ratio(number) => reply.double(*number),
    }
}

/// What kevy counts of Redis's figures; what it does not have is zero. The first eight stand before `db.0`.
fn figures(shard: &Shard, total: &Total) -> Vec<(&'static str, Figure)> {
    use Figure::{Ratio, Whole};
    let data = total.sum(|s| s.keyspace_bytes as u64);
    let clients = total.sum(|s| s.client_bytes as u64);
    let peak = total.sum(|s| s.peak_bytes as u64).max(data);
    let keys = total.sum(|s| s.keys as u64);
    let usage = shard
        .config
        .process
        .usage
        .map(|usage| usage())
        .unwrap_or_default();
    let resident = usage.resident_bytes;
    let startup = shard.config.process.startup_bytes;
    let overhead = startup + clients;
    let (used, peak) = (data + overhead, peak + overhead);
    let part = |part: u64, whole: u64| {
        if whole == 0 {
            0.0
        } else {
            part as f64 / whole as f64
        }
    };
    let per_key = data.checked_div(keys).unwrap_or(0);
    vec![
        ("peak.allocated", Whole(peak)),
        ("total.allocated", Whole(used)),
        ("startup.allocated", Whole(startup)),
        ("replication.backlog", Whole(0)),
        ("clients.slaves", Whole(0)),
        ("clients.normal", Whole(clients)),
        ("cluster.links", Whole(0)),
        ("aof.buffer", Whole(0)),
        ("lua.caches", Whole(0)),
        ("functions.caches", Whole(0)),
        ("overhead.total", Whole(overhead)),
        ("keys.count", Whole(keys)),
        ("keys.bytes-per-key", Whole(per_key)),
        ("dataset.bytes", Whole(data)),
        (
            "dataset.percentage",
            Ratio(part(data, used - startup) * 100.0),
        ),
        ("peak.percentage", Ratio(part(used, peak) * 100.0)),
        ("allocator.allocated", Whole(used)),
        ("allocator.active", Whole(resident)),
        ("allocator.resident", Whole(resident)),
        ("fragmentation", Ratio(part(resident, used))),
        ("fragmentation.bytes", Whole(resident.saturating_sub(used))),
    ]
}

fn doctor(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    let finish = Finish::new(|_, _, answers, reply| {
        let total = Total::of(answers);
        let used = total.sum(|s| s.keyspace_bytes as u64);
        let peak = total.sum(|s| s.peak_bytes as u64);
        let text = if used < EMPTY_BYTES {
            EMPTY.to_owned()
        } else if peak as f64 > used as f64 * PEAK_FACTOR {
            format!(
                "Sam, I detected a few issues in this Redis instance memory implants:\n\n * Peak memory: In the past this instance used more than 150% the memory that is currently using ({peak} bytes, now {used}). The allocator is normally not able to release memory after a peak, so you can expect to see a big fragmentation ratio, however this is actually harmless and is only due to the memory peak.\n"
            )
        } else {
            HEALTHY.to_owned()
        };
        reply.verbatim(b"txt", text.as_bytes());
    });
    Ok(Outcome::Ask(Query::Summary { histograms: false }, finish))
}

/// The allocator gives memory back by itself.
fn purge(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    ok(session, reply)
}

fn malloc_stats(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let text = b"Stats not supported for the current allocator";
    Encoder::new(reply, session.client.version).bulk(text);
    Ok(Outcome::Replied)
}

fn help_memory(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "DOCTOR",
            "    Return memory problems reports.",
            "MALLOC-STATS",
            "    Return internal statistics report from the memory allocator.",
            "PURGE",
            "    Attempt to purge dirty pages for reclamation by the allocator.",
            "STATS",
            "    Return information about the memory usage of the server.",
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
            "HELP",
            "    Prints this help.",
        ],
    )
}
