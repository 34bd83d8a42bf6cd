//! What the primary says, and what follows from it.

use super::TransactionKey;
use super::held::Class;
use super::{ACK_INTERVAL, Incoming, PartNotice, Position, Sink, SinkEffect, SinkReport, State};
use crate::LinkId;
use bytes::{Buf, Bytes};
use kevy_proto::ids::TransactionId;
use kevy_proto::log::EntryFault;
use kevy_proto::replication::{
    Answer, Continuity, EntryFrame, Epoch, History, HistoryId, SnapshotDigest, SnapshotTotals,
    StreamMessage, Terms, decode_message,
};
use kevy_proto::time::Instant;

/// A snapshot on its way.
#[derive(Debug)]
pub(super) struct Loading {
    terms: Terms,
    offset: u64,
    digest: SnapshotDigest,
}

impl Sink {
    /// Bytes have come from the primary.
    pub fn handle_bytes(&mut self, link: LinkId, bytes: &[u8], now: Instant) {
        if link != self.link || !self.is_open() || bytes.is_empty() {
            return;
        }
        self.heard_at = now;
        self.input.extend_from_slice(bytes);
        while self.is_open() {
            match decode_message(&self.input, &self.config.limits) {
                Ok(None) => break,
                Ok(Some((message, length))) => {
                    let bytes = self.input.split_to(length).freeze();
                    self.handle_message(message, &bytes, now);
                }
                Err(fault) => self.lose(SinkReport::Protocol(fault), now),
            }
        }
        self.report_full();
    }

    fn is_open(&self) -> bool {
        match self.state {
            State::Stopped | State::Resting { .. } | State::Connecting { .. } => false,
            State::Greeting { .. }
            | State::Streaming
            | State::AwaitingSnapshot(_)
            | State::Loading(_) => true,
        }
    }

    fn handle_message(&mut self, message: StreamMessage, bytes: &Bytes, now: Instant) {
        match (message, &self.state) {
            (StreamMessage::Answer(Answer::Refused(text)), _) => {
                self.lose(SinkReport::Refused(text), now);
            }
            (StreamMessage::Answer(Answer::Full(terms)), _) => self.handle_full(terms, now),
            (StreamMessage::Answer(Answer::Continue(terms)), State::Greeting { .. }) => {
                self.handle_continue(&terms, now);
            }
            (StreamMessage::Unknown, _) => {}
            (_, State::Greeting { .. }) => self.lose(SinkReport::OutOfPlace, now),
            (StreamMessage::Ping { epoch, next_offset }, _) => {
                self.handle_ping(epoch, next_offset, now);
            }
            (StreamMessage::Entry(frame), State::Streaming) => {
                self.handle_entry(&frame, bytes, now);
            }
            (StreamMessage::SnapshotBegin { offset }, State::AwaitingSnapshot(_)) => {
                self.handle_begin(offset, now);
            }
            (StreamMessage::SnapshotChunk(at), State::Loading(_)) => {
                self.handle_chunk(bytes.slice(at), now);
            }
            (StreamMessage::SnapshotEnd { offset, totals }, State::Loading(_)) => {
                self.handle_end(offset, totals, now);
            }
            _ => self.lose(SinkReport::OutOfPlace, now),
        }
    }

    fn shards_fit(&mut self, terms: &Terms, now: Instant) -> bool {
        let mine = self.config.shard.map(|(_, shards)| shards);
        match (terms.shards, mine) {
            (Some(primary), Some(replica)) if primary != replica => {
                self.lose(SinkReport::ShardsMismatch { primary, replica }, now);
                false
            }
            _ => true,
        }
    }

    fn begin_link(&mut self, terms: &Terms, now: Instant) {
        self.epoch = Some(terms.epoch);
        self.primary_last = terms.offset;
        self.progress_at = now;
        self.ack_at = now + ACK_INTERVAL;
        self.mark = None;
    }

