//! Commands about what is on disk.

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, is};
use crate::durability::SaveKind;
use crate::query::{Answer, Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::Flags;
use kevy_proto::resp::{Args, ErrorReply};

const SAVING: NodeCommand = NodeCommand {
    arity: 1,
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::NO_ASYNC_LOADING)
        .with(Flags::NO_MULTI),
    group: "server",
    complexity: "O(N) where N is the total number of keys in all databases",
    ..ROW
};

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "save",
        summary: "Writes a snapshot of every shard and replies once they are complete; others are served meanwhile.",
        run: save,
        ..SAVING
    },
    NodeCommand {
        name: "bgsave",
        arity: -1,
        flags: Flags::ADMIN
            .with(Flags::NOSCRIPT)
            .with(Flags::NO_ASYNC_LOADING),
        complexity: "O(1)",
        summary: "Begins a snapshot of every shard.",
        run: background_save,
        ..SAVING
    },
    NodeCommand {
        name: "bgrewriteaof",
        flags: Flags::ADMIN
            .with(Flags::NOSCRIPT)
            .with(Flags::NO_ASYNC_LOADING),
        complexity: "O(1)",
        summary: "Begins to replace the log by a snapshot.",
        run: rewrite,
        ..SAVING
    },
    NodeCommand {
        name: "lastsave",
        flags: ALWAYS.with(Flags::FAST),
        complexity: "O(1)",
        summary: "Returns when the last snapshot was complete, in Unix seconds.",
        run: last_save,
        ..SAVING
    },
];

const OFF: ErrorReply =
    ErrorReply::text("ERR this server keeps its data in memory only ([persistence] aof = false)");

impl Shard {
    fn must_be_durable(&self) -> Result<(), ErrorReply> {
        if self.config.journal.is_some() {
            Ok(())
        } else {
            Err(OFF)
        }
    }
}

fn save(shard: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    shard.must_be_durable()?;
    if shard.is_saving() {
        return Err(ErrorReply::text("ERR Background save already in progress"));
    }
    let finish = Finish::new(|_, _, answers, reply| {
        if Answer::total(&answers) == 0 {
            reply.ok();
        } else {
            reply.error(&ErrorReply::text("ERR"));
        }
    });
    Ok(Outcome::Ask(Query::Save(SaveKind::Save, true), finish))
}

fn background_save(
    shard: &mut Shard,
    _: &mut Session,
    args: Args<'_>,
    _: &mut BytesMut,
) -> Answered {
    let schedules = match args.get(1) {
        None => false,
        Some(word) if is(word, "schedule") && args.len() == 2 => true,
        Some(_) => return Err(ErrorReply::Syntax),
    };
    shard.must_be_durable()?;
    if shard.is_saving() && !schedules {
        return Err(ErrorReply::text("ERR Background save already in progress"));
    }
    let text = if shard.is_saving() {
        "Background saving scheduled"
    } else {
        "Background saving started"
    };
    let finish = Finish::new(move |_, _, _, reply| reply.simple(text));
    Ok(Outcome::Ask(Query::Save(SaveKind::Save, false), finish))
}

fn rewrite(shard: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    shard.must_be_durable()?;
    if shard.is_saving() {
        return Err(ErrorReply::text(
            "ERR Background append only file rewriting already in progress",
        ));
    }
    let finish = Finish::new(|_, _, _, reply| {
        reply.simple("Background append only file rewriting started");
    });
    Ok(Outcome::Ask(Query::Save(SaveKind::Rewrite, false), finish))
}

fn last_save(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    let finish = Finish::new(|_, _, answers, reply| {
        // Complete is what is complete everywhere.
        let reports = answers.into_iter().filter_map(Answer::save_report);
        let seconds = reports.map(|report| report.last_save_seconds).min();
        reply.integer(seconds.unwrap_or_default());
    });
    Ok(Outcome::Ask(Query::Summary { histograms: false }, finish))
}
