//! `EXEC`: queued commands, one after the other, under locks on all of their keys.
//!
//! If this shard owns every key, all commands run here in one go. Otherwise `EXEC` is a transaction as others are, with the
//! owners of its keys as members; what was watched is locked, too, and looked at once it is locked. With all locks held the
//! commands run as *steps*: consecutive ones for one shard travel together; a command over several shards runs in parts, or
//! on entries that are lent to the coordinator and go back changed. No step takes or frees a lock. Only after the last one
//! are all locks let go, and the replies go out as one array.
//!
//! Commands of the session run in their place, too, as long as the session is there.

mod here;

use super::join::join;
use super::needs::{Needs, needs_of};
use super::queue::{Queue, Queued};
use super::state::{Meeting, Party, Phase, StepAnswer, Transaction, Work, part_of};
use crate::command_table::Handler;
use crate::commands::{Answered, Outcome, Run};
use crate::host::Door;
use crate::message::{Claim, Held, Message};
use crate::query::Finish;
use crate::route::{Route, route};
use crate::session::{ReplyMode, Session};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::Command;
use kevy_proto::command::{Flags, Placement};
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RequestBuffer};
use kevy_proto::slot::SlotMap;
use kevy_proto::time::Now;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An `EXEC` under way.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about its commands"
)]
#[derive(Debug)]
pub(super) struct Exec {
    /// What is left to be run.
    pub(super) commands: VecDeque<Queued>,
    pub(super) needs: BTreeMap<ShardId, Needs>,
    /// A command may need more memory.
    pub(super) grows: bool,
    /// A command may change something.
    pub(super) writes: bool,
    /// Shards where something was changed that is to be logged.
    pub(super) writers: BTreeSet<ShardId>,
    pub(super) step: Step,
    /// Answers to the step that have come.
    pub(super) answers: BTreeMap<ShardId, StepAnswer>,
    /// How many are to come in all.
    expected: usize,
    pub(super) reply: BytesMut,
    /// `CLIENT REPLY OFF` was one of the commands.
    muted: bool,
    /// The moment of the whole `EXEC`.
    pub(super) now: Now,
    /// No `EXEC`: one command that needs steps.
    pub(super) is_single: bool,
    /// The client's spelling of `EXEC`.
    pub(super) name: Vec<u8>,
}

/// Positions of keys, by their owners.
pub(super) type Owners = Vec<(ShardId, Vec<usize>)>;

