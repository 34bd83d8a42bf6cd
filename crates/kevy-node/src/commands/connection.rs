//! Commands about the connection itself.

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, client, is, ok, pubsub, text};
use crate::session::{Client, ReplyMode, Session};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::number::database;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, Encoder, ErrorReply, RespVersion};

/// The version of Redis whose commands kevy speaks; clients read it to know what they may use.
pub(super) const REDIS_VERSION: &str = "7.2.0";

const NO_AUTH: Flags = ALWAYS
    .with(Flags::NOSCRIPT)
    .with(Flags::FAST)
    .with(Flags::NO_AUTH)
    .with(Flags::ALLOW_BUSY);

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "ping",
        arity: -1,
        flags: Flags::FAST,
        summary: "Returns the server's liveliness response.",
        run: ping,
        ..ROW
    },
    NodeCommand {
        name: "echo",
        arity: 2,
        flags: ALWAYS.with(Flags::FAST),
        summary: "Returns the given string.",
        run: echo,
        ..ROW
    },
    NodeCommand {
        name: "hello",
        arity: -1,
        flags: NO_AUTH,
        since: "6.0.0",
        summary: "Handshakes with the server and sets the protocol version.",
        run: hello,
        ..ROW
    },
    NodeCommand {
        name: "quit",
        arity: -1,
        flags: NO_AUTH,
        summary: "Closes the connection.",
        run: quit,
        ..ROW
    },
    NodeCommand {
        name: "reset",
        arity: 1,
        flags: NO_AUTH,
        since: "6.2.0",
        summary: "Resets the connection.",
        run: reset,
        ..ROW
    },
    NodeCommand {
        name: "select",
        arity: 2,
        flags: ALWAYS.with(Flags::FAST),
        summary: "Changes the selected database; kevy has database 0 only.",
        run: select,
        ..ROW
    },
    NodeCommand {
        name: "auth",
        arity: -2,
        flags: NO_AUTH,
        summary: "Refused: kevy has no authentication, by design.",
        run: auth,
        ..ROW
    },
];

fn ping(_: &mut Shard, session: &mut Session, args: Args<'_>, reply: &mut BytesMut) -> Answered {
    if args.len() <= 2 && session.is_restricted() {
        return pubsub::pong(session, args, reply);
    }
    let mut reply = Encoder::new(reply, session.client.version);
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(ErrorReply::WrongArity("ping".to_owned())),
    }
    Ok(Outcome::Replied)
}

fn echo(_: &mut Shard, session: &mut Session, args: Args<'_>, reply: &mut BytesMut) -> Answered {
    Encoder::new(reply, session.client.version).bulk(args.at(1));
    Ok(Outcome::Replied)
}

/// `HELLO [protover [AUTH user password] [SETNAME name]]`.
fn hello(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let mut version = session.client.version;
    if let Some(wanted) = args.get(1) {
        version = match text(wanted).parse::<i64>() {
            Ok(2) => RespVersion::V2,
            Ok(3) => RespVersion::V3,
            Ok(_) => return Err(ErrorReply::text("NOPROTO unsupported protocol version")),
            Err(_) => {
                return Err(ErrorReply::text(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        };
    }
    let mut name = None;
    let mut at = 2;
    while let Some(option) = args.get(at) {
        match (is(option, "auth"), is(option, "setname")) {
            (true, _) if at + 2 < args.len() => return Err(NO_PASSWORD),
            (_, true) if at + 1 < args.len() => {
                name = Some(args.at(at + 1));
                at += 2;
            }
            _ => {
                let before = "ERR Syntax error in HELLO option '";
                return Err(ErrorReply::quoting(before, option, "'"));
            }
        }
    }
    if let Some(name) = name {
        client::set_name(session, name)?;
    }
    session.client.version = version;
    introduce(shard, session, reply);
    Ok(Outcome::Replied)
}

fn introduce(shard: &Shard, session: &Session, reply: &mut BytesMut) {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if session.client.version == RespVersion::V3 {
        3
    } else {
        2
    });
    reply.bulk(b"id");
    reply.integer(session.id.0 as i64);
    reply.bulk(b"mode");
    reply.bulk(shard.mode().as_bytes());
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn quit(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    session.drain();
    ok(session, reply)
}

fn reset(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    shard.discard(session);
    shard.subscriptions.remove_all(session);
    shard.stop_tracking(session);
    shard.remove_monitor(session);
    let client = &mut session.client;
    *client = Client {
        name: Vec::new(),
        version: RespVersion::V2,
        reply_mode: ReplyMode::On,
        no_evict: false,
        no_touch: false,
        readonly: false,
        ..client.clone()
    };
    Encoder::new(reply, session.client.version).simple("RESET");
    Ok(Outcome::Replied)
}

fn select(_: &mut Shard, session: &mut Session, args: Args<'_>, reply: &mut BytesMut) -> Answered {
    database(args.at(1))?;
    ok(session, reply)
}

const NO_PASSWORD: ErrorReply = ErrorReply::text(
    "ERR AUTH called but kevy has no authentication by design: put it behind a proxy or a private network that has",
);

fn auth(_: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    if args.len() > 3 {
        Err(ErrorReply::Syntax)
    } else {
        Err(NO_PASSWORD)
    }
}
