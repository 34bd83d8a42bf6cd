//! Commands about the server as a whole.

use super::{ADMIN, ALWAYS, Answered, NodeCommand, Outcome, ROW, help, info, integer, is};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

const SERVER: NodeCommand = NodeCommand {
    group: "server",
    ..ROW
};

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "info",
        arity: -1,
        flags: ALWAYS,
        summary: "Returns information and statistics.",
        run: info::info,
        ..SERVER
    },
    NodeCommand {
        name: "time",
        arity: 1,
        flags: ALWAYS.with(Flags::FAST),
        since: "2.6.0",
        summary: "Returns the server's time.",
        run: time,
        ..SERVER
    },
    NodeCommand {
        name: "lolwut",
        arity: -1,
        flags: Flags::READONLY.with(Flags::FAST),
        since: "5.0.0",
        summary: "Shows a small drawing and the version.",
        run: lolwut,
        ..SERVER
    },
    NodeCommand {
        name: "shutdown",
        arity: -1,
        flags: ADMIN.with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY),
        summary: "Stops the server.",
        run: shutdown,
        ..SERVER
    },
    NodeCommand {
        name: "swapdb",
        arity: 3,
        flags: Flags::WRITE.with(Flags::FAST),
        since: "4.0.0",
        summary: "Refused: there is one database.",
        run: swap_db,
        ..SERVER
    },
    NodeCommand {
        name: "role",
        arity: 1,
        flags: ALWAYS.with(Flags::NOSCRIPT).with(Flags::FAST),
        since: "2.8.12",
        summary: "Returns the replication role.",
        run: role,
        ..SERVER
    },
    NodeCommand {
        name: "acl",
        since: "6.0.0",
        summary: "A container for access list commands; there is one user who may do everything.",
        subcommands: &[
            NodeCommand {
                name: "whoami",
                arity: 2,
                flags: ALWAYS.with(Flags::NOSCRIPT),
                summary: "Returns the user: default.",
                run: who_am_i,
                ..SERVER
            },
            NodeCommand {
                name: "list",
                arity: 2,
                flags: ADMIN,
                summary: "Returns the rules of the one user.",
                run: acl_list,
                ..SERVER
            },
            NodeCommand {
                name: "help",
                arity: 2,
                flags: ALWAYS,
                summary: "Lists the subcommands.",
                run: help_acl,
                ..SERVER
            },
        ],
        ..SERVER
    },
];

fn time(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    let millis = shard.now.unix.0;
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(2);
    reply.bulk_integer(millis.div_euclid(1000));
    // The clocks of a turn are read in milliseconds.
    reply.bulk_integer(millis.rem_euclid(1000) * 1000);
    Ok(Outcome::Replied)
}

fn lolwut(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    let text = concat!(
        "  _\n | | _______ ___   _\n | |/ / _ \\ \\ / / | | |\n |   <  __/\\ V /| |_| |\n |_|\\_\\___| \\_/  \\__, |\n",
        "                 |___/\n\nkevy ver. ",
        env!("CARGO_PKG_VERSION"),
        "\n"
    );
    Encoder::new(reply, session.client.version).verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Replied)
}

/// `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]`: there is no reply, the connection closes.
fn shutdown(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    let mut save = None;
    for option in args.skip(1).iter() {
        match (
            is(option, "save"),
            is(option, "nosave"),
            is(option, "now") || is(option, "force"),
        ) {
            (true, ..) if save != Some(false) => save = Some(true),
            (_, true, _) if save != Some(true) => save = Some(false),
            (_, _, true) => {}
            _ if is(option, "abort") && args.len() == 2 => {
                return Err(ErrorReply::text("ERR No shutdown in progress."));
            }
            _ => return Err(ErrorReply::Syntax),
        }
    }
    if save == Some(true) && shard.config.journal.is_none() {
        return Err(ErrorReply::text(
            "ERR SHUTDOWN SAVE is not possible: this server keeps its data in memory only",
        ));
    }
    tracing::warn!(client = %session.id, "a client asked for SHUTDOWN");
    shard.shut_all_down();
    Ok(Outcome::Silent)
}

fn swap_db(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    integer(args.at(1)).map_err(|_| ErrorReply::text("ERR invalid first DB index"))?;
    integer(args.at(2)).map_err(|_| ErrorReply::text("ERR invalid second DB index"))?;
    Err(ErrorReply::text("ERR DB index is out of range"))
}

fn role(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(Outcome::Replied)
}

fn who_am_i(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    Encoder::new(reply, session.client.version).bulk(b"default");
    Ok(Outcome::Replied)
}

fn acl_list(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(1);
    reply.bulk(b"user default on nopass sanitize-payload ~* &* +@all");
    Ok(Outcome::Replied)
}

fn help_acl(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    help(
        session,
        reply,
        &[
            "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "LIST",
            "    Show users details in config file format.",
            "WHOAMI",
            "    Return the current connection username.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
