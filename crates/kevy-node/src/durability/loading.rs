//! From the files of all shards to a shard that serves.
//!
//! 1. Each shard *surveys* its files and tells the others what it found of transactions over several shards.
//! 2. With all surveys at hand each finds the same transactions incomplete, and *loads* what is left.
//! 3. A torn tail is set aside and cut, and what is left made durable, for the process may have died before it was. The
//!    first segment of this run begins and names what was dropped.
//! 4. Once that is durable on every shard, earlier runs are settled for good. Requests are held from then on, until every
//!    shard knows it: whoever is served by one is served by all.
//!
//! Until then sessions get `-LOADING`.

use super::{Durability, SnapshotControl};
use crate::command_table::{Found, Handler};
use crate::log::{
    DiskAction, DiskFault, DiskOperation, DiskResult, DiskTask, Journal, JournalConfig, Judgement,
    LoadProgress, Loader, Survey, SyncPolicy, judge, replay,
};
use crate::message::Message;
use crate::pause::PauseMode;
use crate::shard::{Shard, ShardConfig};
use bytes::Bytes;
use kevy_engine::keyspace::ExpiryMode;
use kevy_proto::command::Flags;
use kevy_proto::ids::ShardId;
use kevy_proto::log::{Entry, Requests, push_dropped, push_earlier_runs_settled, push_skipped};
use kevy_proto::time::Instant;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long requests are held at most until all shards know that all can serve: messages take no time to speak of.
const HOLD_MAX: Duration = Duration::from_mins(1);
/// How often progress is told.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A shard that is being loaded.
#[derive(Debug)]
pub(crate) struct Loading {
    config: JournalConfig,
    loader: Loader,
    step: Step,
    is_busy: bool,
    surveys: Vec<Option<Survey>>,
    /// Shards that can serve.
    opened: Vec<bool>,
    /// Shards that know that all can.
    ready: Vec<bool>,
    /// The latest epoch of any log.
    epoch: u64,
    began: Instant,
    next_report: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Survey,
    /// The others' surveys are awaited.
    Compare,
    Load,
    /// The torn tail is copied.
    SetAside,
    Cut,
    /// What was read becomes durable: the process may have died before it was.
    Settle,
    /// The first segment begins.
    Open,
    /// What was dropped becomes durable, up to this position.
    SettleDropped(u64),
    /// The others are awaited.
    AwaitOthers,
    /// All can serve; that all know it is awaited.
    AwaitReady,
}

impl Loading {
    /// What a shard with these files begins with.
    pub(crate) fn begin(config: &ShardConfig, shards: u16) -> Option<Box<Self>> {
        let files = config.journal.clone()?;
        let now = config.now.monotonic;
        Some(Box::new(Self {
            loader: Loader::new(files.files, files.manifest),
            config: files,
            step: Step::Survey,
            is_busy: false,
            surveys: vec![None; usize::from(shards)],
            opened: vec![false; usize::from(shards)],
            ready: vec![false; usize::from(shards)],
            epoch: 0,
            began: now,
            next_report: now + REPORT_INTERVAL,
        }))
    }

    fn poll(&mut self, unix_ms: i64) -> Option<DiskOperation> {
        if self.is_busy {
            return None;
        }
        let operation = match self.step {
            Step::Survey | Step::Load => {
                let piece = self.loader.next_piece()?;
                let (offset, length) = (piece.offset, piece.length);
                DiskOperation {
                    task: DiskTask::Load,
                    file: piece.file,
                    action: DiskAction::Read { offset, length },
                }
            }
            Step::SetAside => {
                let torn = self.loader.torn_tail()?;
                DiskOperation {
                    task: DiskTask::Load,
                    file: format!("{}.torn-{unix_ms}", torn.file).into(),
                    action: DiskAction::Replace(torn.bytes.clone()),
                }
            }
            Step::Cut => {
                let torn = self.loader.torn_tail()?;
                DiskOperation {
                    task: DiskTask::Load,
                    file: Arc::clone(&torn.file),
                    action: DiskAction::Cut {
                        length: torn.offset,
                    },
                }
            }
            Step::Settle => DiskOperation {
                task: DiskTask::Load,
                file: self.loader.last_file(),
                action: DiskAction::Sync,
            },
            Step::Compare
            | Step::Open
            | Step::SettleDropped(_)
            | Step::AwaitOthers
            | Step::AwaitReady => return None,
        };
        self.is_busy = true;
        Some(operation)
    }
}

impl Shard {
    /// Whether the shard's data is still being loaded.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Why the shard cannot go on, if it cannot: the process has to stop.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether a command may run while data is loaded.
    pub(crate) fn is_allowed_while_loading(found: Found) -> bool {
        match found.handler {
            Handler::Engine(command) => command.flags.contains(Flags::LOADING),
            Handler::Node(command) => command.flags.contains(Flags::LOADING),
        }
    }

