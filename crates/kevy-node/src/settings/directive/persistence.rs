//! `[persistence]`: what survives a restart.

use super::super::AppendFsync;
use super::super::kind::{Field, Kind};
use super::super::save_points::{parse_save_points, save_points_text};
use super::fields::{choice, number, plain};
use super::{Directive, I32_MAX, I64_MAX, Live, ROW};

/// The rows.
pub(super) static ROWS: [Directive; 5] = [
    Directive {
        section: "persistence",
        key: "aof",
        flag: Some("--no-aof"),
        env: Some("KEVY_AOF"),
        name: "appendonly",
        kind: Kind::Switch(plain!(persistence.aof)),
        live: Live::Fixed("the log is begun at the start; restart kevy with or without it"),
        about: "Log every write to disk, in `dir`. Without it everything is gone after a restart.",
        ..ROW
    },
    Directive {
        section: "persistence",
        key: "appendfsync",
        name: "appendfsync",
        kind: choice!(persistence.appendfsync: AppendFsync),
        about: "When what was logged is made durable: before the reply, every second, or when the system likes to.",
        ..ROW
    },
    Directive {
        section: "persistence",
        key: "auto_aof_rewrite_percentage",
        name: "auto-aof-rewrite-percentage",
        kind: Kind::Integer {
            min: 0,
            max: I32_MAX,
            unit: " percent",
            field: number!(persistence.auto_aof_rewrite_percentage: u32),
        },
        about: "By how many percent of the last snapshot's size the log grows until a snapshot takes its place. 0: never.",
        ..ROW
    },
    Directive {
        section: "persistence",
        key: "auto_aof_rewrite_min_size",
        name: "auto-aof-rewrite-min-size",
        kind: Kind::Memory {
            min: 0,
            max: I64_MAX as u64,
            field: plain!(persistence.auto_aof_rewrite_min_size),
        },
        about: "A log below this size is left alone. All shards together.",
        ..ROW
    },
    Directive {
        section: "persistence",
        key: "save",
        name: "save",
        kind: Kind::Notation {
            parse: |settings, text| {
                settings.persistence.save = parse_save_points(text)?;
                Ok(())
            },
            show: |settings| save_points_text(&settings.persistence.save),
            expects: "pairs \"<seconds> <changes>\", or nothing",
        },
        about: "After how many seconds with how many changes a snapshot is due. The log needs none: this only bounds how long a start takes.",
        ..ROW
    },
];
