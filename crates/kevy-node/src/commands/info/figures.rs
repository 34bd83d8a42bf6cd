//! `INFO commandstats`, `errorstats` and `latencystats`.

use super::Total;
use crate::histogram::{Histogram, Histograms};
use crate::settings::monitoring::Percentile;
use crate::shard::Shard;
use crate::stats::CommandStats;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Calls, durations and errors of each command.
pub(super) fn command_stats(shard: &Shard, total: &Total) -> String {
    let mut text = "# Commandstats\r\n".to_owned();
    for (index, named) in shard.commands.all().iter().enumerate() {
        let sum = |number: fn(&CommandStats) -> u64| {
            total.sum(|summary| summary.stats.commands.get(index).map_or(0, number))
        };
        let (calls, rejected) = (sum(|c| c.calls), sum(|c| c.rejected));
        let (failed, micros) = (sum(|c| c.failed), sum(|c| c.nanos) / 1000);
        if calls == 0 && rejected == 0 && failed == 0 {
            continue;
        }
        let per_call = micros as f64 / calls.max(1) as f64;
        let _ = write!(
            text,
            "cmdstat_{}:calls={calls},usec={micros},usec_per_call={per_call:.2},rejected_calls={rejected},failed_calls={failed}\r\n",
            named.full_name
        );
    }
    text
}

/// Errors by their codes.
pub(super) fn error_stats(_: &Shard, total: &Total) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let errors = total.summaries.iter().flat_map(|s| &s.stats.errors);
    for (code, count) in errors {
        *counts.entry(code).or_default() += count;
    }
    let mut text = "# Errorstats\r\n".to_owned();
    for (code, count) in counts {
        let _ = write!(text, "errorstat_{code}:count={count}\r\n");
    }
    text
}

/// Percentiles of the durations of each command.
pub(super) fn latency_stats(shard: &Shard, total: &Total) -> String {
    let mut all = Histograms::default();
    for histograms in total.summaries.iter().filter_map(|s| s.histograms.as_ref()) {
        all.merge(histograms);
    }
    let percentiles = &shard.settings.monitoring.latency_tracking_info_percentiles;
    let mut text = "# Latencystats\r\n".to_owned();
    for (index, named) in shard.commands.all().iter().enumerate() {
        if let Some(histogram) = all.of(index) {
            let shown = shown(histogram, percentiles);
            let name = named.full_name;
            let _ = write!(text, "latency_percentiles_usec_{name}:{shown}\r\n");
        }
    }
    text
}

fn shown(histogram: &Histogram, percentiles: &[Percentile]) -> String {
    let show = |percentile: &Percentile| {
        let percentile = percentile.value();
        let nanos = histogram.percentile_nanos(percentile);
        format!("p{percentile}={}.{:03}", nanos / 1000, nanos % 1000)
    };
    percentiles.iter().map(show).collect::<Vec<_>>().join(",")
}
