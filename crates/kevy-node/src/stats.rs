//! Counters of one shard. `INFO` adds those of all shards up.

use crate::histogram::Histograms;
use crate::shard::Shard;
use crate::subscriptions::Topic;
use bytes::Bytes;
use kevy_proto::resp::ErrorReply;
use kevy_proto::time::{Instant, Now};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most codes of errors that are counted apart, as in Redis.
pub const MAX_ERROR_CODES: usize = 128;

/// The number of a command that is not counted.
pub const UNKNOWN_COMMAND: usize = usize::MAX;

/// What is counted of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Calls.
    pub calls: u64,
    /// How long they took together; those that are measured in batches count with their shares.
    pub nanos: u64,
    /// Requests that were refused before they ran.
    pub rejected: u64,
    /// Calls that ended with an error.
    pub failed: u64,
}

/// How a command came to its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was refused before it ran.
    Rejected,
    /// It ran.
    Failed,
}

/// Counters when the last sample was taken.
#[derive(Clone, Copy, Debug, Default)]
struct Sampled {
    at: Instant,
    commands: u64,
    input_bytes: u64,
    output_bytes: u64,
}

/// Counters of one shard since its start (or `CONFIG RESETSTAT`).
#[derive(Clone, Debug)]
pub struct Stats {
    /// Connections accepted.
    pub connections_received: u64,
    /// Connections refused for `maxclients`.
    pub rejected_connections: u64,
    /// Requests executed for our own sessions.
    pub commands_processed: u64,
    /// How long the longest turn took: as long everybody else waited.
    pub longest_turn: Duration,
    /// Errors replied.
    pub error_replies: u64,
    /// The same by their codes (`ERR`, `WRONGTYPE`).
    pub errors: BTreeMap<String, u64>,
    /// Connections closed for breaking the protocol.
    pub protocol_errors: u64,
    /// Connections closed for a query buffer above its limit.
    pub query_buffer_limit_disconnections: u64,
    /// Connections closed for replies above their limit.
    pub output_buffer_limit_disconnections: u64,
    /// Bytes received from clients.
    pub input_bytes: u64,
    /// Bytes sent to clients.
    pub output_bytes: u64,
    /// Transactions over several shards that were coordinated here.
    pub transactions: u64,
    /// Those that had to lock in order because a shard refused.
    pub transactions_in_order: u64,
    /// Locks refused to transactions of any coordinator.
    pub locks_refused: u64,
    /// Claims that had to wait.
    pub lock_waits: u64,
    /// Entries that were offered to blocked sessions.
    pub offers: u64,
    /// What is counted of each command, by its number in the command table.
    pub commands: Vec<CommandStats>,
    /// Requests per second lately.
    pub ops_per_second: u64,
    /// Bytes received per second lately.
    pub input_bytes_per_second: u64,
    /// Bytes sent per second lately.
    pub output_bytes_per_second: u64,
    /// Most bytes that keys and values took when a sample was taken.
    pub peak_bytes: usize,
    sampled: Sampled,
}

impl Stats {
    /// Counters at zero.
    pub fn new(now: Now) -> Self {
        Self {
            connections_received: 0,
            rejected_connections: 0,
            longest_turn: Duration::ZERO,
            commands_processed: 0,
            error_replies: 0,
            errors: BTreeMap::new(),
            protocol_errors: 0,
            query_buffer_limit_disconnections: 0,
            output_buffer_limit_disconnections: 0,
            input_bytes: 0,
            output_bytes: 0,
            transactions: 0,
            transactions_in_order: 0,
            locks_refused: 0,
            lock_waits: 0,
            offers: 0,
            commands: Vec::new(),
            ops_per_second: 0,
            input_bytes_per_second: 0,
            output_bytes_per_second: 0,
            peak_bytes: 0,
            sampled: Sampled {
                at: now.monotonic,
                ..Sampled::default()
            },
        }
    }

    /// Counts a call of the command with this number.
    pub fn count_call(&mut self, index: usize) {
        if let Some(command) = self.command(index) {
            command.calls += 1;
        }
    }

    /// Counts how long calls of the command with this number took.
    pub fn count_time(&mut self, index: usize, nanos: u64) {
        if let Some(command) = self.command(index) {
            command.nanos += nanos;
        }
    }

    /// Counts an error reply.
    pub fn count_error(&mut self, error: &ErrorReply) {
        self.error_replies += 1;
        let code = error.code();
        if let Some(count) = self.errors.get_mut(code) {
            *count += 1;
        } else if self.errors.len() < MAX_ERROR_CODES {
            self.errors.insert(code.to_owned(), 1);
        }
    }

    /// Counts an error of the command with this number: it was refused, or it failed when it ran.
    pub fn count_command_error(&mut self, index: usize, how: Failure, error: &ErrorReply) {
        self.count_error(error);
        self.count_failure(index, how);
    }

    /// Counts that the command with this number came to an error that is counted elsewhere.
    pub fn count_failure(&mut self, index: usize, how: Failure) {
        let Some(command) = self.command(index) else {
            return;
        };
        match how {
            Failure::Rejected => command.rejected += 1,
            Failure::Failed => command.failed += 1,
        }
    }

