//! `CLIENT ...`: what a client says about itself, and asks about others.

use super::client_line::AskingRequest;
use super::{
    ALWAYS, Answered, HELP, NodeCommand, Outcome, ROW, help, integer, is, monitor, ok, text,
    tracking,
};
use crate::query::{Answer, ClientFilter, Finish, Query};
use crate::session::{ReplyMode, Session};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

const PLAIN: Flags = ALWAYS.with(Flags::NOSCRIPT);
const ADMIN: Flags = PLAIN.with(Flags::ADMIN);

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "client",
    since: "2.4.0",
    summary: "A container for client connection commands.",
    subcommands: &[
        NodeCommand {
            name: "id",
            arity: 2,
            flags: PLAIN,
            summary: "Returns the unique client ID.",
            run: id,
            ..ROW
        },
        NodeCommand {
            name: "info",
            arity: 2,
            flags: PLAIN,
            summary: "Describes this connection.",
            run: info,
            ..ROW
        },
        NodeCommand {
            name: "list",
            arity: -2,
            flags: ADMIN,
            summary: "Lists open connections.",
            run: list,
            ..ROW
        },
        NodeCommand {
            name: "kill",
            arity: -3,
            flags: ADMIN,
            summary: "Closes connections.",
            run: kill,
            ..ROW
        },
        NodeCommand {
            name: "unblock",
            arity: -3,
            flags: ADMIN,
            since: "5.0.0",
            complexity: "O(log N) where N is the number of client connections",
            summary: "Unblock a client blocked in a blocking command from a different connection",
            run: super::blocking::unblock,
            ..ROW
        },
        NodeCommand {
            name: "getname",
            arity: 2,
            flags: PLAIN,
            summary: "Returns the connection's name.",
            run: get_name,
            ..ROW
        },
        NodeCommand {
            name: "setname",
            arity: 3,
            flags: PLAIN,
            summary: "Names the connection.",
            run: set_name_command,
            ..ROW
        },
        NodeCommand {
            name: "setinfo",
            arity: 4,
            flags: PLAIN,
            since: "7.2.0",
            summary: "Names the client's library.",
            run: set_info,
            ..ROW
        },
        NodeCommand {
            name: "reply",
            arity: 3,
            flags: PLAIN,
            summary: "Says whether replies are wanted.",
            run: reply_mode,
            ..ROW
        },
        NodeCommand {
            name: "no-evict",
            arity: 3,
            flags: ADMIN,
            summary: "Keeps the client from being evicted.",
            run: no_evict,
            ..ROW
        },
        NodeCommand {
            name: "no-touch",
            arity: 3,
            flags: PLAIN,
            since: "7.2.0",
            summary: "Keeps its reads from refreshing keys.",
            run: no_touch,
            ..ROW
        },
        NodeCommand {
            name: "getredir",
            arity: 2,
            flags: PLAIN,
            since: "6.0.0",
            summary: "Returns the client ID to which the connection's tracking notifications are redirected.",
            run: tracking::get_redirection,
            ..ROW
        },
        NodeCommand {
            name: "tracking",
            arity: -3,
            flags: PLAIN,
            since: "6.0.0",
            summary: "Controls server-assisted client-side caching for the connection.",
            run: tracking::tracking,
            ..ROW
        },
        NodeCommand {
            name: "caching",
            arity: 3,
            flags: PLAIN,
            since: "6.0.0",
            summary: "Instructs the server whether to track the keys in the next request.",
            run: tracking::caching,
            ..ROW
        },
        NodeCommand {
            name: "trackinginfo",
            arity: 2,
            flags: PLAIN,
            since: "6.2.0",
            summary: "Returns information about server-assisted client-side caching for the connection.",
            run: tracking::tracking_info,
            ..ROW
        },
        NodeCommand {
            name: "pause",
            arity: -3,
            flags: ADMIN,
            since: "3.0.0",
            summary: "Suspends commands processing.",
            run: monitor::pause,
            ..ROW
        },
        NodeCommand {
            name: "unpause",
            arity: 2,
            flags: ADMIN,
            since: "6.2.0",
            summary: "Resumes processing commands from paused clients.",
            run: monitor::unpause,
            ..ROW
        },
        NodeCommand {
            run: help_client,
            ..HELP
        },
    ],
    ..ROW
}];

