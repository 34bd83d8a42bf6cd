//! The part of `[server]` about memory: what it may hold, what gives way, what is freed where.

use super::super::MaxmemoryPolicy;
use super::super::kind::{Field, Kind};
use super::fields::{choice, number, plain};
use super::{Directive, I32_MAX, Live, ROW};

/// The rows.
pub(super) static ROWS: [Directive; 10] = [
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
        live: Live::Yes,
        about: "Memory for data, over all shards; above it maxmemory_policy decides. 0: no limit.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "maxmemory_policy",
        flag: Some("--maxmemory-policy"),
        env: Some("KEVY_MAXMEMORY_POLICY"),
        name: "maxmemory-policy",
        kind: choice!(server.maxmemory_policy: MaxmemoryPolicy),
        live: Live::Yes,
        about: "What gives way at maxmemory.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "maxmemory_samples",
        name: "maxmemory-samples",
        kind: Kind::Integer {
            min: 1,
            max: I32_MAX,
            unit: "",
            field: number!(memory.maxmemory_samples: u32),
        },
        about: "How many keys are compared to find the one that gives way: more are slower and closer to the true LRU or LFU.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "maxmemory_eviction_tenacity",
        name: "maxmemory-eviction-tenacity",
        kind: Kind::Integer {
            min: 0,
            max: 100,
            unit: "",
            field: number!(memory.maxmemory_eviction_tenacity: u32),
        },
        about: "How many keys one command may evict: 10 is 1000, each step below it 100 fewer, each above 15 % more, 100 as many as it takes.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "active_expire_effort",
        name: "active-expire-effort",
        kind: Kind::Integer {
            min: 1,
            max: 10,
            unit: "",
            field: number!(memory.active_expire_effort: u32),
        },
        about: "How eagerly keys are removed that have expired and that nobody asks for: up to 200 times so many in one turn.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "lazyfree_lazy_eviction",
        name: "lazyfree-lazy-eviction",
        kind: Kind::Switch(plain!(memory.lazyfree_lazy_eviction)),
        about: "Whether values that are evicted may be freed later. Accepted for compatibility: each shard frees its values at once.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "lazyfree_lazy_expire",
        name: "lazyfree-lazy-expire",
        kind: Kind::Switch(plain!(memory.lazyfree_lazy_expire)),
        about: "Whether values that are expired may be freed later. Accepted for compatibility: each shard frees its values at once.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "lazyfree_lazy_server_del",
        name: "lazyfree-lazy-server-del",
        kind: Kind::Switch(plain!(memory.lazyfree_lazy_server_del)),
        about: "Whether values that are replaced by a command may be freed later. Accepted for compatibility: each shard frees its values at once.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "lazyfree_lazy_user_del",
        name: "lazyfree-lazy-user-del",
        kind: Kind::Switch(plain!(memory.lazyfree_lazy_user_del)),
        about: "Whether values that are removed by DEL may be freed later. Accepted for compatibility: each shard frees its values at once.",
        ..ROW
    },
    Directive {
        section: "server",
        key: "lazyfree_lazy_user_flush",
        name: "lazyfree-lazy-user-flush",
        kind: Kind::Switch(plain!(memory.lazyfree_lazy_user_flush)),
        about: "Whether values that are removed by FLUSHALL and FLUSHDB may be freed later. Accepted for compatibility: each shard frees its values at once.",
        ..ROW
    },
];
