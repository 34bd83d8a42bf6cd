//! The coordinator's side of a transaction.

use super::exec::{Exec, StepAnswer};
use super::join::join;
use super::participate::{access, claim_keys};
use super::queue::aborted_because;
use crate::host::Slot;
use crate::message::{Access, Claim, Lent, Lock, Message, Part, Partial, Restored};
use crate::query::{Answer, Finish, Query};
use crate::session::{Session, State};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::keyspace::Detached;
use kevy_engine::{Command, Context};
use kevy_proto::command::{Flags, Keys, Placement};
use kevy_proto::ids::{ConnectionId, ShardId, TransactionId};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RequestBuffer, RespVersion};

/// A transaction of one of our sessions.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(super) caller: Caller,
    pub(super) work: Work,
    pub(super) phase: Phase,
    /// Why it will not be carried out.
    denial: Option<Denial>,
    /// In the order of the shards' numbers.
    members: Vec<Member>,
}

/// Why a transaction is not carried out; the later one is told if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Denial {
    /// A key that its connection watches was changed.
    WatchHit,
    /// A shard had no memory for it.
    NoMemory,
}

/// Whom the reply is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) slot: Slot,
    pub(super) connection: ConnectionId,
    /// Its number among the session's replies.
    reply_number: u64,
    pub(super) version: RespVersion,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// Parts run on their shards.
    Parts(&'static Command, RequestBuffer),
    /// All entries come here.
    Together(&'static Command, RequestBuffer),
    /// Queued commands run step by step.
    Exec(Box<Exec>),
    /// The shards answer a question; no locks are taken.
    Asking(Finish),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Locks were asked for on all shards at once; so many have not answered.
    Trying { unanswered: usize },
    /// A shard refused: locks are taken one after the other, this member's next.
    InOrder { next: usize },
    /// Parts are running; so many have not answered.
    Running { unanswered: usize },
    /// It is not carried out.
    Denied,
}

/// Entries that have met here for a command.
pub(super) struct Meeting<'a> {
    pub(super) transaction: TransactionId,
    /// The positions of their keys among the arguments.
    pub(super) owners: &'a [(ShardId, Vec<usize>)],
    /// As the owners lent them.
    pub(super) lent: Vec<Lent>,
    /// Whether the transaction goes on.
    pub(super) keep_locks: bool,
}

/// A shard that takes part.
#[derive(Debug)]
struct Member {
    shard: ShardId,
    /// Positions of its keys among the arguments (empty: it takes part with its whole key space).
    positions: Vec<usize>,
    locked: bool,
    /// Entries that came with the lock, in the order of `positions`.
    lent: Lent,
    partial: Option<Partial>,
    answer: Option<Answer>,
}

impl Member {
    fn new(shard: ShardId, positions: Vec<usize>) -> Self {
        Self {
            shard,
            positions,
            locked: false,
            lent: Lent::default(),
            partial: None,
            answer: None,
        }
    }
}

impl Shard {
    /// Begins a command whose keys have several owners.
    pub(crate) fn begin_on_owners(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
        owners: Vec<(ShardId, Vec<usize>)>,
    ) {
        let members = owners
            .into_iter()
            .map(|(shard, positions)| Member::new(shard, positions))
            .collect();
        let request = RequestBuffer::from_args(args);
        let work = match command.placement {
            Placement::Split(_) => Work::Parts(command, request),
            Placement::Together
            | Placement::EveryShard(_)
            | Placement::Cursor(_)
            | Placement::Session
            | Placement::Node => Work::Together(command, request),
        };
        self.begin(session, work, members);
    }

    /// Begins a command over the whole key space.
    pub(crate) fn begin_everywhere(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: Args<'_>,
    ) {
        let members = (0..self.shards())
            .map(|index| Member::new(ShardId(index), Vec::new()))
            .collect();
        self.begin(
            session,
            Work::Parts(command, RequestBuffer::from_args(args)),
            members,
        );
    }

    /// Asks every shard `query`; `finish` makes the reply of the answers.
    pub(crate) fn begin_asking(&mut self, session: &mut Session, query: &Query, finish: Finish) {
        let shards: Vec<ShardId> = (0..self.shards()).map(ShardId).collect();
        let id = self.register_question(session, &shards, finish);
        if query.waits_for_replies() && session.replies.outstanding() > 1 {
            session.held_question = Some((id, query.clone()));
        } else {
            self.put_question(id, query);
        }
    }

