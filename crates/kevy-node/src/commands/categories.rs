//! ACL categories of a command, as `COMMAND INFO` shows them: from its group and flags, but for what Redis decided by hand.

use kevy_proto::command::Flags;

/// Commands (and with `|`, their subcommands) whose categories do not follow from the row: what stands for the group, and what
/// is added.
const BY_HAND: &[(&[&str], &[&str], &[&str])] = &[
    (
        &["asking", "command", "readonly", "readwrite", "wait"],
        &["@connection"],
        &[],
    ),
    (&["dbsize"], &["@keyspace"], &[]),
    (
        &["flushall", "flushdb", "swapdb"],
        &["@keyspace"],
        &["@dangerous"],
    ),
    (
        &["sort", "sort_ro"],
        &["@list", "@set", "@sortedset"],
        &["@dangerous"],
    ),
    (
        &["keys", "restore", "restore-asking"],
        &["@keyspace"],
        &["@dangerous"],
    ),
    (
        &["debug", "lastsave", "role"],
        &[],
        &["@admin", "@dangerous"],
    ),
    (&["info"], &[], &["@dangerous"]),
];

/// The categories of the command `full_name` (`client|id`), each with its `@`.
pub(super) fn categories(
    full_name: &str,
    group: &str,
    flags: Flags,
    container: bool,
) -> Vec<String> {
    let first = full_name.split('|').next().unwrap_or_default();
    let by_hand = BY_HAND.iter().find(|(names, _, _)| names.contains(&first));
    let mut categories: Vec<String> = match by_hand {
        Some((_, instead, _)) => instead.iter().map(|name| (*name).to_owned()).collect(),
        None if container || full_name == "pubsub|help" => vec![],
        None => of_group(group).into_iter().collect(),
    };
    let added = by_hand.map_or(&[][..], |(_, _, added)| added);
    categories.extend(added.iter().map(|name| (*name).to_owned()));
    for name in of_flags(flags, container) {
        if !categories.iter().any(|known| known == name) {
            categories.push(name.to_owned());
        }
    }
    categories
}

fn of_group(group: &str) -> Option<String> {
    let name = match group {
        "server" | "cluster" => return None,
        "generic" => "keyspace",
        "sorted-set" => "sortedset",
        "transactions" => "transaction",
        other => other,
    };
    Some(format!("@{name}"))
}

fn of_flags(flags: Flags, container: bool) -> impl Iterator<Item = &'static str> {
    let has = move |flag| !container && flags.contains(flag);
    let fast = has(Flags::FAST);
    let all = [
        (has(Flags::WRITE), "@write"),
        (has(Flags::READONLY), "@read"),
        (has(Flags::ADMIN), "@admin"),
        (has(Flags::ADMIN), "@dangerous"),
        (has(Flags::BLOCKING), "@blocking"),
        (fast, "@fast"),
        (!fast, "@slow"),
    ];
    all.into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_those_of_redis() {
        let of =
            |name, group, flags, container| categories(name, group, flags, container).join(" ");
        let read = Flags::READONLY.with(Flags::FAST);
        assert_eq!(
            of("zcard", "sorted-set", read, false),
            "@sortedset @read @fast"
        );
        assert_eq!(of("dbsize", "server", read, false), "@keyspace @read @fast");
        assert_eq!(of("client", "connection", Flags::NONE, true), "@slow");
        assert_eq!(
            of("command|docs", "server", Flags::NONE, false),
            "@connection @slow"
        );
        assert_eq!(
            of("config|get", "server", Flags::ADMIN, false),
            "@admin @dangerous @slow"
        );
    }
}
