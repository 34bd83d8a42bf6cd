//! `[server]`: sockets, shards, limits on clients, logs.

use super::super::kind::{Field, Kind};
use super::super::{LogFormat, LogLevel, MAX_SHARDS};
use super::fields::{choice, number, optional_number, optional_text, plain};
use super::{Directive, I32_MAX, I64_MAX, Live, RESTART, ROW};

/// Longest path of a Unix socket: `sun_path` holds 108 bytes, the last of them zero (unix(7)).
const SOCKET_PATH_MAX_BYTES: usize = 107;
/// Longest directory, well below `PATH_MAX` so that file names fit behind it.
const DIR_MAX_BYTES: usize = 1024;
/// Smallest limits on what a client may send, as in Redis.
const MIN_CLIENT_LIMIT_BYTES: u64 = 1 << 20;

/// The rows.
pub(super) static ROWS: [Directive; 19] = [
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
        live: Live::Fixed("Unable to listen on this port before a restart"),
        about: "TCP port for every client and every command.",
        ..ROW
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
        live: Live::Fixed(RESTART),
        about: "Addresses to listen on: one, a list, or several separated by spaces or commas. `*` is every IPv4 and `::*` every IPv6 address. kevy has no AUTH and no TLS by design, so leave it on loopback unless something in front of it guards it.",
        ..ROW
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
        live: Live::Immutable,
        about: "Path of a Unix socket to listen on as well.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "unixsocketperm",
        flag: Some("--unixsocketperm"),
        env: Some("KEVY_UNIXSOCKETPERM"),
        name: "unixsocketperm",
        kind: Kind::Mode(plain!(server.unixsocketperm)),
        live: Live::Immutable,
        about: "Permission bits of the Unix socket; 0 leaves what the umask gives.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "threads",
        flag: Some("--threads"),
        env: Some("KEVY_THREADS"),
        name: "threads",
        kind: Kind::Integer {
            min: 0,
            max: MAX_SHARDS as i64,
            unit: "",
            field: number!(server.threads: u16),
        },
        live: Live::Fixed(RESTART),
        about: "Number of shards, each a thread pinned to a core. 0: one per usable core (CPU affinity and cgroup limits respected).",
        ..ROW
    },
    Directive {
        section: "server",
        key: "accept_shards",
        flag: Some("--accept-shards"),
        env: Some("KEVY_ACCEPT_SHARDS"),
        name: "accept-shards",
        kind: Kind::Integer {
            min: 1,
            max: MAX_SHARDS as i64,
            unit: "",
            field: optional_number!(server.accept_shards: u16),
        },
        expects: Some("an integer from 1 to the number of threads"),
        live: Live::Fixed(RESTART),
        about: "Only shards 0 to N-1 accept connections; the others only compute. For few clients on many threads: about one accepting shard per 20 connections. Unset: every shard accepts.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "maxclients",
        flag: Some("--maxclients"),
        env: Some("KEVY_MAXCLIENTS"),
        name: "maxclients",
        kind: Kind::Integer {
            min: 1,
            max: u32::MAX as i64,
            unit: "",
            field: number!(server.maxclients: u32),
        },
        live: Live::Yes,
        about: "Most clients connected at once; a further one gets an error.",
        ..ROW
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
        live: Live::Yes,
        about: "Close a client that was idle for so long. 0: never.",
        ..ROW
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
        live: Live::Fixed(RESTART),
        about: "Time between TCP keepalive probes on client connections. 0: none.",
        ..ROW
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
        live: Live::Immutable,
        about: "Connections that may wait to be accepted, per listener; the kernel cuts it to net.core.somaxconn.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "proto_max_bulk_len",
        flag: Some("--proto-max-bulk-len"),
        env: Some("KEVY_PROTO_MAX_BULK_LEN"),
        name: "proto-max-bulk-len",
        kind: Kind::Memory {
            min: MIN_CLIENT_LIMIT_BYTES,
            max: I64_MAX as u64,
            field: plain!(server.proto_max_bulk_len),
        },
        live: Live::Yes,
        about: "Longest single argument or value.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "client_query_buffer_limit",
        flag: Some("--client-query-buffer-limit"),
        env: Some("KEVY_CLIENT_QUERY_BUFFER_LIMIT"),
        name: "client-query-buffer-limit",
        kind: Kind::Memory {
            min: MIN_CLIENT_LIMIT_BYTES,
            max: I64_MAX as u64,
            field: plain!(server.client_query_buffer_limit),
        },
        live: Live::Yes,
        about: "Close a client of which so much unprocessed input has gathered.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "client_output_buffer_limit",
        flag: Some("--client-output-buffer-limit"),
        env: Some("KEVY_CLIENT_OUTPUT_BUFFER_LIMIT"),
        name: "client-output-buffer-limit",
        kind: Kind::OutputLimits(plain!(server.client_output_buffer_limit)),
        live: Live::Yes,
        about: "Close a client that leaves more than the hard limit unread, or more than the soft limit for the soft seconds. 0: no limit. Classes not named keep their limits.",
        ..ROW
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
                read: |settings| Some(i64::from(settings.server.hz)),
                write: |settings, hz| settings.server.hz = hz.clamp(1, 500) as u32,
            },
        },
        expects: Some("an integer; outside 1 to 500 the nearest of them counts, as in Redis"),
        live: Live::Yes,
        about: "How often per second each shard does its background work (expiry, idle clients).",
        ..ROW
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
        live: Live::Protected,
        about: "Data directory.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "loglevel",
        flag: Some("--loglevel"),
        env: Some("KEVY_LOGLEVEL"),
        name: "loglevel",
        kind: choice!(server.loglevel: LogLevel),
        live: Live::Yes,
        about: "How much is logged.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "logformat",
        flag: Some("--logformat"),
        env: Some("KEVY_LOGFORMAT"),
        name: "logformat",
        kind: choice!(server.logformat: LogFormat),
        live: Live::Fixed(RESTART),
        about: "How a log line looks.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "tracking_table_max_keys",
        name: "tracking-table-max-keys",
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: number!(server.tracking_table_max_keys: u64),
        },
        about: "Most keys that are remembered for clients that track them; above it clients are told to forget some. 0: no limit.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "busy_reply_threshold",
        name: "busy-reply-threshold",
        alias: Some("lua-time-limit"),
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "milliseconds",
            field: number!(server.busy_reply_threshold: u64),
        },
        about: "How long a script may run before other clients are told that the server is busy. Without effect while there are no scripts.",
        ..ROW
    },
];