    pub(super) fn poll_loading(&mut self) -> Option<DiskOperation> {
        let unix_ms = self.now.unix.0;
        if self.failure.is_some() {
            return None;
        }
        self.loading.as_mut()?.poll(unix_ms)
    }

    /// Takes what was read; false if it was not for the loader.
    pub(super) fn handle_loading(&mut self, task: DiskTask, result: &DiskResult) -> bool {
        if task != DiskTask::Load {
            return false;
        }
        let Some(mut loading) = self.loading.take() else {
            return true;
        };
        loading.is_busy = false;
        match result {
            Ok(bytes) => self.go_on_loading(&mut loading, bytes),
            Err(fault) => self.fail_loading(&loading, fault),
        }
        self.loading = Some(loading);
        true
    }

    fn fail_loading(&mut self, loading: &Loading, fault: &DiskFault) {
        let file = loading.loader.next_piece().map(|piece| piece.file);
        let file = file.as_deref().unwrap_or("the torn tail");
        self.failure = Some(if fault.kind == io::ErrorKind::NotFound {
            format!("{file} is missing, although the manifest names it")
        } else {
            format!("{file}: {fault}")
        });
    }

    fn go_on_loading(&mut self, loading: &mut Loading, bytes: &Bytes) {
        match loading.step {
            Step::Survey => self.read_on(loading, bytes),
            Step::Load => {
                self.read_on(loading, bytes);
                self.report_progress(loading);
            }
            Step::SetAside => loading.step = Step::Cut,
            Step::Cut => loading.step = Step::Settle,
            Step::Settle => self.open_log(loading),
            Step::Compare
            | Step::Open
            | Step::SettleDropped(_)
            | Step::AwaitOthers
            | Step::AwaitReady => {}
        }
    }

    fn read_on(&mut self, loading: &mut Loading, bytes: &Bytes) {
        let mut applied = Ok(());
        let progress = loading.loader.handle_piece(bytes, |requests| {
            if applied.is_ok() {
                applied = self.apply(&requests);
            }
        });
        match (progress, applied) {
            (Err(fault), _) => self.failure = Some(fault.to_string()),
            (_, Err(request)) => {
                let file = loading.loader.next_piece().map(|piece| piece.file);
                let file = file.as_deref().unwrap_or_default().to_owned();
                self.failure = Some(format!(
                    "{file} holds {request}, which cannot be carried out"
                ));
            }
            (Ok(LoadProgress::Reading), Ok(())) => {}
            (Ok(LoadProgress::Done), Ok(())) => self.end_pass(loading),
        }
    }

    /// Carries out what the log says.
    fn apply(&mut self, requests: &Requests<'_>) -> Result<(), String> {
        self.keyspace.set_expiry_mode(ExpiryMode::Ignore);
        let applied = replay(&mut self.keyspace, &mut self.commands, self.now, requests);
        self.keyspace.set_expiry_mode(self.expiry_mode());
        applied
    }

    fn end_pass(&mut self, loading: &mut Loading) {
        match loading.step {
            Step::Survey => {
                loading.step = Step::Compare;
                let survey = loading.loader.survey();
                for other in self.other_shards() {
                    self.send(other, Message::Surveyed(Box::new(survey.clone())));
                }
                loading.surveys[self.id.index()] = Some(survey.clone());
                self.compare(loading);
            }
            Step::Load => match loading.loader.torn_tail() {
                Some(torn) => {
                    tracing::warn!(
                        "{} ends with {} bytes that a crash has left behind byte {}: they are kept in {}.torn-* and cut",
                        torn.file,
                        torn.bytes.len(),
                        torn.offset,
                        torn.file
                    );
                    loading.step = Step::SetAside;
                }
                None => loading.step = Step::Settle,
            },
            Step::Compare
            | Step::SetAside
            | Step::Cut
            | Step::Settle
            | Step::Open
            | Step::SettleDropped(_)
            | Step::AwaitOthers
            | Step::AwaitReady => {}
        }
    }

    /// Another shard tells what its log knows of transactions.
    pub(crate) fn take_survey(&mut self, from: ShardId, survey: Survey) {
        let Some(mut loading) = self.loading.take() else {
            return;
        };
        loading.surveys[from.index()] = Some(survey);
        self.compare(&mut loading);
        self.loading = Some(loading);
    }

    fn compare(&mut self, loading: &mut Loading) {
        if loading.step != Step::Compare {
            return;
        }
        let surveys: Option<Vec<Survey>> = loading.surveys.iter().cloned().collect();
        let Some(surveys) = surveys else {
            return;
        };
        let judgement = judge(&surveys);
        self.report_judgement(&judgement);
        loading.surveys = Vec::new();
        loading.epoch = judgement.epoch;
        loading.loader.begin_load(&judgement);
        loading.step = Step::Load;
    }

