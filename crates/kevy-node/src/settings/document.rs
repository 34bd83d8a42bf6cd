//! What people read about settings, rendered from the table: `docs/CONFIGURATION.md`, `kevy.toml.example`, and the
//! effective settings as a `kevy.toml` that would give the same.

use super::Settings;
use super::constants::CONSTANTS;
use super::directive::{Directive, Live, SECTIONS, directives};
use core::fmt::Write as _;

/// The text of `docs/CONFIGURATION.md`.
pub fn configuration_markdown() -> String {
    let mut text = INTRODUCTION.to_string();
    for (section, about) in SECTIONS {
        let _ = write!(text, "\n## `[{section}]`\n\n{about}\n{TABLE_HEAD}");
        for row in rows_of(section) {
            text.push_str(&markdown_row(row));
        }
    }
    text.push_str(CONSTANTS_HEAD);
    for constant in CONSTANTS.iter().filter(|constant| !constant.is_hidden) {
        let _ = writeln!(
            text,
            "| `{}` | `\"{}\"` | {} |",
            constant.name, constant.value, constant.about
        );
    }
    text
}

/// The text of `kevy.toml.example`: every directive with its default, commented out.
pub fn example_toml() -> String {
    let mut text = EXAMPLE_HEAD.to_string();
    for (section, about) in SECTIONS {
        let _ = write!(text, "\n[{section}]\n# {about}\n");
        for row in rows_of(section) {
            let default = row.default_toml();
            let unset = if default.is_none() {
                "  # unset by default"
            } else {
                ""
            };
            let _ = write!(text, "\n{}# Give {}.\n", comment(row.about), row.expects());
            let value = default.unwrap_or_else(|| example_value(row).into());
            let _ = writeln!(text, "# {} = {value}{unset}", row.key);
        }
    }
    text
}

impl Settings {
    /// These settings as the text of a `kevy.toml`; what is unset is left out.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (section, _) in SECTIONS {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{section}]");
            for row in rows_of(section) {
                if let Some(value) = row.kind.toml_text(self) {
                    let _ = writeln!(text, "{} = {value}", row.key);
                }
            }
        }
        text
    }
}

const INTRODUCTION: &str = "\
<!-- Generated from the tables in crates/kevy-node/src/settings/directive/. `KEVY_BLESS=1 cargo test -p kevy` rewrites it. -->
# Configuration

A setting comes from the command line, else from the environment, else from the configuration file, else it has its default.

* **Command line**: `kevy --help` lists the flags. `--cluster` and `--no-aof` take no value (`--cluster=false` overrides the environment).
* **Environment**: an empty variable counts as unset. Switches are `1`, `yes`, `true`, `on` or `0`, `no`, `false`, `off`. A variable that
  starts with `KEVY_` and is not listed here is a fault, so that a typing error is not silently ignored. Exceptions: `KEVY_CONFIG`,
  `KEVY_BLESS`, `KEVY_TEST_*`, and what Kubernetes sets for a service called `kevy` (`KEVY_SERVICE_*`, `KEVY_PORT=tcp://...`, `KEVY_PORT_6004_TCP` and so on).
* **File**: `--config PATH`, else `KEVY_CONFIG`, else `kevy.toml` in the working directory if there is one. It is TOML;
  `kevy.toml.example` holds every key with its default.

`kevy check-config [PATH]` prints what the server would run with, as TOML, and starts nothing.
Faults in the configuration are all reported at once, one line each, with the place and what to do; the exit code is then 2.

**Sizes** are bytes with an optional unit, as in redis.conf: `1k` is 1000 bytes, `1kb` 1024, likewise `m`, `mb`, `g`, `gb`, in either case.

*Live* says whether `CONFIG SET` changes a setting while the server runs. `CONFIG REWRITE` writes
what is in force into the file; comments and order stay.
The names of `CONFIG GET` and `CONFIG SET` are Redis's where Redis has the setting.
";