    /// Asks some shards, each its own question, in the order of their numbers.
    pub(crate) fn begin_asking_some(
        &mut self,
        session: &mut Session,
        queries: Vec<(ShardId, Query)>,
        finish: Finish,
    ) {
        let shards: Vec<ShardId> = queries.iter().map(|(shard, _)| *shard).collect();
        let id = self.register_question(session, &shards, finish);
        for (shard, query) in queries {
            self.send(shard, Message::Ask(id, query));
        }
    }

    fn register_question(
        &mut self,
        session: &mut Session,
        shards: &[ShardId],
        finish: Finish,
    ) -> TransactionId {
        let members: Vec<Member> = shards
            .iter()
            .map(|shard| Member::new(*shard, Vec::new()))
            .collect();
        let unanswered = members.len();
        let work = Work::Asking(finish);
        self.register(session, work, members, Phase::Running { unanswered })
    }

    /// Begins work that itself knows what it needs of each member.
    pub(super) fn begin_on_members(
        &mut self,
        session: &mut Session,
        work: Work,
        shards: Vec<ShardId>,
    ) {
        let members = shards
            .into_iter()
            .map(|shard| Member::new(shard, Vec::new()))
            .collect();
        session.watched.clear();
        self.begin(session, work, members);
    }

    fn begin(&mut self, session: &mut Session, work: Work, members: Vec<Member>) {
        self.stats.transactions += 1;
        let phase = Phase::Trying {
            unanswered: members.len(),
        };
        let id = self.register(session, work, members, phase);
        self.with_transaction(id, |shard, transaction| {
            for index in 0..transaction.members.len() {
                shard.ask_for_lock(id, transaction, index, false);
            }
        });
    }

    fn register(
        &mut self,
        session: &mut Session,
        work: Work,
        members: Vec<Member>,
        phase: Phase,
    ) -> TransactionId {
        // What the session sent before must arrive before: queues keep their order.
        self.flush_batches(session);
        session.state = State::Blocked;
        let id = TransactionId {
            coordinator: self.id,
            sequence: self.next_transaction,
        };
        self.next_transaction += 1;
        self.unanswered += 1;
        let caller = Caller {
            slot: session.slot,
            connection: session.id,
            reply_number: Self::begin_reply(session),
            version: session.client.version,
        };
        self.transactions.insert(
            id.sequence,
            Transaction {
                caller,
                work,
                phase,
                denial: None,
                members,
            },
        );
        id
    }

    /// Works on a transaction while it is out of the table; puts it back if it is not over.
    fn with_transaction(
        &mut self,
        id: TransactionId,
        work: impl FnOnce(&mut Self, &mut Transaction),
    ) {
        let Some(mut transaction) = self.transactions.remove(&id.sequence) else {
            return;
        };
        work(self, &mut transaction);
        self.transactions.insert(id.sequence, transaction);
    }

    fn ask_for_lock(
        &mut self,
        id: TransactionId,
        transaction: &Transaction,
        index: usize,
        wait: bool,
    ) {
        let member = &transaction.members[index];
        let lock = Lock {
            transaction: id,
            claim: transaction.claim(member),
            watcher: transaction.watcher(member),
            wait,
            grows: transaction.grows(),
            take: transaction.taken(member),
        };
        self.send(member.shard, Message::Lock(Box::new(lock)));
    }

    /// A shard holds its locks for us.
    pub(crate) fn lock_granted(&mut self, id: TransactionId, from: ShardId, lent: Lent) {
        self.lock_answered(id, |transaction| {
            if let Some(member) = transaction.member_mut(from) {
                member.locked = true;
                member.lent = lent;
            }
        });
    }

    /// A shard's locks were not free.
    pub(crate) fn lock_refused(&mut self, id: TransactionId) {
        self.lock_answered(id, |_| {});
    }

    /// A shard has no memory for the command: once all have answered, it is refused as a whole.
    pub(crate) fn lock_denied(&mut self, id: TransactionId) {
        self.lock_answered(id, |transaction| {
            transaction.denial = Some(Denial::NoMemory);
        });
    }

