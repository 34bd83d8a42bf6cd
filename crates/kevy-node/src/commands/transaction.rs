//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`.

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, ok};
use crate::query::{Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use crate::transaction::queue::{EXEC_ABORTED, Queue};
use crate::watch::WATCHED_KEYS_PER_CONNECTION;
use bytes::BytesMut;
use kevy_proto::command::{ALL_KEYS, Flags};
use kevy_proto::ids::ShardId;
use kevy_proto::resp::{Args, ErrorReply, RequestBuffer};
use std::collections::BTreeMap;

const TRANSACTION: NodeCommand = NodeCommand {
    arity: 1,
    flags: ALWAYS
        .with(Flags::NOSCRIPT)
        .with(Flags::FAST)
        .with(Flags::ALLOW_BUSY),
    group: "transactions",
    ..ROW
};

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "multi",
        since: "1.2.0",
        summary: "Starts a transaction.",
        run: multi,
        ..TRANSACTION
    },
    NodeCommand {
        name: "exec",
        flags: ALWAYS.with(Flags::NOSCRIPT).with(Flags::SKIP_SLOWLOG),
        since: "1.2.0",
        complexity: "Depends on commands in the transaction",
        summary: "Executes all commands in a transaction.",
        run: exec,
        ..TRANSACTION
    },
    NodeCommand {
        name: "discard",
        since: "2.0.0",
        complexity: "O(N), when N is the number of queued commands",
        summary: "Discards a transaction.",
        run: discard,
        ..TRANSACTION
    },
    NodeCommand {
        name: "watch",
        arity: -2,
        keys: ALL_KEYS,
        since: "2.2.0",
        complexity: "O(1) for every key.",
        summary: "Monitors changes to keys to determine the execution of a transaction.",
        run: watch,
        ..TRANSACTION
    },
    NodeCommand {
        name: "unwatch",
        since: "2.2.0",
        summary: "Forgets about watched keys of a transaction.",
        run: unwatch,
        ..TRANSACTION
    },
];

fn multi(_: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    if session.queue.is_some() {
        return Err(ErrorReply::text("ERR MULTI calls can not be nested"));
    }
    session.queue = Some(Box::new(Queue::default()));
    ok(session, reply)
}

fn exec(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let Some(queue) = session.queue.take() else {
        return Err(ErrorReply::text("ERR EXEC without MULTI"));
    };
    if queue.is_tainted() {
        shard.unwatch_all(session);
        return Err(EXEC_ABORTED);
    }
    shard.begin_exec(session, *queue, args.at(0), reply)
}

fn discard(
    shard: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    if session.queue.is_none() {
        return Err(ErrorReply::text("ERR DISCARD without MULTI"));
    }
    shard.discard(session);
    ok(session, reply)
}

/// The owners of the keys are told, and have answered before the client is: what anyone changes later is noticed.
fn watch(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    if session.queue.is_some() {
        return Err(ErrorReply::text("ERR WATCH inside MULTI is not allowed"));
    }
    let new = args
        .skip(1)
        .iter()
        .filter(|key| !session.watched.contains(*key));
    if new.count() + session.watched.len() > WATCHED_KEYS_PER_CONNECTION {
        return Err(ErrorReply::text("ERR too many watched keys"));
    }
    let mut owners: BTreeMap<ShardId, RequestBuffer> = BTreeMap::new();
    for key in args.skip(1).iter() {
        if session.watched.insert(key.to_vec()) {
            let owner = shard.map.owner_of_key(key);
            owners.entry(owner).or_default().push(key);
        }
    }
    if owners.is_empty() {
        return ok(session, reply);
    }
    let connection = session.id;
    let queries = owners
        .into_iter()
        .map(|(owner, keys)| (owner, Query::Watch(connection, keys)))
        .collect();
    shard.begin_asking_some(session, queries, Finish::ok());
    Ok(Outcome::Later)
}

fn unwatch(
    shard: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    shard.unwatch_all(session);
    ok(session, reply)
}
