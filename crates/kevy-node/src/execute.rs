//! Executes the requests of a session, in order, as far as they have arrived.

use crate::command_table::{Found, Handler};
use crate::commands::Outcome;
use crate::commands::monitor::refused_to_monitors;
use crate::commands::pubsub::{is_allowed_to_subscribers, refused_to_subscribers};
use crate::route::{Route, route};
use crate::session::{ReplyMode, Session, State};
use crate::shard::Shard;
use crate::stats::Failure;
use bytes::{Buf, BytesMut};
use kevy_engine::keyspace::ExpiryMode;
use kevy_engine::{Command, Context, Wait, may_block};
use kevy_proto::command::{Flags, Placement};
use kevy_proto::ids::ShardId;
use kevy_proto::resp::{
    Args, Decoded, Encoder, ErrorReply, ProtocolError, RespVersion, is_cross_protocol,
};

impl Shard {
    /// Executes the whole requests at the start of `input`; how many bytes they were. Stops where the session must wait.
    pub(crate) fn execute_input(&mut self, session: &mut Session, input: &[u8]) -> usize {
        let mut decoder = std::mem::take(&mut session.decoder);
        let mut position = 0;
        self.start_stopwatch();
        while session.state == State::Open && position < input.len() {
            let rest = &input[position..];
            match decoder.decode(rest) {
                // It is decoded again once it may run.
                Ok(Decoded::Request { .. }) if self.is_held_up(session, decoder.args(rest)) => {}
                Ok(Decoded::Request { consumed }) => {
                    let args = decoder.args(rest);
                    position += consumed;
                    let is_last = position == input.len();
                    if self.may_wake() {
                        self.execute_and_serve(session, args, is_last);
                    } else {
                        self.execute_and_measure(session, args, is_last);
                    }
                }
                Ok(Decoded::Nothing { consumed }) => position += consumed,
                Ok(Decoded::Incomplete) => break,
                Err(error) => self.protocol_error(session, error),
            }
        }
        self.settle_stopwatch();
        session.decoder = decoder;
        position
    }

    fn execute_and_measure(&mut self, session: &mut Session, args: Args<'_>, is_last: bool) {
        self.execute(session, args);
        if session.is_blocked() {
            // It goes into the slow log when it is served.
            self.settle_stopwatch();
        } else if self.stopwatch.is_due() || is_last {
            self.settle_request(session, args);
        }
    }

    /// Executes a request while somebody waits for keys of ours: those whom it wakes are served before it is replied to.
    fn execute_and_serve(&mut self, session: &mut Session, args: Args<'_>, is_last: bool) {
        let outer = self.begin_hold();
        let output_before = session.replies.output().len();
        self.execute_and_measure(session, args, is_last);
        self.serve_waiters();
        if let Some(hold) = self.end_hold(outer) {
            self.hold_reply(session, hold, output_before);
        }
    }

    /// Whether a pause holds the request up; then the session waits.
    #[inline]
    fn is_held_up(&mut self, session: &mut Session, args: Args<'_>) -> bool {
        if !self.pausing.is_on() {
            return false;
        }
        match self.commands.find(args) {
            Ok(found) => self.wait_for_pause(session, found),
            Err(_) => false,
        }
    }

    /// Executes what is buffered of a session.
    pub(crate) fn execute_buffered(&mut self, session: &mut Session) {
        let mut input = std::mem::take(&mut session.input);
        let consumed = self.execute_input(session, &input);
        input.advance(consumed);
        if input.is_empty() {
            input = BytesMut::new();
        }
        if session.state != State::Draining {
            session.input = input;
        }
    }

    pub(crate) fn check_query_buffer(&mut self, session: &mut Session) {
        if session.request_bytes() as u64 > self.settings.server.client_query_buffer_limit {
            tracing::warn!(client = %session.id, "closing a client: its query buffer exceeds client_query_buffer_limit");
            self.stats.query_buffer_limit_disconnections += 1;
            session.replies = crate::reply_order::ReplyOrder::default();
            session.drain();
        }
    }

    fn protocol_error(&mut self, session: &mut Session, error: ProtocolError) {
        tracing::info!(client = %session.id, address = session.peer.address, "closing a client: {error}");
        self.stats.protocol_errors += 1;
        let mut reply = BytesMut::new();
        error.encode(&mut reply);
        session.replies.push(reply);
        session.drain();
    }

