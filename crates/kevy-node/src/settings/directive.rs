//! The table of directives: one row says everything about one setting.
//!
//! A row's default is not repeated here: it is what its field holds in `Settings::default()`.

use super::kind::{Field, Kind};
use super::{LogFormat, LogLevel, MAX_SHARDS, MaxmemoryPolicy, Settings};

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
        DIRECTIVES
            .iter()
            .find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The directive that stands in the file as `[section] key`.
    pub fn by_key(section: &str, key: &str) -> Option<&'static Self> {
        DIRECTIVES
            .iter()
            .find(|row| row.section == section && row.key == key)
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

/// The TOML tables, in the order of the documentation, and what each is about.
pub const SECTIONS: [(&str, &str); 3] = [
    (
        "server",
        "Sockets, shards, limits on clients and memory, logs.",
    ),
    (
        "cluster",
        "The shards as Redis Cluster nodes, each on a port of its own.",
    ),
    (
        "persistence",
        "What survives a restart. This version keeps data in memory only.",
    ),
];

/// A number stored as the named type; the bounds of its row keep it from being cut.
macro_rules! number {
    ($section:ident.$field:ident: $type:ty) => {
        Field {
            read: |settings| Some(u64::from(settings.$section.$field)),
            write: |settings, number| settings.$section.$field = number as $type,
        }
    };
}

/// A number that may be unset.
macro_rules! optional_number {
    ($section:ident.$field:ident: $type:ty) => {
        Field {
            read: |settings| settings.$section.$field.map(u64::from),
            write: |settings, number| settings.$section.$field = Some(number as $type),
        }
    };
}

/// A text that may be unset.
macro_rules! optional_text {
    ($section:ident.$field:ident) => {
        Field {
            read: |settings| settings.$section.$field.clone(),
            write: |settings, text| settings.$section.$field = Some(text),
        }
    };
}

/// A number of bytes, a switch or another value stored as it is.
macro_rules! plain {
    ($section:ident.$field:ident) => {
        Field {
            read: |settings| Some(settings.$section.$field),
            write: |settings, value| settings.$section.$field = value,
        }
    };
}

/// One of the names of a `named_choices!` enum.
macro_rules! choice {
    ($section:ident.$field:ident: $choice:ident) => {
        Kind::Choice {
            names: $choice::NAMES,
            field: Field {
                read: |settings| Some(settings.$section.$field as usize),
                write: |settings, position| settings.$section.$field = $choice::ALL[position],
            },
        }
    };
}

/// Longest path of a Unix socket: `sun_path` holds 108 bytes, the last of them zero (unix(7)).
const SOCKET_PATH_MAX_BYTES: usize = 107;
/// Longest directory, well below `PATH_MAX` so that file names fit behind it.
const DIR_MAX_BYTES: usize = 1024;
/// Longest host name (RFC 1035).
const HOST_MAX_BYTES: usize = 253;
/// Smallest limits on what a client may send, as in Redis.
const MIN_CLIENT_LIMIT_BYTES: u64 = 1 << 20;
const I32_MAX: u64 = i32::MAX as u64;
const I64_MAX: u64 = i64::MAX as u64;

