//! What a command's function is given.

use crate::{Effects, Keyspace, Wait};
use alloc::boxed::Box;
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use kevy_proto::time::Now;

/// Everything a command may read, change and write to.
#[derive(Debug)]
pub struct Context<'a> {
    /// The keys of this shard (or those that a transaction brought together).
    pub keyspace: &'a mut Keyspace,
    /// Where the reply goes.
    pub reply: Encoder<'a>,
    /// Where the effects go.
    pub effects: &'a mut Effects,
    /// When the command runs: one moment for the whole command.
    pub now: Now,
    /// Set by a blocking command that found nothing. `None` to begin with.
    pub wait: Option<Box<Wait>>,
}

impl Context<'_> {
    /// Runs `command`; an error takes back what was written of the reply and is written instead. Arity was checked.
    ///
    /// # Errors
    /// The error that was written: for statistics.
    pub fn run(&mut self, command: &crate::Command, args: Args<'_>) -> Result<(), ErrorReply> {
        let mark = self.reply.mark();
        let result = (command.run)(self, args);
        if let Err(error) = &result {
            self.reply.truncate(mark);
            self.reply.error(error);
        }
        result
    }
}
