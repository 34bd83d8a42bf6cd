//! What a session queues between `MULTI` and `EXEC`.

use crate::command_table::{Found, Handler};
use crate::session::Session;
use crate::shard::Shard;
use crate::stats::Failure;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, Encoder, ErrorReply, RequestBuffer};

/// The reply of an `EXEC` before which a command was refused.
pub(crate) const EXEC_ABORTED: ErrorReply =
    ErrorReply::text("EXECABORT Transaction discarded because of previous errors.");
/// What a queued command is counted with beside its arguments, in bytes.
const OVERHEAD_BYTES: usize = 64;

/// Commands of a session that wait for `EXEC`. `client_query_buffer_limit` bounds it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    commands: Vec<Queued>,
    bytes: usize,
    tainted: bool,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Queued {
    /// What to run.
    pub found: Found,
    /// Its arguments.
    pub request: RequestBuffer,
}

impl Queued {
    /// Whether it may change keys.
    pub(crate) fn writes(&self) -> bool {
        match self.found.handler {
            Handler::Engine(command) => command.is_write(),
            Handler::Node(_) => false,
        }
    }
}

impl Queue {
    /// Whether a command was refused: `EXEC` will be, too.
    pub(crate) fn is_tainted(&self) -> bool {
        self.tainted
    }

    /// What it holds, in bytes, by estimate.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// How many commands wait.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The commands, in order.
    pub(crate) fn into_commands(self) -> Vec<Queued> {
        self.commands
    }

    /// Whether a command changes something, or is heard of elsewhere.
    pub(crate) fn has_writes(&self) -> bool {
        self.commands.iter().any(|queued| {
            let flags = queued.found.handler.flags();
            flags.contains(Flags::WRITE) || flags.contains(Flags::MAY_REPLICATE)
        })
    }

    fn push(&mut self, found: Found, args: Args<'_>) {
        // Of a transaction that will not run nothing needs to be kept.
        if !self.tainted {
            let request = RequestBuffer::from_args(args);
            self.bytes += request.len_bytes() + OVERHEAD_BYTES;
            self.commands.push(Queued { found, request });
        }
    }

    fn taint(&mut self) {
        *self = Self {
            tainted: true,
            ..Self::default()
        };
    }
}

impl Shard {
    /// Within `MULTI`, queues the command, or refuses it, and returns true. False: it is to be run now.
    pub(crate) fn queue(&mut self, session: &mut Session, found: Found, args: Args<'_>) -> bool {
        if session.queue.is_none() || runs_at_once(self.commands.all()[found.index].full_name) {
            return false;
        }
        session.client.last_command = self.commands.all()[found.index].full_name;
        if found.handler.flags().contains(Flags::NO_MULTI) {
            let error = ErrorReply::text("ERR Command not allowed inside a transaction");
            self.refuse(session, Some(found.index), &error);
        } else if !self.make_room() {
            self.refuse(session, Some(found.index), &ErrorReply::OutOfMemory);
        } else {
            if let Some(queue) = &mut session.queue {
                queue.push(found, args);
            }
            let mut reply = BytesMut::new();
            Encoder::new(&mut reply, session.client.version).simple("QUEUED");
            Self::finish_reply(session, reply);
        }
        true
    }

    /// A request was not understood, or not allowed: replies with the error; a transaction that was begun will not run.
    /// `index` is the command's number, if there is such a command.
    pub(crate) fn refuse(
        &mut self,
        session: &mut Session,
        index: Option<usize>,
        error: &ErrorReply,
    ) {
        if let Some(index) = index {
            self.stats.count_failure(index, Failure::Rejected);
        }
        if *error == ErrorReply::WrongArity("exec".to_owned()) {
            self.discard(session);
            let text = error.to_string();
            let error = aborted_because(text.strip_prefix("ERR ").unwrap_or(&text));
            return self.reply_error(session, &error);
        }
        if let Some(queue) = &mut session.queue {
            queue.taint();
        }
        self.reply_error(session, error);
    }

    /// Ends `MULTI` without running anything.
    pub(crate) fn discard(&mut self, session: &mut Session) {
        session.queue = None;
        self.unwatch_all(session);
    }
}

/// The error of an `EXEC` that is refused itself.
pub(crate) fn aborted_because(reason: &str) -> ErrorReply {
    ErrorReply::Other(format!("EXECABORT Transaction discarded because of: {reason}").into())
}

/// What rules the transaction itself is not queued.
fn runs_at_once(full_name: &str) -> bool {
    matches!(
        full_name,
        "exec" | "discard" | "multi" | "watch" | "quit" | "reset"
    )
}
