//! What the session or the control plane answers, a file per family: row and function together, as in the engine.

#![allow(
    clippy::unnecessary_wraps,
    reason = "all commands have one signature, whether they can fail or not"
)]

mod blocking;
mod categories;
mod client;
pub(crate) mod client_line;
mod cluster;
mod command;
mod config;
mod connection;
mod debug;
pub mod document;
mod info;
mod key_uses;
mod latency;
mod memory;
pub(crate) mod monitor;
mod persistence;
pub(crate) mod pubsub;
mod server;
mod slowlog;
mod tracking;
mod transaction;

use crate::observation::Observed;
use crate::query::{Answer, Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_engine::number::integer;
use kevy_proto::command::{Flags, Keys, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// What came of a command of the node.
#[derive(Debug)]
pub enum Outcome {
    /// The reply was written.
    Replied,
    /// There is no reply at all (`CLIENT REPLY OFF`).
    Silent,
    /// Every shard is to be asked first.
    Ask(Query, Finish),
    /// The reply comes later; its place is kept.
    Later,
}

/// What a command of the node says: an outcome, or an error that is its reply.
pub type Answered = Result<Outcome, ErrorReply>;

/// The function of a command of the node: it writes its reply to the buffer, in the session's protocol version.
pub type Run = fn(&mut Shard, &mut Session, Args<'_>, &mut BytesMut) -> Answered;

/// A command of the node: row and function together.
pub type NodeCommand = Row<Run>;

/// Every command of the node, family by family.
pub fn families() -> impl Iterator<Item = &'static [NodeCommand]> {
    [
        connection::COMMANDS,
        blocking::COMMANDS,
        client::COMMANDS,
        cluster::COMMANDS,
        command::COMMANDS,
        config::COMMANDS,
        monitor::COMMANDS,
        debug::COMMANDS,
        latency::COMMANDS,
        memory::COMMANDS,
        persistence::COMMANDS,
        pubsub::COMMANDS,
        server::COMMANDS,
        slowlog::COMMANDS,
        transaction::COMMANDS,
    ]
    .into_iter()
}

/// What most rows of the node have in common; also right for containers, whose own function is only reached without a
/// subcommand.
const ROW: NodeCommand = NodeCommand {
    name: "",
    arity: -2,
    flags: Flags::NONE,
    keys: Keys::None,
    placement: Placement::Session,
    group: "connection",
    since: "1.0.0",
    complexity: "O(1)",
    summary: "",
    run: without_subcommand,
    subcommands: &[],
};

/// What the `HELP` rows of containers have in common.
const HELP: NodeCommand = NodeCommand {
    name: "help",
    arity: 2,
    flags: ALWAYS,
    summary: "Lists the subcommands.",
    ..ROW
};

fn without_subcommand(_: &mut Shard, _: &mut Session, _: Args<'_>, _: &mut BytesMut) -> Answered {
    Err(ErrorReply::Syntax)
}

/// Loading and stale: answered whatever state the data is in.
const ALWAYS: Flags = Flags::LOADING.with(Flags::STALE);
/// As [`ALWAYS`], and for operators, not for scripts.
const ADMIN: Flags = ALWAYS.with(Flags::NOSCRIPT).with(Flags::ADMIN);

fn ok(session: &Session, reply: &mut BytesMut) -> Answered {
    Encoder::new(reply, session.client.version).ok();
    Ok(Outcome::Replied)
}

/// How shards fare, of their answers.
fn observed(answers: Vec<Answer>) -> Vec<Observed> {
    let observed = answers.into_iter().filter_map(|answer| match answer {
        Answer::Observed(observed) => Some(*observed),
        Answer::Summary(_)
        | Answer::Clients(_)
        | Answer::Count(_)
        | Answer::Counts(_)
        | Answer::Keys(_)
        | Answer::Done => None,
    });
    observed.collect()
}

/// Replies with the lines of a `HELP` subcommand.
fn help(session: &Session, reply: &mut BytesMut, lines: &[&str]) -> Answered {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(Outcome::Replied)
}

/// The text of an argument, for names and options; not UTF-8 is none of ours.
fn text(arg: &[u8]) -> &str {
    std::str::from_utf8(arg).unwrap_or_default()
}

fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}
