//! `[persistence]`: what survives a restart.

use super::super::kind::{Field, Kind};
use super::super::save_points::{parse_save_points, save_points_text};
use super::fields::plain;
use super::{Directive, Live, ROW};

/// The rows.
pub(super) static ROWS: [Directive; 2] = [
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
        about: "After how many seconds with how many changes a snapshot is due. Without effect in this version, which keeps data in memory only.",
        ..ROW
    },
];