/// Every setting, in the order of the documentation.
pub static DIRECTIVES: [Directive; 24] = [
    Directive {
        section: "server",
        key: "port",
        flag: Some("--port"),
        env: Some("KEVY_PORT"),
        name: "port",
        kind: Kind::Integer {
            min: 1,
            max: 65535,
            unit: "",
            field: number!(server.port: u16),
        },
        expects: None,
        live: Live::Immutable,
        about: "TCP port for every client and every command.",
    },
    Directive {
        section: "server",
        key: "bind",
        flag: Some("--bind"),
        env: Some("KEVY_BIND"),
        name: "bind",
        kind: Kind::Addresses(Field {
            read: |settings| Some(settings.server.bind.clone()),
            write: |settings, addresses| settings.server.bind = addresses,
        }),
        expects: None,
        live: Live::Immutable,
        about: "Addresses to listen on: one, a list, or several separated by spaces or commas. `*` is every IPv4 and `::*` every IPv6 address. kevy has no AUTH and no TLS by design, so leave it on loopback unless something in front of it guards it.",
    },
    Directive {
        section: "server",
        key: "unixsocket",
        flag: Some("--unixsocket"),
        env: Some("KEVY_UNIXSOCKET"),
        name: "unixsocket",
        kind: Kind::Text {
            max_bytes: SOCKET_PATH_MAX_BYTES,
            what: "a path",
            field: optional_text!(server.unixsocket),
        },
        expects: None,
        live: Live::Immutable,
        about: "Path of a Unix socket to listen on as well.",
    },
    Directive {
        section: "server",
        key: "unixsocketperm",
        flag: Some("--unixsocketperm"),
        env: Some("KEVY_UNIXSOCKETPERM"),
        name: "unixsocketperm",
        kind: Kind::Mode(plain!(server.unixsocketperm)),
        expects: None,
        live: Live::Immutable,
        about: "Permission bits of the Unix socket; 0 leaves what the umask gives.",
    },
    Directive {
        section: "server",
        key: "threads",
        flag: Some("--threads"),
        env: Some("KEVY_THREADS"),
        name: "threads",
        kind: Kind::Integer {
            min: 0,
            max: MAX_SHARDS as u64,
            unit: "",
            field: number!(server.threads: u16),
        },
        expects: None,
        live: Live::Immutable,
        about: "Number of shards, each a thread pinned to a core. 0: one per usable core (CPU affinity and cgroup limits respected).",
    },
    Directive {
        section: "server",
        key: "accept_shards",
        flag: Some("--accept-shards"),
        env: Some("KEVY_ACCEPT_SHARDS"),
        name: "accept-shards",
        kind: Kind::Integer {
            min: 1,
            max: MAX_SHARDS as u64,
            unit: "",
            field: optional_number!(server.accept_shards: u16),
        },
        expects: Some("an integer from 1 to the number of threads"),
        live: Live::Immutable,
        about: "Only shards 0 to N-1 accept connections; the others only compute. For few clients on many threads: about one accepting shard per 20 connections. Unset: every shard accepts.",
    },
    Directive {
        section: "server",
        key: "maxclients",
        flag: Some("--maxclients"),
        env: Some("KEVY_MAXCLIENTS"),
        name: "maxclients",
        kind: Kind::Integer {
            min: 1,
            max: u32::MAX as u64,
            unit: "",
            field: number!(server.maxclients: u32),
        },
        expects: None,
        live: Live::Yes,
        about: "Most clients connected at once; a further one gets an error.",
    },
    Directive {
        section: "server",
        key: "timeout",
        flag: Some("--timeout"),
        env: Some("KEVY_TIMEOUT"),
        name: "timeout",
        kind: Kind::Integer {
            min: 0,
            max: I32_MAX,
            unit: "seconds",
            field: number!(server.timeout: u32),
        },
        expects: None,
        live: Live::Yes,
        about: "Close a client that was idle for so long. 0: never.",
    },
    Directive {
        section: "server",
        key: "tcp_keepalive",
        flag: Some("--tcp-keepalive"),
        env: Some("KEVY_TCP_KEEPALIVE"),
        name: "tcp-keepalive",
        kind: Kind::Integer {
            min: 0,
            max: I32_MAX,
            unit: "seconds",
            field: number!(server.tcp_keepalive: u32),
        },
        expects: None,
        live: Live::Immutable,
        about: "Time between TCP keepalive probes on client connections. 0: none.",
    },
    Directive {
        section: "server",
        key: "tcp_backlog",
        flag: Some("--tcp-backlog"),
        env: Some("KEVY_TCP_BACKLOG"),
        name: "tcp-backlog",
        kind: Kind::Integer {
            min: 1,
            max: I32_MAX,
            unit: "",
            field: number!(server.tcp_backlog: u32),
        },
        expects: None,
        live: Live::Immutable,
        about: "Connections that may wait to be accepted, per listener; the kernel cuts it to net.core.somaxconn.",
    },
    Directive {
        section: "server",
        key: "proto_max_bulk_len",
        flag: Some("--proto-max-bulk-len"),
        env: Some("KEVY_PROTO_MAX_BULK_LEN"),
        name: "proto-max-bulk-len",
        kind: Kind::Memory {
            min: MIN_CLIENT_LIMIT_BYTES,
            max: I64_MAX,
            field: plain!(server.proto_max_bulk_len),
        },
        expects: None,
        live: Live::Yes,
        about: "Longest single argument or value.",
    },
    Directive {
        section: "server",
        key: "client_query_buffer_limit",
        flag: Some("--client-query-buffer-limit"),
        env: Some("KEVY_CLIENT_QUERY_BUFFER_LIMIT"),
        name: "client-query-buffer-limit",
        kind: Kind::Memory {
            min: MIN_CLIENT_LIMIT_BYTES,
            max: I64_MAX,
            field: plain!(server.client_query_buffer_limit),
        },
        expects: None,
        live: Live::Yes,
        about: "Close a client of which so much unprocessed input has gathered.",
    },
    Directive {
        section: "server",
        key: "client_output_buffer_limit",
        flag: Some("--client-output-buffer-limit"),
        env: Some("KEVY_CLIENT_OUTPUT_BUFFER_LIMIT"),
        name: "client-output-buffer-limit",
        kind: Kind::OutputLimits(plain!(server.client_output_buffer_limit)),
        expects: None,
        live: Live::Yes,
        about: "Close a client that leaves more than the hard limit unread, or more than the soft limit for the soft seconds. 0: no limit. Classes not named keep their limits.",
    },
    Directive {
        section: "server",
        key: "maxmemory",
        flag: Some("--maxmemory"),
        env: Some("KEVY_MAXMEMORY"),
        name: "maxmemory",
        kind: Kind::Memory {
            min: 0,
            max: u64::MAX,
            field: plain!(server.maxmemory),
        },
        expects: None,
        live: Live::Yes,
        about: "Memory for data, over all shards; above it maxmemory_policy decides. 0: no limit.",
    },
    Directive {
        section: "server",
        key: "maxmemory_policy",
        flag: Some("--maxmemory-policy"),
        env: Some("KEVY_MAXMEMORY_POLICY"),
        name: "maxmemory-policy",
        kind: choice!(server.maxmemory_policy: MaxmemoryPolicy),
        expects: None,
        live: Live::Yes,
        about: "What gives way at maxmemory.",
    },
    Directive {
        section: "server",
        key: "hz",
        flag: Some("--hz"),
        env: Some("KEVY_HZ"),
        name: "hz",
        kind: Kind::Integer {
            min: 0,
            max: I32_MAX,
            unit: "times per second",
            field: Field {
                read: |settings| Some(u64::from(settings.server.hz)),
                write: |settings, hz| settings.server.hz = hz.clamp(1, 500) as u32,
            },
        },
        expects: Some("an integer; outside 1 to 500 the nearest of them counts, as in Redis"),
        live: Live::Yes,
        about: "How often per second each shard does its background work (expiry, idle clients).",
    },
    Directive {
        section: "server",
        key: "dir",
        flag: Some("--dir"),
        env: Some("KEVY_DIR"),
        name: "dir",
        kind: Kind::Text {
            max_bytes: DIR_MAX_BYTES,
            what: "a path",
            field: Field {
                read: |settings| Some(settings.server.dir.clone()),
                write: |settings, dir| settings.server.dir = dir,
            },
        },
        expects: None,
        live: Live::Protected,
        about: "Data directory.",
    },
    Directive {
        section: "server",
        key: "loglevel",
        flag: Some("--loglevel"),
        env: Some("KEVY_LOGLEVEL"),
        name: "loglevel",
        kind: choice!(server.loglevel: LogLevel),
        expects: None,
        live: Live::Yes,
        about: "How much is logged.",
    },
    Directive {
        section: "server",
        key: "logformat",
        flag: Some("--logformat"),
        env: Some("KEVY_LOGFORMAT"),
        name: "logformat",
        kind: choice!(server.logformat: LogFormat),
        expects: None,
        live: Live::Immutable,
        about: "How a log line looks.",
    },
    Directive {
        section: "cluster",
        key: "enabled",
        flag: Some("--cluster"),
        env: Some("KEVY_CLUSTER"),
        name: "cluster-enabled",
        kind: Kind::Switch(plain!(cluster.enabled)),
        expects: None,
        live: Live::Immutable,
        about: "Shard i also listens on port_base + 1 + i and answers there as a Redis Cluster node.",
    },
    Directive {
        section: "cluster",
        key: "port_base",
        flag: None,
        env: None,
        name: "cluster-port-base",
        kind: Kind::Integer {
            min: 1,
            max: 65534,
            unit: "",
            field: optional_number!(cluster.port_base: u16),
        },
        expects: None,
        live: Live::Immutable,
        about: "Port below the shards' ports. Unset: the value of port.",
    },
    Directive {
        section: "cluster",
        key: "announce_host",
        flag: None,
        env: Some("KEVY_CLUSTER_ANNOUNCE_HOST"),
        name: "cluster-announce-host",
        kind: Kind::Text {
            max_bytes: HOST_MAX_BYTES,
            what: "a host name or an address",
            field: optional_text!(cluster.announce_host),
        },
        expects: None,
        live: Live::Immutable,
        about: "Host that cluster clients are told. Unset: the address that the client connected to.",
    },
    Directive {
        section: "cluster",
        key: "announce_port_base",
        flag: None,
        env: Some("KEVY_CLUSTER_ANNOUNCE_PORT_BASE"),
        name: "cluster-announce-port-base",
        kind: Kind::Integer {
            min: 1,
            max: 65534,
            unit: "",
            field: optional_number!(cluster.announce_port_base: u16),
        },
        expects: None,
        live: Live::Immutable,
        about: "Cluster clients are told this + 1 + i as the port of shard i, for a server behind a port mapping. Unset: the value of port_base.",
    },
    Directive {
        section: "persistence",
        key: "aof",
        flag: Some("--no-aof"),
        env: Some("KEVY_AOF"),
        name: "appendonly",
        kind: Kind::Switch(plain!(persistence.aof)),
        expects: Some("false: this version keeps data in memory only"),
        live: Live::Fixed("this version keeps data in memory only"),
        about: "Log every write to disk. Not in this version: true is refused rather than pretended.",
    },
];

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
        assert!(distinct(DIRECTIVES.iter().map(|row| row.name)));
        assert!(distinct(DIRECTIVES.iter().filter_map(|row| row.flag)));
        assert!(distinct(DIRECTIVES.iter().filter_map(|row| row.env)));
        for row in &DIRECTIVES {
            let found = Directive::by_key(row.section, row.key).unwrap();
            assert_eq!(found.name, row.name);
        }
    }

    #[test]
    fn names_follow_from_the_key_unless_the_user_guide_says_otherwise() {
        for row in &DIRECTIVES {
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
            Kind::Integer { .. } => "77",
            Kind::Memory { .. } => "77mb",
            Kind::Mode(_) => "750",
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
        };
        for row in &DIRECTIVES {
            let mut settings = Settings::default();
            row.kind.set(&mut settings, other_value(row)).unwrap();
            let changed =
                |other: &&Directive| other.kind.toml_text(&settings) != other.default_toml();
            let names: Vec<&str> = DIRECTIVES
                .iter()
                .filter(changed)
                .map(|other| other.name)
                .collect();
            assert_eq!(names, [row.name]);
        }
    }
}
