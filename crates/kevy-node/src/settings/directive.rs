//! The table of directives: one row says everything about one setting. The rows stand in a file per theme.
//!
//! A row's default is not repeated here: it is what its field holds in `Settings::default()`.

mod cluster;
mod encoding;
mod fields;
mod memory;
mod monitoring;
mod persistence;
mod server;

use super::Settings;
use super::kind::Kind;

/// One setting.
#[derive(Debug)]
pub struct Directive {
    /// The TOML table it stands in.
    pub section: &'static str,
    /// The key in that table.
    pub key: &'static str,
    /// The flag of the command line, with its dashes. A flag that starts with `--no-` takes no value and means false.
    pub flag: Option<&'static str>,
    /// The environment variable.
    pub env: Option<&'static str>,
    /// The name in `CONFIG GET` and `CONFIG SET`: Redis's, if Redis has the setting. Unique.
    pub name: &'static str,
    /// Its older name there, if Redis has one: both are shown, either may be set.
    pub alias: Option<&'static str>,
    /// How its value is written, bounded and stored.
    pub kind: Kind,
    /// What may be written, where the kind alone does not say it well.
    pub expects: Option<&'static str>,
    /// Whether `CONFIG SET` changes it.
    pub live: Live,
    /// What it means, for the user.
    pub about: &'static str,
}

/// Whether `CONFIG SET` changes a setting while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// It does.
    Yes,
    /// Only a restart does.
    Immutable,
    /// Only a restart does, since clients must not choose where files are written; Redis has its own words for that.
    Protected,
    /// It may be set to what it is, since test suites of clients do that; here is why no other value will do.
    Fixed(&'static str),
}

impl Directive {
    /// The directive that `CONFIG GET` and `CONFIG SET` call `name`, in either case.
    pub fn by_name(name: &[u8]) -> Option<&'static Self> {
        let is_named = |own: &str| own.as_bytes().eq_ignore_ascii_case(name);
        directives().find(|row| is_named(row.name) || row.alias.is_some_and(is_named))
    }

    /// The directive that stands in the file as `[section] key`.
    pub fn by_key(section: &str, key: &str) -> Option<&'static Self> {
        directives().find(|row| row.section == section && row.key == key)
    }

    /// What may be written as its value.
    pub fn expects(&self) -> String {
        self.expects.map_or_else(|| self.kind.expects(), Into::into)
    }

    /// Its default as a TOML literal; `None` if it is unset by default.
    pub fn default_toml(&self) -> Option<String> {
        self.kind.toml_text(&Settings::default())
    }

    /// The value its flag stands for when no value follows; `None` if a value must follow.
    pub fn implied_value(&self) -> Option<&'static str> {
        let negated = self.flag.is_some_and(|flag| flag.starts_with("--no-"));
        matches!(self.kind, Kind::Switch(_)).then_some(if negated { "false" } else { "true" })
    }
}

/// Every setting, in the order of the documentation.
pub fn directives() -> impl Iterator<Item = &'static Directive> + Clone {
    let tables: [&'static [Directive]; 6] = [
        &server::ROWS,
        &memory::ROWS,
        &encoding::ROWS,
        &monitoring::ROWS,
        &cluster::ROWS,
        &persistence::ROWS,
    ];
    tables.into_iter().flatten()
}

/// The TOML tables, in the order of the documentation, and what each is about.
pub const SECTIONS: [(&str, &str); 5] = [
    (
        "server",
        "Sockets, shards, limits on clients and memory, logs.",
    ),
    (
        "encoding",
        "Up to which sizes collections are kept compactly.",
    ),
    (
        "monitoring",
        "Slow commands, latencies, notifications about keys.",
    ),
    (
        "cluster",
        "The shards as Redis Cluster nodes, each on a port of its own.",
    ),
    ("persistence", "What survives a restart."),
];

/// What is said of a setting that may only be set to what it is.
pub(super) const RESTART: &str = "can't set immutable config";

/// What most rows have in common.
const ROW: Directive = Directive {
    section: "",
    key: "",
    flag: None,
    env: None,
    name: "",
    alias: None,
    kind: Kind::Notation {
        parse: |_, _| Ok(()),
        show: |_| String::new(),
        expects: "",
    },
    expects: None,
    live: Live::Yes,
    about: "",
};

const I32_MAX: i64 = i32::MAX as i64;
const I64_MAX: i64 = i64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> bool {
        let mut seen = BTreeSet::new();
        names.into_iter().all(|name| seen.insert(name))
    }

    #[test]
    fn every_name_leads_to_one_row() {
        let names = directives().flat_map(|row| [Some(row.name), row.alias]);
        assert!(distinct(names.flatten()));
        assert!(distinct(directives().filter_map(|row| row.flag)));
        assert!(distinct(directives().filter_map(|row| row.env)));
        for row in directives() {
            let found = Directive::by_key(row.section, row.key).unwrap();
            assert_eq!(found.name, row.name);
        }
    }

    #[test]
    fn names_follow_from_the_key_unless_the_user_guide_says_otherwise() {
        for row in directives() {
            assert!(SECTIONS.iter().any(|(section, _)| *section == row.section));
            let kebab = format!("--{}", row.key.replace('_', "-"));
            let flags = [kebab.as_str(), "--cluster", "--no-aof"];
            assert!(
                row.flag.is_none_or(|flag| flags.contains(&flag)),
                "{:?}",
                row.flag
            );
            let shout = row.key.to_uppercase();
            let variables = [
                format!("KEVY_{shout}"),
                format!("KEVY_CLUSTER_{shout}"),
                "KEVY_CLUSTER".into(),
            ];
            assert!(
                row.env.is_none_or(|env| variables.iter().any(|v| v == env)),
                "{:?}",
                row.env
            );
        }
    }

    #[test]
    fn each_row_reads_what_it_writes_and_touches_no_other() {
        let other_value = |row: &Directive| match row.kind {
            Kind::Integer { max: 10, .. } => "7",
            Kind::Integer { .. } => "77",
            Kind::Memory { .. } => "77mb",
            Kind::Mode(_) => "750",
            Kind::Switch(_) if row.default_toml().as_deref() == Some("true") => "false",
            Kind::Switch(_) => "true",
            Kind::Choice { names, .. } => {
                if row.default_toml() == Some(format!("\"{}\"", names[0])) {
                    names[1]
                } else {
                    names[0]
                }
            }
            Kind::Addresses(_) => "::1",
            Kind::Text { .. } => "elsewhere",
            Kind::OutputLimits(_) => "normal 1 2 3",
            Kind::Notation { .. } if row.name == "notify-keyspace-events" => "KEl",
            Kind::Notation { .. } => "10 20",
        };
        for row in directives() {
            let mut settings = Settings::default();
            row.kind.set(&mut settings, other_value(row)).unwrap();
            let changed =
                |other: &&Directive| other.kind.toml_text(&settings) != other.default_toml();
            let names: Vec<&str> = directives()
                .filter(changed)
                .map(|other| other.name)
                .collect();
            assert_eq!(names, [row.name]);
        }
    }
}
