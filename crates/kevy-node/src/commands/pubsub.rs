//! Publish and subscribe, to the letter of Redis: confirmations, counts, and what a subscriber may still ask.
//!
//! The rows of `SSUBSCRIBE`, `SUNSUBSCRIBE` and `SPUBLISH` name no keys, unlike Redis's: their channels reach the whole
//! process from any port, so they are never redirected.

use super::{ALWAYS, Answered, NodeCommand, Outcome, ROW, help};
use crate::query::{Answer, Finish, Query};
use crate::session::{ReplyMode, Session};
use crate::shard::Shard;
use crate::subscriptions::{Publication, Topic};
use bytes::{Bytes, BytesMut};
use kevy_proto::command::{ALL_KEYS, Flags, ONE_KEY};
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use std::collections::BTreeSet;

const FLAGS: Flags = ALWAYS.with(Flags::PUBSUB);

const SUBSCRIBING: NodeCommand = NodeCommand {
    arity: -2,
    flags: FLAGS.with(Flags::NOSCRIPT),
    group: "pubsub",
    since: "2.0.0",
    complexity: "O(N log M), N the names given, M the names known",
    ..ROW
};

const UNSUBSCRIBING: NodeCommand = NodeCommand {
    arity: -1,
    ..SUBSCRIBING
};

const PUBLISHING: NodeCommand = NodeCommand {
    arity: 3,
    flags: FLAGS.with(Flags::FAST).with(Flags::MAY_REPLICATE),
    complexity: "O(N+M), N the subscribers of the channel, M the patterns",
    ..SUBSCRIBING
};

const ASKING: NodeCommand = NodeCommand {
    flags: FLAGS,
    since: "2.8.0",
    complexity: "O(N)",
    ..SUBSCRIBING
};

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[
    NodeCommand {
        name: "subscribe",
        summary: "Listens for messages published to channels.",
        run: |shard, session, args, reply| subscribe(shard, session, args, reply, &CHANNEL),
        ..SUBSCRIBING
    },
    NodeCommand {
        name: "unsubscribe",
        summary: "Stops listening to messages published to channels.",
        run: |shard, session, args, reply| unsubscribe(shard, session, args, reply, &CHANNEL),
        ..UNSUBSCRIBING
    },
    NodeCommand {
        name: "psubscribe",
        summary: "Listens for messages published to channels that match patterns.",
        run: |shard, session, args, reply| subscribe(shard, session, args, reply, &PATTERN),
        ..SUBSCRIBING
    },
    NodeCommand {
        name: "punsubscribe",
        summary: "Stops listening to messages published to channels that match patterns.",
        run: |shard, session, args, reply| unsubscribe(shard, session, args, reply, &PATTERN),
        ..UNSUBSCRIBING
    },
    NodeCommand {
        name: "ssubscribe",
        // Cluster clients send it to the owner of the channel's slot; here every port reaches all.
        keys: ALL_KEYS,
        since: "7.0.0",
        summary: "Listens for messages published to shard channels.",
        run: |shard, session, args, reply| subscribe(shard, session, args, reply, &SHARD_CHANNEL),
        ..SUBSCRIBING
    },
    NodeCommand {
        name: "sunsubscribe",
        // Cluster clients send it to the owner of the channel's slot; here every port reaches all.
        keys: ALL_KEYS,
        since: "7.0.0",
        summary: "Stops listening to messages published to shard channels.",
        run: |shard, session, args, reply| unsubscribe(shard, session, args, reply, &SHARD_CHANNEL),
        ..UNSUBSCRIBING
    },
    NodeCommand {
        name: "publish",
        summary: "Posts a message to a channel.",
        run: |_, _, args, _| publish(args, false),
        ..PUBLISHING
    },
    NodeCommand {
        name: "spublish",
        // Cluster clients send it to the owner of the channel's slot; here every port reaches all.
        keys: ONE_KEY,
        since: "7.0.0",
        summary: "Posts a message to a shard channel.",
        run: |_, _, args, _| publish(args, true),
        ..PUBLISHING
    },
    NodeCommand {
        name: "pubsub",
        flags: Flags::NONE,
        summary: "A container for commands about publish and subscribe.",
        subcommands: &[
            NodeCommand {
                name: "channels",
                summary: "Returns the channels that have subscribers.",
                run: |_, _, args, _| channels(args, Topic::Channel),
                ..ASKING
            },
            NodeCommand {
                name: "numsub",
                summary: "Returns how many subscribers channels have.",
                run: |_, _, args, _| count_subscribers(args, Topic::Channel),
                ..ASKING
            },
            NodeCommand {
                name: "numpat",
                arity: 2,
                summary: "Returns how many different patterns have subscribers.",
                run: |_, _, _, _| count_patterns(),
                ..ASKING
            },
            NodeCommand {
                name: "shardchannels",
                since: "7.0.0",
                summary: "Returns the shard channels that have subscribers.",
                run: |_, _, args, _| channels(args, Topic::ShardChannel),
                ..ASKING
            },
            NodeCommand {
                name: "shardnumsub",
                since: "7.0.0",
                summary: "Returns how many subscribers shard channels have.",
                run: |_, _, args, _| count_subscribers(args, Topic::ShardChannel),
                ..ASKING
            },
            NodeCommand {
                name: "help",
                arity: 2,
                flags: ALWAYS,
                summary: "Lists the subcommands.",
                run: help_pubsub,
                ..ASKING
            },
        ],
        ..ASKING
    },
];