    /// A watched key was changed: the transaction will not run. The shard's answer to the wish for locks follows.
    pub(crate) fn watch_hit(&mut self, id: TransactionId) {
        self.with_transaction(id, |_, transaction| {
            transaction.denial = transaction.denial.max(Some(Denial::WatchHit));
        });
    }

    fn lock_answered(&mut self, id: TransactionId, note: impl FnOnce(&mut Transaction)) {
        let mut ready = false;
        let mut denied = false;
        self.with_transaction(id, |shard, transaction| {
            note(transaction);
            ready = shard.advance_locking(id, transaction);
            denied = transaction.phase == Phase::Denied;
        });
        if ready {
            self.carry_out(id);
        } else if denied {
            self.deny(id);
        }
    }

    fn deny(&mut self, id: TransactionId) {
        let Some(transaction) = self.transactions.remove(&id.sequence) else {
            return;
        };
        let mut reply = BytesMut::new();
        let mut encoder = Encoder::new(&mut reply, transaction.caller.version);
        let is_exec = matches!(transaction.work, Work::Exec(_));
        match transaction.denial {
            Some(Denial::WatchHit) => encoder.null_array(),
            Some(Denial::NoMemory) if is_exec => {
                encoder.error(&aborted_because(&ErrorReply::OutOfMemory.to_string()));
                self.stats.error_replies += 1;
            }
            Some(Denial::NoMemory) | None => {
                encoder.error(&ErrorReply::OutOfMemory);
                self.stats.error_replies += 1;
            }
        }
        self.forget_watches(&transaction);
        self.conclude(transaction.caller, reply);
    }

    /// One more answer to a wish for locks; whether all locks are held now.
    fn advance_locking(&mut self, id: TransactionId, transaction: &mut Transaction) -> bool {
        match transaction.phase {
            Phase::Trying { unanswered } if unanswered > 1 => {
                transaction.phase = Phase::Trying {
                    unanswered: unanswered - 1,
                };
                false
            }
            Phase::Trying { .. } | Phase::InOrder { .. } if transaction.denial.is_some() => {
                self.let_go(id, transaction);
                transaction.phase = Phase::Denied;
                false
            }
            Phase::Trying { .. } if transaction.members.iter().all(|member| member.locked) => true,
            Phase::Trying { .. } => {
                self.stats.transactions_in_order += 1;
                self.let_go(id, transaction);
                transaction.phase = Phase::InOrder { next: 0 };
                self.ask_for_lock(id, transaction, 0, true);
                false
            }
            Phase::InOrder { next } if next + 1 < transaction.members.len() => {
                transaction.phase = Phase::InOrder { next: next + 1 };
                self.ask_for_lock(id, transaction, next + 1, true);
                false
            }
            Phase::InOrder { .. } => true,
            Phase::Running { .. } | Phase::Denied => false,
        }
    }

    /// Gives back what was locked, unchanged.
    pub(super) fn let_go(&mut self, id: TransactionId, transaction: &mut Transaction) {
        for member in transaction
            .members
            .iter_mut()
            .filter(|member| member.locked)
        {
            member.locked = false;
            let lent = std::mem::take(&mut member.lent);
            let entries: Vec<Detached> = lent.entries.into_iter().flatten().collect();
            let message = if entries.is_empty() {
                Message::Release(id)
            } else {
                Message::Restore(Box::new(Restored {
                    transaction: id,
                    entries,
                    changed: RequestBuffer::new(),
                    keep_locks: false,
                }))
            };
            self.send(member.shard, message);
        }
    }

