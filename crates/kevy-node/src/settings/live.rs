//! `CONFIG GET` and `CONFIG SET` over the table. Texts equal those of redis-server 7.0.

use super::Settings;
use super::constants::{CONSTANTS, Constant};
use super::directive::{Directive, Live, directives};
use super::kind::{Invalid, Kind};
use kevy_proto::resp::ErrorReply;

/// What one `CONFIG SET` comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The settings from now on.
    pub settings: Settings,
    /// The settings that were named, by [`Directive::name`] or [`Directive::alias`].
    pub names: Vec<&'static str>,
}

impl Settings {
    /// The names and values that `CONFIG GET` replies with: each setting that one of the `patterns` matches, once, in the
    /// order of the table.
    ///
    /// `matches(pattern, name)` is the glob match of `KEYS`; the patterns reach it in lower case, as the names are. Who asks for
    /// a whole name gets it back as they wrote it.
    pub fn config_get(
        &self,
        patterns: &[&[u8]],
        matches: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Vec<(String, String)> {
        let as_written = |name: &'static str| {
            let same = |p: &&&[u8]| p.eq_ignore_ascii_case(name.as_bytes());
            let written = patterns.iter().find(same).copied();
            String::from_utf8_lossy(written.unwrap_or(name.as_bytes())).into_owned()
        };
        let patterns: Vec<Vec<u8>> = patterns.iter().map(|p| p.to_ascii_lowercase()).collect();
        let wanted = |name: &str| patterns.iter().any(|p| matches(p, name.as_bytes()));
        let asked_for = |name: &str| patterns.iter().any(|p| p == name.as_bytes());
        let named = |row: &'static Directive| {
            let names = [Some(row.name), row.alias].into_iter().flatten();
            names.map(move |name| (name, row))
        };
        let rows = directives().flat_map(named);
        let rows = rows.filter(|(name, _)| wanted(name));
        let constants = CONSTANTS.iter().filter(|constant| {
            asked_for(constant.name) || !constant.is_hidden && wanted(constant.name)
        });
        rows.map(|(name, row)| (as_written(name), row.kind.redis_text(self)))
            .chain(constants.map(|constant| (as_written(constant.name), constant.value.into())))
            .collect()
    }

    /// What `CONFIG SET` with these arguments (name, value, name, value, ...) changes: all of it or, on an error, nothing.
    ///
    /// # Errors
    /// The error reply.
    pub fn config_set(&self, arguments: &[&[u8]]) -> Result<Change, ErrorReply> {
        let (pairs, rest) = arguments.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(ErrorReply::Syntax);
        }
        let targets = targets(pairs)?;
        let mut settings = self.clone();
        for (target, [_, value]) in targets.iter().zip(pairs) {
            let value = String::from_utf8_lossy(value);
            target
                .set(&mut settings, &value)
                .map_err(|reason| failed(target.name(), &reason))?;
        }
        let names = targets.iter().map(Target::name).collect();
        Ok(Change { settings, names })
    }
}

