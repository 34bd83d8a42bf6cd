//! Requests that run on another shard: batches out, batches in.
//!
//! All requests of a connection for one shard that arrive together travel as one batch (spec A3). The batch comes back with
//! the replies in it, and its buffers are used again.

use crate::blocking::HoldId;
use crate::host::Slot;
use crate::message::{Batch, Message};
use crate::session::{ReplyMode, Session};
use crate::shard::{SPARE_BATCHES, Shard};
use crate::tracking::Asker;
use crate::transaction::Origin;
use bytes::BytesMut;
use kevy_engine::Command;
use kevy_proto::ids::ShardId;
use kevy_proto::resp::Args;

/// How many argument bytes a batch collects before it travels, so that one large pipeline does not become one message.
pub(crate) const BATCH_BYTES: usize = 256 * 1024;

impl Shard {
    /// Lets `command` run on `shard`; the session's replies keep a place for its reply.
    pub(crate) fn hop(
        &mut self,
        session: &mut Session,
        shard: ShardId,
        command: &'static Command,
        args: Args<'_>,
    ) {
        let sequence = Self::begin_reply(session);
        let mut batch = match self.batches[shard.index()].take() {
            Some(batch) => batch,
            None => self.spare_batches.pop().unwrap_or_default(),
        };
        let (index, tracks) = (self.stopwatch.current, session.tracks_reads());
        batch.push(sequence, command, index, args, tracks);
        let full = batch.bytes.len() >= BATCH_BYTES;
        self.batches[shard.index()] = Some(batch);
        if full {
            self.flush_batch(shard, session);
        }
    }

    /// Keeps a place in the session's replies, heeding `CLIENT REPLY`.
    pub(crate) fn begin_reply(session: &mut Session) -> u64 {
        match session.client.reply_mode {
            ReplyMode::On => session.replies.begin(),
            ReplyMode::Off => session.replies.begin_muted(),
            ReplyMode::SkipNext => {
                session.client.reply_mode = ReplyMode::On;
                session.replies.begin_muted()
            }
        }
    }

    /// Sends the batches that the session has collected.
    pub(crate) fn flush_batches(&mut self, session: &Session) {
        for index in 0..self.shards() {
            self.flush_batch(ShardId(index), session);
        }
    }

    fn flush_batch(&mut self, shard: ShardId, session: &Session) {
        let Some(mut batch) = self.batches[shard.index()].take() else {
            return;
        };
        batch.slot = Some(session.slot);
        batch.connection = Some(session.id);
        batch.version = session.client.version;
        batch.no_touch = session.client.no_touch;
        self.unanswered += 1;
        self.send(shard, Message::Requests(batch));
    }

    /// Runs the requests of another shard's session. Those whose keys a transaction has locked are answered later.
    pub(crate) fn run_batch(&mut self, from: ShardId, mut batch: Box<Batch>) {
        self.keyspace.set_touching(!batch.no_touch);
        let mut replies = std::mem::take(&mut batch.replies);
        self.start_stopwatch();
        for index in 0..batch.requests.len() {
            let request = batch.requests[index];
            let args = batch.args(&request);
            self.measure(request.index, args.len());
            let asker = Asker {
                connection: batch.connection,
                tracks: request.tracks,
            };
            if !self.locks.is_empty() {
                let origin = Origin::of_batch(from, &batch, &request);
                if self.wait_behind_locks(origin, request.command, args) {
                    continue;
                }
            }
            self.asker = asker;
            let mark = replies.len();
            let outer = self.begin_hold();
            self.run_single(request.command, args, batch.version, &mut replies);
            batch.lengths.push((request.sequence, replies.len() - mark));
            if (self.stopwatch.is_due() || index + 1 == batch.requests.len())
                && let Some(took) = self.settle_stopwatch()
                && self.is_slow(took)
            {
                batch.slow.push((index, took));
            }
            self.serve_waiters();
            if let Some(hold) = self.end_hold(outer) {
                batch.lengths.pop();
                let reply = replies.split_off(mark);
                self.hold_hopped(from, &batch, request.sequence, reply, hold);
            }
        }
        self.settle_stopwatch();
        self.keyspace.set_touching(true);
        batch.replies = replies;
        self.send_reply(from, Message::Replies(batch));
    }

    /// Holds the reply of a request of a batch back; it comes by itself.
    fn hold_hopped(
        &mut self,
        from: ShardId,
        batch: &Batch,
        sequence: u64,
        reply: BytesMut,
        hold: HoldId,
    ) {
        if let (Some(slot), Some(connection)) = (batch.slot, batch.connection) {
            let late = Batch::late_reply(slot, connection, batch.version, sequence, reply);
            self.send_after(hold, from, Message::Replies(late));
        }
    }

    /// Hands the replies of a batch to their session, if it is still there.
    pub(crate) fn take_replies(&mut self, mut batch: Box<Batch>) {
        // A single late reply is an extra message: only the batch itself was counted.
        if !batch.requests.is_empty() {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
        if let Some(slot) = batch.slot
            && let Some(session) = self.session_mut(slot)
            && Some(session.id) == batch.connection
        {
            for index in 0..batch.lengths.len() {
                let (sequence, length) = batch.lengths[index];
                let reply = batch.replies.split_to(length.min(batch.replies.len()));
                session.replies.complete(sequence, reply);
            }
            self.log_slow_requests(slot, &batch);
            self.announce_output(slot);
            self.put_held_question(slot);
        }
        self.recycle(batch);
    }

    /// Logs what another shard found slow of a session's requests.
    fn log_slow_requests(&mut self, slot: Slot, batch: &Batch) {
        if batch.slow.is_empty() {
            return;
        }
        let Some(session) = self.take_session(slot) else {
            return;
        };
        for (index, took) in &batch.slow {
            self.log_slow(&session, batch.args(&batch.requests[*index]), *took);
        }
        self.sessions[slot.index()] = Some(session);
    }

    fn recycle(&mut self, mut batch: Box<Batch>) {
        if self.spare_batches.len() < SPARE_BATCHES {
            batch.reset();
            self.spare_batches.push(batch);
        }
    }
}