    /// All locks are held: do it.
    fn carry_out(&mut self, id: TransactionId) {
        let Some(mut transaction) = self.transactions.remove(&id.sequence) else {
            return;
        };
        match &transaction.work {
            Work::Parts(command, request) => {
                let (command, args) = (*command, request.args());
                for member in &transaction.members {
                    let part = Part {
                        transaction: id,
                        command,
                        request: part_of(command.keys, args, &member.positions),
                        version: transaction.caller.version,
                        now: self.now,
                    };
                    self.send(member.shard, Message::Run(Box::new(part)));
                }
                transaction.phase = Phase::Running {
                    unanswered: transaction.members.len(),
                };
                self.transactions.insert(id.sequence, transaction);
            }
            Work::Together(command, request) => {
                let command = *command;
                let request = request.clone();
                let (owners, lent): (Vec<_>, _) = transaction
                    .members
                    .into_iter()
                    .map(|member| ((member.shard, member.positions), member.lent))
                    .unzip();
                let meeting = Meeting {
                    transaction: id,
                    owners: &owners,
                    lent,
                    keep_locks: false,
                };
                let caller = transaction.caller;
                let reply = self.run_together(meeting, command, request.args(), caller.version);
                self.conclude(caller, reply);
            }
            Work::Exec(_) => self.advance_exec(id, transaction),
            Work::Asking(_) => debug_assert!(false, "questions take no locks"),
        }
    }

    /// Runs a command on the entries of all owners, and sends them back.
    pub(super) fn run_together(
        &mut self,
        meeting: Meeting<'_>,
        command: &'static Command,
        args: Args<'_>,
        version: RespVersion,
    ) -> BytesMut {
        debug_assert!(
            self.meeting.is_empty(),
            "the meeting place is left as it was found"
        );
        let watched = meeting.lent.iter().any(|lent| lent.watched);
        let entries = meeting.lent.into_iter().flat_map(|lent| lent.entries);
        entries.flatten().for_each(|entry| self.meeting.put(entry));
        // Only the owners know who watches what: they are told which keys were changed.
        self.effects.want(watched);
        let mut reply = BytesMut::new();
        let mut context = Context {
            keyspace: &mut self.meeting,
            reply: Encoder::new(&mut reply, version),
            effects: &mut self.effects,
            now: self.now,
        };
        if context.run(command, args).is_err() {
            self.stats.error_replies += 1;
        }
        let shards: Vec<ShardId> = meeting.owners.iter().map(|(shard, _)| *shard).collect();
        let changed = self.changed_keys(&shards);
        self.effects.want(!self.watches.is_empty());
        for ((shard, positions), changed) in meeting.owners.iter().zip(changed) {
            let keys = positions.iter().map(|position| args.at(*position));
            let restored = Restored {
                transaction: meeting.transaction,
                entries: keys.filter_map(|key| self.meeting.take(key)).collect(),
                changed,
                keep_locks: meeting.keep_locks,
            };
            self.send(*shard, Message::Restore(Box::new(restored)));
        }
        reply
    }

    /// A part has run.
    pub(crate) fn part_ran(&mut self, id: TransactionId, from: ShardId, partial: Partial) {
        match self.exec_of(id) {
            Some(exec) => self.step_answered(id, exec, from, StepAnswer::Ran(partial)),
            None => self.count_answer(id, from, |member| member.partial = Some(partial)),
        }
    }

    /// A shard answered a question.
    pub(crate) fn told(&mut self, id: TransactionId, from: ShardId, answer: Answer) {
        match self.exec_of(id) {
            Some(exec) => self.step_answered(id, exec, from, StepAnswer::Told(answer)),
            None => self.count_answer(id, from, |member| member.answer = Some(answer)),
        }
    }

    /// Entries came for a step of an `EXEC`.
    pub(crate) fn lent(&mut self, id: TransactionId, from: ShardId, lent: Lent) {
        if let Some(exec) = self.exec_of(id) {
            self.step_answered(id, exec, from, StepAnswer::Lent(lent));
        }
    }

    /// Takes the transaction out of the table if it is an `EXEC`.
    fn exec_of(&mut self, id: TransactionId) -> Option<Transaction> {
        let transaction = self.transactions.get(&id.sequence)?;
        if !matches!(transaction.work, Work::Exec(_)) {
            return None;
        }
        self.transactions.remove(&id.sequence)
    }

    fn count_answer(&mut self, id: TransactionId, from: ShardId, keep: impl FnOnce(&mut Member)) {
        let mut over = false;
        self.with_transaction(id, |_, transaction| {
            if let Some(member) = transaction.member_mut(from) {
                keep(member);
            }
            if let Phase::Running { unanswered } = &mut transaction.phase {
                *unanswered = unanswered.saturating_sub(1);
                over = *unanswered == 0;
            }
        });
        if over && let Some(transaction) = self.transactions.remove(&id.sequence) {
            self.finish(transaction);
        }
    }