    fn execute(&mut self, session: &mut Session, args: Args<'_>) {
        session.client.last_request = self.now.monotonic;
        session.client.requests += 1;
        self.stats.commands_processed += 1;
        if is_cross_protocol(args) {
            tracing::warn!(
                address = session.peer.address,
                "possible SECURITY ATTACK: a client speaks HTTP to kevy; connection closed"
            );
            session.replies = crate::reply_order::ReplyOrder::default();
            return session.drain();
        }
        match self.commands.find(args) {
            Ok(found) if let Some(error) = self.refusal(session, found) => {
                self.refuse(session, Some(found.index), &error);
            }
            Ok(found) => self.execute_found(session, found, args),
            Err(error) => {
                let mut index = None;
                if let ErrorReply::WrongArity(name) = &error {
                    index = self.commands.position_of_full_name(name);
                }
                self.refuse(session, index, &error);
            }
        }
    }

    /// Why the session may not ask for `found` now, if it may not.
    #[inline]
    fn refusal(&self, session: &Session, found: Found) -> Option<ErrorReply> {
        if self.loading.is_some() && !Self::is_allowed_while_loading(found) {
            return Some(ErrorReply::text(
                "LOADING Redis is loading the dataset in memory",
            ));
        }
        if session.is_restricted() {
            let name = self.commands.all()[found.index].full_name;
            if !is_allowed_to_subscribers(name) {
                return Some(refused_to_subscribers(name));
            }
        }
        if session.is_monitor {
            return refused_to_monitors(found);
        }
        None
    }

    fn execute_found(&mut self, session: &mut Session, found: Found, args: Args<'_>) {
        if self.queue(session, found, args) {
            return;
        }
        self.stats.count_call(found.index);
        session.client.last_command = self.commands.all()[found.index].full_name;
        self.measure(found.index, args.len());
        match found.handler {
            Handler::Engine(command) => {
                self.execute_on_keys(session, command, args);
                session.forget_caching();
            }
            Handler::Node(command) => {
                self.execute_on_node(session, command.run, args);
                // What is said to `CLIENT` does not count as the next request.
                if command.group != "connection" {
                    session.forget_caching();
                }
            }
        }
        // An `EXEC` under way is shown when it is over, behind its commands.
        let is_under_way = session.waits_for_shards() && args.at(0).eq_ignore_ascii_case(b"exec");
        if self.has_monitors() && !is_under_way {
            self.show(&session.peer.address, found, args);
        }
        if session.waits_for_shards() {
            self.measure_waiting(found, session, args);
        }
    }

    fn execute_on_keys(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
    ) {
        if may_block(command, args) {
            return self.begin_blocking(session, command, args);
        }
        match route(command, args, self.map, self.id, session.peer.door) {
            Route::One(shard) if shard == self.id => self.execute_here(session, command, args),
            Route::One(shard) => self.hop(session, shard, command, args),
            Route::Moved { slot, owner } => {
                let address = self.shard_address(owner, session);
                self.reply_error(session, &ErrorReply::Moved { slot, address });
            }
            Route::Owners(owners) => self.begin_on_owners(session, command, args, owners),
            Route::Everywhere if command.placement == Placement::Together => {
                self.begin_with_gathering(session, command, args);
            }
            Route::Everywhere => self.begin_everywhere(session, command, args),
        }
    }

    /// Runs a command on our own keys, at once unless a transaction has locked them.
    fn execute_here(&mut self, session: &mut Session, command: &'static Command, args: Args<'_>) {
        if !self.locks.is_empty() && self.wait_for_locks(session, command, args) {
            return;
        }
        self.asker = session.asker();
        if session.client.no_touch {
            self.keyspace.set_touching(false);
            self.run_here(session, command, args);
            self.keyspace.set_touching(true);
        } else {
            self.run_here(session, command, args);
        }
    }

    fn run_here(&mut self, session: &mut Session, command: &'static Command, args: Args<'_>) {
        let version = session.client.version;
        if session.replies.is_direct() && session.client.reply_mode == ReplyMode::On {
            self.run_single(command, args, version, session.replies.output_mut());
            session.replies.count_direct();
        } else {
            let mut reply = std::mem::take(&mut self.scratch);
            self.run_single(command, args, version, &mut reply);
            Self::finish_reply(session, reply.split());
            self.scratch = reply;
        }
    }