    /// The primary continues. What it says must fit what is here.
    fn handle_continue(&mut self, terms: &Terms, now: Instant) {
        if !self.shards_fit(terms, now) {
            return;
        }
        let Some(position) = &mut self.position else {
            return self.lose(SinkReport::HistoryMismatch, now);
        };
        let history = terms.history.clone().unwrap_or_default();
        let fits = terms.offset == position.offset
            && (history.is_unknown()
                || judge(&history, position, u64::MAX) == Continuity::Continues)
            && history.tip().is_none_or(|tip| tip.epoch == terms.epoch);
        if !fits {
            return self.distrust(SinkReport::HistoryMismatch, now);
        }
        position.history = history.clone();
        self.begin_link(terms, now);
        self.state = State::Streaming;
        self.ack_due = true;
        self.effects.push_back(SinkEffect::Attached {
            history,
            full: false,
        });
    }

    /// What is here is to be replaced. Until that is complete it stays.
    fn handle_full(&mut self, terms: Terms, now: Instant) {
        if !self.shards_fit(&terms, now) {
            return;
        }
        if self.installing.is_some() {
            // One after the other: it will be asked for again.
            return self.lose(SinkReport::OutOfPlace, now);
        }
        if matches!(self.state, State::Loading(_)) {
            self.effects.push_back(SinkEffect::SnapshotAbort);
        }
        self.forget_held();
        self.begin_link(&terms, now);
        let history = terms.history.clone().unwrap_or_default();
        let found = self
            .position
            .as_ref()
            .map(|here| (judge(&history, here, terms.offset), here.offset));
        if let Some((Continuity::Forked { common }, offset)) = found {
            let entries = offset - common;
            self.report(SinkReport::Discarded { common, entries });
        }
        self.ack_due = true;
        self.state = State::AwaitingSnapshot(terms);
        let full = true;
        self.effects
            .push_back(SinkEffect::Attached { history, full });
    }

    fn handle_ping(&mut self, epoch: Option<Epoch>, next_offset: Option<u64>, now: Instant) {
        if epoch.is_some_and(|epoch| Some(epoch) != self.epoch) {
            return self.lose(SinkReport::EpochMismatch, now);
        }
        let Some(last) = next_offset.and_then(|next| next.checked_sub(1)) else {
            return;
        };
        if !matches!(self.state, State::Streaming) {
            // While a snapshot is made there is nothing to see.
            if matches!(self.state, State::AwaitingSnapshot(_)) {
                self.progress_at = now;
            }
            return;
        }
        if last < self.held.received {
            return self.distrust(SinkReport::HistoryMismatch, now);
        }
        self.primary_last = last;
        self.backoff.reset();
        if last == self.held.received {
            self.progress_at = now;
        }
        let applied = self.acknowledged();
        if applied >= last && self.installing.is_none() {
            self.fresh_at = Some(now);
        } else if self.mark.is_none() {
            self.mark = Some((last, now));
        }
    }

    fn handle_entry(&mut self, frame: &EntryFrame, bytes: &Bytes, now: Instant) {
        let (expected, got) = (self.held.received + 1, frame.offset);
        if got < expected {
            self.duplicates += 1;
            return;
        }
        if got > expected {
            return self.lose(SinkReport::OffsetGap { expected, got }, now);
        }
        let history = self.stream_history();
        let branch = history.and_then(|history| history.branch_of_entry(got));
        let (branch_id, branch_epoch) = (branch.map(|b| b.id), branch.map(|b| b.epoch));
        let told = frame.epoch;
        if told.is_some() && branch_epoch.is_some() && told != branch_epoch {
            return self.distrust(SinkReport::EpochMismatch, now);
        }
        let entry = Incoming {
            offset: got,
            epoch: told.or(branch_epoch).unwrap_or_default(),
            payload: bytes.slice(frame.payload.clone()),
            void: false,
        };
        self.progress_at = now;
        self.backoff.reset();
        self.primary_last = self.primary_last.max(got);
        self.hold(entry, branch_id.unwrap_or(HistoryId(0)), now);
    }