    fn finish(&mut self, transaction: Transaction) {
        let Transaction {
            caller,
            work,
            members,
            ..
        } = transaction;
        let mut reply = BytesMut::new();
        match work {
            Work::Parts(command, request) => {
                let parts = members
                    .into_iter()
                    .filter_map(|member| Some((member.positions, member.partial?)));
                let parts: Vec<_> = parts.collect();
                join(
                    command,
                    request.args(),
                    &parts,
                    &mut self.rng,
                    caller.version,
                    &mut reply,
                );
            }
            Work::Asking(finish) => {
                let answers = members
                    .into_iter()
                    .filter_map(|member| member.answer)
                    .collect();
                finish.call(
                    self,
                    caller.slot,
                    answers,
                    &mut Encoder::new(&mut reply, caller.version),
                );
            }
            Work::Together(..) | Work::Exec(_) => {
                debug_assert!(false, "was carried out at once, or step by step");
            }
        }
        self.conclude(caller, reply);
    }

    /// Hands the reply to the session, if it is still there, and lets it go on.
    pub(super) fn conclude(&mut self, caller: Caller, reply: BytesMut) {
        self.unanswered = self.unanswered.saturating_sub(1);
        if self
            .session(caller.slot)
            .is_none_or(|session| session.id != caller.connection)
        {
            return;
        }
        let Some(mut session) = self.take_session(caller.slot) else {
            return;
        };
        session.replies.complete(caller.reply_number, reply);
        if session.state == State::Blocked {
            session.state = State::Open;
            self.execute_buffered(&mut session);
            self.readable.push_back(session.slot);
        }
        self.return_session(session);
    }
}

impl Transaction {
    fn member_mut(&mut self, shard: ShardId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.shard == shard)
    }

    fn claim(&self, member: &Member) -> Claim {
        match &self.work {
            Work::Parts(command, _) if member.positions.is_empty() => Claim::Whole(access(command)),
            Work::Parts(command, request) => member.claim(request.args(), access(command)),
            // Its entries leave their shard for a while: nobody may look.
            Work::Together(_, request) => member.claim(request.args(), Access::Exclusive),
            Work::Exec(exec) => exec.claim(member.shard).0,
            Work::Asking(_) => Claim::Keys(Vec::new()),
        }
    }

    /// Whose watches the member is to look at.
    fn watcher(&self, member: &Member) -> Option<ConnectionId> {
        match &self.work {
            Work::Exec(exec) => {
                let (_, watched) = exec.claim(member.shard);
                watched.then_some(self.caller.connection)
            }
            Work::Parts(..) | Work::Together(..) | Work::Asking(_) => None,
        }
    }

    /// Whether it may need more memory.
    fn grows(&self) -> bool {
        match &self.work {
            Work::Parts(command, _) | Work::Together(command, _) => {
                command.flags.contains(Flags::DENYOOM)
            }
            Work::Exec(exec) => exec.grows,
            Work::Asking(_) => false,
        }
    }

    fn taken(&self, member: &Member) -> RequestBuffer {
        match &self.work {
            Work::Together(_, request) => RequestBuffer::from_slices(
                member
                    .positions
                    .iter()
                    .map(|position| request.args().at(*position)),
            ),
            Work::Parts(..) | Work::Exec(_) | Work::Asking(_) => RequestBuffer::new(),
        }
    }
}

impl Member {
    fn claim(&self, args: Args<'_>, access: Access) -> Claim {
        claim_keys(
            self.positions.iter().map(|position| args.at(*position)),
            access,
        )
    }
}

/// The arguments of one member's part: all of them without keys, else the name and, for each of its keys, the key and what
/// belongs to it (`MSET`'s value).
pub(super) fn part_of(keys: Keys, args: Args<'_>, positions: &[usize]) -> RequestBuffer {
    let Keys::Range { step, .. } = keys else {
        return RequestBuffer::from_args(args);
    };
    if positions.is_empty() {
        return RequestBuffer::from_args(args);
    }
    let mut part = RequestBuffer::from_slices([args.at(0)]);
    for &position in positions {
        (position..position + step.max(1) as usize).for_each(|at| part.push(args.at(at)));
    }
    part
}
