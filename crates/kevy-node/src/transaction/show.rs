//! What monitors see of an `EXEC` over several shards: its commands when all locks are held, itself when it is over; and what
//! of its commands comes into the slow log.

use super::exec::{Exec, Step};
use super::state::{Caller, StepAnswer, Transaction, Work};
use crate::shard::Shard;
use kevy_proto::resp::RequestBuffer;

impl Shard {
    /// Shows monitors the commands that are going to run.
    pub(super) fn show_commands(&mut self, transaction: &Transaction) {
        let Work::Exec(exec) = &transaction.work else {
            return;
        };
        if !exec.is_single
            && let Some(address) = self.address_of(transaction)
        {
            for queued in &exec.commands {
                self.show(&address, queued.found, queued.request.args());
            }
        }
    }

    /// Shows monitors that an `EXEC` is over.
    pub(super) fn show_exec(&mut self, transaction: &Transaction) {
        if let Work::Exec(exec) = &transaction.work
            && !exec.is_single
            && let Some(address) = self.address_of(transaction)
        {
            let request = RequestBuffer::from_slices([&exec.name[..]]);
            self.show_line(&address, request.args());
        }
    }

    /// Logs those commands of a step that the shards found slow: a command in parts once, with its longest part.
    pub(super) fn log_step(&mut self, caller: Caller, exec: &mut Exec) {
        let ran = exec.answers.values_mut().filter_map(|answer| match answer {
            StepAnswer::Ran(partial) => Some(std::mem::take(&mut partial.slow)),
            StepAnswer::Lent(_) | StepAnswer::Told(_) => None,
        });
        let mut slow: Vec<_> = ran.flatten().collect();
        if let Step::Parts(_, request, _) = &exec.step {
            let longest = slow.iter().map(|(_, took)| *took).max();
            slow = longest
                .map(|took| (request.clone(), took))
                .into_iter()
                .collect();
        }
        let session = self.session(caller.slot);
        if slow.is_empty() || session.is_none_or(|session| session.id != caller.connection) {
            return;
        }
        if let Some(session) = self.take_session(caller.slot) {
            for (request, took) in slow {
                self.log_slow(&session, request.args(), took);
            }
            self.sessions[caller.slot.index()] = Some(session);
        }
    }

    /// Where the caller came from, if monitors are to be told and it is still there.
    fn address_of(&mut self, transaction: &Transaction) -> Option<String> {
        if !self.has_monitors() {
            return None;
        }
        let session = self.session_of(transaction.caller.connection)?;
        Some(session.peer.address.clone())
    }
}
