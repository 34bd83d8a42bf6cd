//! `WAIT`, and `CLIENT UNBLOCK`: waiting that no key ends.

use super::{Answered, NodeCommand, Outcome, ROW, integer, is};
use crate::query::{Answer, Finish, Query};
use crate::session::{Session, State};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::ids::ConnectionId;
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use std::time::Duration;

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "wait",
    arity: 3,
    flags: Flags::NOSCRIPT,
    group: "generic",
    since: "3.0.0",
    summary: "Wait for the synchronous replication of all the write commands sent in the context of the current \
        connection",
    run: wait,
    ..ROW
}];

/// `WAIT numreplicas timeout`: there are no replicas, so that the reply is always 0, at once or after the timeout.
fn wait(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let replicas = integer(args.at(1))?;
    let timeout_ms = integer(args.at(2))
        .map_err(|_| ErrorReply::text("ERR timeout is not an integer or out of range"))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| ErrorReply::text("ERR timeout is negative"))?;
    Encoder::new(reply, session.client.version).integer(0);
    // Within `EXEC` the session waits already.
    if replicas <= 0 || session.state == State::Blocked {
        return Ok(Outcome::Replied);
    }
    let timeout = Duration::from_millis(timeout_ms);
    let timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
    shard.block_for(session, timeout, std::mem::take(reply));
    Ok(Outcome::Later)
}

/// `CLIENT UNBLOCK client-id [TIMEOUT|ERROR]`.
pub(super) fn unblock(
    _: &mut Shard,
    _: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    if args.len() > 4 {
        return Err(ErrorReply::text(
            "ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.",
        ));
    }
    let with_error = match args.get(3) {
        None => false,
        Some(reason) if is(reason, "timeout") => false,
        Some(reason) if is(reason, "error") => true,
        Some(_) => {
            return Err(ErrorReply::text(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let connection = ConnectionId(integer(args.at(2))?.cast_unsigned());
    let query = Query::Unblock(connection, with_error);
    let finish = Finish::new(|_, _, answers, reply| reply.length(Answer::total(&answers)));
    Ok(Outcome::Ask(query, finish))
}
