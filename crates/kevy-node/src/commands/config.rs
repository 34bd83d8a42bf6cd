//! `CONFIG ...`: the settings in force, over the same table that reads `kevy.toml`.

use super::{ADMIN, Answered, HELP, NodeCommand, Outcome, ROW, help, ok};
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::settings::rewrite::rewritten;
use crate::settings::{AppendFsync, Settings};
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

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
            summary: "Persists the effective configuration to file.",
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
            group: "server",
            run: help_config,
            ..HELP
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
    let change = shard.settings.config_set(&arguments)?;
    Ok(Outcome::Ask(
        Query::Configure(Box::new(change.settings)),
        Finish::ok(),
    ))
}

fn rewrite(
    shard: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let process = &shard.config.process;
    let (Some(rewrite), false) = (process.rewrite_config, process.config_file.is_empty()) else {
        return Err(ErrorReply::text(
            "ERR The server is running without a config file",
        ));
    };
    let settings = &shard.settings;
    let outcome = rewrite(&process.config_file, &|text| rewritten(text, settings));
    if let Err(error) = outcome {
        tracing::error!("CONFIG REWRITE failed: {error}");
        let text = format!("ERR Rewriting config file: {error}");
        return Err(ErrorReply::Other(text.into()));
    }
    ok(session, reply)
}

fn reset_stat(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    Ok(Outcome::Ask(Query::ResetStats, Finish::ok()))
}

impl Shard {
    /// Takes settings that `CONFIG SET` changed on some shard. Whether from now on replies depend on the disk, which they did
    /// not before: that is to be told only once nothing is left that was done before and could still be lost.
    pub(crate) fn configure(&mut self, settings: Settings) -> bool {
        let always = |settings: &Settings| settings.persistence.appendfsync == AppendFsync::Always;
        let becomes_strict = always(&settings) && !always(&self.settings);
        let log_level = settings.server.loglevel;
        if log_level != self.settings.server.loglevel
            && let Some(set) = self.config.process.set_log_level
        {
            set(log_level);
        }
        self.settings = settings;
        self.apply_memory_settings();
        if let Some(durability) = &mut self.durability {
            durability.set_policy(self.settings.persistence.appendfsync);
        }
        self.apply_notification_settings();
        self.shrink_tracking_table();
        becomes_strict && self.durability.is_some()
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
            "    Rewrite the configuration file.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
