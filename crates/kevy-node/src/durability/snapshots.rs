//! When snapshots are taken, and the shard's part in taking them: `BGSAVE`, `BGREWRITEAOF`, `SAVE`, a log that has grown.
//!
//! A snapshot begins when no transaction is under way on the shard, so that nothing is lent and nothing half done: it takes
//! its place in the queue of locks. From then on each turn writes some entries, and whatever is about to be changed first.

use super::Durability;
use crate::log::DiskFault;
use crate::message::{Access, Claim, Message};
use crate::query::Answer;
use crate::shard::Shard;
use crate::transaction::Waiting;
use kevy_engine::Effects;
use kevy_engine::keyspace::SnapshotProgress;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::time::{Instant, Now};
use std::time::Duration;

/// How many entries are written at a time.
const ENTRIES_PER_STEP: usize = 64;
/// How much longer a shutdown waits for a disk that fails than for clients.
const LOG_GRACE: Duration = Duration::from_secs(5);
/// How long a turn writes entries.
const TIME_PER_TURN: Duration = Duration::from_micros(300);
/// How many steps a turn takes at most.
const STEPS_PER_TURN: usize = 32;
/// With so many segments the log is worth a snapshot, whatever its size: each start begins one.
const SEGMENTS_MAX: u64 = 32;

/// Why a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveKind {
    /// `SAVE`, `BGSAVE`, a save point.
    Save,
    /// `BGREWRITEAOF`, a log that has grown.
    Rewrite,
}

/// What a shard knows of its snapshots.
#[derive(Debug)]
pub(crate) struct SnapshotControl {
    wanted: Option<SaveKind>,
    /// A place in the queue of locks was taken.
    is_queued: bool,
    /// Why the one under way is taken, and since when.
    running: Option<(SaveKind, Instant)>,
    /// How many shards have not said that all their transactions so far are durable.
    unsettled: u16,
    /// Who is to be told when the one that is wanted or under way has ended.
    askers: Vec<(ShardId, TransactionId)>,
    pub(crate) report: SaveReport,
    /// Changes that had been counted when the last one began.
    changes_before: u64,
}

/// What `INFO` and `LASTSAVE` tell.
#[expect(clippy::struct_excessive_bools, reason = "independent facts for INFO")]
#[derive(Clone, Debug, Default)]
pub struct SaveReport {
    /// When the last snapshot was complete, in Unix seconds; at first the start of the process.
    pub last_save_seconds: i64,
    /// Snapshots completed.
    pub saves: u64,
    /// Of them those that were to make the log shorter.
    pub rewrites: u64,
    /// Whether the last one failed.
    pub last_save_failed: bool,
    /// Whether the last that was to make the log shorter failed.
    pub last_rewrite_failed: bool,
    /// How long the last one took.
    pub last_save_took: Option<Duration>,
    /// How long the last one took that was to make the log shorter.
    pub last_rewrite_took: Option<Duration>,
    /// Changes since the last one began.
    pub changes_since: u64,
    /// The one under way, and for how long it has been.
    pub running: Option<(SaveKind, Duration)>,
    /// Whether one is to begin.
    pub is_scheduled: bool,
    /// Size of the log since the last snapshot, in bytes.
    pub log_bytes: u64,
    /// Size of that snapshot, in bytes.
    pub base_bytes: u64,
    /// Bytes of the log that are not durable.
    pub held_bytes: u64,
    /// Whether writing the log fails.
    pub has_write_fault: bool,
}

impl SnapshotControl {
    pub(crate) fn new(now: Now) -> Self {
        Self {
            wanted: None,
            is_queued: false,
            running: None,
            unsettled: 0,
            askers: Vec::new(),
            report: SaveReport {
                last_save_seconds: now.unix.0 / 1000,
                ..SaveReport::default()
            },
            changes_before: 0,
        }
    }

    /// Whether one is under way or about to be.
    pub(crate) fn is_active(&self) -> bool {
        self.wanted.is_some() || self.running.is_some()
    }
}

