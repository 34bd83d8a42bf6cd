//! The end of a transaction: answers are counted, and the last one makes the reply.

use super::join::join;
use super::state::{Caller, Member, Phase, StepAnswer, Transaction, Work};
use crate::durability::Commit;
use crate::message::{Lent, Message, Partial, Restored};
use crate::query::Answer;
use crate::session::State;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::ids::{ShardId, TransactionId};
use kevy_proto::resp::Encoder;

impl Shard {
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
            self.finish(id, transaction);
        }
    }

    fn finish(&mut self, id: TransactionId, transaction: Transaction) {
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
        self.conclude(caller, reply, Some(id));
    }

    /// Everything has run: only now are the locks let go.
    pub(super) fn end_exec(&mut self, id: TransactionId, transaction: Transaction) {
        self.forget_watches(&transaction);
        self.show_exec(&transaction);
        let Work::Exec(exec) = transaction.work else {
            return;
        };
        let commit = self.commit_of(id, exec.writers.iter().copied().collect());
        let mut owners = 0;
        for member in &transaction.members {
            let commit = commit
                .as_ref()
                .filter(|_| exec.writers.contains(&member.shard));
            if commit.is_none() {
                self.settle_readers(id, std::iter::once(member.shard));
            }
            owners += usize::from(member.lent.has_waiters);
            self.end_on(id, member, commit);
        }
        self.conclude_served(id, transaction.caller, exec.reply, Some(id), owners);
    }

    /// Everything has run: lets the member's locks go and its changes be logged. If somebody waits for keys there it will say
    /// [`Message::Served`] once those whom it woke are served.
    fn end_on(&mut self, id: TransactionId, member: &Member, commit: Option<&Commit>) {
        let message = match commit {
            _ if member.lent.has_waiters => Message::Restore(Box::new(Restored {
                commit: commit.cloned(),
                tell_served: true,
                ..Restored::unchanged(id, Vec::new())
            })),
            Some(commit) => Message::Commit(commit.clone()),
            None => Message::Release(id),
        };
        self.send(member.shard, message);
    }

    /// Lets owners forget what the connection watched before its `EXEC`.
    pub(super) fn forget_watches(&mut self, transaction: &Transaction) {
        let Work::Exec(exec) = &transaction.work else {
            return;
        };
        for (shard, _) in exec.needs.iter().filter(|(_, need)| need.watched) {
            self.unwatch_on(*shard, transaction.caller.connection);
        }
    }

    /// Hands the reply to the session, if it is still there, and lets it go on. If replies wait for the disk, this one waits
    /// for what `settles` says.
    pub(crate) fn conclude(
        &mut self,
        caller: Caller,
        reply: BytesMut,
        settles: Option<TransactionId>,
    ) {
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
        // If it was blocked: not any more.
        self.stop_waiting(&mut session);
        self.complete_when_settled(&mut session, caller.reply_number, reply, settles);
        self.settle_waiting(&mut session);
        let held = session.end_reading();
        if session.state == State::Blocked {
            session.state = State::Open;
            self.execute_buffered(&mut session);
            self.readable.push_back(session.slot);
        }
        self.return_session(session);
        self.tell_held(caller.connection, held);
    }
}