/// What one name of a `CONFIG SET` stands for.
enum Target {
    /// With the name it was called by.
    Directive(&'static Directive, &'static str),
    Constant(&'static Constant),
}

/// What the pairs name. Names are judged before any value is, as in Redis.
fn targets(pairs: &[[&[u8]; 2]]) -> Result<Vec<Target>, ErrorReply> {
    let mut targets: Vec<Target> = Vec::new();
    for [name, _] in pairs {
        let target = settable(name)?;
        // Since each name may stand once, the list is never longer than the table.
        if targets
            .iter()
            .any(|earlier| earlier.name() == target.name())
        {
            return Err(failed(target.name(), "duplicate parameter"));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn settable(name: &[u8]) -> Result<Target, ErrorReply> {
    let target = Target::by_name(name).ok_or_else(|| {
        let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
        ErrorReply::quoting(before, name, "'")
    })?;
    match target.live() {
        Live::Yes | Live::Fixed(_) => Ok(target),
        Live::Immutable => Err(failed(target.name(), "can't set immutable config")),
        Live::Protected => Err(failed(target.name(), "can't set protected config")),
    }
}

impl Target {
    fn by_name(name: &[u8]) -> Option<Self> {
        let is_named = |constant: &&Constant| constant.name.as_bytes().eq_ignore_ascii_case(name);
        let constant = CONSTANTS.iter().find(is_named).map(Self::Constant);
        constant.or_else(|| {
            let row = Directive::by_name(name)?;
            let alias = row
                .alias
                .filter(|alias| alias.as_bytes().eq_ignore_ascii_case(name));
            Some(Self::Directive(row, alias.unwrap_or(row.name)))
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Directive(_, name) => name,
            Self::Constant(constant) => constant.name,
        }
    }

    fn live(&self) -> Live {
        match self {
            Self::Directive(row, _) => row.live,
            Self::Constant(constant) => constant.live,
        }
    }

    fn set(&self, settings: &mut Settings, value: &str) -> Result<(), String> {
        let same = match self {
            Self::Directive(row, _) => {
                let before = row.kind.redis_text(settings);
                if matches!(row.live, Live::Fixed(_)) && before == value {
                    return Ok(());
                }
                if matches!(row.kind, Kind::Switch(_)) && !is_yes_or_no(value) {
                    return Err(Invalid::NotASwitch.to_string());
                }
                let is_empty_size = matches!(row.kind, Kind::Memory { .. }) && value.is_empty();
                let set = row
                    .kind
                    .set(settings, if is_empty_size { "0" } else { value });
                set.map_err(|invalid| invalid.to_string())?;
                before == row.kind.redis_text(settings)
            }
            Self::Constant(constant) => {
                constant.judge(value)?;
                constant.value == value
            }
        };
        match self.live() {
            Live::Fixed(reason) if !same => Err(reason.into()),
            Live::Fixed(_) | Live::Yes | Live::Immutable | Live::Protected => Ok(()),
        }
    }
}

/// Files and flags may say it in other words; Redis's `CONFIG SET` knows these alone.
fn is_yes_or_no(value: &str) -> bool {
    ["yes", "no"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(value))
}

fn failed(name: &str, reason: &str) -> ErrorReply {
    let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
    ErrorReply::Other(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(arguments: &[&str]) -> Result<Change, ErrorReply> {
        let arguments: Vec<&[u8]> = arguments.iter().map(|a| a.as_bytes()).collect();
        Settings::default().config_set(&arguments)
    }

    fn get(settings: &Settings, patterns: &[&str]) -> Vec<(String, String)> {
        let patterns: Vec<&[u8]> = patterns.iter().map(|p| p.as_bytes()).collect();
        let prefix = |pattern: &[u8], name: &[u8]| match pattern.strip_suffix(b"*") {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        settings.config_get(&patterns, prefix)
    }

    fn value(settings: &Settings, name: &str) -> String {
        get(settings, &[name]).remove(0).1
    }

    #[test]
    fn values_look_as_in_redis() {
        let settings = Settings::default();
        for (name, shown) in [
            ("maxclients", "10000"),
            ("timeout", "0"),
            ("tcp-keepalive", "300"),
            ("tcp-backlog", "511"),
            ("proto-max-bulk-len", "536870912"),
            ("client-query-buffer-limit", "1073741824"),
            (
                "client-output-buffer-limit",
                "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            ),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("hz", "10"),
            ("loglevel", "notice"),
            ("bind", "127.0.0.1"),
            ("port", "6004"),
            ("unixsocket", ""),
            ("unixsocketperm", "0"),
            ("cluster-enabled", "no"),
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("auto-aof-rewrite-min-size", "67108864"),
            ("save", ""),
            ("databases", "1"),
        ] {
            assert_eq!(value(&settings, name), shown, "{name}");
        }
    }

    #[test]
    fn several_patterns_show_each_setting_once_and_ignore_case() {
        let settings = Settings::default();
        let names = |patterns: &[&str]| -> Vec<String> {
            get(&settings, patterns)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(
            names(&["maxmemory-p*", "MAXMEMORY-Policy"]),
            ["MAXMEMORY-Policy"]
        );
        assert_eq!(
            names(&["hash-max-ziplist-v*", "hash-max-listpack-v*"]),
            ["hash-max-listpack-value", "hash-max-ziplist-value"]
        );
        assert_eq!(names(&["nope"]), Vec::<String>::new());
        let aliases = directives().filter(|row| row.alias.is_some()).count();
        let constants = CONSTANTS.iter().filter(|constant| !constant.is_hidden);
        assert_eq!(
            names(&["*"]).len(),
            directives().count() + aliases + constants.count()
        );
    }

    #[test]
    fn a_set_value_is_what_get_shows() {
        for (name, written, shown) in [
            ("maxmemory", "10mb", "10485760"),
            ("MAXMEMORY", "1K", "1000"),
            ("maxmemory-policy", "allkeys-LRU", "allkeys-lru"),
            ("hz", "0", "1"),
            ("hz", "1000", "500"),
            ("loglevel", "DEBUG", "debug"),
            ("timeout", "1000", "1000"),
            (
                "client-output-buffer-limit",
                "slave 4 5 6",
                "normal 0 0 0 slave 4 5 6 pubsub 33554432 8388608 60",
            ),
            ("save", "", ""),
            ("appendonly", "yes", "yes"),
            ("appendfsync", "ALWAYS", "always"),
        ] {
            let change = set(&[name, written]).unwrap();
            let lower = name.to_lowercase();
            assert_eq!(value(&change.settings, &lower), shown, "{name} {written}");
            assert_eq!(change.names, [lower]);
        }
    }

    /// Each text was read off redis-server 7.0.15, but for the last five: Redis can do what they refuse.
    const REFUSALS: [(&[&str], &str, &str); 25] = [
        (
            &["maxmemory", "abc"],
            "maxmemory",
            "argument must be a memory value",
        ),
        (
            &["maxmemory", "-1"],
            "maxmemory",
            "argument must be a memory value",
        ),
        (
            &["maxclients", "0"],
            "maxclients",
            "argument must be between 1 and 4294967295 inclusive",
        ),
        (
            &["maxclients", "abc"],
            "maxclients",
            "argument couldn't be parsed into an integer",
        ),
        (
            &["timeout", "-1"],
            "timeout",
            "argument must be between 0 and 2147483647 inclusive",
        ),
        (
            &["hz", "-3"],
            "hz",
            "argument must be between 0 and 2147483647 inclusive",
        ),
        (
            &["proto-max-bulk-len", "1"],
            "proto-max-bulk-len",
            "argument must be between 1048576 and 9223372036854775807 inclusive",
        ),
        (&["maxmemory-policy", "foo"], "maxmemory-policy", POLICIES),
        (
            &["loglevel", "foo"],
            "loglevel",
            "argument(s) must be one of the following: debug, verbose, notice, warning",
        ),
        (
            &["client-output-buffer-limit", "normal 0 0"],
            "client-output-buffer-limit",
            "Wrong number of arguments in buffer limit configuration.",
        ),
        (
            &["client-output-buffer-limit", "foo 0 0 0"],
            "client-output-buffer-limit",
            "Invalid client class specified in buffer limit configuration.",
        ),
        (
            &["client-output-buffer-limit", "normal 0 0 -1"],
            "client-output-buffer-limit",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
        ),
        (
            &["appendonly", "maybe"],
            "appendonly",
            "argument must be 'yes' or 'no'",
        ),
        (
            &["tcp-backlog", "5"],
            "tcp-backlog",
            "can't set immutable config",
        ),
        (
            &["databases", "1"],
            "databases",
            "can't set immutable config",
        ),
        (&["dir", "."], "dir", "can't set protected config"),
        (
            &["maxmemory", "abc", "maxmemory", "3"],
            "maxmemory",
            "duplicate parameter",
        ),
        (
            &["maxmemory", "abc", "databases", "3"],
            "databases",
            "can't set immutable config",
        ),
        (
            &["MAXMEMORY", "1mb", "maxmemory-policy", "foo"],
            "maxmemory-policy",
            POLICIES,
        ),
        (
            &["appendonly", "no"],
            "appendonly",
            "the log is begun at the start; restart kevy with or without it",
        ),
        (&["save", "900 1 5"], "save", "Invalid save parameters"),
        (
            &["maxmemory-clients", "200%"],
            "maxmemory-clients",
            "percentage argument must be less or equal to 100",
        ),
        (
            &["daemonize", "yes"],
            "daemonize",
            "can't set immutable config",
        ),
        (&["bind", "127.0.0.2"], "bind", "can't set immutable config"),
        (
            &["port", "7000"],
            "port",
            "Unable to listen on this port before a restart",
        ),
    ];

    const POLICIES: &str = "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, \
                            volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction";

    #[test]
    fn refusals_are_worded_as_in_redis() {
        for (arguments, name, reason) in REFUSALS {
            assert_eq!(set(arguments), Err(failed(name, reason)), "{arguments:?}");
        }
    }

    #[test]
    fn unknown_names_and_odd_arguments_are_refused_before_any_value_is_read() {
        let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'FoO'";
        assert_eq!(
            set(&["maxmemory", "abc", "FoO", "1"]),
            Err(ErrorReply::Quoting(unknown.into()))
        );
        assert_eq!(set(&["maxmemory", "1mb", "hz"]), Err(ErrorReply::Syntax));
    }

    #[test]
    fn what_only_a_restart_changes_may_be_set_to_what_it_is() {
        for (name, value) in [
            ("port", "6004"),
            ("bind", "127.0.0.1"),
            ("threads", "0"),
            ("accept-shards", ""),
            ("maxmemory-clients", "0"),
        ] {
            assert!(set(&[name, value]).is_ok(), "{name}");
        }
    }

    #[test]
    fn hidden_settings_are_shown_to_those_who_know_their_names() {
        let settings = Settings::default();
        assert_eq!(value(&settings, "key-load-delay"), "0");
        assert_eq!(get(&settings, &["key-load*"]), []);
    }

    #[test]
    fn several_settings_change_together() {
        let change = set(&["maxmemory", "1mb", "timeout", "5"]).unwrap();
        let server = &change.settings.server;
        assert_eq!((server.maxmemory, server.timeout), (1 << 20, 5));
        assert_eq!(change.names, ["maxmemory", "timeout"]);
    }
}
