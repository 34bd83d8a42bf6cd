//! `DEBUG`: what test suites of clients need of it. What names a key is the engine's.

use super::{ADMIN, Answered, HELP, NodeCommand, Outcome, ROW, help, integer, ok};
use crate::observation::Observation;
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::{double, glob};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RespVersion};
use std::time::Duration;

/// The longest sleep, in seconds: a day.
const LONGEST_SLEEP: f64 = 86_400.0;
/// Most keys that `DEBUG POPULATE` creates.
const MAX_POPULATION: u64 = 100_000_000;
/// Longest string of `DEBUG STRINGMATCH-LEN`, and longest value of `DEBUG POPULATE`.
const LONGEST_TEXT_BYTES: u64 = 64 << 20;

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "debug",
    flags: ADMIN,
    group: "server",
    summary: "A container for debugging commands.",
    subcommands: &[
        NodeCommand {
            name: "set-active-expire",
            arity: 3,
            flags: ADMIN,
            group: "server",
            summary: "Turns the removal of expired keys nobody asks for on or off.",
            run: set_active_expire,
            ..ROW
        },
        NodeCommand {
            name: "sleep",
            arity: 3,
            flags: ADMIN,
            group: "server",
            summary: "Stops the server for a while.",
            run: sleep,
            ..ROW
        },
        NodeCommand {
            name: "populate",
            arity: -3,
            flags: ADMIN,
            group: "server",
            summary: "Creates many string keys.",
            run: populate,
            ..ROW
        },
        NodeCommand {
            name: "error",
            arity: 3,
            flags: ADMIN,
            group: "server",
            summary: "Replies with an error.",
            run: error,
            ..ROW
        },
        NodeCommand {
            name: "log",
            arity: 3,
            flags: ADMIN,
            group: "server",
            summary: "Writes a message to the log.",
            run: log,
            ..ROW
        },
        NodeCommand {
            name: "protocol",
            arity: 3,
            flags: ADMIN,
            group: "server",
            summary: "Replies with a value of the given type.",
            run: protocol,
            ..ROW
        },
        NodeCommand {
            name: "stringmatch-len",
            arity: 4,
            flags: ADMIN,
            group: "server",
            summary: "Matches a pattern against a long string.",
            run: match_long,
            ..ROW
        },
        NodeCommand {
            group: "server",
            run: help_debug,
            ..HELP
        },
    ],
    ..ROW
}];

fn set_active_expire(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    Ok(Outcome::Ask(
        Query::SetActiveExpire(integer(args.at(2))? != 0),
        Finish::ok(),
    ))
}

/// Every shard sleeps, as the one thread of Redis does. What is no number counts as zero, as there.
fn sleep(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let seconds = double::parse(args.at(2)).unwrap_or(0.0);
    let duration = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_SLEEP));
    Ok(Outcome::Ask(
        Query::Observe(Observation::Sleep(duration)),
        Finish::ok(),
    ))
}

fn positive(argument: &[u8], max: u64) -> Result<u64, ErrorReply> {
    let number = integer(argument)
        .ok()
        .and_then(|number| u64::try_from(number).ok());
    number
        .filter(|number| *number <= max)
        .ok_or(ErrorReply::text(
            "ERR value is out of range, must be positive",
        ))
}

/// `DEBUG POPULATE count [prefix] [size]`.
fn populate(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    if args.len() > 5 {
        return Err(ErrorReply::text(
            "ERR unknown subcommand or wrong number of arguments for 'populate'. Try DEBUG HELP.",
        ));
    }
    let count = positive(args.at(2), MAX_POPULATION)?;
    let prefix = args.get(3).unwrap_or(b"key").to_vec();
    let size = args
        .get(4)
        .map(|size| positive(size, LONGEST_TEXT_BYTES))
        .transpose()?;
    let value_bytes = size.map(|size| size as usize).filter(|size| *size > 0);
    Ok(Outcome::Ask(
        Query::Observe(Observation::Populate {
            count,
            prefix,
            value_bytes,
        }),
        Finish::ok(),
    ))
}

fn error(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    Err(ErrorReply::quoting("", args.at(2), ""))
}

fn log(_: &mut Shard, session: &mut Session, args: Args<'_>, reply: &mut BytesMut) -> Answered {
    let message = String::from_utf8_lossy(args.at(2));
    tracing::warn!(client = %session.id, "DEBUG LOG: {}", message.escape_debug());
    ok(session, reply)
}

/// How long the pattern takes is of interest, not what comes out.
fn match_long(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let length = positive(args.at(2), LONGEST_TEXT_BYTES)?;
    let text = vec![b'a'; length as usize];
    let matches = glob::matches(args.at(3), &text);
    Encoder::new(reply, session.client.version).integer(i64::from(matches));
    Ok(Outcome::Replied)
}

/// A value of each type, as Redis's own.
fn protocol(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let version = session.client.version;
    let mut reply = Encoder::new(reply, version);
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if version == RespVersion::V3 {
                reply.raw(b"|1\r\n");
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if version == RespVersion::V2 => {
            return Err(ErrorReply::text(
                "ERR RESP2 is not supported by this command",
            ));
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(ErrorReply::text(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(Outcome::Replied)
}

fn help_debug(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    help(
        session,
        reply,
        &[
            "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "ERROR <string>",
            "    Return a Redis protocol error with <string> as message. Useful for clients",
            "    unit tests to simulate Redis errors.",
            "LISTPACK <key>",
            "    Show low level info about the listpack encoding of <key>.",
            "LOG <message>",
            "    Write <message> to the server log.",
            "OBJECT <key>",
            "    Show low level info about `key` and associated value.",
            "POPULATE <count> [<prefix>] [<size>]",
            "    Create <count> string keys named key:<num>. If <prefix> is specified then",
            "    it is used instead of the 'key' prefix.",
            "PROTOCOL <type>",
            "    Reply with a test value of the specified type. <type> can be: string,",
            "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
            "    true, false.",
            "SDSLEN <key>",
            "    Show low level SDS string info representing `key` and value.",
            "SET-ACTIVE-EXPIRE <0|1>",
            "    Setting it to 0 disables expiring keys in background when they are not",
            "    accessed (otherwise the Redis behavior). Setting it to 1 reenables back the",
            "    default.",
            "SLEEP <seconds>",
            "    Stop the server for <seconds>. Decimals allowed.",
            "STRINGMATCH-LEN <len> <pattern>",
            "    Match a string of <len> letters against <pattern>.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
