//! How long commands take, without a reading of the clock for each.
//!
//! A clock costs tens of nanoseconds, a `GET` a few hundred. So commands that take constant or logarithmic time and have few
//! arguments are measured together, as many as run without a pause, and each is counted with its share; any other command
//! is measured alone. Decision record 0009 has the reasons and what it costs.

use crate::command_table::{Found, Handler};
use crate::latency::Event;
use crate::session::Session;
use crate::shard::Shard;
use crate::stats::{Failure, UNKNOWN_COMMAND};
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::Instant;
use std::time::Duration;

/// Most commands that are measured together.
const MAX_TOGETHER: usize = 64;
/// A command with more arguments is measured alone, however fast it is said to be.
const MAX_ARGUMENTS_TOGETHER: usize = 16;
/// With a `slowlog-log-slower-than` below this, in microseconds, each command is measured alone.
const EXACT_BELOW_MICROS: i64 = 1000;

/// Measures the commands that a shard runs.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// The command at work, by its number in the command table.
    pub(crate) current: usize,
    /// Whether it is to be measured alone.
    alone: bool,
    /// The last reading.
    mark: Instant,
    /// Commands that have run since.
    unsettled: Vec<usize>,
}

impl Stopwatch {
    /// The command at work has run, here and now.
    #[inline]
    pub(crate) fn note_run(&mut self) {
        if self.current != UNKNOWN_COMMAND {
            self.unsettled.push(self.current);
        }
    }

    /// Whether what has run is to be counted before anything else runs.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let length = self.unsettled.len();
        length > 0 && (self.alone || length >= MAX_TOGETHER)
    }
}

/// Whether a command is so fast that, with few arguments, its share of a batch says enough.
pub(crate) fn is_cheap(handler: Handler) -> bool {
    let is_constant = matches!(handler, Handler::Engine(row) if row.complexity == "O(1)");
    is_constant || is_fast(handler)
}

impl Shard {
    /// The time at this very moment, where the host has a clock for that.
    pub(crate) fn clock(&self) -> Instant {
        let read = self.config.process.fine_clock;
        read.map_or(self.now.monotonic, |read| read())
    }

    /// Begins to measure what runs from now on.
    #[inline]
    pub(crate) fn start_stopwatch(&mut self) {
        self.stopwatch.mark = self.clock();
    }

    /// A command is about to run.
    #[inline]
    pub(crate) fn measure(&mut self, index: usize, arguments: usize) {
        let threshold = self.settings.monitoring.slowlog_log_slower_than;
        let exact = (0..EXACT_BELOW_MICROS).contains(&threshold);
        let alone =
            exact || arguments > MAX_ARGUMENTS_TOGETHER || !self.commands.all()[index].is_cheap;
        if alone && !self.stopwatch.unsettled.is_empty() {
            self.settle_stopwatch();
        }
        self.stopwatch.current = index;
        self.stopwatch.alone = alone;
    }

    /// As [`Shard::measure`], for a command of which only the name is known. Subcommands are not counted then.
    pub(crate) fn measure_by_name(&mut self, name: &str) {
        let index = self.commands.position(name.as_bytes());
        self.stopwatch.current = index.unwrap_or(UNKNOWN_COMMAND);
    }

    /// Counts an error of a command of which only the name is known.
    pub(crate) fn count_failed(&mut self, name: &str, error: &ErrorReply) {
        let index = self.commands.position(name.as_bytes());
        let index = index.unwrap_or(UNKNOWN_COMMAND);
        self.stats
            .count_command_error(index, Failure::Failed, error);
    }

    /// Counts what has run since the last reading. If that was one command, how long it took.
    pub(crate) fn settle_stopwatch(&mut self) -> Option<Duration> {
        let now = self.clock();
        let elapsed = now.saturating_since(self.stopwatch.mark);
        self.stopwatch.mark = now;
        let count = self.stopwatch.unsettled.len();
        if count == 0 {
            return None;
        }
        let share = elapsed / count as u32;
        let mut unsettled = std::mem::take(&mut self.stopwatch.unsettled);
        for alike in unsettled.chunk_by(|one, other| one == other) {
            self.count_duration(alike[0], share, alike.len() as u64);
        }
        unsettled.clear();
        self.stopwatch.unsettled = unsettled;
        (count == 1).then_some(elapsed)
    }

    /// As [`Shard::settle_stopwatch`], after a request of `session`; a slow one is logged.
    pub(crate) fn settle_request(&mut self, session: &Session, args: Args<'_>) {
        if let Some(took) = self.settle_stopwatch()
            && self.is_slow(took)
        {
            self.log_slow(session, args, took);
        }
    }

    /// Counts that a command took `share`, `times` times.
    pub(crate) fn count_duration(&mut self, index: usize, share: Duration, times: u64) {
        let nanos = share.as_nanos() as u64;
        self.stats.count_time(index, nanos * times);
        if self.settings.monitoring.latency_tracking {
            self.histograms.record(index, nanos, times);
        }
        if self.settings.monitoring.latency_monitor_threshold > 0 {
            let event = if is_fast(self.commands.all()[index].handler) {
                Event::FastCommand
            } else {
                Event::Command
            };
            self.note_latency(event, share);
        }
    }

    /// A command of `session` waits for other shards: from now until its reply it is measured.
    pub(crate) fn measure_waiting(&mut self, found: Found, session: &mut Session, args: Args<'_>) {
        // How long a client chose to wait says nothing about the server.
        if is_blocking(found) {
            return;
        }
        let logged = self.settings.monitoring.slowlog_log_slower_than >= 0;
        session.waits = Some(Box::new(crate::session::WaitingRequest {
            index: found.index,
            began: self.stopwatch.mark,
            request: logged.then(|| kevy_proto::resp::RequestBuffer::from_args(args)),
        }));
    }

    /// What `session` waited for is there.
    pub(crate) fn settle_waiting(&mut self, session: &mut Session) {
        let Some(waited) = session.waits.take() else {
            return;
        };
        let took = self.clock().saturating_since(waited.began);
        self.count_duration(waited.index, took, 1);
        if let Some(request) = &waited.request
            && self.is_slow(took)
        {
            self.log_slow(session, request.args(), took);
        }
    }
}

fn is_fast(handler: Handler) -> bool {
    handler.flags().contains(Flags::FAST)
}

fn is_blocking(found: Found) -> bool {
    found.handler.flags().contains(Flags::BLOCKING)
}
