//! The coordinator's side of a transaction.

use super::join::join;
use super::participate::{access, claim_keys};
use crate::host::Slot;
use crate::message::{Access, Claim, Lock, Message, Part, Partial};
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
    caller: Caller,
    work: Work,
    phase: Phase,
    /// A shard had no memory for it.
    denied: bool,
    /// In the order of the shards' numbers.
    members: Vec<Member>,
}

/// Whom the reply is for.
#[derive(Clone, Copy, Debug)]
struct Caller {
    slot: Slot,
    connection: ConnectionId,
    /// Its number among the session's replies.
    reply_number: u64,
    version: RespVersion,
}

/// What is to be done.
#[derive(Debug)]
enum Work {
    /// Parts run on their shards.
    Parts(&'static Command, RequestBuffer),
    /// All entries come here.
    Together(&'static Command, RequestBuffer),
    /// The shards answer a question; no locks are taken.
    Asking(Finish),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Locks were asked for on all shards at once; so many have not answered.
    Trying { unanswered: usize },
    /// A shard refused: locks are taken one after the other, this member's next.
    InOrder { next: usize },
    /// Parts are running; so many have not answered.
    Running { unanswered: usize },
    /// It is not carried out: a shard has no memory for it.
    Denied,
}

/// A shard that takes part.
#[derive(Debug)]
struct Member {
    shard: ShardId,
    /// Positions of its keys among the arguments (empty: it takes part with its whole key space).
    positions: Vec<usize>,
    locked: bool,
    /// Entries that came with the lock, in the order of `positions`.
    entries: Vec<Option<Detached>>,
    partial: Option<Partial>,
    answer: Option<Answer>,
}

impl Member {
    fn new(shard: ShardId, positions: Vec<usize>) -> Self {
        Self {
            shard,
            positions,
            locked: false,
            entries: Vec::new(),
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
        let members: Vec<Member> = (0..self.shards())
            .map(|index| Member::new(ShardId(index), Vec::new()))
            .collect();
        let unanswered = members.len();
        let id = self.register(
            session,
            Work::Asking(finish),
            members,
            Phase::Running { unanswered },
        );
        if query.waits_for_replies() && session.replies.outstanding() > 1 {
            session.held_question = Some((id, query.clone()));
        } else {
            self.put_question(id, query);
        }
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
                denied: false,
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
            wait,
            grows: transaction.grows(),
            take: transaction.taken(member),
        };
        self.send(member.shard, Message::Lock(Box::new(lock)));
    }

    /// A shard holds its locks for us.
    pub(crate) fn lock_granted(
        &mut self,
        id: TransactionId,
        from: ShardId,
        entries: Vec<Option<Detached>>,
    ) {
        self.lock_answered(id, |transaction| {
            if let Some(member) = transaction.member_mut(from) {
                member.locked = true;
                member.entries = entries;
            }
        });
    }

    /// A shard's locks were not free.
    pub(crate) fn lock_refused(&mut self, id: TransactionId) {
        self.lock_answered(id, |_| {});
    }

    /// A shard has no memory for the command: once all have answered, it is refused as a whole.
    pub(crate) fn lock_denied(&mut self, id: TransactionId) {
        self.lock_answered(id, |transaction| transaction.denied = true);
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
        Encoder::new(&mut reply, transaction.caller.version).error(&ErrorReply::OutOfMemory);
        self.stats.error_replies += 1;
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
            Phase::Trying { .. } | Phase::InOrder { .. } if transaction.denied => {
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
    fn let_go(&mut self, id: TransactionId, transaction: &mut Transaction) {
        for member in transaction
            .members
            .iter_mut()
            .filter(|member| member.locked)
        {
            member.locked = false;
            let entries: Vec<Detached> = member.entries.drain(..).flatten().collect();
            let message = if entries.is_empty() {
                Message::Release(id)
            } else {
                Message::Restore(id, entries)
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
                let reply = self.run_together(id, &mut transaction, command, request.args());
                self.conclude(transaction.caller, reply);
            }
            Work::Asking(_) => debug_assert!(false, "questions take no locks"),
        }
    }

    /// Runs a command on the entries of all members, and sends them back.
    fn run_together(
        &mut self,
        id: TransactionId,
        transaction: &mut Transaction,
        command: &'static Command,
        args: Args<'_>,
    ) -> BytesMut {
        debug_assert!(
            self.meeting.is_empty(),
            "the meeting place is left as it was found"
        );
        for member in &mut transaction.members {
            member
                .entries
                .drain(..)
                .flatten()
                .for_each(|entry| self.meeting.put(entry));
        }
        let mut reply = BytesMut::new();
        let mut context = Context {
            keyspace: &mut self.meeting,
            reply: Encoder::new(&mut reply, transaction.caller.version),
            effects: &mut self.effects,
            now: self.now,
        };
        if context.run(command, args).is_err() {
            self.stats.error_replies += 1;
        }
        for member in &transaction.members {
            let keys = member.positions.iter().map(|position| args.at(*position));
            let entries = keys.filter_map(|key| self.meeting.take(key)).collect();
            self.send(member.shard, Message::Restore(id, entries));
        }
        self.effects.clear();
        reply
    }

    /// A part has run.
    pub(crate) fn part_ran(&mut self, id: TransactionId, from: ShardId, partial: Partial) {
        self.count_answer(id, from, |member| member.partial = Some(partial));
    }

    /// A shard answered a question.
    pub(crate) fn told(&mut self, id: TransactionId, from: ShardId, answer: Answer) {
        self.count_answer(id, from, |member| member.answer = Some(answer));
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
            Work::Together(..) => debug_assert!(false, "was carried out at once"),
        }
        self.conclude(caller, reply);
    }

    /// Hands the reply to the session, if it is still there, and lets it go on.
    fn conclude(&mut self, caller: Caller, reply: BytesMut) {
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
            Work::Asking(_) => Claim::Keys(Vec::new()),
        }
    }

    /// Whether it may need more memory.
    fn grows(&self) -> bool {
        match &self.work {
            Work::Parts(command, _) | Work::Together(command, _) => {
                command.flags.contains(Flags::DENYOOM)
            }
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
            Work::Parts(..) | Work::Asking(_) => RequestBuffer::new(),
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
fn part_of(keys: Keys, args: Args<'_>, positions: &[usize]) -> RequestBuffer {
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
