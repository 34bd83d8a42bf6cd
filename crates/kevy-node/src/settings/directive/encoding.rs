//! `[encoding]`: up to which sizes collections are kept compactly. Values keep the form they have until they next change.

use super::super::kind::{Field, Kind};
use super::fields::number;
use super::{Directive, I32_MAX, I64_MAX, ROW};

/// One of the engine's limits, a number.
macro_rules! limit {
    ($field:ident: $type:ty) => {
        Field {
            read: |settings| Some(settings.encoding.limits.$field as i64),
            write: |settings, number| settings.encoding.limits.$field = number as $type,
        }
    };
}

/// One of the engine's limits, in bytes.
macro_rules! limit_bytes {
    ($field:ident) => {
        Field {
            read: |settings| Some(settings.encoding.limits.$field as u64),
            write: |settings, bytes| settings.encoding.limits.$field = bytes as usize,
        }
    };
}

/// The rows.
pub(super) static ROWS: [Directive; 12] = [
    Directive {
        section: "encoding",
        key: "hash_max_listpack_entries",
        name: "hash-max-listpack-entries",
        alias: Some("hash-max-ziplist-entries"),
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: limit!(hash_max_listpack_entries: usize),
        },
        about: "Most fields of a hash that is kept compactly.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "hash_max_listpack_value",
        name: "hash-max-listpack-value",
        alias: Some("hash-max-ziplist-value"),
        kind: Kind::Memory {
            min: 0,
            max: I64_MAX as u64,
            field: limit_bytes!(hash_max_listpack_value),
        },
        about: "Longest field and value of a hash that is kept compactly.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "set_max_listpack_entries",
        name: "set-max-listpack-entries",
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: limit!(set_max_listpack_entries: usize),
        },
        about: "Most elements of a set that is kept compactly.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "set_max_listpack_value",
        name: "set-max-listpack-value",
        kind: Kind::Memory {
            min: 0,
            max: I64_MAX as u64,
            field: limit_bytes!(set_max_listpack_value),
        },
        about: "Longest element of a set that is kept compactly.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "zset_max_listpack_entries",
        name: "zset-max-listpack-entries",
        alias: Some("zset-max-ziplist-entries"),
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: limit!(zset_max_listpack_entries: usize),
        },
        about: "Most elements of a sorted set that is kept compactly.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "zset_max_listpack_value",
        name: "zset-max-listpack-value",
        alias: Some("zset-max-ziplist-value"),
        kind: Kind::Memory {
            min: 0,
            max: I64_MAX as u64,
            field: limit_bytes!(zset_max_listpack_value),
        },
        about: "Longest element of a sorted set that is kept compactly.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "set_max_intset_entries",
        name: "set-max-intset-entries",
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: limit!(set_max_intset_entries: usize),
        },
        about: "Most elements of a set of integers that is kept as an array of numbers.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "list_max_listpack_size",
        name: "list-max-listpack-size",
        alias: Some("list-max-ziplist-size"),
        kind: Kind::Integer {
            min: -1 - I32_MAX,
            max: I32_MAX,
            unit: "",
            field: limit!(list_max_listpack_size: i64),
        },
        about: "Most elements of a part of a list, if positive; -1 to -5: largest part of 4, 8, 16, 32 or 64 KiB.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "list_compress_depth",
        name: "list-compress-depth",
        kind: Kind::Integer {
            min: 0,
            max: I32_MAX,
            unit: "",
            field: number!(encoding.list_compress_depth: u32),
        },
        about: "Parts at each end of a list that are left uncompressed. Accepted for compatibility: lists are not compressed.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "hll_sparse_max_bytes",
        name: "hll-sparse-max-bytes",
        kind: Kind::Memory {
            min: 0,
            max: I64_MAX as u64,
            field: limit_bytes!(hll_sparse_max_bytes),
        },
        about: "Largest HyperLogLog that is kept in the sparse form.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "stream_node_max_bytes",
        name: "stream-node-max-bytes",
        kind: Kind::Memory {
            min: 0,
            max: I64_MAX as u64,
            field: limit_bytes!(stream_node_max_bytes),
        },
        about: "Largest block of entries of a stream. 0: no limit.",
        ..ROW
    },
    Directive {
        section: "encoding",
        key: "stream_node_max_entries",
        name: "stream-node-max-entries",
        kind: Kind::Integer {
            min: 0,
            max: I64_MAX,
            unit: "",
            field: limit!(stream_node_max_entries: usize),
        },
        about: "Most entries of a block of a stream. 0: no limit.",
        ..ROW
    },
];
