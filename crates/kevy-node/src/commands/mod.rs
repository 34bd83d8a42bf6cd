//! What the session or the control plane answers, a file per family: row and function together, as in the engine.

mod connection;

use crate::query::{Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Row;
use kevy_proto::resp::{Args, ErrorReply};

/// What came of a command of the node.
#[derive(Debug)]
pub enum Outcome {
    /// The reply was written.
    Replied,
    /// There is no reply at all (`CLIENT REPLY OFF`).
    Silent,
    /// Every shard is to be asked first.
    Ask(Query, Finish),
}

/// The function of a command of the node: it writes its reply to the buffer, in the session's protocol version.
pub type Run = fn(&mut Shard, &mut Session, Args<'_>, &mut BytesMut) -> Result<Outcome, ErrorReply>;

/// A command of the node: row and function together.
pub type NodeCommand = Row<Run>;

/// Every command of the node, family by family.
pub fn families() -> impl Iterator<Item = &'static [NodeCommand]> {
    [connection::COMMANDS].into_iter()
}
