//! What one shard keeps on disk: the log that is being written, and the work on its set of files.
//!
//! A pure machine. It says what is to be done ([`Journal::poll_operation`]) and is told how that ended
//! ([`Journal::handle_done`]). One piece of work on the set of files is under way at a time:
//!
//! * **rolling**: the segment is synced to its end, the next one's header is written and synced, then the manifest names
//!   it, then entries go there. So a segment that is named exists, and only the last one can be torn;
//! * **adopting a snapshot**: once its file is synced the manifest names it and the segments from its position on; what it
//!   replaces is removed afterwards.

mod endings;

use super::manifest::{Files, Manifest, SnapshotFile};
use super::operation::{DiskAction, DiskFault, DiskOperation, DiskTask};
use super::snapshot::SnapshotWriter;
use super::survey::Survey;
use super::writer::{LogWriter, Operation, SyncPolicy};
use bytes::{Bytes, BytesMut};
use kevy_proto::log::{Entries, Entry, FileKind, Requests, SegmentHeader, TransactionPart};
use kevy_proto::resp::Args;
use kevy_proto::time::Instant;
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a segment grows before the next begins, in bytes.
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// What a shard is told of its files at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Names of the generation that counts.
    pub files: Files,
    /// What makes up the shard.
    pub manifest: Manifest,
    /// This run of the process: a number that no other run has.
    pub run: u64,
}

/// One shard's files.
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each kind of operation"
)]
#[derive(Debug)]
pub struct Journal {
    config: JournalConfig,
    writer: LogWriter,
    segment_file: Arc<str>,
    /// What the log tells about transactions.
    survey: Survey,
    chore: Chore,
    /// An operation of the chore is under way.
    is_chore_busy: bool,
    chore_retry_at: Option<Instant>,
    snapshot: Option<SnapshotWriter>,
    /// Every transaction that the snapshot holds is durable on all shards.
    is_snapshot_settled: bool,
    /// An operation is under way for a snapshot that was given up.
    is_abandoned_busy: bool,
    /// Files that are not needed any more; the first is being removed if `is_removing`.
    unneeded: VecDeque<Arc<str>>,
    is_removing: bool,
    /// What went wrong last, until something succeeds.
    fault: Option<DiskFault>,
    /// Size of the snapshot that the log builds on, in bytes.
    base_bytes: u64,
    /// A segment has begun.
    is_open: bool,
}

/// Work on the set of files, by its next step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Chore {
    None,
    /// The segment is synced to its end.
    Drain,
    /// The next segment's header is written.
    Header,
    HeaderSync,
    /// The manifest is replaced by this one.
    Manifest(Manifest),
}

/// What has become of a journal's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalNews {
    /// Nothing that anybody waits for.
    Nothing,
    /// More of the log is durable.
    Synced,
    /// The first segment of this run has begun.
    Opened,
    /// A snapshot was adopted.
    SnapshotAdopted,
    /// A snapshot could not be written and was given up.
    SnapshotFailed(DiskFault),
}

impl Journal {
    /// Goes on behind `position`, the end of the log; the first segment of this run is still to begin. `base_bytes` is the
    /// size of the snapshot that was loaded.
    pub fn new(
        config: JournalConfig,
        policy: SyncPolicy,
        position: u64,
        survey: Survey,
        base_bytes: u64,
        now: Instant,
    ) -> Self {
        let (_, last) = config.manifest.segments;
        let mut writer = LogWriter::new(policy, last, position, now);
        writer.roll();
        let mut survey = survey;
        survey.begin_run(config.run);
        Self {
            segment_file: config.files.segment(config.manifest.shard, last).into(),
            config,
            writer,
            survey,
            chore: Chore::Drain,
            is_chore_busy: false,
            chore_retry_at: None,
            snapshot: None,
            is_snapshot_settled: false,
            is_abandoned_busy: false,
            unneeded: VecDeque::new(),
            is_removing: false,
            fault: None,
            base_bytes,
            is_open: false,
        }
    }

    // ---- what is written -----------------------------------------------------------------------------------------

    /// Appends an entry of `epoch`: `push` encodes it.
    pub fn append(&mut self, now: Instant, epoch: u64, push: impl FnOnce(&mut BytesMut)) {
        self.writer.append(now, epoch, push);
    }

