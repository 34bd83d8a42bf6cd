//! `MONITOR`, `CLIENT PAUSE` and `CLIENT UNPAUSE`.

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, is};
use crate::command_table::Found;
use crate::pause::PauseMode;
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::number::parse_i64;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, ErrorReply};
use std::time::Duration;

/// The commands of this file.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "monitor",
    arity: 1,
    flags: ALWAYS.with(Flags::NOSCRIPT).with(Flags::ADMIN),
    group: "server",
    summary: "Listens for all requests received by the server in real-time.",
    run: monitor,
    ..ROW
}];

/// The reply comes when all shards know, so that no command that follows it is missed.
fn monitor(shard: &mut Shard, session: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    if session.is_monitor {
        return Ok(Outcome::Silent);
    }
    shard.add_monitor(session);
    let query = Query::MonitorJoined(shard.id());
    Ok(Outcome::Ask(query, Finish::ok()))
}

/// What a monitor is told about a command that reads or changes keys.
pub(crate) fn refused_to_monitors(found: Found) -> Option<ErrorReply> {
    let flags = found.handler.flags();
    let touches = [Flags::WRITE, Flags::READONLY, Flags::MAY_REPLICATE]
        .into_iter()
        .any(|flag| flags.contains(flag));
    touches.then_some(ErrorReply::text(
        "ERR Replica can't interact with the keyspace",
    ))
}

/// `CLIENT PAUSE timeout [WRITE|ALL]`, the timeout in milliseconds.
pub(super) fn pause(
    shard: &mut Shard,
    _: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    if args.len() > 4 {
        let error = format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try CLIENT HELP.",
            super::text(args.at(1))
        );
        return Err(ErrorReply::Other(error.into()));
    }
    let mode = match args.get(3) {
        None => PauseMode::All,
        Some(mode) if is(mode, "write") => PauseMode::Write,
        Some(mode) if is(mode, "all") => PauseMode::All,
        Some(_) => {
            return Err(ErrorReply::text(
                "ERR CLIENT PAUSE mode must be WRITE or ALL",
            ));
        }
    };
    let timeout_ms = parse_i64(args.at(2)).ok_or(ErrorReply::text(
        "ERR timeout is not an integer or out of range",
    ))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| ErrorReply::text("ERR timeout is negative"))?;
    if timeout_ms > (i64::MAX - shard.now.unix.0) as u64 {
        return Err(ErrorReply::text("ERR timeout is out of range"));
    }
    let until = shard.now.monotonic + Duration::from_millis(timeout_ms);
    Ok(Outcome::Ask(Query::Pause(mode, until), Finish::ok()))
}

/// `CLIENT UNPAUSE`.
pub(super) fn unpause(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    Ok(Outcome::Ask(Query::Unpause, Finish::ok()))
}
