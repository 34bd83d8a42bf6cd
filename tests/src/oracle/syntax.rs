//! The grammar of every command, as redis-server itself documents it (`COMMAND DOCS`).
//!
//! Read at run time, so a command that Redis has is generated without anybody having written it down here.

use crate::connection::Connection;
use crate::reply::Reply;

/// One command, or one subcommand of a container.
#[derive(Debug, Clone)]
pub(super) struct Syntax {
    /// The name as it is sent: one word, or two for a subcommand.
    pub name: Vec<Vec<u8>>,
    /// The group of the documentation: `list`, `sorted-set`, ...
    pub group: String,
    /// What follows the name.
    pub arguments: Vec<Argument>,
}

/// One argument, or a group of them.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    /// What it means: `score`, `numkeys`, ...
    pub name: String,
    /// The form of one word of it, or how its parts belong together.
    pub form: Form,
    /// The word before it.
    pub token: Option<Vec<u8>>,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may be repeated.
    pub multiple: bool,
    /// Whether the token is repeated with it.
    pub multiple_token: bool,
}

/// What an argument consists of.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// The token alone.
    Token,
    /// The name of a key.
    Key,
    /// A word of this type: `string`, `integer`, `double`, `pattern`, `unix-time`.
    Word(String),
    /// One of the parts.
    OneOf(Vec<Argument>),
    /// All of the parts.
    Block(Vec<Argument>),
}

impl Syntax {
    /// The name with single spaces, in upper case.
    pub(super) fn full_name(&self) -> String {
        String::from_utf8_lossy(&self.name.join(&b' ')).into_owned()
    }
}

/// The grammar of every command of `redis` (in RESP2), in order of their names.
pub(super) fn read(redis: &mut Connection) -> Vec<Syntax> {
    let reply = redis.run("COMMAND DOCS");
    let mut all = Vec::new();
    for row in reply.items().chunks_exact(2) {
        command(&row[0].text(), &row[1], &mut all);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn command(name: &str, docs: &Reply, all: &mut Vec<Syntax>) {
    if let Some(subcommands) = docs.get("subcommands") {
        for row in subcommands.items().chunks_exact(2) {
            command(&row[0].text(), &row[1], all);
        }
        return;
    }
    let words = name.split('|');
    all.push(Syntax {
        name: words
            .map(|word| word.to_ascii_uppercase().into_bytes())
            .collect(),
        group: docs.at("group").text(),
        arguments: arguments(docs),
    });
}

fn arguments(docs: &Reply) -> Vec<Argument> {
    let parts = docs.get("arguments").map_or(&[][..], Reply::items);
    parts.iter().map(argument).collect()
}

fn argument(docs: &Reply) -> Argument {
    let flags = docs.get("flags").map_or(&[][..], Reply::items);
    let flag = |name| flags.iter().any(|flag| flag.text() == name);
    let form = match docs.at("type").text().as_str() {
        "pure-token" => Form::Token,
        "key" => Form::Key,
        "oneof" => Form::OneOf(arguments(docs)),
        "block" => Form::Block(arguments(docs)),
        word => Form::Word(word.to_owned()),
    };
    Argument {
        name: docs.at("name").text(),
        form,
        token: docs.get("token").map(|token| token.text().into_bytes()),
        optional: flag("optional"),
        multiple: flag("multiple"),
        multiple_token: flag("multiple_token"),
    }
}