const TABLE_HEAD: &str = "
| Key | Flag | Environment | Default | Values | `CONFIG` name | Live | Meaning |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

const CONSTANTS_HEAD: &str = "
## What never changes

`CONFIG GET` also answers for these, since clients ask.

| `CONFIG` name | Value | Meaning |
| --- | --- | --- |
";

const EXAMPLE_HEAD: &str = "\
# Every setting of kevy with its default. Copy this file to kevy.toml and uncomment what you change.
# The command line and the environment override it; docs/CONFIGURATION.md says how. `kevy check-config` checks it.
# Generated from the table of directives; `KEVY_BLESS=1 cargo test -p kevy` rewrites it.
";

/// Width of the example's comments, in characters.
const COMMENT_CHARS: usize = 110;

fn rows_of(section: &str) -> impl Iterator<Item = &'static Directive> {
    directives().filter(move |row| row.section == section)
}

fn markdown_row(row: &Directive) -> String {
    let code = |text: Option<&str>| text.map_or("-".to_string(), |text| format!("`{text}`"));
    let live = match row.live {
        Live::Yes => "yes",
        Live::Immutable | Live::Protected | Live::Fixed(_) => "no",
    };
    format!(
        "| `{}` | {} | {} | {} | {} | `{}` | {live} | {} |\n",
        row.key,
        code(row.flag),
        code(row.env),
        row.default_toml()
            .map_or("unset".into(), |value| format!("`{value}`")),
        row.expects().replace('*', "\\*"),
        row.name,
        row.about,
    )
}

/// A value to show for a directive that is unset by default.
fn example_value(row: &Directive) -> &'static str {
    match row.name {
        "unixsocket" => "\"/run/kevy/kevy.sock\"",
        "cluster-announce-host" => "\"kevy.example\"",
        "accept-shards" => "1",
        _ => "6004",
    }
}

/// `text` as comment lines of a bearable width.
fn comment(text: &str) -> String {
    let mut lines = String::from("#");
    let mut width = 1;
    for word in text.split(' ') {
        if width + 1 + word.len() > COMMENT_CHARS {
            lines.push_str("\n#");
            width = 1;
        }
        lines.push(' ');
        lines.push_str(word);
        width += 1 + word.len();
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, Inputs};
    use super::*;

    fn resolved(text: &str) -> Settings {
        let (name, text) = ("kevy.toml".into(), text.into());
        let inputs = Inputs {
            file: Some(ConfigFile { name, text }),
            ..Inputs::default()
        };
        Settings::resolve(&inputs, 4).unwrap_or_else(|faults| panic!("{}", faults[0]))
    }

    #[test]
    fn the_example_changes_nothing_and_every_line_of_it_can_be_uncommented() {
        assert_eq!(resolved(&example_toml()), resolved(""));
        let is_setting =
            |line: &str| directives().any(|row| line.starts_with(&format!("# {} = ", row.key)));
        let uncommented: Vec<String> = example_toml()
            .lines()
            .map(|line| {
                if is_setting(line) {
                    line[2..].into()
                } else {
                    line.into()
                }
            })
            .collect();
        let settings = resolved(&uncommented.join("\n"));
        assert!(directives().all(|row| row.kind.toml_text(&settings).is_some()));
    }

    #[test]
    fn effective_settings_give_themselves() {
        let settings = resolved(
            "[server]\nbind = '::1 127.0.0.1'\nmaxmemory = '3gb'\naccept_shards = 2\ndir = '/a \"b\"'\nunixsocketperm = 750\n\
             client_output_buffer_limit = 'normal 1 2 3'\n[cluster]\nenabled = true\nport_base = 7000",
        );
        assert_eq!(resolved(&settings.to_toml()), settings);
    }

    #[test]
    fn every_directive_is_documented() {
        let text = configuration_markdown();
        for row in directives() {
            assert!(text.contains(&format!("| `{}` |", row.key)), "{}", row.key);
            assert!(!row.about.contains('|'), "{}", row.key);
        }
    }
}
