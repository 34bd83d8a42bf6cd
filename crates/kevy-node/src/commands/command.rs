//! `COMMAND ...`: the rows as clients read them.

use super::categories::categories;
use super::key_uses::{Uses, uses, uses_of};
use super::{ALWAYS, Answered, HELP, NodeCommand, Outcome, ROW, help, is, text};
use crate::command_table::{Handler, Named};
use crate::session::Session;
use crate::shard::Shard;
use bytes::BytesMut;
use kevy_proto::command::{Flags, Keys};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The commands of this family.
pub(super) const COMMANDS: &[NodeCommand] = &[NodeCommand {
    name: "command",
    arity: -1,
    flags: ALWAYS,
    group: "server",
    since: "2.8.13",
    complexity: "O(N) where N is the total number of commands",
    summary: "Returns detailed information about all commands.",
    run: all,
    subcommands: &[
        NodeCommand {
            name: "count",
            arity: 2,
            flags: ALWAYS,
            group: "server",
            summary: "Counts the commands.",
            run: count,
            ..ROW
        },
        NodeCommand {
            name: "info",
            arity: -2,
            flags: ALWAYS,
            group: "server",
            summary: "Describes some commands, or all.",
            run: info,
            ..ROW
        },
        NodeCommand {
            name: "docs",
            arity: -2,
            flags: ALWAYS,
            group: "server",
            summary: "Documents some commands, or all.",
            run: docs,
            ..ROW
        },
        NodeCommand {
            name: "list",
            arity: -2,
            flags: ALWAYS,
            group: "server",
            summary: "Names the commands.",
            run: list,
            ..ROW
        },
        NodeCommand {
            name: "getkeys",
            arity: -4,
            flags: ALWAYS,
            group: "server",
            summary: "Finds the keys of a command.",
            run: get_keys,
            ..ROW
        },
        NodeCommand {
            name: "getkeysandflags",
            arity: -4,
            flags: ALWAYS,
            group: "server",
            summary: "Finds the keys of a command and how it uses them.",
            run: get_keys_and_flags,
            ..ROW
        },
        NodeCommand {
            group: "server",
            run: help_command,
            ..HELP
        },
    ],
    ..ROW
}];

/// The columns that describe a command, wherever it runs.
struct Columns {
    arity: i32,
    flags: Flags,
    keys: Keys,
    group: &'static str,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
}

impl Columns {
    fn of(handler: Handler) -> Self {
        macro_rules! columns {
            ($row:expr) => {
                Self {
                    arity: $row.arity,
                    flags: $row.flags,
                    keys: $row.keys,
                    group: $row.group,
                    since: $row.since,
                    complexity: $row.complexity,
                    summary: $row.summary,
                }
            };
        }
        match handler {
            Handler::Engine(row) => columns!(row),
            Handler::Node(row) => columns!(row),
        }
    }
}

/// Whether a name of the table belongs to a command of its own.
fn is_top_level(named: &Named) -> bool {
    !named.full_name.contains('|')
}

fn top_level(shard: &Shard) -> impl Iterator<Item = &Named> {
    shard
        .commands
        .all()
        .iter()
        .filter(|named| is_top_level(named))
}

fn all(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(top_level(shard).count());
    top_level(shard).for_each(|named| describe(shard, named, &mut reply));
    Ok(Outcome::Replied)
}

fn count(shard: &mut Shard, session: &mut Session, _: Args<'_>, reply: &mut BytesMut) -> Answered {
    Encoder::new(reply, session.client.version).length(top_level(shard).count());
    Ok(Outcome::Replied)
}

/// Finds `get` or `client|id`.
fn named<'a>(shard: &'a Shard, name: &[u8]) -> Option<&'a Named> {
    shard
        .commands
        .all()
        .iter()
        .find(|named| named.full_name.as_bytes().eq_ignore_ascii_case(name))
}

fn info(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    if args.len() == 2 {
        return all(shard, session, args, reply);
    }
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(args.len() - 2);
    for name in args.skip(2).iter() {
        match named(shard, name) {
            Some(named) => describe(shard, named, &mut reply),
            None => reply.null_array(),
        }
    }
    Ok(Outcome::Replied)
}

