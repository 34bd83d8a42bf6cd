//! `[monitoring]`: slow commands, latencies, notifications.

use super::super::kind::{Field, Kind};
use super::super::monitoring::{parse_percentiles, percentiles_text};
use super::super::notification;
use super::fields::{number, plain};
use super::{Directive, I64_MAX, ROW};

/// The rows.
pub(super) static ROWS: [Directive; 6] = [
    Directive {
        section: "monitoring",
        key: "slowlog_log_slower_than",
        name: "slowlog-log-slower-than",
        kind: Kind::Integer {
            min: -1,
            max: I64_MAX,
            unit: "microseconds",
            field: number!(monitoring.slowlog_log_slower_than: i64),
        },
        about: "A command that took longer is kept in the slow log. 0: every command; -1: none.",
        ..ROW
    },
    Directive {
        section: "monitoring",
        key: "slowlog_max_len",
        name: "slowlog-max-len",
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: number!(monitoring.slowlog_max_len: u64),
        },
        about: "Most entries of the slow log; the oldest go first.",
        ..ROW
    },
    Directive {
        section: "monitoring",
        key: "latency_monitor_threshold",
        name: "latency-monitor-threshold",
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "milliseconds",
            field: number!(monitoring.latency_monitor_threshold: u64),
        },
        about: "Events that took so long or longer are remembered for LATENCY. 0: none.",
        ..ROW
    },
    Directive {
        section: "monitoring",
        key: "latency_tracking",
        name: "latency-tracking",
        kind: Kind::Switch(plain!(monitoring.latency_tracking)),
        about: "Whether the latencies of each command are gathered in a histogram, for INFO latencystats and LATENCY HISTOGRAM.",
        ..ROW
    },
    Directive {
        section: "monitoring",
        key: "latency_tracking_info_percentiles",
        name: "latency-tracking-info-percentiles",
        kind: Kind::Notation {
            parse: |settings, text| {
                settings.monitoring.latency_tracking_info_percentiles = parse_percentiles(text)?;
                Ok(())
            },
            show: |settings| {
                percentiles_text(&settings.monitoring.latency_tracking_info_percentiles)
            },
            expects: "percentiles from 0 to 100, separated by spaces",
        },
        about: "Which percentiles INFO latencystats shows.",
        ..ROW
    },
    Directive {
        section: "monitoring",
        key: "notify_keyspace_events",
        name: "notify-keyspace-events",
        kind: Kind::Notation {
            parse: |settings, text| {
                settings.monitoring.notify_keyspace_events = notification::parse(text)?;
                Ok(())
            },
            show: |settings| settings.monitoring.notify_keyspace_events.to_string(),
            expects: "letters of Ag$lshzxeKEtmdn, or nothing",
        },
        about: "Which changes of keys are published, and how: K by key, E by event; g generic, $ strings, l lists, s sets, h hashes, z sorted sets, x expired, e evicted, t streams, d modules, A all of these; m misses, n new keys.",
        ..ROW
    },
];