    /// The history of what comes: that of a snapshot which is being put in place, if there is one.
    fn stream_history(&self) -> Option<&History> {
        let position = self.installing.as_ref().or(self.position.as_ref());
        position.map(|position| &position.history)
    }

    fn hold(&mut self, entry: Incoming, history: HistoryId, now: Instant) {
        match Class::of(&entry.payload) {
            Err(fault) => self.refuse_entry(fault, now),
            Ok(Class::Plain) => self.held.push(entry, None),
            Ok(Class::Part {
                id,
                settled_below,
                participants,
            }) => {
                let key = TransactionKey { history, id };
                let notice = PartNotice {
                    key,
                    offset: entry.offset,
                    participants,
                    settled_below,
                    generation: self.held.generation,
                };
                self.held.push(entry, Some(key));
                self.effects.push_back(SinkEffect::Part(notice));
            }
            Ok(Class::Skipped) => self.distrust(SinkReport::AppliedIsSkipped, now),
            Ok(Class::Dropped(transactions)) => {
                self.held.push(entry, None);
                for id in transactions {
                    self.handle_void(id, history, now);
                }
            }
        }
    }

    /// An entry that cannot be carried out, today and tomorrow: there is no sense in hurrying.
    fn refuse_entry(&mut self, fault: EntryFault, now: Instant) {
        self.lose(SinkReport::Entry(fault), now);
    }

    fn handle_void(&mut self, id: TransactionId, history: HistoryId, now: Instant) {
        if !matches!(self.state, State::Streaming) {
            return;
        }
        match self.held.void(id, history) {
            Some(key) => self.effects.push_back(SinkEffect::PartVoid(key)),
            None => self.distrust(SinkReport::AppliedIsVoid(id), now),
        }
    }

    fn handle_begin(&mut self, offset: u64, now: Instant) {
        let State::AwaitingSnapshot(terms) = &self.state else {
            return;
        };
        let history = terms.history.as_ref();
        if history.is_some_and(|history| history.branch_at(offset).is_none()) {
            return self.lose(SinkReport::HistoryMismatch, now);
        }
        self.progress_at = now;
        self.state = State::Loading(Box::new(Loading {
            terms: terms.clone(),
            offset,
            digest: SnapshotDigest::new(),
        }));
        self.effects.push_back(SinkEffect::SnapshotBegin { offset });
    }

    fn handle_chunk(&mut self, chunk: Bytes, now: Instant) {
        self.progress_at = now;
        if let State::Loading(loading) = &mut self.state {
            loading.digest.add(&chunk);
        }
        if chunk.has_remaining() {
            self.effects.push_back(SinkEffect::SnapshotChunk(chunk));
        }
    }

    /// Only a snapshot that came as it was sent takes the place of what is here.
    fn handle_end(&mut self, offset: u64, totals: SnapshotTotals, now: Instant) {
        let State::Loading(loading) = &self.state else {
            return;
        };
        if loading.offset != offset || loading.digest.totals() != totals {
            return self.lose(SinkReport::SnapshotDamaged, now);
        }
        let position = Position {
            history: loading.terms.history.clone().unwrap_or_default(),
            offset,
        };
        self.state = State::Streaming;
        self.held.restart(offset);
        self.handed = offset;
        self.installing = Some(position.clone());
        self.progress_at = now;
        self.backoff.reset();
        self.effects.push_back(SinkEffect::SnapshotEnd(position));
    }
}

/// How `position` relates to the history of a primary which has reached `last`.
fn judge(history: &History, position: &Position, last: u64) -> Continuity {
    let branch = position.history.branch_at(position.offset);
    let (id, epoch) = (branch.map(|b| b.id), branch.map(|b| b.epoch));
    history.judge(id, epoch, position.offset, last)
}