/// What is under way.
#[derive(Debug)]
pub(super) enum Step {
    Idle,
    /// Commands on one shard.
    One,
    /// A command in parts.
    Parts(&'static Command, RequestBuffer, Owners),
    /// A command whose entries are on their way here, of these keys.
    Together(&'static Command, RequestBuffer, RequestBuffer, Owners),
    /// A command of which only what it starts from is on its way here.
    Gathering(&'static Command, RequestBuffer),
    /// A question to all shards.
    Asking(Finish),
}

const NO_MONITOR: ErrorReply =
    ErrorReply::text("ERR MONITOR isn't allowed for DENY BLOCKING client");

impl Exec {
    /// A command by itself that needs steps; its reply is its own.
    pub(super) fn single(
        queued: Queued,
        needs: BTreeMap<ShardId, Needs>,
        grows: bool,
        now: Now,
    ) -> Self {
        Self::new(VecDeque::from([queued]), needs, grows, now)
    }

    fn new(
        commands: VecDeque<Queued>,
        needs: BTreeMap<ShardId, Needs>,
        grows: bool,
        now: Now,
    ) -> Self {
        let commands_write = commands.iter().any(Queued::writes);
        Self {
            commands,
            needs,
            grows,
            writes: commands_write,
            writers: BTreeSet::new(),
            step: Step::Idle,
            answers: BTreeMap::new(),
            expected: 0,
            reply: BytesMut::new(),
            muted: false,
            now,
            is_single: true,
            name: Vec::new(),
        }
    }

    /// The claim on `shard`, and whether watches are to be looked at there.
    pub(super) fn claim(&self, shard: ShardId) -> (Claim, bool) {
        self.needs
            .get(&shard)
            .map_or((Claim::Keys(Vec::new()), false), |need| {
                (need.claim(), need.watched)
            })
    }
}

impl Shard {
    /// Carries the queued commands out, at once or as a transaction.
    pub(crate) fn begin_exec(
        &mut self,
        session: &mut Session,
        queue: Queue,
        name: &[u8],
        reply: &mut BytesMut,
    ) -> Answered {
        let commands = queue.into_commands();
        for queued in &commands {
            self.stats.count_call(queued.found.index);
        }
        let mut needs = needs_of(&commands, session, self.map, self.id);
        let on_keys = |queued: &Queued| match queued.found.handler {
            Handler::Engine(command) => Some(command),
            Handler::Node(_) => None,
        };
        let grows = commands
            .iter()
            .filter_map(on_keys)
            .any(|command| command.flags.contains(Flags::DENYOOM));
        let claim = needs.get(&self.id).map(Needs::claim);
        if needs.keys().all(|shard| *shard == self.id)
            && commands.iter().all(|queued| on_keys(queued).is_some())
            && claim.is_none_or(|claim| self.locks.is_free(&claim))
        {
            return self.exec_here(session, &commands, grows, reply);
        }
        if needs.is_empty() {
            needs.insert(self.id, Needs::default());
        }
        let members = needs.keys().copied().collect();
        let mut array = BytesMut::new();
        Encoder::new(&mut array, session.client.version).array(commands.len());
        let exec = Exec {
            reply: array,
            is_single: false,
            name: name.to_vec(),
            ..Exec::new(commands.into(), needs, grows, self.now)
        };
        session.watched.clear();
        self.begin_on_members(session, Work::Exec(Box::new(exec)), members);
        Ok(Outcome::Later)
    }

    /// All locks are held, or a step is over: goes on as far as nobody has to be waited for.
    pub(super) fn advance_exec(&mut self, id: TransactionId, mut transaction: Transaction) {
        loop {
            let Work::Exec(exec) = &mut transaction.work else {
                return;
            };
            let Some(queued) = exec.commands.pop_front() else {
                return self.end_exec(id, transaction);
            };
            match queued.found.handler {
                Handler::Engine(command) => {
                    self.begin_step(id, &mut transaction, command, queued.request);
                }
                Handler::Node(command) => {
                    self.run_on_session(id, &mut transaction, command.run, queued.request.args());
                }
            }
            let waits = matches!(&transaction.work, Work::Exec(exec) if exec.expected > 0);
            if waits {
                transaction.phase = Phase::Running { unanswered: 1 };
                self.transactions.insert(id.sequence, transaction);
                return;
            }
        }
    }

    fn begin_step(
        &mut self,
        id: TransactionId,
        transaction: &mut Transaction,
        command: &'static Command,
        request: RequestBuffer,
    ) {
        let version = transaction.caller.version;
        let asker = transaction.caller.asker;
        let (map, here) = (self.map, self.id);
        let Work::Exec(exec) = &mut transaction.work else {
            return;
        };
        let now = exec.now;
        let held = |commands| {
            Message::RunHeld(Box::new(Held {
                transaction: id,
                commands,
                version,
                now,
                asker,
            }))
        };
        let args = request.args();
        let owners = match route(command, args, map, here, Door::Main) {
            Route::One(shard) => {
                let mut run = vec![(command, request)];
                exec.take_following(shard, map, here, &mut run);
                exec.expect(Step::One, 1);
                return self.send(shard, held(run));
            }
            Route::Owners(owners) => owners,
            Route::Everywhere if command.placement == Placement::Together => {
                let reader = asker.reading(command);
                return self.begin_gathering(id, exec, (command, request), reader);
            }
            Route::Everywhere => (0..map.shards())
                .map(|index| (ShardId(index), Vec::new()))
                .collect(),
            Route::Moved { .. } => Vec::new(),
        };
        let together = command.placement == Placement::Together;
        for (shard, positions) in &owners {
            let message = if together {
                let keys = positions.iter().map(|position| args.at(*position));
                Message::Lend(
                    id,
                    asker.reading(command),
                    Box::new(RequestBuffer::from_slices(keys)),
                )
            } else {
                held(vec![(command, part_of(command.keys, args, positions))])
            };
            self.send(*shard, message);
        }
        let count = owners.len();
        let step = if together {
            let keys = request.clone();
            Step::Together(command, request, keys, owners)
        } else {
            Step::Parts(command, request, owners)
        };
        exec.expect(step, count);
    }

    /// A command of the node, at its place in the order.
    fn run_on_session(
        &mut self,
        id: TransactionId,
        transaction: &mut Transaction,
        run: Run,
        args: Args<'_>,
    ) {
        let caller = transaction.caller;
        let Work::Exec(exec) = &mut transaction.work else {
            return;
        };
        let session = match self.take_session(caller.slot) {
            Some(session) if session.id == caller.connection => Some(session),
            Some(other) => {
                self.sessions[caller.slot.index()] = Some(other);
                None
            }
            None => None,
        };
        // Nobody is left to whom it could matter.
        let Some(mut session) = session else {
            return;
        };
        let mut reply = BytesMut::new();
        let answered = if args.at(0).eq_ignore_ascii_case(b"monitor") {
            Err(NO_MONITOR)
        } else {
            run(self, &mut session, args, &mut reply)
        };
        transaction.caller.version = session.client.version;
        exec.muted = session.client.reply_mode == ReplyMode::Off;
        self.sessions[caller.slot.index()] = Some(session);
        match answered {
            Ok(Outcome::Replied) => exec.append(&reply),
            Ok(Outcome::Silent | Outcome::Later) => {}
            Ok(Outcome::Ask(query, finish)) => {
                exec.expect(Step::Asking(finish), usize::from(self.shards()));
                // Also `PUBLISH` is put at once: with locks held nothing may be waited for that waits for locks.
                self.put_question(id, &query);
            }
            Err(error) => {
                self.stats.count_error(&error);
                reply.clear();
                Encoder::new(&mut reply, transaction.caller.version).error(&error);
                exec.append(&reply);
            }
        }
    }

    /// An answer to a step of an `EXEC`.
    pub(super) fn step_answered(
        &mut self,
        id: TransactionId,
        mut transaction: Transaction,
        from: ShardId,
        answer: StepAnswer,
    ) {
        if let Work::Exec(exec) = &mut transaction.work {
            if matches!(&answer, StepAnswer::Ran(partial) if partial.has_effects) {
                exec.writers.insert(from);
            }
            exec.answers.insert(from, answer);
            if exec.answers.len() < exec.expected {
                self.transactions.insert(id.sequence, transaction);
                return;
            }
        }
        self.end_step(id, &mut transaction);
        if matches!(&transaction.work, Work::Exec(exec) if exec.expected > 0) {
            self.transactions.insert(id.sequence, transaction);
        } else {
            self.advance_exec(id, transaction);
        }
    }

    fn end_step(&mut self, id: TransactionId, transaction: &mut Transaction) {
        let caller = transaction.caller;
        let Work::Exec(exec) = &mut transaction.work else {
            return;
        };
        exec.expected = 0;
        self.log_step(caller, exec);
        let answers = std::mem::take(&mut exec.answers).into_iter();
        let mut reply = BytesMut::new();
        match std::mem::replace(&mut exec.step, Step::Idle) {
            Step::Idle => {}
            Step::One => answers
                .filter_map(|(_, answer)| answer.ran())
                .for_each(|partial| reply.extend_from_slice(&partial.reply)),
            Step::Parts(command, request, owners) => {
                // Answers come in the order of shard numbers, and so are the owners.
                let positions = owners.into_iter().map(|(_, positions)| positions);
                let partials = answers.filter_map(|(_, answer)| answer.ran());
                let parts: Vec<_> = positions.zip(partials).collect();
                let (args, rng) = (request.args(), &mut self.rng);
                join(command, args, &parts, rng, caller.version, &mut reply);
            }
            Step::Gathering(command, request) => {
                let lent = answers.filter_map(|(_, answer)| answer.lent()).collect();
                return self.gather(id, exec, command, request, lent);
            }
            Step::Together(command, request, keys, owners) => {
                let lent = answers.filter_map(|(_, answer)| answer.lent()).collect();
                let own = std::mem::replace(&mut self.now, exec.now);
                let party = |(shard, positions)| Party {
                    shard,
                    transaction: id,
                    positions,
                };
                let place = Meeting {
                    asker: caller.asker,
                    keys: keys.args(),
                    parties: owners.into_iter().map(party).collect(),
                    lent,
                    keep_locks: true,
                    offer: None,
                };
                let met = self.run_together(place, command, request.args(), caller.version);
                self.send_back(met.restored);
                exec.writers.extend(met.writers);
                reply = met.reply;
                self.now = own;
            }
            Step::Asking(finish) => {
                let answers = answers.filter_map(|(_, answer)| answer.told()).collect();
                let mut encoder = Encoder::new(&mut reply, caller.version);
                finish.call(self, caller.slot, answers, &mut encoder);
            }
        }
        exec.append(&reply);
    }
}

impl Exec {
    /// Adds the commands that come next, as long as they are `shard`'s alone.
    fn take_following(
        &mut self,
        shard: ShardId,
        map: SlotMap,
        here: ShardId,
        run: &mut Vec<(&'static Command, RequestBuffer)>,
    ) {
        while let Some(next) = self.commands.front()
            && let Handler::Engine(command) = next.found.handler
            && route(command, next.request.args(), map, here, Door::Main) == Route::One(shard)
        {
            if let Some(next) = self.commands.pop_front() {
                run.push((command, next.request));
            }
        }
    }

    pub(super) fn expect(&mut self, step: Step, answers: usize) {
        self.step = step;
        self.expected = answers;
    }

    fn append(&mut self, reply: &[u8]) {
        if !self.muted {
            self.reply.extend_from_slice(reply);
        }
    }
}
