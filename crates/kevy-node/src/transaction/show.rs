//! What monitors see of an `EXEC` over several shards: its commands when all locks are held, itself when it is over.

use super::state::{Transaction, Work};
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
            let request = RequestBuffer::from_slices([&b"EXEC"[..]]);
            self.show_line(&address, request.args());
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
