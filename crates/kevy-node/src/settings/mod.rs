//! What a user may set, as one table: the command line, the environment, `kevy.toml`, `CONFIG GET`, `CONFIG SET` and the
//! documentation all read [`directives`]; there is no second list.
//!
//! Nothing here opens a file or looks at the environment: the binary hands in text ([`Inputs`]) and gets [`Settings`],
//! or every [`Fault`] at once. A setting comes from the command line, else from the environment, else from the file,
//! else it has its default.
//!
//! * [`directive`]: the table. A setting is added as one row there and one field here.
//! * [`kind`]: how the text of a value becomes a value, and back.
//! * [`sources`]: from inputs to settings; `file` reads `kevy.toml`, `together` judges what binds several settings.
//! * [`live`]: `CONFIG GET` and `CONFIG SET`.
//! * [`rewrite`]: `CONFIG REWRITE`.
//! * [`document`]: `docs/CONFIGURATION.md`, `kevy.toml.example` and the effective settings as TOML.
//!
//! ```
//! use kevy_node::settings::{Inputs, Settings};
//!
//! let inputs = Inputs { flags: vec![("--port", "7000".into())], ..Inputs::default() };
//! let settings = Settings::resolve(&inputs, 4).expect("no faults");
//! assert_eq!((settings.server.port, settings.server.threads), (7000, 4));
//! ```

pub mod constants;
pub mod directive;
pub mod document;
pub mod fault;
mod file;
pub mod kind;
pub mod live;
pub mod monitoring;
mod notification;
pub mod rewrite;
pub mod save_points;
pub mod sources;
mod together;

pub use directive::{Directive, Live, directives};
pub use fault::{Fault, Origin};
pub use live::Change;
pub use monitoring::Monitoring;
pub use save_points::SavePoint;
pub use sources::{ConfigFile, Inputs};

use core::net::{IpAddr, Ipv4Addr};
use kevy_engine::value::EncodingLimits;

/// Most shards one process may have.
pub const MAX_SHARDS: u16 = 1024;

/// Everything that is set, checked as a whole by [`Settings::resolve`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `[server]`.
    pub server: Server,
    /// The part of `[server]` about memory.
    pub memory: Memory,
    /// `[encoding]`.
    pub encoding: Encoding,
    /// `[monitoring]`.
    pub monitoring: Monitoring,
    /// `[cluster]`.
    pub cluster: Cluster,
    /// `[persistence]`.
    pub persistence: Persistence,
}

/// `[server]`: sockets, shards, limits on clients and memory, logs. Each field is documented by its row in [`directives`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the row of each field says what it means, and is what users read"
)]
pub struct Server {
    pub port: u16,
    pub bind: Vec<IpAddr>,
    pub unixsocket: Option<String>,
    /// Permission bits; 0: whatever the umask leaves.
    pub unixsocketperm: u32,
    /// Number of shards; never 0 once resolved.
    pub threads: u16,
    /// Shards `0..accept_shards` accept connections; `None`: all of them. See [`Settings::accepting_shards`].
    pub accept_shards: Option<u16>,
    pub maxclients: u32,
    /// In seconds; 0: never.
    pub timeout: u32,
    /// In seconds; 0: off.
    pub tcp_keepalive: u32,
    pub tcp_backlog: u32,
    /// In bytes.
    pub proto_max_bulk_len: u64,
    /// In bytes.
    pub client_query_buffer_limit: u64,
    pub client_output_buffer_limit: OutputLimits,
    /// In bytes; 0: no limit.
    pub maxmemory: u64,
    pub maxmemory_policy: MaxmemoryPolicy,
    /// Times per second, 1 to 500.
    pub hz: u32,
    pub dir: String,
    pub loglevel: LogLevel,
    pub logformat: LogFormat,
    pub tracking_table_max_keys: u64,
    /// In milliseconds.
    pub busy_reply_threshold: u64,
}

/// The part of `[server]` about how memory is kept within its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the row of each field says what it means, and is what users read"
)]
#[expect(clippy::struct_excessive_bools, reason = "Redis has five switches")]
pub struct Memory {
    pub maxmemory_samples: u32,
    pub maxmemory_eviction_tenacity: u32,
    pub active_expire_effort: u32,
    pub lazyfree_lazy_eviction: bool,
    pub lazyfree_lazy_expire: bool,
    pub lazyfree_lazy_server_del: bool,
    pub lazyfree_lazy_user_del: bool,
    pub lazyfree_lazy_user_flush: bool,
}

/// `[encoding]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// What the engine heeds. The seed in it is each shard's own.
    pub limits: EncodingLimits,
    /// Accepted, without effect.
    pub list_compress_depth: u32,
}

/// `[cluster]`: the shards as Redis Cluster nodes on ports of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Whether shard `i` also listens on `port_base + 1 + i`.
    pub enabled: bool,
    /// See [`Settings::port_base`].
    pub port_base: Option<u16>,
    /// Host that clients are told; `None`: the address they connected to.
    pub announce_host: Option<String>,
    /// See [`Settings::announce_port_base`].
    pub announce_port_base: Option<u16>,
}

/// `[persistence]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// Whether writes are logged to disk.
    pub aof: bool,
    /// When what was logged is made durable.
    pub appendfsync: AppendFsync,
    /// By how many percent of the last snapshot's size the log grows until the next snapshot; 0: never.
    pub auto_aof_rewrite_percentage: u32,
    /// Below this size the log is left alone, in bytes, of all shards together.
    pub auto_aof_rewrite_min_size: u64,
    /// When snapshots are due besides.
    pub save: Vec<SavePoint>,
}

