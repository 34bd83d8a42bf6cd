//! What follows when an operation has ended.

use super::{Chore, Journal, JournalNews};
use crate::log::manifest::Manifest;
use crate::log::operation::{DiskFault, DiskResult, DiskTask};
use crate::log::writer::RETRY_AFTER;
use kevy_proto::time::Instant;
use std::sync::Arc;

impl Journal {
    /// An operation has ended.
    pub fn handle_done(&mut self, task: DiskTask, result: DiskResult, now: Instant) -> JournalNews {
        if task == DiskTask::Snapshot {
            return self.handle_snapshot_done(result);
        }
        let well = result.is_ok();
        let news = match task {
            DiskTask::LogWrite => {
                self.writer.handle_written(well, now);
                JournalNews::Nothing
            }
            DiskTask::LogSync => {
                self.writer.handle_synced(well, now);
                JournalNews::Synced
            }
            DiskTask::Files => self.handle_chore_done(well, now),
            DiskTask::Remove => {
                // What cannot be removed is left over: the next start removes it.
                self.is_removing = false;
                self.unneeded.pop_front();
                return JournalNews::Nothing;
            }
            DiskTask::Snapshot | DiskTask::Load => return JournalNews::Nothing,
        };
        match result {
            Ok(_) if self.writer.is_failing() || self.chore_retry_at.is_some() => {}
            Ok(_) => self.note_recovery(),
            Err(fault) => self.note_fault(fault),
        }
        news
    }

    fn note_fault(&mut self, fault: DiskFault) {
        if self.fault.is_none() {
            tracing::error!(
                shard = self.config.manifest.shard.0,
                "Error writing the log: {fault}; writes are refused until it works"
            );
        }
        self.fault = Some(fault);
    }

    fn note_recovery(&mut self) {
        if self.fault.take().is_some() {
            let shard = self.config.manifest.shard.0;
            tracing::warn!(shard, "Writing the log works again");
        }
    }

    fn handle_chore_done(&mut self, well: bool, now: Instant) -> JournalNews {
        self.is_chore_busy = false;
        if !well {
            self.chore_retry_at = Some(now + RETRY_AFTER);
            return JournalNews::Nothing;
        }
        self.chore_retry_at = None;
        match std::mem::replace(&mut self.chore, Chore::None) {
            Chore::None | Chore::Drain => JournalNews::Nothing,
            Chore::Header => {
                self.chore = Chore::HeaderSync;
                JournalNews::Nothing
            }
            Chore::HeaderSync => {
                let (first, _) = self.config.manifest.segments;
                self.chore = Chore::Manifest(Manifest {
                    segments: (first, self.next_segment()),
                    ..self.config.manifest
                });
                JournalNews::Nothing
            }
            Chore::Manifest(manifest) => self.take_over(manifest),
        }
    }

    /// A manifest counts from now on.
    fn take_over(&mut self, manifest: Manifest) -> JournalNews {
        let old = std::mem::replace(&mut self.config.manifest, manifest);
        if manifest.segments.1 != old.segments.1 {
            let last = manifest.segments.1;
            self.writer.begin_segment(last);
            self.segment_file = self.config.files.segment(manifest.shard, last).into();
            let was_open = std::mem::replace(&mut self.is_open, true);
            return if was_open {
                JournalNews::Nothing
            } else {
                JournalNews::Opened
            };
        }
        if let Some(snapshot) = self.snapshot.take() {
            self.base_bytes = snapshot.len_bytes();
        }
        let files = self.config.files;
        let segments = old.segments.0..manifest.segments.0;
        let segments = segments.map(|segment| files.segment(manifest.shard, segment));
        let snapshot = old
            .snapshot
            .map(|old| files.snapshot(manifest.shard, old.number));
        self.unneeded
            .extend(segments.chain(snapshot).map(Arc::from));
        JournalNews::SnapshotAdopted
    }

    fn handle_snapshot_done(&mut self, result: DiskResult) -> JournalNews {
        match (result, &mut self.snapshot) {
            (Ok(_), Some(snapshot)) => {
                snapshot.handle_done();
                JournalNews::Nothing
            }
            (Err(fault), Some(_)) => {
                self.abandon_snapshot();
                self.is_abandoned_busy = false;
                JournalNews::SnapshotFailed(fault)
            }
            (_, None) => {
                self.is_abandoned_busy = false;
                JournalNews::Nothing
            }
        }
    }
}