/// Name, arity, flags, first key, last key, step, ACL categories, tips, key specifications, subcommands
/// (<https://redis.io/docs/latest/commands/command/>).
fn describe(shard: &Shard, named: &Named, reply: &mut Encoder<'_>) {
    let columns = Columns::of(named.handler);
    let container = !named.subcommands.is_empty();
    reply.array(10);
    reply.bulk(named.full_name.as_bytes());
    reply.integer(i64::from(columns.arity));
    let mut flags: Vec<&str> = columns.flags.names().collect();
    if columns.flags.contains(Flags::MOVABLEKEYS)
        || matches!(columns.keys, Keys::None | Keys::Range { .. })
    {
        // As declared.
    } else {
        flags.push("movablekeys");
    }
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = columns.keys.legacy_range();
    [first, last, step]
        .into_iter()
        .for_each(|number| reply.integer(i64::from(number)));
    let categories = of_columns(named.full_name, &columns, container);
    reply.set(categories.len());
    categories
        .iter()
        .for_each(|category| reply.simple(category));
    reply.array(0);
    describe_keys(named.full_name, &columns, reply);
    reply.array(named.subcommands.len());
    for &number in &named.subcommands {
        describe(shard, &shard.commands.all()[number], reply);
    }
}

fn of_columns(full_name: &str, columns: &Columns, container: bool) -> Vec<String> {
    categories(full_name, columns.group, columns.flags, container)
}

fn describe_keys(name: &str, columns: &Columns, reply: &mut Encoder<'_>) {
    let (access, _) = uses(name, columns.flags.contains(Flags::WRITE));
    let (begin, find): (i64, [(&str, i64); 3]) = match columns.keys {
        Keys::None => return reply.array(0),
        Keys::Range { first, last, step } => {
            let last = if last < 0 {
                i64::from(last)
            } else {
                i64::from(last - first)
            };
            (
                i64::from(first),
                [
                    ("lastkey", last),
                    ("keystep", i64::from(step)),
                    ("limit", 0),
                ],
            )
        }
        Keys::Counted { count_at, .. } => (
            i64::from(count_at),
            [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)],
        ),
        Keys::WithOption { first, .. } => (
            i64::from(first),
            [("lastkey", 0), ("keystep", 1), ("limit", 0)],
        ),
        Keys::AfterOption { option } => return describe_keyword(option, access, reply),
    };
    reply.array(1);
    reply.map(3);
    describe_access(access, reply);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(begin);
    describe_find(
        if find[0].0 == "keynumidx" {
            "keynum"
        } else {
            "range"
        },
        &find,
        reply,
    );
}

fn describe_access(access: &[&str], reply: &mut Encoder<'_>) {
    reply.bulk(b"flags");
    reply.set(access.len());
    access.iter().for_each(|flag| reply.simple(flag));
}

fn describe_find(kind: &str, find: &[(&str, i64)], reply: &mut Encoder<'_>) {
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(find.len());
    for (name, number) in find {
        reply.bulk(name.as_bytes());
        reply.integer(*number);
    }
}

/// Keys that follow a word (`STREAMS`).
fn describe_keyword(option: &str, access: &[&str], reply: &mut Encoder<'_>) {
    reply.array(1);
    reply.map(3);
    describe_access(access, reply);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"keyword");
    reply.bulk(b"spec");
    reply.map(2);
    reply.bulk(b"keyword");
    reply.bulk(option.as_bytes());
    reply.bulk(b"startfrom");
    reply.integer(1);
    describe_find(
        "range",
        &[("lastkey", -1), ("keystep", 1), ("limit", 2)],
        reply,
    );
}

fn docs(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let found: Vec<&Named> = if args.len() == 2 {
        top_level(shard).collect()
    } else {
        args.skip(2)
            .iter()
            .filter_map(|name| named(shard, name))
            .collect()
    };
    let mut reply = Encoder::new(reply, session.client.version);
    reply.map(found.len());
    found
        .into_iter()
        .for_each(|named| document(shard, named, &mut reply));
    Ok(Outcome::Replied)
}

