//! What people read about commands, rendered from their rows: `docs/COMMANDS.md`.

use crate::command_table::{CommandTable, Handler, Named};
use core::fmt::Write as _;
use kevy_proto::command::{Placement, Row};
use std::collections::BTreeMap;

/// The text of `docs/COMMANDS.md`. `compatibility` is that of `docs/COMPATIBILITY.md`: a command that the first cell of one
/// of its tables names is linked to the section.
pub fn commands_markdown(compatibility: &str) -> String {
    let table = CommandTable::new();
    let differences = Differences::read(compatibility);
    let mut groups: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for named in table.all() {
        let line = Line::of(named);
        let differs = differences.links(&line.name, line.is_container);
        let rendered = line.render(&differs);
        groups
            .entry(line.group)
            .or_default()
            .insert(line.name, rendered);
    }
    let mut text = INTRODUCTION.to_owned();
    for (group, lines) in groups {
        let _ = write!(text, "\n## {group}\n\n{TABLE_HEAD}");
        lines.values().for_each(|line| text.push_str(line));
    }
    text
}

const INTRODUCTION: &str = "# Commands

Generated from the table of commands: `KEVY_BLESS=1 cargo test -p kevy --test command_documents` writes it anew. *Arity* counts
the name; negative: at least so many. *Runs on* says which part of the process carries the command out: the shard of its keys
(keys of several shards are brought together, or each is served by its own shard, under locks and at one moment either way),
every shard, the connection, or the control plane. *Differs* links to what differs from Redis.
";

const TABLE_HEAD: &str =
    "| command | arity | since | runs on | complexity | what it does | differs |
| --- | --- | --- | --- | --- | --- | --- |
";

struct Line {
    name: String,
    arity: i32,
    group: &'static str,
    since: &'static str,
    placement: Placement,
    complexity: &'static str,
    summary: &'static str,
    is_container: bool,
}

impl Line {
    fn of(named: &Named) -> Self {
        match named.handler {
            Handler::Engine(row) => Self::of_row(named.full_name, row),
            Handler::Node(row) => Self::of_row(named.full_name, row),
        }
    }

    fn of_row<H>(full_name: &str, row: &Row<H>) -> Self {
        Self {
            name: full_name.replace('|', " ").to_uppercase(),
            arity: row.arity,
            group: row.group,
            since: row.since,
            placement: row.placement,
            complexity: row.complexity,
            summary: row.summary,
            is_container: !row.subcommands.is_empty(),
        }
    }

    fn render(&self, differs: &str) -> String {
        let runs_on = if self.is_container {
            "see its subcommands"
        } else {
            place(self.placement)
        };
        format!(
            "| `{}` | {} | {} | {runs_on} | {} | {} | {differs} |\n",
            self.name,
            self.arity,
            self.since,
            cell(self.complexity),
            cell(self.summary),
        )
    }
}

fn place(placement: Placement) -> &'static str {
    match placement {
        Placement::Together => "its keys' shard",
        Placement::Split(_) => "each key's shard",
        Placement::EveryShard(_) => "every shard",
        Placement::Cursor(_) => "one shard after the other",
        Placement::Session => "the connection",
        Placement::Node => "the control plane",
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The rows of COMPATIBILITY.md's tables: first cell and the anchor of the section.
struct Differences<'a>(Vec<(&'a str, String)>);

impl<'a> Differences<'a> {
    fn read(compatibility: &'a str) -> Self {
        let (mut rows, mut anchor) = (Vec::new(), String::new());
        for line in compatibility.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                anchor = anchor_of(heading);
            } else if let Some(row) = line.strip_prefix("| ") {
                let first = row.split(" | ").next().unwrap_or_default();
                rows.push((first, anchor.clone()));
            }
        }
        Self(rows)
    }

    /// Words behind the name of a container name a subcommand.
    fn links(&self, command: &str, is_container: bool) -> String {
        let named = self.0.iter().filter(|(cell, _)| {
            quoted(cell).any(|text| match text.strip_prefix(command) {
                Some("") => true,
                Some(rest) => rest.starts_with(' ') && !is_container,
                None => false,
            })
        });
        let links: Vec<String> = named
            .map(|(cell, anchor)| format!("[{cell}](COMPATIBILITY.md#{anchor})"))
            .collect();
        links.join("; ")
    }
}

/// What stands in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// How sites that show Markdown name a heading.
fn anchor_of(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-';
    let text: String = heading.to_lowercase().chars().filter(kept).collect();
    text.replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_linked_where_it_is_named() {
        let text = "# T\n## As Redis 7.2, not 7.0\n| what | why |\n| --- | --- |\n| `ZRANK .. WITHSCORE`, `TIME` | x `GET` |\n";
        let differences = Differences::read(text);
        let link = "[`ZRANK .. WITHSCORE`, `TIME`](COMPATIBILITY.md#as-redis-72-not-70)";
        assert_eq!(differences.links("ZRANK", false), link);
        assert_eq!(differences.links("TIME", false), link);
        assert_eq!(differences.links("ZRANK", true), "");
        assert_eq!(differences.links("GET", false), "");
        assert_eq!(differences.links("ZRAN", false), "");
    }
}