/// A topic and how confirmations call what is done to it.
struct Wording {
    topic: Topic,
    subscribe: &'static [u8],
    unsubscribe: &'static [u8],
}

const CHANNEL: Wording = Wording {
    topic: Topic::Channel,
    subscribe: b"subscribe",
    unsubscribe: b"unsubscribe",
};

const PATTERN: Wording = Wording {
    topic: Topic::Pattern,
    subscribe: b"psubscribe",
    unsubscribe: b"punsubscribe",
};

const SHARD_CHANNEL: Wording = Wording {
    topic: Topic::ShardChannel,
    subscribe: b"ssubscribe",
    unsubscribe: b"sunsubscribe",
};

/// `SUBSCRIBE channel [channel ...]` and its kin: a confirmation for each name.
fn subscribe(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
    wording: &Wording,
) -> Answered {
    for name in args.skip(1).iter() {
        shard.subscriptions.add(session, wording.topic, name);
        confirm(session, reply, wording.subscribe, wording.topic, Some(name));
    }
    Ok(confirmed(session, reply))
}

/// `UNSUBSCRIBE [channel ...]` and its kin: without names, all of the session's; one confirmation there is always.
fn unsubscribe(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
    wording: &Wording,
) -> Answered {
    let (topic, word) = (wording.topic, wording.unsubscribe);
    for name in args.skip(1).iter() {
        shard.subscriptions.remove(session, topic, name);
        confirm(session, reply, word, topic, Some(name));
    }
    if args.len() == 1 {
        let names: Vec<Bytes> = session.subscribed.names(topic).iter().cloned().collect();
        for name in &names {
            shard.subscriptions.remove(session, topic, name);
            confirm(session, reply, word, topic, Some(name));
        }
        if names.is_empty() {
            confirm(session, reply, word, topic, None);
        }
    }
    Ok(confirmed(session, reply))
}

fn confirm(
    session: &Session,
    reply: &mut BytesMut,
    word: &[u8],
    topic: Topic,
    name: Option<&[u8]>,
) {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.push(3);
    reply.bulk(word);
    reply.bulk_or_null(name);
    reply.length(session.subscribed.confirmed(topic));
}

/// Confirmations are messages rather than replies: `CLIENT REPLY` does not hold them back.
fn confirmed(session: &mut Session, reply: &mut BytesMut) -> Outcome {
    match session.client.reply_mode {
        ReplyMode::On => return Outcome::Replied,
        ReplyMode::Off => {}
        ReplyMode::SkipNext => session.client.reply_mode = ReplyMode::On,
    }
    session.replies.push(reply.split());
    Outcome::Silent
}