    /// Looks at an entry that is appended.
    pub fn note(&mut self, entry: &Entry<'_>) {
        self.survey.note(entry);
    }

    /// Looks at a part that is appended.
    pub fn note_part(&mut self, part: &TransactionPart) {
        self.survey.note_part(part);
    }

    /// Where the log ends: what was appended last is durable once [`Journal::synced`] has come here.
    pub fn end(&self) -> u64 {
        self.writer.end()
    }

    /// Up to where the log is durable.
    pub fn synced(&self) -> u64 {
        self.writer.synced()
    }

    /// Hands out what was appended and is not known to be durable.
    pub fn for_each_undurable(&self, mut take: impl FnMut(Requests<'_>)) {
        for entry in self.writer.undurable().flat_map(Entries::of).flatten() {
            match entry {
                Entry::Effects(requests) | Entry::Part(_, requests) => take(requests),
                Entry::Dropped { .. }
                | Entry::Skipped { .. }
                | Entry::EarlierRunsSettled
                | Entry::SnapshotBegin(_)
                | Entry::SnapshotEnd { .. } => {}
            }
        }
    }

    /// Bytes that are held because they are not known to be durable.
    pub fn held_bytes(&self) -> u64 {
        self.writer.held_bytes()
    }

    /// What is wrong with the disk: while something is, writes are better refused.
    pub fn fault(&self) -> Option<&DiskFault> {
        self.fault.as_ref()
    }

    /// Changes when the log is synced.
    pub fn set_policy(&mut self, policy: SyncPolicy) {
        self.writer.set_policy(policy);
    }

    /// Wants all that was appended to be durable soon, whatever the policy says.
    pub fn request_sync(&mut self) {
        self.writer.request_sync();
    }

    // ---- snapshots -----------------------------------------------------------------------------------------------

    /// Whether a snapshot is being written.
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether a snapshot can begin now.
    pub fn may_begin_snapshot(&self) -> bool {
        self.snapshot.is_none()
            && !self.is_abandoned_busy
            && self.chore == Chore::None
            && self.is_open
    }

    /// Begins a snapshot of the state behind all that was appended.
    pub fn begin_snapshot(&mut self) {
        debug_assert!(self.may_begin_snapshot());
        self.is_snapshot_settled = false;
        let position = self.writer.roll();
        self.chore = Chore::Drain;
        let header = self.header(FileKind::Snapshot, position);
        let shard = self.config.manifest.shard;
        let file = self.config.files.snapshot(shard, header.segment).into();
        let runs = self.survey.surveyed_runs();
        let settled = self.survey.has_settled_earlier_runs();
        self.snapshot = Some(SnapshotWriter::new(file, &header, &runs, settled));
    }

    /// Every transaction that the snapshot holds is durable on all shards: only then it may take the place of the log, which
    /// can still be judged.
    pub fn settle_snapshot(&mut self, number: u64) {
        if self
            .snapshot
            .as_ref()
            .is_some_and(|snapshot| snapshot.number == number)
        {
            self.is_snapshot_settled = true;
        }
    }

    /// The number of the snapshot that is being written.
    pub fn snapshot_number(&self) -> Option<u64> {
        self.snapshot.as_ref().map(|snapshot| snapshot.number)
    }

    /// Whether more entries of the snapshot are welcome.
    pub fn wants_entries(&self) -> bool {
        self.snapshot
            .as_ref()
            .is_some_and(SnapshotWriter::wants_entries)
    }

    /// Adds what rebuilds entries to the snapshot.
    pub fn push_entries<'a>(&mut self, effects: impl Iterator<Item = Args<'a>>) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.push(effects);
        }
    }

    /// The snapshot has all its entries: so many keys.
    pub fn complete_snapshot(&mut self, keys: u64) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.complete(keys);
        }
    }

    /// Gives the snapshot up.
    pub fn abandon_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.is_abandoned_busy = snapshot.is_busy();
            self.unneeded.push_back(snapshot.file);
        }
    }

    /// Size of the log since the snapshot it builds on, in bytes, and the size of that snapshot.
    pub fn sizes(&self) -> (u64, u64) {
        let base = self
            .config
            .manifest
            .snapshot
            .map_or(0, |snapshot| snapshot.position);
        (self.writer.end() - base, self.base_bytes)
    }

    /// How many segments there are.
    pub fn segments(&self) -> u64 {
        let (first, last) = self.config.manifest.segments;
        last - first + 1
    }

    // ---- what is to be done --------------------------------------------------------------------------------------

    /// The next thing to be done with a file, if there is one now.
    pub fn poll_operation(&mut self, now: Instant) -> Option<DiskOperation> {
        self.roll_if_long();
        self.poll_log(now)
            .or_else(|| self.poll_chore(now))
            .or_else(|| self.poll_snapshot())
            .or_else(|| self.poll_removal())
    }

    fn roll_if_long(&mut self) {
        let length = self.writer.end() - self.writer.segment_start();
        if length >= SEGMENT_BYTES && self.chore == Chore::None && self.is_open {
            self.writer.roll();
            self.chore = Chore::Drain;
        }
    }

    fn poll_log(&mut self, now: Instant) -> Option<DiskOperation> {
        let file = Arc::clone(&self.segment_file);
        Some(match self.writer.poll_operation(now)? {
            Operation::Write { offset, bytes, .. } => DiskOperation {
                task: DiskTask::LogWrite,
                file,
                action: DiskAction::Write { offset, bytes },
            },
            Operation::Sync { .. } => DiskOperation {
                task: DiskTask::LogSync,
                file,
                action: DiskAction::Sync,
            },
        })
    }

    fn poll_chore(&mut self, now: Instant) -> Option<DiskOperation> {
        if self.is_chore_busy || self.chore_retry_at.is_some_and(|at| now < at) {
            return None;
        }
        if self.chore == Chore::Drain && self.writer.has_drained() {
            self.chore = Chore::Header;
        }
        self.adopt_snapshot_if_ready();
        let shard = self.config.manifest.shard;
        let next_segment = || Arc::from(self.config.files.segment(shard, self.next_segment()));
        let (file, action) = match &self.chore {
            Chore::None | Chore::Drain => return None,
            Chore::Header => {
                let header = self.header(FileKind::Log, self.writer.synced());
                let bytes = Bytes::copy_from_slice(&header.encode());
                (next_segment(), DiskAction::Write { offset: 0, bytes })
            }
            Chore::HeaderSync => (next_segment(), DiskAction::Sync),
            Chore::Manifest(manifest) => {
                let text = Bytes::from(manifest.to_string());
                let name = self.config.files.manifest(shard);
                (name.into(), DiskAction::Replace(text))
            }
        };
        self.is_chore_busy = true;
        Some(DiskOperation {
            task: DiskTask::Files,
            file,
            action,
        })
    }

    fn adopt_snapshot_if_ready(&mut self) {
        if let Some(snapshot) = &self.snapshot
            && self.chore == Chore::None
            && self.is_snapshot_settled
            && snapshot.is_synced()
        {
            let (_, last) = self.config.manifest.segments;
            let file = SnapshotFile {
                number: snapshot.number,
                position: snapshot.position,
            };
            self.chore = Chore::Manifest(Manifest {
                snapshot: Some(file),
                segments: (snapshot.number, last),
                ..self.config.manifest
            });
        }
    }

    fn poll_snapshot(&mut self) -> Option<DiskOperation> {
        let snapshot = self.snapshot.as_mut()?;
        let action = snapshot.poll_action()?;
        Some(DiskOperation {
            task: DiskTask::Snapshot,
            file: Arc::clone(&snapshot.file),
            action,
        })
    }

    fn poll_removal(&mut self) -> Option<DiskOperation> {
        if self.is_removing {
            return None;
        }
        let file = Arc::clone(self.unneeded.front()?);
        self.is_removing = true;
        Some(DiskOperation {
            task: DiskTask::Remove,
            file,
            action: DiskAction::Remove,
        })
    }

    /// When [`Journal::poll_operation`] is to be called at the latest, if anything is left to be done.
    pub fn deadline(&self) -> Option<Instant> {
        let chore = self.chore_retry_at;
        [self.writer.deadline(), chore].into_iter().flatten().min()
    }

    fn next_segment(&self) -> u64 {
        self.config.manifest.segments.1 + 1
    }

    fn header(&self, kind: FileKind, position: u64) -> SegmentHeader {
        SegmentHeader {
            kind,
            shard: self.config.manifest.shard,
            shards: self.config.manifest.shards,
            segment: self.next_segment(),
            position,
            run: self.config.run,
        }
    }
}
