//! kevy describes its commands as Redis describes them, and has those that Redis has but for a list.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kevy_tests::binary::repository;
use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Redis, Spec};

/// Commands that redis-server 7.0 lacks, and since when Redis has them.
const LATER: &[(&[&str], &str)] = &[
    (
        &["client|no-touch", "client|setinfo", "cluster|myshardid"],
        "Redis 7.2",
    ),
    (
        &[
            "hexpire",
            "hpexpire",
            "hexpireat",
            "hpexpireat",
            "hpersist",
            "httl",
            "hpttl",
            "hexpiretime",
            "hpexpiretime",
        ],
        "Redis 7.4",
    ),
    (&["hgetdel", "hgetex", "hsetex"], "Redis 8.0"),
    (
        &[
            "debug|error",
            "debug|help",
            "debug|listpack",
            "debug|log",
            "debug|object",
            "debug|populate",
            "debug|protocol",
            "debug|sdslen",
            "debug|set-active-expire",
            "debug|sleep",
            "debug|stringmatch-len",
        ],
        "in Redis DEBUG takes them apart itself",
    ),
];

/// Commands that take more than in redis-server 7.0: WITHSCORE came with 7.2.
const LATER_ARITY: &[(&str, i64)] = &[("zrank", -3), ("zrevrank", -3)];

/// What Redis has and kevy has not, and why. docs/COMPATIBILITY.md says the same to users: it names each of them
/// (of a container, the container). An entry goes when its commands come.
const LACKING: &[(&[&str], &str)] = &[
    (
        &[
            "acl|cat",
            "acl|deluser",
            "acl|dryrun",
            "acl|genpass",
            "acl|getuser",
            "acl|load",
            "acl|log",
            "acl|save",
            "acl|setuser",
            "acl|users",
        ],
        "no users",
    ),
    (&["migrate"], "slots do not move between processes"),
    (
        &[
            "module",
            "module|help",
            "module|list",
            "module|load",
            "module|loadex",
            "module|unload",
        ],
        "no modules",
    ),
    (
        &[
            "eval",
            "eval_ro",
            "evalsha",
            "evalsha_ro",
            "fcall",
            "fcall_ro",
            "function",
            "function|delete",
            "function|dump",
            "function|flush",
            "function|help",
            "function|kill",
            "function|list",
            "function|load",
            "function|restore",
            "function|stats",
            "script",
            "script|debug",
            "script|exists",
            "script|flush",
            "script|help",
            "script|kill",
            "script|load",
        ],
        "no scripting yet",
    ),
    (
        &[
            "failover",
            "psync",
            "replconf",
            "replicaof",
            "slaveof",
            "sync",
        ],
        "no replication yet",
    ),
];

fn lists(table: &[(&'static [&'static str], &'static str)]) -> BTreeSet<String> {
    let names = table.iter().flat_map(|(names, _)| *names);
    names.map(|name| (*name).to_owned()).collect()
}

fn listed(connection: &mut Connection) -> BTreeSet<String> {
    let names = connection.run("COMMAND LIST");
    names.items().iter().map(Reply::text).collect()
}

#[test]
fn every_command_of_redis_is_there_but_for_the_lists() {
    let (redis, server) = (Redis::start(), Spec::threads(1).start());
    let (redis, kevy) = (listed(&mut redis.connect()), listed(&mut server.connect()));
    assert!(kevy.len() > 200, "{} commands", kevy.len());
    let missing: BTreeSet<_> = redis.difference(&kevy).cloned().collect();
    assert_eq!(missing, lists(LACKING), "Redis has, kevy lacks");
    let added: BTreeSet<_> = kevy.difference(&redis).cloned().collect();
    assert_eq!(added, lists(LATER), "kevy has, Redis 7.0 lacks");
}

#[test]
fn users_are_told_what_is_lacking() {
    let path = Path::join(repository(), "docs/COMPATIBILITY.md");
    let text = std::fs::read_to_string(path).expect("docs/COMPATIBILITY.md is there");
    let untold = lists(LACKING).into_iter().filter(|name| {
        let name = name.replace('|', " ").to_uppercase();
        let container = name.split(' ').next().unwrap_or_default();
        let told = |name: &str| text.contains(&format!("`{name}`"));
        !told(&name) && !told(container)
    });
    let untold: Vec<_> = untold.collect();
    assert!(
        untold.is_empty(),
        "COMPATIBILITY.md does not name {untold:?}"
    );
}

/// Every row of `COMMAND` by its name, subcommands too.
fn rows(connection: &mut Connection) -> BTreeMap<String, Vec<Reply>> {
    let mut rows = BTreeMap::new();
    for row in connection.run("COMMAND").items() {
        for row in std::iter::once(row).chain(row.items()[9].items()) {
            rows.insert(row.items()[0].text(), row.items().to_vec());
        }
    }
    rows
}

/// Name, arity, flags, key positions and categories: the columns by which clients route and users are told apart.
fn columns(row: &[Reply]) -> Vec<Reply> {
    let mut columns = row[..7].to_vec();
    for unordered in [2, 6] {
        let mut words: Vec<_> = columns[unordered].items().iter().map(Reply::text).collect();
        words.sort();
        columns[unordered] = Reply::Array(words.into_iter().map(Reply::Simple).collect());
    }
    columns
}

#[test]
fn command_rows_are_those_of_redis() {
    let (redis, server) = (Redis::start(), Spec::threads(1).start());
    let (redis, kevy) = (rows(&mut redis.connect()), rows(&mut server.connect()));
    let both: Vec<_> = kevy
        .keys()
        .filter(|name| redis.contains_key(*name))
        .collect();
    assert!(both.len() > 200, "{} commands in both", both.len());
    let different = both.into_iter().filter_map(|name| {
        let (ours, mut theirs) = (columns(&kevy[name]), columns(&redis[name]));
        if let Some((_, arity)) = LATER_ARITY.iter().find(|(later, _)| later == name) {
            theirs[1] = Reply::Integer(*arity);
        }
        (ours != theirs).then(|| format!("{name}:\n  redis: {theirs:?}\n  kevy:  {ours:?}"))
    });
    let different: Vec<_> = different.collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}
