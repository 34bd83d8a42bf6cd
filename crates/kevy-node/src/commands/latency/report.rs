//! `LATENCY DOCTOR`: what the events say, in words.

use crate::latency::{Latencies, Series};
use crate::settings::Monitoring;
use std::fmt::Write;

const DISABLED: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n";
const NOTHING: &str = "Dave, no latency spike was observed during the lifetime of this Redis instance, not in the slightest bit. I honestly think you ought to sit down calmly, take a stress pill, and think things over.\n";

/// The report.
pub(super) fn write(latencies: &Latencies, monitoring: &Monitoring) -> String {
    let threshold_ms = monitoring.latency_monitor_threshold;
    if latencies.iter().next().is_none() {
        return if threshold_ms == 0 { DISABLED } else { NOTHING }.to_owned();
    }
    let mut text = "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about it, do you Dave?\n\n".to_owned();
    for (number, (event, series)) in (1..).zip(latencies.iter()) {
        let _ = write!(text, "{number}. {}: {}", event.name(), figures(series));
    }
    text.push_str("\nI have a few advices for you:\n\n");
    let slow = monitoring.slowlog_log_slower_than;
    if slow < 0 || slow as u64 > threshold_ms * 1000 {
        let _ = writeln!(
            text,
            "- Your current Slow Log configuration only logs events that are slower than your configured latency monitor threshold. Please use 'CONFIG SET slowlog-log-slower-than {}'.",
            threshold_ms * 1000
        );
    }
    text.push_str("- Check your Slow Log to understand what are the commands you are running which are too slow to execute. Please check https://redis.io/commands/slowlog for more information.\n- Deleting, expiring or evicting (because of maxmemory policy) large objects is a blocking operation. If you have very large objects that are often deleted, expired, or evicted, try to fragment those objects into multiple smaller objects.\n");
    text
}

fn figures(series: &Series) -> String {
    let count = series.samples.len().max(1) as u64;
    let sum: u64 = series.samples.iter().map(|sample| sample.millis).sum();
    let average = sum / count;
    let deviations = series
        .samples
        .iter()
        .map(|sample| sample.millis.abs_diff(average));
    let deviation = deviations.sum::<u64>() / count;
    let at = |sample: Option<&crate::latency::Sample>| sample.map_or(0, |sample| sample.at);
    let seconds = at(series.samples.back()) - at(series.samples.front());
    format!(
        "{count} latency spikes (average {average}ms, mean deviation {deviation}ms, period {:.2} sec). Worst all time event {}ms.\n",
        seconds as f64 / count as f64,
        series.max_millis,
    )
}
