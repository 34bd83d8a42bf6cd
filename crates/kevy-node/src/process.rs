//! What the host tells a shard about the process it is part of, and lends it of the operating system. All of it is optional: in
//! simulation there is none.

use crate::settings::LogLevel;
use kevy_proto::time::Instant;
use std::time::Duration;

/// What the host knows of the process, for `INFO server`.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Process id.
    pub id: u32,
    /// Identifies this run: 40 hex digits.
    pub run_id: String,
    /// Operating system, release and machine.
    pub os: String,
    /// How connections are watched.
    pub multiplexing_api: String,
    /// Path of the program.
    pub executable: String,
    /// Path of the configuration file, empty without one.
    pub config_file: String,
    /// Reads the monotonic clock at the very moment, to measure commands. Without it they all take no time: in simulation.
    pub fine_clock: Option<fn() -> Instant>,
    /// Stops the calling shard for a while (`DEBUG SLEEP`). Without it nobody sleeps.
    pub sleep: Option<fn(Duration)>,
    /// Replaces the configuration file by this text, whole or not at all (`CONFIG REWRITE`).
    pub rewrite_config: Option<RewriteConfig>,
    /// What the operating system counts of the process (`INFO memory`, `INFO cpu`).
    pub usage: Option<fn() -> Usage>,
    /// Resident memory when nothing had been asked of the process yet, in bytes.
    pub startup_bytes: u64,
    /// Changes how much is logged (`CONFIG SET loglevel`).
    pub set_log_level: Option<fn(LogLevel)>,
}

/// Reads the configuration file, hands its text to the function and replaces it by what comes back, so that after
/// a crash either the old or the new text is there.
///
/// Errors: what the function or the system says; the old text then still stands.
pub type RewriteConfig =
    fn(path: &str, edit: &dyn Fn(&str) -> Result<String, String>) -> std::io::Result<()>;

/// What the operating system counts of the process. Zero where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
    /// Memory of the machine, in bytes.
    pub machine_bytes: u64,
    /// Time spent in the process itself, in microseconds.
    pub user_micros: u64,
    /// Time that the kernel spent for it, in microseconds.
    pub system_micros: u64,
}
