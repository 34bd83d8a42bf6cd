//! The command line, and from it, the environment and the configuration file to [`Settings`].
//!
//! The flags of the settings are not listed here: clap gets them from the table of directives, as text, so that an
//! impossible value in a flag is reported together with all other faults. clap's own errors and faults both exit with 2.

use crate::export::Export;
use crate::import::Import;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use kevy_node::settings::kind::Kind;
use kevy_node::settings::{ConfigFile, Directive, Fault, Inputs, Origin, Settings, directives};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the command line comes to.
pub(crate) enum Task {
    /// Run a server; its configuration file, if it has one.
    Serve(Box<Settings>, Option<PathBuf>),
    /// Make a data directory of Redis's files.
    Import(Import),
    /// Make an RDB file of a data directory.
    Export(Export),
    /// Everything asked for is done, or faults were reported.
    Leave(ExitCode),
}

/// A Redis-wire-compatible in-memory key-value server.
#[derive(Debug, Parser)]
#[command(name = "kevy", version, after_help = AFTER_HELP)]
struct CommandLine {
    /// Configuration file; if absent `KEVY_CONFIG`, else kevy.toml if there is one
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    directives: DirectiveFlags,
    #[command(subcommand)]
    command: Option<Subtask>,
}

#[derive(Debug, Subcommand)]
enum Subtask {
    /// Check the configuration: print every fault, or the effective settings as TOML
    CheckConfig {
        /// Configuration file, as --config
        path: Option<PathBuf>,
    },
    /// Make a data directory of a Redis RDB file, append-only file or append-only directory
    Import(Import),
    /// Make a Redis RDB file of a data directory
    Export(Export),
}

const AFTER_HELP: &str = "Every flag has a key in kevy.toml and most have a variable KEVY_*: docs/CONFIGURATION.md. \
                          Flags override the environment, which overrides the file.";

/// Exit code for a configuration that cannot be run, as clap's for a command line that cannot be read.
const EXIT_FAULTS: u8 = 2;

/// The configuration file that is read if none is named.
const DEFAULT_FILE: &str = "kevy.toml";

/// Longest configuration file in bytes: far more than the table needs, far less than memory.
const CONFIG_MAX_BYTES: u64 = 1 << 20;

/// Reads the command line, the environment and the file, and does what needs no server.
pub(crate) fn task() -> Task {
    let line = CommandLine::parse();
    let is_plain = line.config.is_none() && line.directives.0.is_empty();
    let checked = match line.command {
        Some(Subtask::Import(_) | Subtask::Export(_)) if !is_plain => {
            return Task::Leave(misplaced_flags());
        }
        Some(Subtask::Import(import)) => return Task::Import(import),
        Some(Subtask::Export(export)) => return Task::Export(export),
        Some(Subtask::CheckConfig { path }) => Some(path),
        None => None,
    };
    let only_check = checked.is_some();
    let named = checked.flatten().or(line.config);
    match effective_settings(named, line.directives) {
        Ok((settings, _)) if only_check => Task::Leave(print_settings(&settings)),
        Ok((settings, file)) => Task::Serve(Box::new(settings), file),
        Err(faults) => Task::Leave(report(&faults)),
    }
}

/// Flags of a server stand before a subcommand that starts none: they would do nothing.
fn misplaced_flags() -> ExitCode {
    eprintln!(
        "kevy: import and export take their flags behind their names, and none of a server's"
    );
    ExitCode::from(EXIT_FAULTS)
}

/// Number of cores this process may use: CPU affinity and cgroup quotas respected.
fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The settings, and the absolute path of the configuration file.
fn effective_settings(
    named: Option<PathBuf>,
    flags: DirectiveFlags,
) -> Result<(Settings, Option<PathBuf>), Vec<Fault>> {
    let (file, unreadable) = match config_file(named, std::env::var_os("KEVY_CONFIG")) {
        Ok(file) => (file, None),
        Err(fault) => (None, Some(fault)),
    };
    let path = file
        .as_ref()
        .and_then(|file| std::path::absolute(&file.name).ok());
    let lossy = |text: OsString| text.to_string_lossy().into_owned();
    let inputs = Inputs {
        file,
        environment: std::env::vars_os()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .collect(),
        flags: flags.0,
    };
    let resolved = Settings::resolve(&inputs, usable_cores());
    match unreadable {
        None => resolved.map(|settings| (settings, path)),
        Some(fault) => Err([vec![fault], resolved.err().unwrap_or_default()].concat()),
    }
}

