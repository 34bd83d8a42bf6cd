//! `INFO`: sections and field names as Redis has them, numbers added up over all shards.

mod figures;
mod persistence;
mod resources;

use super::connection::REDIS_VERSION;
use super::{Answered, Outcome};
use crate::durability::SaveReport;
use crate::query::{Answer, Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use crate::stats::Summary;
use crate::subscriptions::Topic;
use bytes::BytesMut;
use figures::{command_stats, error_stats, latency_stats};
use kevy_proto::resp::Args;
use persistence::persistence;
use resources::{cpu, memory};
use std::collections::BTreeSet;
use std::fmt::Write;

type Section = fn(&Shard, &Total) -> String;

/// Name, whether it is shown without being asked for, and what it says.
const SECTIONS: [(&str, bool, Section); 13] = [
    ("server", true, server),
    ("clients", true, clients),
    ("memory", true, memory),
    ("persistence", true, persistence),
    ("stats", true, stats),
    ("replication", true, replication),
    ("cpu", true, cpu),
    ("modules", true, modules),
    ("commandstats", false, command_stats),
    ("errorstats", true, error_stats),
    ("latencystats", false, latency_stats),
    ("cluster", true, cluster),
    ("keyspace", true, keyspace),
];

/// `INFO [section ...]`.
pub(super) fn info(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let asked: Vec<String> = args
        .skip(1)
        .iter()
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .collect();
    let asks = |name: &str| asked.iter().any(|asked| asked == name);
    let histograms = asks("latencystats") || asks("all") || asks("everything");
    let finish = Finish::new(move |shard, _, answers, reply| {
        let total = Total::of(answers);
        let wanted = |(name, default, _): &&(&str, bool, Section)| {
            let plain = asked.is_empty() || asked.iter().any(|asked| asked == "default");
            let all = asked
                .iter()
                .any(|asked| asked == "all" || asked == "everything");
            (plain && *default) || all || asked.iter().any(|asked| asked == name)
        };
        let sections: Vec<String> = SECTIONS
            .iter()
            .filter(wanted)
            .map(|(_, _, section)| section(shard, &total))
            .collect();
        reply.verbatim(b"txt", sections.join("\r\n").as_bytes());
    });
    Ok(Outcome::Ask(Query::Summary { histograms }, finish))
}

/// The shards' summaries, added up where adding makes sense.
pub(super) struct Total {
    summaries: Vec<Summary>,
}

impl Total {
    /// Of the answers of all shards.
    pub(super) fn of(answers: Vec<Answer>) -> Self {
        let summaries = answers.into_iter().filter_map(|answer| match answer {
            Answer::Summary(summary) => Some(*summary),
            Answer::Clients(_)
            | Answer::Count(_)
            | Answer::Counts(_)
            | Answer::Keys(_)
            | Answer::Observed(_)
            | Answer::Done => None,
        });
        Self {
            summaries: summaries.collect(),
        }
    }

    /// A number, added up.
    pub(super) fn sum(&self, number: impl Fn(&Summary) -> u64) -> u64 {
        self.summaries.iter().map(number).sum()
    }

    /// What shards tell about snapshots and the log; nothing, if everything is in memory only.
    fn save_reports(&self) -> Vec<SaveReport> {
        let reports = self.summaries.iter().map(|s| s.persistence.clone());
        reports.flatten().collect()
    }

    /// How many different names of a topic have subscribers, on whatever shard.
    fn topics(&self, topic: Topic) -> String {
        let names = self.summaries.iter().flat_map(|s| match topic {
            Topic::Channel => &s.channels,
            Topic::Pattern => &s.patterns,
            Topic::ShardChannel => &s.shard_channels,
        });
        names.collect::<BTreeSet<_>>().len().to_string()
    }

    fn max(&self, number: impl Fn(&Summary) -> usize) -> usize {
        self.summaries.iter().map(number).max().unwrap_or(0)
    }
}

fn section(title: &str, fields: &[(&str, String)]) -> String {
    let mut text = format!("# {title}\r\n");
    for (name, value) in fields {
        let _ = write!(text, "{name}:{value}\r\n");
    }
    text
}

fn server(shard: &Shard, _: &Total) -> String {
    let uptime = shard
        .now
        .monotonic
        .saturating_since(shard.config.now.monotonic)
        .as_secs();
    let process = &shard.config.process;
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.to_owned()),
            ("redis_git_sha1", "00000000".to_owned()),
            ("redis_git_dirty", "0".to_owned()),
            ("redis_build_id", "0".to_owned()),
            ("kevy_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("redis_mode", shard.mode().to_owned()),
            ("os", process.os.clone()),
            ("arch_bits", usize::BITS.to_string()),
            ("monotonic_clock", "POSIX clock_gettime".to_owned()),
            ("multiplexing_api", process.multiplexing_api.clone()),
            ("process_id", process.id.to_string()),
            ("process_supervised", "no".to_owned()),
            ("run_id", process.run_id.clone()),
            ("tcp_port", shard.settings.server.port.to_string()),
            ("server_time_usec", (shard.now.unix.0 * 1000).to_string()),
            ("uptime_in_seconds", uptime.to_string()),
            ("uptime_in_days", (uptime / 86_400).to_string()),
            ("hz", shard.settings.server.hz.to_string()),
            ("configured_hz", shard.settings.server.hz.to_string()),
            (
                "lru_clock",
                ((shard.now.unix.0 / 1000) & 0x00ff_ffff).to_string(),
            ),
            ("executable", process.executable.clone()),
            ("config_file", process.config_file.clone()),
            ("io_threads_active", "0".to_owned()),
            ("shards", shard.shards().to_string()),
            (
                "accepting_shards",
                shard.settings.accepting_shards().to_string(),
            ),
        ],
    )
}