impl Default for Persistence {
    fn default() -> Self {
        Self {
            aof: true,
            appendfsync: AppendFsync::Everysec,
            auto_aof_rewrite_percentage: 100,
            auto_aof_rewrite_min_size: 64 << 20,
            save: Vec::new(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            port: 6004,
            bind: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            unixsocket: None,
            unixsocketperm: 0,
            threads: 0,
            accept_shards: None,
            maxclients: 10_000,
            timeout: 0,
            tcp_keepalive: 300,
            tcp_backlog: 511,
            proto_max_bulk_len: 512 << 20,
            client_query_buffer_limit: 1 << 30,
            client_output_buffer_limit: OutputLimits::default(),
            maxmemory: 0,
            maxmemory_policy: MaxmemoryPolicy::NoEviction,
            hz: 10,
            dir: "./data".into(),
            loglevel: LogLevel::Notice,
            logformat: LogFormat::Text,
            tracking_table_max_keys: 1_000_000,
            busy_reply_threshold: 5000,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            maxmemory_samples: 5,
            maxmemory_eviction_tenacity: 10,
            active_expire_effort: 1,
            lazyfree_lazy_eviction: false,
            lazyfree_lazy_expire: false,
            lazyfree_lazy_server_del: false,
            lazyfree_lazy_user_del: false,
            lazyfree_lazy_user_flush: false,
        }
    }
}

impl Settings {
    /// How many shards accept connections: shards `0..n`.
    pub fn accepting_shards(&self) -> u16 {
        self.server.accept_shards.unwrap_or(self.server.threads)
    }

    /// Whether a machine other than this one can reach a TCP listener.
    pub fn reachable_from_outside(&self) -> bool {
        self.server
            .bind
            .iter()
            .any(|address| !address.is_loopback())
    }

    /// In cluster mode shard `i` listens on this port + 1 + `i`.
    pub fn port_base(&self) -> u16 {
        self.cluster.port_base.unwrap_or(self.server.port)
    }

    /// In cluster mode clients are told this port + 1 + `i` for shard `i`.
    pub fn announce_port_base(&self) -> u16 {
        self.cluster
            .announce_port_base
            .unwrap_or_else(|| self.port_base())
    }
}

/// How much may wait to be sent to a client before it is disconnected, by class of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Ordinary clients, `MONITOR` included.
    pub normal: OutputLimit,
    /// Replicas.
    pub replica: OutputLimit,
    /// Clients subscribed to at least one channel or pattern.
    pub pubsub: OutputLimit,
}

/// The limit of one class. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Disconnected at once above this many bytes.
    pub hard_bytes: u64,
    /// Disconnected when above this many bytes for `soft_seconds` without a pause.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u64,
}

impl Default for OutputLimits {
    fn default() -> Self {
        let limit = |hard_mb: u64, soft_mb: u64, soft_seconds| OutputLimit {
            hard_bytes: hard_mb << 20,
            soft_bytes: soft_mb << 20,
            soft_seconds,
        };
        Self {
            normal: limit(0, 0, 0),
            replica: limit(256, 64, 60),
            pubsub: limit(32, 8, 60),
        }
    }
}

/// An enum whose variants have the names that a user writes.
macro_rules! named_choices {
    ($(#[$about:meta])* $choice:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $choice {
            $($(#[$meaning])* $variant,)+
        }

        impl $choice {
            /// Every choice, in the order of [`Self::NAMES`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// The names as a user writes them.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// The name as a user writes it.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}

named_choices! {
    /// What gives way when `maxmemory` is reached. The order is that of Redis's messages.
    MaxmemoryPolicy {
        /// Least recently used among keys with a time to live.
        VolatileLru = "volatile-lru",
        /// Least frequently used among keys with a time to live.
        VolatileLfu = "volatile-lfu",
        /// Any key with a time to live.
        VolatileRandom = "volatile-random",
        /// The key that expires next.
        VolatileTtl = "volatile-ttl",
        /// Least recently used key.
        AllkeysLru = "allkeys-lru",
        /// Least frequently used key.
        AllkeysLfu = "allkeys-lfu",
        /// Any key.
        AllkeysRandom = "allkeys-random",
        /// Nothing: commands that need memory get an error.
        NoEviction = "noeviction",
    }
}

named_choices! {
    /// When what was logged is made durable.
    AppendFsync {
        /// Before the reply.
        Always = "always",
        /// Every second.
        Everysec = "everysec",
        /// When the operating system likes to.
        No = "no",
    }
}

named_choices! {
    /// How much is logged.
    LogLevel {
        /// Everything, for developers.
        Debug = "debug",
        /// Much that is rarely useful.
        Verbose = "verbose",
        /// What an operator wants to know.
        Notice = "notice",
        /// Only what needs attention.
        Warning = "warning",
    }
}

named_choices! {
    /// How a log line looks.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

impl LogLevel {
    /// The least important level that is still logged.
    pub fn as_tracing(self) -> tracing::Level {
        match self {
            Self::Debug => tracing::Level::TRACE,
            Self::Verbose => tracing::Level::DEBUG,
            Self::Notice => tracing::Level::INFO,
            Self::Warning => tracing::Level::WARN,
        }
    }
}