/// Prints the settings; a reader who has left early is no failure.
fn print_settings(settings: &Settings) -> ExitCode {
    match io::stdout().write_all(settings.to_toml().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn report(faults: &[Fault]) -> ExitCode {
    let mut lines = String::new();
    for fault in faults {
        lines.push_str("kevy: ");
        lines.push_str(&fault.to_string());
        lines.push('\n');
    }
    // Nobody is left to tell if this fails; the exit code says it all the same.
    let _ = io::stderr().write_all(lines.as_bytes());
    ExitCode::from(EXIT_FAULTS)
}

/// The configuration file: the one named on the command line, else in the environment, else the default if it exists.
fn config_file(
    flag: Option<PathBuf>,
    variable: Option<OsString>,
) -> Result<Option<ConfigFile>, Fault> {
    let variable = variable.filter(|value| !value.is_empty());
    if let Some(path) = flag {
        return read(&path, Origin::Flag("--config".into())).map(Some);
    }
    if let Some(path) = variable {
        return read(Path::new(&path), Origin::Environment("KEVY_CONFIG".into())).map(Some);
    }
    if Path::new(DEFAULT_FILE).exists() {
        return read(Path::new(DEFAULT_FILE), Origin::Default).map(Some);
    }
    Ok(None)
}

fn read(path: &Path, origin: Origin) -> Result<ConfigFile, Fault> {
    let name = path.display().to_string();
    let mut text = String::new();
    let size =
        File::open(path).and_then(|file| file.take(CONFIG_MAX_BYTES + 1).read_to_string(&mut text));
    match size {
        Ok(size) if size as u64 <= CONFIG_MAX_BYTES => Ok(ConfigFile { name, text }),
        Ok(_) => Err(Fault::new(
            origin,
            format!("{name} is longer than {CONFIG_MAX_BYTES} bytes"),
            "name a configuration file",
        )),
        Err(error) => Err(Fault::new(
            origin,
            format!("cannot read {name}: {error}"),
            "name a configuration file that exists and can be read",
        )),
    }
}

/// The flags of the table of directives that were given, with their values.
#[derive(Debug)]
struct DirectiveFlags(Vec<(&'static str, String)>);

impl Args for DirectiveFlags {
    fn augment_args(command: Command) -> Command {
        let args = directives().filter_map(|row| row.flag.map(|flag| argument(row, flag)));
        command.args(args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DirectiveFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |row: &Directive| {
            let flag = row.flag?;
            let values: Vec<&str> = matches
                .get_many::<String>(flag)?
                .map(String::as_str)
                .collect();
            Some((flag, values.join(" ")))
        };
        Ok(Self(directives().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `flag` as clap knows it. Values stay text: the settings judge them.
fn argument(row: &Directive, flag: &'static str) -> Arg {
    let arg = Arg::new(flag)
        .long(flag.trim_start_matches('-'))
        .help(help(row))
        .action(ArgAction::Set)
        .value_name("VALUE");
    match (&row.kind, row.implied_value()) {
        (_, Some("false")) => arg.num_args(0).default_missing_value("false"),
        (_, Some(implied)) => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(implied),
        (Kind::Addresses(_), None) => arg.action(ArgAction::Append).value_name("ADDRESS"),
        // `--timeout -1` is an impossible value to report with the others, not a flag `-1`.
        (_, None) => arg.allow_negative_numbers(true),
    }
}

/// The first sentence about a directive, and its default.
fn help(row: &Directive) -> String {
    let first = row.about.split(". ").next().unwrap_or(row.about);
    let first = first.trim_end_matches('.');
    match row.default_toml() {
        _ if row.implied_value() == Some("false") => format!("Do not {}", first.to_lowercase()),
        Some(default) => format!("{first} [default: {}]", default.trim_matches('"')),
        None => first.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn flags(arguments: &[&str]) -> Vec<(&'static str, String)> {
        let line = CommandLine::try_parse_from([&["kevy"], arguments].concat());
        line.unwrap_or_else(|error| panic!("{error}")).directives.0
    }

    fn pairs(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        expected
            .iter()
            .map(|(flag, value)| (*flag, (*value).to_string()))
            .collect()
    }

    #[test]
    fn clap_finds_no_contradiction() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn flags_reach_the_settings_as_text() {
        assert_eq!(flags(&[]), pairs(&[]));
        assert_eq!(
            flags(&["--threads", "10", "--accept-shards=3", "--port", "x"]),
            pairs(&[
                ("--port", "x"),
                ("--threads", "10"),
                ("--accept-shards", "3")
            ])
        );
        assert_eq!(flags(&["--timeout", "-1"]), pairs(&[("--timeout", "-1")]));
    }

    #[test]
    fn switches_need_no_value() {
        assert_eq!(
            flags(&["--cluster", "--no-aof", "--hz", "20"]),
            pairs(&[("--hz", "20"), ("--cluster", "true"), ("--no-aof", "false")])
        );
        assert_eq!(
            flags(&["--cluster=false"]),
            pairs(&[("--cluster", "false")])
        );
    }

    #[test]
    fn several_addresses_may_be_bound() {
        let expected = pairs(&[("--bind", "127.0.0.1 ::1")]);
        assert_eq!(flags(&["--bind", "127.0.0.1", "--bind", "::1"]), expected);
        assert_eq!(flags(&["--bind", "127.0.0.1 ::1"]), expected);
    }

    #[test]
    fn a_wrong_command_line_exits_with_two() {
        for arguments in [
            &["--prot", "1"][..],
            &["--port"],
            &["--port", "1", "--port", "2"],
            &["x"],
            &["--no-aof=1"],
        ] {
            let error = CommandLine::try_parse_from([&["kevy"], arguments].concat())
                .expect_err("no such flag");
            assert_eq!(error.exit_code(), i32::from(EXIT_FAULTS), "{arguments:?}");
        }
    }

    #[test]
    fn the_file_to_check_is_a_file_to_read() {
        let directory = std::env::temp_dir().join(format!("kevy-cli-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("some.toml");
        std::fs::write(&path, "[server]\nport = 7").unwrap();
        let file = config_file(Some(path.clone()), None).unwrap().unwrap();
        assert_eq!(file.text, "[server]\nport = 7");
        let from_variable = config_file(None, Some(path.clone().into()))
            .unwrap()
            .unwrap();
        assert_eq!(from_variable.name, path.display().to_string());

        std::fs::write(&path, vec![b'#'; CONFIG_MAX_BYTES as usize + 1]).unwrap();
        let too_long = config_file(Some(path.clone()), None).unwrap_err();
        assert!(too_long.to_string().starts_with("--config: "), "{too_long}");
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(config_file(Some(path), None).is_err());
    }
}