fn clients(shard: &Shard, total: &Total) -> String {
    section(
        "Clients",
        &[
            (
                "connected_clients",
                total.sum(|s| s.clients as u64).to_string(),
            ),
            ("cluster_connections", "0".to_owned()),
            ("maxclients", shard.settings.server.maxclients.to_string()),
            (
                "client_recent_max_input_buffer",
                total.max(|s| s.largest_input_bytes).to_string(),
            ),
            (
                "client_recent_max_output_buffer",
                total.max(|s| s.largest_output_bytes).to_string(),
            ),
            (
                "blocked_clients",
                total.sum(|s| s.blocked_clients as u64).to_string(),
            ),
            (
                "tracking_clients",
                total.sum(|s| s.tracking_clients as u64).to_string(),
            ),
            ("clients_in_timeout_table", "0".to_owned()),
        ],
    )
}

fn stats(_: &Shard, total: &Total) -> String {
    let sum = |number: fn(&Summary) -> u64| total.sum(number).to_string();
    section(
        "Stats",
        &[
            (
                "total_connections_received",
                sum(|s| s.stats.connections_received),
            ),
            (
                "total_commands_processed",
                sum(|s| s.stats.commands_processed),
            ),
            ("instantaneous_ops_per_sec", sum(|s| s.stats.ops_per_second)),
            (
                "longest_turn_usec",
                total
                    .max(|s| s.stats.longest_turn.as_micros() as usize)
                    .to_string(),
            ),
            ("total_net_input_bytes", sum(|s| s.stats.input_bytes)),
            ("total_net_output_bytes", sum(|s| s.stats.output_bytes)),
            (
                "instantaneous_input_kbps",
                kilobytes(total.sum(|s| s.stats.input_bytes_per_second)),
            ),
            (
                "instantaneous_output_kbps",
                kilobytes(total.sum(|s| s.stats.output_bytes_per_second)),
            ),
            (
                "rejected_connections",
                sum(|s| s.stats.rejected_connections),
            ),
            ("expired_keys", sum(|s| s.keyspace.expired)),
            ("evicted_keys", sum(|s| s.keyspace.evicted)),
            ("evicted_clients", "0".to_owned()),
            ("keyspace_hits", sum(|s| s.keyspace.hits)),
            ("keyspace_misses", sum(|s| s.keyspace.misses)),
            ("pubsub_channels", total.topics(Topic::Channel)),
            ("pubsub_patterns", total.topics(Topic::Pattern)),
            ("pubsubshard_channels", total.topics(Topic::ShardChannel)),
            ("tracking_total_keys", sum(|s| s.tracked_keys as u64)),
            ("tracking_total_items", sum(|s| s.tracked_items as u64)),
            (
                "tracking_total_prefixes",
                total.max(|s| s.tracked_prefixes).to_string(),
            ),
            ("unexpected_error_replies", "0".to_owned()),
            ("total_error_replies", sum(|s| s.stats.error_replies)),
            (
                "client_query_buffer_limit_disconnections",
                sum(|s| s.stats.query_buffer_limit_disconnections),
            ),
            (
                "client_output_buffer_limit_disconnections",
                sum(|s| s.stats.output_buffer_limit_disconnections),
            ),
            ("protocol_errors", sum(|s| s.stats.protocol_errors)),
            ("shard_transactions", sum(|s| s.stats.transactions)),
            (
                "shard_transactions_in_order",
                sum(|s| s.stats.transactions_in_order),
            ),
            ("shard_locks_refused", sum(|s| s.stats.locks_refused)),
            ("shard_lock_waits", sum(|s| s.stats.lock_waits)),
            ("shard_offers", sum(|s| s.stats.offers)),
            ("shard_locks_held", sum(|s| s.claims as u64)),
        ],
    )
}

fn kilobytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1024.0)
}

fn replication(shard: &Shard, _: &Total) -> String {
    section(
        "Replication",
        &[
            ("role", "master".to_owned()),
            ("connected_slaves", "0".to_owned()),
            ("master_failover_state", "no-failover".to_owned()),
            ("master_replid", shard.config.process.run_id.clone()),
            ("master_replid2", "0".repeat(40)),
            ("master_repl_offset", "0".to_owned()),
            ("second_repl_offset", "-1".to_owned()),
            ("repl_backlog_active", "0".to_owned()),
            ("repl_backlog_size", "0".to_owned()),
            ("repl_backlog_first_byte_offset", "0".to_owned()),
            ("repl_backlog_histlen", "0".to_owned()),
        ],
    )
}

fn modules(_: &Shard, _: &Total) -> String {
    section("Modules", &[])
}

fn cluster(shard: &Shard, _: &Total) -> String {
    section(
        "Cluster",
        &[(
            "cluster_enabled",
            u8::from(shard.settings.cluster.enabled).to_string(),
        )],
    )
}

fn keyspace(_: &Shard, total: &Total) -> String {
    let keys = total.sum(|s| s.keys as u64);
    let expires = total.sum(|s| s.expires as u64);
    let weighted = total.sum(|s| s.average_ttl_ms.max(0) as u64 * s.expires as u64);
    let line = format!(
        "keys={keys},expires={expires},avg_ttl={}",
        weighted.checked_div(expires).unwrap_or(0)
    );
    if keys == 0 {
        section("Keyspace", &[])
    } else {
        section("Keyspace", &[("db0", line)])
    }
}
