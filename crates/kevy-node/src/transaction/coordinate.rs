//! The coordinator's side of a transaction.

use super::queue::aborted_because;
use super::state::{Caller, Denial, Member, Phase, Transaction, Work, part_of};
use super::together::attempt_of;
use crate::message::{Lent, Lock, Message, Obstacle, Part, Restored};
use crate::query::{Finish, Query};
use crate::session::{Session, State};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::Command;
use kevy_engine::keyspace::Detached;
use kevy_proto::command::Placement;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RequestBuffer};

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
        self.begin(session, work, members);
    }

    fn begin(&mut self, session: &mut Session, work: Work, members: Vec<Member>) {
        self.stats.transactions += 1;
        let phase = Phase::Trying {
            unanswered: members.len(),
        };
        let id = self.register(session, work, members, phase);
        self.try_locks(id);
    }

    pub(super) fn try_locks(&mut self, id: TransactionId) {
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
        let id = self.new_transaction_id();
        self.unanswered += 1;
        let mut asker = session.asker();
        let reads = Transaction::reads(&work);
        asker.tracks &= reads;
        if reads {
            session.begin_reading();
        }
        let caller = Caller {
            asker,
            slot: session.slot,
            connection: session.id,
            reply_number: Self::begin_reply(session),
            version: session.client.version,
        };
        self.transactions.insert(
            id.sequence,
            Transaction {
                caller,
                attempt: attempt_of(&work),
                offered: None,
                work,
                phase,
                denial: None,
                members,
            },
        );
        id
    }

    /// A name that no other transaction of the process has or will have.
    pub(crate) fn new_transaction_id(&mut self) -> TransactionId {
        let sequence = self.next_transaction;
        self.next_transaction += 1;
        TransactionId {
            coordinator: self.id,
            sequence,
        }
    }

    /// Works on a transaction while it is out of the table; puts it back if it is not over.
    pub(super) fn with_transaction(
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
            writes: transaction.writes(),
            asker: transaction.caller.asker,
            take: transaction.taken(member),
        };
        self.send(member.shard, Message::Lock(Box::new(lock)));
    }

    /// A shard holds its locks for us.
    pub(crate) fn lock_granted(&mut self, id: TransactionId, from: ShardId, lent: Lent) {
        self.note_epoch(lent.epoch);
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

    /// A shard cannot carry the command out: once all have answered, it is refused as a whole.
    pub(crate) fn lock_denied(&mut self, id: TransactionId, obstacle: Obstacle) {
        self.lock_answered(id, |transaction| {
            transaction.denial = Some(Denial::Obstacle(obstacle));
        });
    }

    /// A watched key was changed: the transaction will not run. The shard's answer to the wish for locks follows.
    pub(crate) fn watch_hit(&mut self, id: TransactionId) {
        self.with_transaction(id, |_, transaction| {
            transaction.denial.get_or_insert(Denial::WatchHit);
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
        let is_exec = matches!(&transaction.work, Work::Exec(exec) if !exec.is_single);
        let error = match &transaction.denial {
            Some(Denial::WatchHit) => None,
            Some(Denial::Obstacle(obstacle)) => Some(obstacle.clone().error()),
            None => Some(ErrorReply::OutOfMemory),
        };
        match error {
            None => encoder.null_array(),
            Some(error) => {
                let error = if is_exec {
                    aborted_because(&error.to_string())
                } else {
                    error
                };
                encoder.error(&error);
                self.stats.count_error(&error);
            }
        }
        self.forget_watches(&transaction);
        self.show_exec(&transaction);
        self.conclude(transaction.caller, reply, None);
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
                self.ask_for_offered_again(transaction);
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
                Message::Restore(Box::new(Restored::unchanged(id, entries)))
            };
            self.send(member.shard, message);
        }
        self.give_back_offered(transaction);
    }

    /// All locks are held: do it.
    fn carry_out(&mut self, id: TransactionId) {
        let Some(mut transaction) = self.transactions.remove(&id.sequence) else {
            return;
        };
        match &transaction.work {
            Work::Parts(command, request) => {
                let (command, args) = (*command, request.args());
                let members = transaction.members.iter().map(|member| member.shard);
                let commit = if command.is_write() {
                    self.commit_of(id, members.collect())
                } else {
                    None
                };
                for member in &transaction.members {
                    let part = Part {
                        transaction: id,
                        command,
                        request: part_of(command.keys, args, &member.positions),
                        version: transaction.caller.version,
                        now: self.now,
                        asker: transaction.caller.asker,
                        commit: commit.clone(),
                    };
                    self.send(member.shard, Message::Run(Box::new(part)));
                }
                transaction.phase = Phase::Running {
                    unanswered: transaction.members.len(),
                };
                self.transactions.insert(id.sequence, transaction);
            }
            Work::Together(..) => self.carry_out_together(id, transaction),
            Work::Exec(_) => {
                self.show_commands(&transaction);
                self.advance_exec(id, transaction);
            }
            Work::Asking(_) => debug_assert!(false, "questions take no locks"),
        }
    }
}