fn id(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    Encoder::new(reply, session.client.version).integer(session.id.0 as i64);
    Ok(Outcome::Replied)
}

fn info(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    session.client.asks = Some(AskingRequest::of(args));
    let line = shard.client_line(session) + "\n";
    session.client.asks = None;
    Encoder::new(reply, session.client.version).verbatim(b"txt", line.as_bytes());
    Ok(Outcome::Replied)
}

/// `CLIENT LIST [TYPE type | ID id ...]`.
fn list(_: &mut Shard, session: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let mut filter = ClientFilter::default();
    match args.get(2) {
        None => {}
        Some(option) if is(option, "type") && args.len() == 4 => filter.set_type(args.at(3))?,
        Some(option) if is(option, "id") && args.len() > 3 => {
            for arg in args.skip(3).iter() {
                let id = integer(arg).map_err(|_| ErrorReply::text("ERR Invalid client ID"))?;
                filter.ids.push(id as u64);
            }
        }
        Some(_) => return Err(ErrorReply::Syntax),
    }
    session.client.asks = Some(AskingRequest::of(args));
    let finish = Finish::new(|shard, slot, answers, reply| {
        if let Some(session) = shard.session_mut(slot) {
            session.client.asks = None;
        }
        let mut clients: Vec<(u64, String)> = answers
            .into_iter()
            .flat_map(|answer| match answer {
                Answer::Clients(clients) => clients,
                Answer::Summary(_)
                | Answer::Count(_)
                | Answer::Counts(_)
                | Answer::Keys(_)
                | Answer::Observed(_)
                | Answer::Done => Vec::new(),
            })
            .collect();
        clients.sort_unstable();
        let lines: String = clients
            .into_iter()
            .flat_map(|(_, line)| [line, "\n".to_owned()])
            .collect();
        reply.verbatim(b"txt", lines.as_bytes());
    });
    Ok(Outcome::Ask(Query::Clients(filter), finish))
}

/// `CLIENT KILL addr`, or `CLIENT KILL <option> <value> ...`.
fn kill(_: &mut Shard, session: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let old_form = args.len() == 3;
    let mut filter = ClientFilter {
        except: Some(session.id),
        ..ClientFilter::default()
    };
    if old_form {
        filter.address = Some(text(args.at(2)).to_owned());
        filter.except = None;
    } else {
        if args.len() % 2 == 1 {
            return Err(ErrorReply::Syntax);
        }
        for at in (2..args.len()).step_by(2) {
            kill_option(&mut filter, session, args.at(at), args.at(at + 1))?;
        }
    }
    let finish = Finish::new(move |_, _, answers, reply| {
        let killed = Answer::total(&answers);
        match (old_form, killed) {
            (true, 0) => reply.error(&ErrorReply::text("ERR No such client")),
            (true, _) => reply.ok(),
            (false, _) => reply.length(killed),
        }
    });
    Ok(Outcome::Ask(Query::Kill(filter), finish))
}

fn kill_option(
    filter: &mut ClientFilter,
    session: &Session,
    option: &[u8],
    value: &[u8],
) -> Result<(), ErrorReply> {
    if is(option, "id") {
        let id = integer(value).ok().filter(|id| *id > 0);
        filter.ids =
            vec![id.ok_or(ErrorReply::text("ERR client-id should be greater than 0"))? as u64];
    } else if is(option, "addr") {
        filter.address = Some(text(value).to_owned());
    } else if is(option, "laddr") {
        filter.local_address = Some(text(value).to_owned());
    } else if is(option, "type") {
        filter.set_type(value)?;
    } else if is(option, "user") {
        if !is(value, "default") {
            return Err(ErrorReply::quoting("ERR No such user '", value, "'"));
        }
    } else if is(option, "skipme") {
        filter.except = match (is(value, "yes"), is(value, "no")) {
            (true, _) => Some(session.id),
            (_, true) => None,
            _ => return Err(ErrorReply::Syntax),
        };
    } else {
        return Err(ErrorReply::Syntax);
    }
    Ok(())
}

