//! `INFO persistence`: loading, snapshots, the log.

use super::{Total, section};
use crate::durability::{SaveKind, SaveReport};
use crate::shard::Shard;
use std::time::Duration;

/// The section.
pub(super) fn persistence(shard: &Shard, total: &Total) -> String {
    let reports = total.save_reports();
    let mut fields = snapshot_fields(shard, total, &reports);
    fields.extend(log_fields(&reports));
    section("Persistence", &fields)
}

type Fields = Vec<(&'static str, String)>;

fn snapshot_fields(shard: &Shard, total: &Total, reports: &[SaveReport]) -> Fields {
    let is_loading = total.sum(|s| u64::from(s.is_loading)) > 0;
    let changes = if reports.is_empty() {
        total.sum(|s| s.changes).to_string()
    } else {
        sum(reports, |report| report.changes_since)
    };
    let last_save = reports.iter().map(|report| report.last_save_seconds).min();
    let last_save = last_save.unwrap_or(shard.config.now.unix.0 / 1000);
    vec![
        ("loading", flag(is_loading)),
        ("async_loading", "0".to_owned()),
        ("current_cow_peak", "0".to_owned()),
        ("current_cow_size", "0".to_owned()),
        ("rdb_changes_since_last_save", changes),
        (
            "rdb_bgsave_in_progress",
            flag(running(reports, SaveKind::Save).is_some()),
        ),
        ("rdb_last_save_time", last_save.to_string()),
        (
            "rdb_last_bgsave_status",
            status(reports, |r| r.last_save_failed),
        ),
        (
            "rdb_last_bgsave_time_sec",
            seconds(reports.iter().filter_map(|r| r.last_save_took).max()),
        ),
        (
            "rdb_current_bgsave_time_sec",
            seconds(running(reports, SaveKind::Save)),
        ),
        ("rdb_saves", sum(reports, |r| r.saves)),
    ]
}

fn log_fields(reports: &[SaveReport]) -> Fields {
    let rewriting = running(reports, SaveKind::Rewrite);
    let took = reports.iter().filter_map(|r| r.last_rewrite_took).max();
    let mut fields = vec![
        ("aof_enabled", flag(!reports.is_empty())),
        ("aof_rewrite_in_progress", flag(rewriting.is_some())),
        (
            "aof_rewrite_scheduled",
            flag(reports.iter().any(|r| r.is_scheduled)),
        ),
        ("aof_last_rewrite_time_sec", seconds(took)),
        ("aof_current_rewrite_time_sec", seconds(rewriting)),
        (
            "aof_last_bgrewrite_status",
            status(reports, |r| r.last_rewrite_failed),
        ),
        ("aof_rewrites", sum(reports, |r| r.rewrites)),
        (
            "aof_last_write_status",
            status(reports, |r| r.has_write_fault),
        ),
    ];
    if !reports.is_empty() {
        fields.extend([
            (
                "aof_current_size",
                sum(reports, |r| r.log_bytes + r.base_bytes),
            ),
            ("aof_base_size", sum(reports, |r| r.base_bytes)),
            ("aof_buffer_length", sum(reports, |r| r.held_bytes)),
        ]);
    }
    fields
}

fn flag(is_set: bool) -> String {
    u8::from(is_set).to_string()
}

fn status(reports: &[SaveReport], failed: fn(&SaveReport) -> bool) -> String {
    let status = if reports.iter().any(failed) {
        "err"
    } else {
        "ok"
    };
    status.to_owned()
}

fn sum(reports: &[SaveReport], number: fn(&SaveReport) -> u64) -> String {
    reports.iter().map(number).sum::<u64>().to_string()
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or("-1".to_owned(), |time| time.as_secs().to_string())
}

/// For how long snapshots of this kind have been under way.
fn running(reports: &[SaveReport], kind: SaveKind) -> Option<Duration> {
    let running = reports.iter().filter_map(|report| report.running);
    let times = running.filter(|(running, _)| *running == kind);
    times.map(|(_, time)| time).max()
}
