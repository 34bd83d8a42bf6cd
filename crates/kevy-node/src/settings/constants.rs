//! Settings of Redis that kevy has once and for all: clients ask for them, and these answers are true.

use super::directive::{Live, RESTART};

/// The settings.
pub const CONSTANTS: [Constant; 12] = [
    Constant {
        name: "databases",
        value: "1",
        live: Live::Immutable,
        about: "There is one database, `SELECT 0`.",
        ..CONSTANT
    },
    Constant {
        name: "activedefrag",
        value: "no",
        live: Live::Fixed(
            "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified Jemalloc like the one shipped by default with the Redis source distribution",
        ),
        about: "The allocator is not defragmented.",
        ..CONSTANT
    },
    Constant {
        name: "lfu-log-factor",
        value: "10",
        live: Live::Fixed("kevy has no other factor"),
        about: "How slowly the access counters of keys rise.",
        ..CONSTANT
    },
    Constant {
        name: "lfu-decay-time",
        value: "1",
        live: Live::Fixed("kevy has no other time"),
        about: "After how many minutes without access the counters fall by one.",
        ..CONSTANT
    },
    Constant {
        name: "maxmemory-clients",
        value: "0",
        live: Live::Fixed("kevy does not evict clients"),
        about: "Clients are not closed to save memory.",
        is_percentage: true,
        ..CONSTANT
    },
    Constant {
        name: "requirepass",
        value: "",
        live: Live::Fixed("kevy has no authentication by design"),
        about: "There is no authentication, by design.",
        ..CONSTANT
    },
    Constant {
        name: "daemonize",
        value: "no",
        live: Live::Immutable,
        about: "The process stays in the foreground.",
        ..CONSTANT
    },
    Constant {
        name: "supervised",
        value: "no",
        live: Live::Immutable,
        about: "No supervisor is told anything.",
        ..CONSTANT
    },
    Constant {
        name: "protected-mode",
        value: "no",
        live: Live::Fixed(RESTART),
        about: "Who may connect is what `bind` says.",
        ..CONSTANT
    },
    Constant {
        name: "replicaof",
        value: "",
        live: Live::Immutable,
        about: "The server is nobody's replica.",
        ..CONSTANT
    },
    Constant {
        name: "slaveof",
        value: "",
        live: Live::Immutable,
        about: "The older name of `replicaof`.",
        ..CONSTANT
    },
    Constant {
        name: "key-load-delay",
        value: "0",
        live: Live::Fixed("kevy loads without delay"),
        about: "Loading is not slowed down; shown only to who asks for this very name.",
        is_hidden: true,
        ..CONSTANT
    },
];

/// A setting of Redis with the only value it has in kevy.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Redis's name.
    pub name: &'static str,
    /// The value.
    pub value: &'static str,
    /// What `CONFIG SET` says: [`Live::Immutable`] or [`Live::Fixed`].
    pub live: Live,
    /// What it means, for the user.
    pub about: &'static str,
    /// Whether patterns do not find it, as in Redis.
    pub is_hidden: bool,
    /// Whether it may be a part of `maxmemory` in percent.
    pub is_percentage: bool,
}

/// What most of them have in common.
const CONSTANT: Constant = Constant {
    name: "",
    value: "",
    live: Live::Immutable,
    about: "",
    is_hidden: false,
    is_percentage: false,
};

impl Constant {
    /// Whether Redis would take the value.
    ///
    /// # Errors
    /// Redis's words for what is wrong with it.
    pub fn judge(&self, value: &str) -> Result<(), String> {
        match value.strip_suffix('%').map(str::parse::<u64>) {
            Some(Ok(101..)) if self.is_percentage => {
                Err("percentage argument must be less or equal to 100".into())
            }
            Some(_) | None => Ok(()),
        }
    }
}