    fn report_judgement(&self, judgement: &Judgement) {
        let count: usize = judgement.dropped.values().map(BTreeSet::len).sum();
        if count > 0 && self.id == ShardId(0) {
            tracing::warn!(
                "{count} transactions over several shards were torn by a crash and are dropped"
            );
        }
        if judgement.above.is_some() && self.id == ShardId(0) {
            tracing::warn!(
                "A transaction over several shards was torn by a crash: it and what came after it, which was not durable yet, \
                 is dropped on all shards"
            );
        }
    }

    /// Everything is loaded: from now on the shard logs.
    fn open_log(&mut self, loading: &mut Loading) {
        loading.step = Step::Open;
        self.epoch_base = loading.epoch + 1;
        self.advance_epoch();
        let loader = &loading.loader;
        let journal = Journal::new(
            loading.config.clone(),
            SyncPolicy::EverySecond,
            loader.end(),
            loader.survey().clone(),
            loader.snapshot_bytes(),
            self.now.monotonic,
        );
        let fsync = self.settings.persistence.appendfsync;
        let control = SnapshotControl::new(self.now);
        self.durability = Some(Box::new(Durability::new(journal, fsync, control)));
        self.renew_wish_for_changes();
    }

    /// The first segment of this run has begun.
    pub(super) fn log_has_opened(&mut self) {
        let (Some(loading), Some(durability)) = (&mut self.loading, &mut self.durability) else {
            return;
        };
        let (now, epoch) = (self.now.monotonic, self.epoch);
        let journal = &mut durability.journal;
        for (run, transactions) in loading.loader.newly_dropped() {
            let transactions: Vec<_> = transactions.iter().copied().collect();
            journal.append(now, epoch, |out| push_dropped(out, *run, &transactions));
            let dropped = Entry::Dropped {
                run: *run,
                transactions,
            };
            journal.note(&dropped);
        }
        if let Some(above) = loading.loader.above() {
            journal.append(now, epoch, |out| push_skipped(out, above));
            journal.note(&Entry::Skipped { above });
        }
        journal.request_sync();
        loading.step = Step::SettleDropped(journal.end());
    }

    /// Tells the others once what was decided about earlier runs is durable.
    pub(super) fn go_on_opening(&mut self) {
        let (Some(loading), Some(durability)) = (&mut self.loading, &self.durability) else {
            return;
        };
        if let Step::SettleDropped(position) = loading.step
            && durability.journal.synced() >= position
        {
            loading.step = Step::AwaitOthers;
            loading.opened[self.id.index()] = true;
            for other in self.other_shards() {
                self.send(other, Message::Opened);
            }
            self.hold_if_all_opened();
        }
    }

    /// Another shard can serve.
    pub(crate) fn count_opened(&mut self, from: ShardId) {
        if let Some(loading) = &mut self.loading {
            loading.opened[from.index()] = true;
            self.hold_if_all_opened();
        }
    }

    /// If all can serve, requests are held until all know it.
    fn hold_if_all_opened(&mut self) {
        let Some(loading) = &mut self.loading else {
            return;
        };
        if loading.step != Step::AwaitOthers || !loading.opened.iter().all(|opened| *opened) {
            return;
        }
        loading.step = Step::AwaitReady;
        loading.ready[self.id.index()] = true;
        for other in self.other_shards() {
            self.send(other, Message::Ready);
        }
        self.pause(PauseMode::All, self.now.monotonic + HOLD_MAX);
        self.serve_if_all_ready();
    }

    /// Another shard knows that all can serve.
    pub(crate) fn count_ready(&mut self, from: ShardId) {
        if let Some(loading) = &mut self.loading {
            loading.ready[from.index()] = true;
            self.serve_if_all_ready();
        }
    }

    fn serve_if_all_ready(&mut self) {
        let is_ready = |loading: &Loading| {
            loading.step == Step::AwaitReady && loading.ready.iter().all(|ready| *ready)
        };
        if !self.loading.as_deref().is_some_and(is_ready) {
            return;
        }
        let (Some(loading), Some(durability)) = (self.loading.take(), &mut self.durability) else {
            return;
        };
        let now = self.now.monotonic;
        let epoch = self.epoch;
        durability
            .journal
            .append(now, epoch, push_earlier_runs_settled);
        durability.journal.note(&Entry::EarlierRunsSettled);
        tracing::info!(
            shard = self.id.0,
            keys = self.keyspace.len(),
            "Data loaded from disk: {:.3} seconds",
            now.saturating_since(loading.began).as_secs_f64()
        );
        self.want_snapshot_if_due();
        self.unpause();
    }

    fn report_progress(&mut self, loading: &mut Loading) {
        if self.now.monotonic >= loading.next_report {
            loading.next_report = self.now.monotonic + REPORT_INTERVAL;
            tracing::info!(
                shard = self.id.0,
                keys = self.keyspace.len(),
                "Loading: {} MB read",
                loading.loader.read_bytes() >> 20
            );
        }
    }
}
