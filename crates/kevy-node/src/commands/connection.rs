//! Commands about the connection itself.

#![expect(clippy::unnecessary_wraps, reason = "all commands of a family have one signature")]

use super::{NodeCommand, Outcome};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::{Flags, Keys, Placement};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The commands of this family.
pub const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "ping",
        arity: -1,
        flags: Flags::FAST,
        keys: Keys::None,
        placement: Placement::Session,
        group: "connection",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the server's liveliness response.",
        run: ping,
        subcommands: &[],
    },
    NodeCommand {
        name: "echo",
        arity: 2,
        flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
        keys: Keys::None,
        placement: Placement::Session,
        group: "connection",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the given string.",
        run: echo,
        subcommands: &[],
    },
];

fn ping(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Result<Outcome, ErrorReply> {
    let mut reply = Encoder::new(reply, session.client.version);
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(ErrorReply::WrongArity("ping".to_owned())),
    }
    Ok(Outcome::Replied)
}

fn echo(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Result<Outcome, ErrorReply> {
    Encoder::new(reply, session.client.version).bulk(args.at(1));
    Ok(Outcome::Replied)
}