/// `PUBLISH channel message`, `SPUBLISH channel message`: replies how many got it, in the whole process.
fn publish(args: Args<'_>, sharded: bool) -> Answered {
    let publication = Publication {
        channel: Bytes::copy_from_slice(args.at(1)),
        message: Bytes::copy_from_slice(args.at(2)),
        sharded,
    };
    let finish = Finish::new(|_, _, answers, reply| reply.length(Answer::total(&answers)));
    Ok(Outcome::Ask(Query::Publish(publication), finish))
}

/// `PUBSUB CHANNELS [pattern]`, `PUBSUB SHARDCHANNELS [pattern]`.
fn channels(args: Args<'_>, topic: Topic) -> Answered {
    if args.len() > 3 {
        return Err(ErrorReply::quoting(
            "ERR unknown subcommand or wrong number of arguments for '",
            args.at(1),
            "'. Try PUBSUB HELP.",
        ));
    }
    let finish = Finish::new(|_, _, answers, reply| {
        let names = different(answers);
        reply.array(names.len());
        names.iter().for_each(|name| reply.bulk(name));
    });
    let pattern = args.get(2).map(<[u8]>::to_vec);
    Ok(Outcome::Ask(Query::Topics(topic, pattern), finish))
}

/// `PUBSUB NUMPAT`: a pattern that many listen to counts once, as in Redis.
fn count_patterns() -> Answered {
    let finish = Finish::new(|_, _, answers, reply| reply.length(different(answers).len()));
    Ok(Outcome::Ask(Query::Topics(Topic::Pattern, None), finish))
}

/// The names that any shard named, once each.
fn different(answers: Vec<Answer>) -> BTreeSet<Vec<u8>> {
    answers.into_iter().flat_map(Answer::keys).collect()
}

/// `PUBSUB NUMSUB [channel ...]`, `PUBSUB SHARDNUMSUB [channel ...]`.
fn count_subscribers(args: Args<'_>, topic: Topic) -> Answered {
    let names: Vec<Bytes> = args.skip(2).iter().map(Bytes::copy_from_slice).collect();
    let asked = names.clone();
    let finish = Finish::new(move |_, _, answers, reply| {
        let counts: Vec<Vec<usize>> = answers.into_iter().map(Answer::counts).collect();
        reply.array(2 * asked.len());
        for (index, name) in asked.iter().enumerate() {
            reply.bulk(name);
            reply.length(counts.iter().filter_map(|counts| counts.get(index)).sum());
        }
    });
    Ok(Outcome::Ask(Query::Subscribers(topic, names), finish))
}

/// The reply of `PING [message]` to a RESP2 session that subscribed to something: it looks like a message.
pub(super) fn pong(session: &Session, args: Args<'_>, reply: &mut BytesMut) -> Answered {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(2);
    reply.bulk(b"pong");
    reply.bulk(args.get(1).unwrap_or_default());
    Ok(Outcome::Replied)
}

/// Whether a RESP2 session that subscribed to something may use a command.
pub(crate) fn is_allowed_to_subscribers(full_name: &str) -> bool {
    matches!(
        full_name,
        "subscribe"
            | "unsubscribe"
            | "psubscribe"
            | "punsubscribe"
            | "ssubscribe"
            | "sunsubscribe"
            | "ping"
            | "quit"
            | "reset"
    )
}

/// What such a session is told about any other command.
pub(crate) fn refused_to_subscribers(full_name: &str) -> ErrorReply {
    let error = format!(
        "ERR Can't execute '{full_name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
         this context"
    );
    ErrorReply::Other(error.into())
}

fn help_pubsub(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
            "NUMPAT",
            "    Return number of subscriptions to patterns.",
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
            "SHARDCHANNELS [<pattern>]",
            "    Return the currently active shard level channels matching a <pattern> (default: '*').",
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Return the number of subscribers for the specified shard level channel(s)",
            "HELP",
            "    Prints this help.",
        ],
    )
}