fn document(shard: &Shard, named: &Named, reply: &mut Encoder<'_>) {
    let columns = Columns::of(named.handler);
    let texts = [
        ("summary", columns.summary),
        ("since", columns.since),
        ("group", columns.group),
        ("complexity", columns.complexity),
    ];
    let container = !named.subcommands.is_empty();
    reply.bulk(named.full_name.as_bytes());
    reply.map(texts.len() + usize::from(container));
    for (name, value) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if container {
        reply.bulk(b"subcommands");
        reply.map(named.subcommands.len());
        named
            .subcommands
            .iter()
            .for_each(|number| document(shard, &shard.commands.all()[*number], reply));
    }
}

/// `COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)]`.
fn list(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let filter: Box<dyn Fn(&Named) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if is(args.at(2), "filterby") && is(args.at(3), "module") => Box::new(|_| false),
        5 if is(args.at(2), "filterby") && is(args.at(3), "aclcat") => {
            let category = format!("@{}", text(args.at(4)).to_ascii_lowercase());
            Box::new(move |named| {
                let container = !named.subcommands.is_empty();
                of_columns(named.full_name, &Columns::of(named.handler), container)
                    .contains(&category)
            })
        }
        5 if is(args.at(2), "filterby") && is(args.at(3), "pattern") => {
            let pattern = args.at(4).to_ascii_lowercase();
            Box::new(move |named| kevy_engine::glob::matches(&pattern, named.full_name.as_bytes()))
        }
        _ => return Err(ErrorReply::Syntax),
    };
    // Subcommands too, under their full names.
    let all = shard.commands.all().iter();
    let names: Vec<&str> = all
        .filter(|named| filter(named))
        .map(|named| named.full_name)
        .collect();
    let mut reply = Encoder::new(reply, session.client.version);
    reply.set(names.len());
    names
        .into_iter()
        .for_each(|name| reply.bulk(name.as_bytes()));
    Ok(Outcome::Replied)
}

/// The uses of the first key and of the others.
type Both = (Uses, Uses);

/// The keys of the command that stands behind `COMMAND GETKEYS`, and how it uses the first one and the others.
fn keys_of<'a>(shard: &mut Shard, args: Args<'a>) -> Result<(Vec<&'a [u8]>, Both), ErrorReply> {
    let inner = args.skip(2);
    // That there are no keys to find is said before how many arguments are wrong.
    let (described, arity_fits) = match shard.commands.find(inner) {
        Ok(found) => (shard.commands.all().get(found.index), true),
        Err(ErrorReply::WrongArity(name)) => (named(shard, name.as_bytes()), false),
        Err(_) => (None, false),
    };
    let described = described.ok_or(ErrorReply::text("ERR Invalid command specified"))?;
    let columns = Columns::of(described.handler);
    if columns.keys == Keys::None {
        return Err(ErrorReply::text("ERR The command has no key arguments"));
    }
    if !arity_fits {
        return Err(ErrorReply::text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let mut positions = Vec::new();
    columns.keys.positions(inner, &mut positions);
    if positions.is_empty() {
        return Err(ErrorReply::text(
            "ERR Invalid arguments specified for command",
        ));
    }
    let writes = columns.flags.contains(Flags::WRITE);
    let uses = uses_of(described.full_name, writes, inner);
    let keys = positions.into_iter().map(|position| inner.at(position));
    Ok((keys.collect(), uses))
}

fn get_keys(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let (keys, _) = keys_of(shard, args)?;
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(keys.len());
    keys.into_iter().for_each(|key| reply.bulk(key));
    Ok(Outcome::Replied)
}

fn get_keys_and_flags(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let (keys, (first, others)) = keys_of(shard, args)?;
    let mut reply = Encoder::new(reply, session.client.version);
    reply.array(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        let flags = if index == 0 { first } else { others };
        reply.array(2);
        reply.bulk(key);
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    Ok(Outcome::Replied)
}

fn help_command(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    help(
        session,
        reply,
        &[
            "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "(no subcommand)",
            "    Return details about all commands.",
            "COUNT",
            "    Return the total number of commands in this server.",
            "LIST",
            "    Return a list of all commands in this server.",
            "INFO [<command-name> ...]",
            "    Return details about multiple commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "GETKEYS <full-command>",
            "    Return the keys from a full command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full command.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