impl Shard {
    /// Wants a snapshot; `asker` is told when it has ended.
    pub(crate) fn want_snapshot(
        &mut self,
        kind: SaveKind,
        asker: Option<(ShardId, TransactionId)>,
    ) {
        let Some(durability) = &mut self.durability else {
            if let Some((shard, id)) = asker {
                self.send(shard, Message::Told(id, Box::new(Answer::Count(1))));
            }
            return;
        };
        let control = &mut durability.snapshots;
        if control.wanted.is_none() {
            control.wanted = Some(kind);
        }
        control.askers.extend(asker);
    }

    /// What this shard knows of its snapshots and its log.
    pub(crate) fn save_report(&self) -> Option<SaveReport> {
        let durability = self.durability.as_ref()?;
        let control = &durability.snapshots;
        let (log_bytes, base_bytes) = durability.journal.sizes();
        let now = self.now.monotonic;
        let running = control.running;
        Some(SaveReport {
            changes_since: self.effects.changes() - control.changes_before,
            running: running.map(|(kind, since)| (kind, now.saturating_since(since))),
            is_scheduled: control.wanted.is_some(),
            log_bytes,
            base_bytes,
            held_bytes: durability.journal.held_bytes(),
            has_write_fault: durability.journal.fault().is_some(),
            ..control.report.clone()
        })
    }

    /// Whether a snapshot is under way here, or about to be.
    pub(crate) fn is_saving(&self) -> bool {
        let durability = self.durability.as_ref();
        durability.is_some_and(|durability| durability.snapshots.is_active())
    }

    /// Goes on with a snapshot. Once a turn.
    pub(crate) fn drive_snapshot(&mut self) {
        let Some(durability) = &mut self.durability else {
            return;
        };
        if durability.journal.has_snapshot() {
            self.write_entries();
        } else if durability.snapshots.wanted.is_some()
            && !durability.snapshots.is_queued
            && durability.journal.may_begin_snapshot()
            && self.loading.is_none()
        {
            durability.snapshots.is_queued = true;
            let (ticket, held) = self.locks.enqueue(Claim::Whole(Access::Shared));
            self.waiting.insert(ticket, Waiting::Snapshot);
            if held {
                self.run_granted(vec![ticket]);
            }
        }
    }

    /// No transaction is under way here: the snapshot is of this moment.
    pub(crate) fn begin_snapshot_now(&mut self) {
        let changes = self.effects.changes();
        let Some(durability) = &mut self.durability else {
            return;
        };
        let Durability {
            journal, snapshots, ..
        } = &mut **durability;
        snapshots.is_queued = false;
        // A segment may have become full meanwhile: then it is tried again when the next has begun.
        if journal.may_begin_snapshot()
            && let Some(kind) = snapshots.wanted.take()
        {
            journal.begin_snapshot();
            self.keyspace.begin_snapshot();
            snapshots.running = Some((kind, self.now.monotonic));
            snapshots.changes_before = changes;
            snapshots.unsettled = self.map.shards();
            if let Some(number) = journal.snapshot_number() {
                let epoch = self.epoch;
                for index in 0..self.shards() {
                    self.send(ShardId(index), Message::AwaitSettled(number, epoch));
                }
            }
        }
    }

    /// All transactions of another shard that a snapshot may hold are durable.
    pub(crate) fn count_settled(&mut self, number: u64) {
        let Some(durability) = &mut self.durability else {
            return;
        };
        if durability.journal.snapshot_number() == Some(number) {
            let left = &mut durability.snapshots.unsettled;
            *left = left.saturating_sub(1);
            if *left == 0 {
                durability.journal.settle_snapshot(number);
            }
        }
    }

    fn write_entries(&mut self) {
        let began = self.clock();
        for _ in 0..STEPS_PER_TURN {
            let Some(durability) = &mut self.durability else {
                return;
            };
            // If the disk is slow the walk pauses; what is written ahead meanwhile is as much as clients touch.
            if !durability.journal.wants_entries() {
                return;
            }
            let mut effects = Effects::on();
            let progress = self
                .keyspace
                .advance_snapshot(ENTRIES_PER_STEP, &mut effects);
            durability.journal.push_entries(effects.iter());
            match progress {
                SnapshotProgress::Running => {}
                SnapshotProgress::Complete(keys) => {
                    return durability.journal.complete_snapshot(keys);
                }
                SnapshotProgress::Gone => return self.begin_snapshot_anew(),
            }
            if self.clock().saturating_since(began) >= TIME_PER_TURN {
                return;
            }
        }
    }