    /// Runs a single request's command on our own keys, unless there is no memory for it. As [`Shard::run_command`].
    pub(crate) fn run_single(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        version: RespVersion,
        out: &mut BytesMut,
    ) -> Option<Box<Wait>> {
        if self.durability.is_some()
            && command.is_write()
            && let Some(error) = self.write_refusal()
        {
            let index = self.stopwatch.current;
            self.stats
                .count_command_error(index, Failure::Rejected, &error);
            Encoder::new(out, version).error(&error);
            return None;
        }
        if self.memory_limit_bytes > 0
            && command.flags.contains(Flags::DENYOOM)
            && !self.make_room()
        {
            let (index, error) = (self.stopwatch.current, ErrorReply::OutOfMemory);
            self.stats
                .count_command_error(index, Failure::Rejected, &error);
            Encoder::new(out, version).error(&error);
            return None;
        }
        let wait = self.run_command(command, args, version, out);
        self.stopwatch.note_run();
        wait
    }

    /// Runs a command on our own keys; its reply is appended to `out`. If it found nothing and may wait: for what.
    pub(crate) fn run_command(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        version: RespVersion,
        out: &mut BytesMut,
    ) -> Option<Box<Wait>> {
        // A reader may run beside transactions that hold the same key and whose moment is earlier: it hides what has
        // expired for itself, and leaves its removal to somebody who has the key alone.
        let beside_others = !self.locks.is_empty() && !command.is_write();
        let expired_before = self.keyspace.stats().expired;
        if beside_others {
            self.keyspace.set_expiry_mode(ExpiryMode::Hide);
        }
        self.prepare_watches(command);
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: Encoder::new(out, version),
            effects: &mut self.effects,
            now: self.now,
            wait: None,
        };
        let ran = context.run(command, args);
        let wait = context.wait.take();
        let failed = ran.is_err();
        if let Err(error) = ran {
            let index = self.stopwatch.current;
            self.stats
                .count_command_error(index, Failure::Failed, &error);
        }
        if beside_others {
            self.keyspace.set_expiry_mode(self.expiry_mode());
        }
        let asker = self.asker;
        if self.keyspace.stats().expired != expired_before || !command.is_write() {
            // Not the connection's doing, so that it must hear of it whatever it wants.
            self.asker.connection = None;
        }
        self.settle_effects();
        self.asker = asker;
        self.invalidate_if_emptied(command, failed);
        self.remember_reads(command, args);
        wait
    }

    fn execute_on_node(
        &mut self,
        session: &mut Session,
        run: crate::commands::Run,
        args: Args<'_>,
    ) {
        let mut reply = BytesMut::new();
        let outcome = run(self, session, args, &mut reply);
        match outcome {
            Ok(Outcome::Replied) => Self::finish_reply(session, reply),
            Ok(Outcome::Silent) => session.replies.push(BytesMut::new()),
            Ok(Outcome::Ask(query, finish)) => {
                self.begin_asking(session, &query, finish);
            }
            Ok(Outcome::Later) => {}
            Err(error) => {
                reply.clear();
                let index = self.stopwatch.current;
                self.stats.count_failure(index, Failure::Failed);
                self.reply_error(session, &error);
            }
        }
        if !session.waits_for_shards() {
            self.stopwatch.note_run();
        }
    }

    /// Adds an error as the reply of the session's next request.
    pub(crate) fn reply_error(&mut self, session: &mut Session, error: &ErrorReply) {
        self.stats.count_error(error);
        let mut reply = BytesMut::new();
        Encoder::new(&mut reply, session.client.version).error(error);
        Self::finish_reply(session, reply);
    }

    /// Adds the reply of the session's next request, unless the client wants none.
    pub(crate) fn finish_reply(session: &mut Session, reply: BytesMut) {
        let reply = wanted(session, reply);
        session.replies.push(reply);
    }

    /// The address at which clients reach the port of `shard` (spec C3): as announced, else where this client came in.
    pub(crate) fn shard_address(&self, shard: ShardId, session: &Session) -> String {
        let (host, port) = self.shard_endpoint(shard, session);
        format!("{host}:{port}")
    }

    /// Host and port at which clients reach the port of `shard`.
    pub(crate) fn shard_endpoint(&self, shard: ShardId, session: &Session) -> (String, u16) {
        let cluster = &self.settings.cluster;
        let seen = || {
            session
                .peer
                .local_ip
                .map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string())
        };
        let host = cluster.announce_host.clone().unwrap_or_else(seen);
        (host, self.settings.announce_port_base() + 1 + shard.0)
    }
}

/// What of `reply` the client wants to see, after `CLIENT REPLY OFF` or `SKIP`.
fn wanted(session: &mut Session, reply: BytesMut) -> BytesMut {
    match session.client.reply_mode {
        ReplyMode::On => reply,
        ReplyMode::Off => BytesMut::new(),
        ReplyMode::SkipNext => {
            session.client.reply_mode = ReplyMode::On;
            BytesMut::new()
        }
    }
}
