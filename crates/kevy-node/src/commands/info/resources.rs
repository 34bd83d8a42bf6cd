//! `INFO memory` and `INFO cpu`.

use super::{Total, section};
use crate::shard::Shard;

/// Keys and values by estimate, what clients left in buffers, what the process began with, and what the operating system
/// counts.
pub(super) fn memory(shard: &Shard, total: &Total) -> String {
    let dataset = total.sum(|s| s.keyspace_bytes as u64);
    let clients = total.sum(|s| s.client_bytes as u64);
    let startup = shard.config.process.startup_bytes;
    let overhead = startup + clients;
    let used = dataset + overhead;
    let peak = total.sum(|s| s.peak_bytes as u64).max(dataset) + overhead;
    let usage = shard.config.process.usage.map(|usage| usage());
    let usage = usage.unwrap_or_default();
    let resident = usage.resident_bytes;
    let server = &shard.settings.server;
    let plain = |bytes: u64| bytes.to_string();
    let used_fields = [
        ("used_memory", plain(used)),
        ("used_memory_human", human(used)),
        ("used_memory_rss", plain(resident)),
        ("used_memory_rss_human", human(resident)),
        ("used_memory_peak", plain(peak)),
        ("used_memory_peak_human", human(peak)),
        ("used_memory_peak_perc", percent(used, peak)),
        ("used_memory_overhead", plain(overhead)),
        ("used_memory_startup", plain(startup)),
        ("used_memory_dataset", plain(dataset)),
        ("used_memory_dataset_perc", percent(dataset, used - startup)),
        ("allocator_allocated", plain(used)),
        ("allocator_active", plain(resident)),
        ("allocator_resident", plain(resident)),
        ("total_system_memory", plain(usage.machine_bytes)),
        ("total_system_memory_human", human(usage.machine_bytes)),
        ("used_memory_lua", plain(0)),
        ("used_memory_lua_human", human(0)),
        ("used_memory_scripts", plain(0)),
        ("used_memory_scripts_human", human(0)),
        ("number_of_cached_scripts", plain(0)),
        ("number_of_functions", plain(0)),
        ("number_of_libraries", plain(0)),
        ("maxmemory", plain(server.maxmemory)),
        ("maxmemory_human", human(server.maxmemory)),
    ];
    let policy = server.maxmemory_policy.name().to_owned();
    let other_fields = [
        ("maxmemory_policy", policy),
        ("mem_fragmentation_ratio", ratio(resident, used)),
        (
            "mem_fragmentation_bytes",
            plain(resident.saturating_sub(used)),
        ),
        ("mem_not_counted_for_evict", plain(overhead)),
        ("mem_replication_backlog", plain(0)),
        ("mem_clients_slaves", plain(0)),
        ("mem_clients_normal", plain(clients)),
        ("mem_aof_buffer", plain(0)),
        ("mem_allocator", "mimalloc".to_owned()),
        ("active_defrag_running", plain(0)),
        ("lazyfree_pending_objects", plain(0)),
        ("lazyfreed_objects", plain(0)),
    ];
    section("Memory", &[&used_fields[..], &other_fields].concat())
}

fn human(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
    ];
    match UNITS.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

fn ratio(one: u64, other: u64) -> String {
    format!("{:.2}", one as f64 / other.max(1) as f64)
}

/// Of the whole process; there are no child processes.
pub(super) fn cpu(shard: &Shard, _: &Total) -> String {
    let usage = shard.config.process.usage.map(|usage| usage());
    let usage = usage.unwrap_or_default();
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    section(
        "CPU",
        &[
            ("used_cpu_sys", seconds(usage.system_micros)),
            ("used_cpu_user", seconds(usage.user_micros)),
            ("used_cpu_sys_children", seconds(0)),
            ("used_cpu_user_children", seconds(0)),
        ],
    )
}
