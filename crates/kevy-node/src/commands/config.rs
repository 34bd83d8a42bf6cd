//! `CONFIG ...`: the settings in force, over the same table that reads `kevy.toml`.

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, help};
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::settings::Settings;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

const ADMIN: Flags = ALWAYS.with(Flags::NOSCRIPT).with(Flags::ADMIN);

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "config",
    group: "server",
    since: "2.0.0",
    summary: "A container for server configuration commands.",
    subcommands: &[
        NodeCommand {
            name: "get",
            arity: -3,
            flags: ADMIN,
            group: "server",
            since: "2.0.0",
            summary: "Returns settings.",
            run: get,
            ..ROW
        },
        NodeCommand {
            name: "set",
            arity: -4,
            flags: ADMIN,
            group: "server",
            since: "2.0.0",
            summary: "Changes settings while the server runs.",
            run: set,
            ..ROW
        },
        NodeCommand {
            name: "rewrite",
            arity: 2,
            flags: ADMIN,
            group: "server",
            since: "2.8.0",
            summary: "Refused: kevy does not write its configuration file.",
            run: rewrite,
            ..ROW
        },
        NodeCommand {
            name: "resetstat",
            arity: 2,
            flags: ADMIN,
            group: "server",
            since: "2.0.0",
            summary: "Sets counters back to zero.",
            run: reset_stat,
            ..ROW
        },
        NodeCommand {
            name: "help",
            arity: 2,
            flags: ALWAYS,
            group: "server",
            summary: "Lists the subcommands.",
            run: help_config,
            ..ROW
        },
    ],
    ..ROW
}];

fn get(shard: &mut Shard, session: &mut Session, args: Args<'_>, reply: &mut BytesMut) -> Answered {
    let patterns: Vec<&[u8]> = args.skip(2).iter().collect();
    let found = shard
        .settings
        .config_get(&patterns, kevy_engine::glob::matches);
    let mut reply = Encoder::new(reply, session.client.version);
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(Outcome::Replied)
}

fn set(shard: &mut Shard, _: &mut Session, args: Args<'_>, _: &mut BytesMut) -> Answered {
    let arguments: Vec<&[u8]> = args.skip(2).iter().collect();
    let change = shard
        .settings
        .config_set(&arguments)
        .map_err(|text| ErrorReply::Other(text.into()))?;
    Ok(Outcome::Ask(
        Query::Configure(Box::new(change.settings)),
        Finish::ok(),
    ))
}

fn rewrite(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    Err(ErrorReply::text(
        "ERR CONFIG REWRITE is not supported: edit kevy.toml, it is never written by the server",
    ))
}

fn reset_stat(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    Ok(Outcome::Ask(Query::ResetStats, Finish::ok()))
}

impl Shard {
    /// Takes settings that `CONFIG SET` changed on some shard.
    pub(crate) fn configure(&mut self, settings: Settings) {
        let log_level = settings.server.loglevel;
        if log_level != self.settings.server.loglevel
            && let Some(set) = self.config.process.set_log_level
        {
            set(log_level);
        }
        self.settings = settings;
        self.apply_memory_settings();
        self.apply_notification_settings();
        self.shrink_tracking_table();
    }
}

fn help_config(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
            "SET <directive> <value>",
            "    Set the configuration <directive> to <value>.",
            "RESETSTAT",
            "    Reset statistics reported by the INFO command.",
            "REWRITE",
            "    Refused: kevy does not write its configuration file.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