fn get_name(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    let name = Some(&session.client.name[..]).filter(|name| !name.is_empty());
    Encoder::new(reply, session.client.version).bulk_or_null(name);
    Ok(Outcome::Replied)
}

fn set_name_command(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    set_name(session, args.at(2))?;
    ok(session, reply)
}

/// Names the connection, for `CLIENT SETNAME` and `HELLO .. SETNAME`.
pub(super) fn set_name(session: &mut Session, name: &[u8]) -> Result<(), ErrorReply> {
    if !is_printable(name) {
        return Err(ErrorReply::text(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    session.client.name = name.to_vec();
    Ok(())
}

fn is_printable(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn set_info(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let (attribute, value) = (args.at(2), args.at(3));
    let place = if is(attribute, "lib-name") {
        &mut session.client.library_name
    } else if is(attribute, "lib-ver") {
        &mut session.client.library_version
    } else {
        return Err(ErrorReply::quoting(
            "ERR Unrecognized option '",
            attribute,
            "'",
        ));
    };
    if !is_printable(value) {
        let name = text(attribute);
        let error = format!("ERR {name} cannot contain spaces, newlines or special characters.");
        return Err(ErrorReply::Other(error.into()));
    }
    *place = value.to_vec();
    ok(session, reply)
}

fn reply_mode(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let mode = args.at(2);
    if is(mode, "on") {
        session.client.reply_mode = ReplyMode::On;
        return ok(session, reply);
    }
    session.client.reply_mode = match (is(mode, "off"), is(mode, "skip"), session.client.reply_mode)
    {
        (true, ..) | (_, true, ReplyMode::Off) => ReplyMode::Off,
        (_, true, _) => ReplyMode::SkipNext,
        _ => return Err(ErrorReply::Syntax),
    };
    Ok(Outcome::Silent)
}

fn on_or_off(arg: &[u8]) -> Result<bool, ErrorReply> {
    match (is(arg, "on"), is(arg, "off")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(ErrorReply::Syntax),
    }
}

fn no_evict(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    session.client.no_evict = on_or_off(args.at(2))?;
    ok(session, reply)
}

fn no_touch(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    session.client.no_touch = on_or_off(args.at(2))?;
    ok(session, reply)
}

fn help_client(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CACHING (YES|NO)",
            "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
            "GETNAME",
            "    Return the name of the current connection.",
            "GETREDIR",
            "    Return the client ID we are redirecting to when tracking is enabled.",
            "ID",
            "    Return the ID of the current connection.",
            "INFO",
            "    Return information about the current client connection.",
            "KILL <ip:port>",
            "    Kill connection made from <ip:port>.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Kill connections. Options are ID, ADDR, LADDR, TYPE, USER, SKIPME.",
            "LIST [TYPE <type> | ID <id> ...]",
            "    Return information about client connections.",
            "NO-EVICT (ON|OFF)",
            "    Protect current client connection from eviction.",
            "NO-TOUCH (ON|OFF)",
            "    Will not touch LRU/LFU stats when this mode is on.",
            "PAUSE <timeout> [WRITE|ALL]",
            "    Suspend all, or just write, clients for <timeout> milliseconds.",
            "REPLY (ON|OFF|SKIP)",
            "    Control the replies sent to the current connection.",
            "SETINFO <option> <value>",
            "    Set client meta attr: LIB-NAME or LIB-VER.",
            "SETNAME <name>",
            "    Assign the name <name> to the current connection.",
            "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
            "         [OPTIN] [OPTOUT] [NOLOOP]",
            "    Control server assisted client side caching.",
            "TRACKINGINFO",
            "    Report tracking status for the current connection.",
            "UNBLOCK <clientid> [TIMEOUT|ERROR]",
            "    Unblock the specified blocked client.",
            "UNPAUSE",
            "    Stop the current client pause, resuming traffic.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