    #[inline]
    fn command(&mut self, index: usize) -> Option<&mut CommandStats> {
        if self.commands.len() <= index && index != UNKNOWN_COMMAND {
            self.commands.resize(index + 1, CommandStats::default());
        }
        self.commands.get_mut(index)
    }

    /// Takes a sample for what `INFO` tells per second, once a cron.
    pub fn sample(&mut self, now: Now, used_bytes: usize) {
        self.peak_bytes = self.peak_bytes.max(used_bytes);
        let before = self.sampled;
        let elapsed_ms = now.monotonic.saturating_since(before.at).as_millis() as u64;
        if elapsed_ms == 0 {
            return;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) * 1000 / elapsed_ms;
        self.ops_per_second = rate(self.commands_processed, before.commands);
        self.input_bytes_per_second = rate(self.input_bytes, before.input_bytes);
        self.output_bytes_per_second = rate(self.output_bytes, before.output_bytes);
        self.sampled = Sampled {
            at: now.monotonic,
            commands: self.commands_processed,
            input_bytes: self.input_bytes,
            output_bytes: self.output_bytes,
        };
    }
}

/// What one shard tells about itself.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its counters.
    pub stats: Stats,
    /// Counters of its keys.
    pub keyspace: kevy_engine::keyspace::KeyspaceStats,
    /// Sessions connected.
    pub clients: usize,
    /// Sessions that wait for a transaction.
    pub blocked_clients: usize,
    /// Largest input of a session, in bytes.
    pub largest_input_bytes: usize,
    /// Largest output of a session, in bytes.
    pub largest_output_bytes: usize,
    /// Keys.
    pub keys: usize,
    /// Keys with an expiry.
    pub expires: usize,
    /// Estimated bytes of its keys and values.
    pub keyspace_bytes: usize,
    /// Average time to live of the keys with an expiry, in milliseconds.
    pub average_ttl_ms: i64,
    /// Changes since the start.
    pub changes: u64,
    /// What is on disk, unless everything is in memory only.
    pub persistence: Option<crate::durability::SaveReport>,
    /// Whether its files are being loaded.
    pub is_loading: bool,
    /// Claims in the lock table.
    pub claims: usize,
    /// Transactions under way.
    pub transactions: usize,
    /// Sessions that track what they read.
    pub tracking_clients: usize,
    /// Keys that somebody has cached.
    pub tracked_keys: usize,
    /// Those who have cached them, over all keys.
    pub tracked_items: usize,
    /// Prefixes of keys that somebody listens for, on whatever shard.
    pub tracked_prefixes: usize,
    /// Channels that sessions listen to; other shards may name the same.
    pub channels: Vec<Bytes>,
    /// Patterns that sessions listen to.
    pub patterns: Vec<Bytes>,
    /// Shard channels that sessions listen to.
    pub shard_channels: Vec<Bytes>,
    /// Most bytes that its keys and values took at once, as far as was looked.
    pub peak_bytes: usize,
    /// Bytes of what clients sent and have not read.
    pub client_bytes: usize,
    /// How long its commands took, if that was asked for.
    pub histograms: Option<Histograms>,
}

impl Shard {
    /// Sets the counters back to zero (`CONFIG RESETSTAT`).
    pub(crate) fn reset_stats(&mut self) {
        self.stats = Stats::new(self.now);
        self.histograms = Histograms::default();
        self.keyspace.reset_stats();
    }

    /// What this shard tells about itself.
    pub fn summary(&self) -> Summary {
        let sessions = || self.sessions.iter().flatten();
        let topics = |topic| self.subscriptions.names(topic).cloned().collect();
        Summary {
            stats: self.stats.clone(),
            keyspace: self.keyspace.stats(),
            clients: sessions().count(),
            blocked_clients: sessions()
                .filter(|session| session.is_blocked() || session.is_paused())
                .count(),
            largest_input_bytes: sessions()
                .map(|session| session.input_bytes())
                .max()
                .unwrap_or(0),
            largest_output_bytes: sessions()
                .map(|session| session.replies.len_bytes())
                .max()
                .unwrap_or(0),
            keys: self.keyspace.len(),
            expires: self.keyspace.expires_len(),
            keyspace_bytes: self.keyspace.used_bytes(),
            average_ttl_ms: self.keyspace.average_ttl_ms(self.now),
            changes: self.effects.changes(),
            persistence: self.save_report(),
            is_loading: self.is_loading(),
            claims: self.locks.len(),
            transactions: self.transactions.len(),
            tracking_clients: sessions()
                .filter(|session| session.tracking.is_some())
                .count(),
            tracked_keys: self.tracking.keys(),
            tracked_items: self.tracking.items(),
            tracked_prefixes: self.tracking.prefixes(),
            channels: topics(Topic::Channel),
            patterns: topics(Topic::Pattern),
            shard_channels: topics(Topic::ShardChannel),
            peak_bytes: self.stats.peak_bytes.max(self.keyspace.used_bytes()),
            client_bytes: sessions()
                .map(|session| session.request_bytes() + session.replies.len_bytes())
                .sum(),
            histograms: None,
        }
    }
}