    /// All keys were removed: the snapshot would be of a state that nobody needs.
    fn begin_snapshot_anew(&mut self) {
        if let Some(durability) = &mut self.durability {
            durability.journal.abandon_snapshot();
            let control = &mut durability.snapshots;
            if let Some((kind, _)) = control.running.take() {
                control.wanted.get_or_insert(kind);
            }
        }
    }

    /// A snapshot has ended.
    pub(super) fn end_snapshot(&mut self, fault: Option<&DiskFault>) {
        let now = self.now;
        self.keyspace.abandon_snapshot();
        let Some(durability) = &mut self.durability else {
            return;
        };
        let control = &mut durability.snapshots;
        let Some((kind, since)) = control.running.take() else {
            return;
        };
        let took = now.monotonic.saturating_since(since);
        let report = &mut control.report;
        match kind {
            SaveKind::Save => {
                report.last_save_failed = fault.is_some();
                report.last_save_took = Some(took);
                report.saves += u64::from(fault.is_none());
            }
            SaveKind::Rewrite => {
                report.last_rewrite_failed = fault.is_some();
                report.last_rewrite_took = Some(took);
                report.rewrites += u64::from(fault.is_none());
            }
        }
        match fault {
            None => report.last_save_seconds = now.unix.0 / 1000,
            Some(fault) => tracing::error!(shard = self.id.0, "Writing a snapshot failed: {fault}"),
        }
        // Who asked while this one was under way means the next.
        if control.wanted.is_none() {
            let askers = std::mem::take(&mut control.askers);
            let failed = usize::from(fault.is_some());
            for (shard, id) in askers {
                self.send(shard, Message::Told(id, Box::new(Answer::Count(failed))));
            }
        }
    }

    /// Looks whether a snapshot is due.
    pub(crate) fn want_snapshot_if_due(&mut self) {
        let Some(report) = self.save_report() else {
            return;
        };
        let Some(durability) = &self.durability else {
            return;
        };
        if durability.snapshots.is_active() || self.loading.is_some() {
            return;
        }
        let settings = &self.settings.persistence;
        let shards = u64::from(self.shards());
        let percentage = u64::from(settings.auto_aof_rewrite_percentage);
        let has_grown = report.log_bytes >= settings.auto_aof_rewrite_min_size / shards
            && report.log_bytes.saturating_mul(100) >= report.base_bytes.saturating_mul(percentage);
        let since = self.now.unix.0 / 1000 - report.last_save_seconds;
        let is_due = settings.save.iter().any(|point| {
            since >= point.seconds as i64 && report.changes_since >= point.changes.div_ceil(shards)
        });
        if is_due && report.changes_since > 0 {
            self.want_snapshot(SaveKind::Save, None);
        } else if percentage > 0 && (has_grown || durability.journal.segments() > SEGMENTS_MAX) {
            self.want_snapshot(SaveKind::Rewrite, None);
        }
    }

    /// When the disk, or a snapshot, needs a turn at the latest.
    pub(crate) fn disk_deadline(&self) -> Option<Instant> {
        let durability = self.durability.as_ref()?;
        if durability.journal.wants_entries() {
            return Some(self.now.monotonic);
        }
        durability.journal.deadline()
    }

    /// Whether a shutdown may end: everything is durable, or the disk has failed for a while after `until`.
    pub(crate) fn is_log_settled(&mut self, until: Instant) -> bool {
        let Some(durability) = &mut self.durability else {
            return true;
        };
        let journal = &mut durability.journal;
        // A life may be too short for a snapshot that is due: a moment is left for it.
        if durability.snapshots.is_active() && self.now.monotonic < until {
            return false;
        }
        if journal.synced() == journal.end() {
            return true;
        }
        journal.request_sync();
        match journal.fault() {
            Some(fault) if self.now.monotonic >= until + LOG_GRACE => {
                self.failure = Some(format!("the end of the log could not be written: {fault}"));
                true
            }
            Some(_) | None => false,
        }
    }
}
