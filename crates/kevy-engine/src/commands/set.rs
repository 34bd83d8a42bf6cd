//! Sets: members added, removed and looked up ([`members`]), drawn at random ([`random`]), and sets combined ([`algebra`]).

pub(super) mod algebra;
pub(super) mod members;
pub(super) mod random;

use crate::Command;
use kevy_proto::command::{Flags, Keys, Placement, Row};

/// What most rows of sets share.
const fn row(name: &'static str, arity: i32, flags: Flags, keys: Keys, run: crate::Run) -> Command {
    Row {
        name,
        arity,
        flags,
        keys,
        placement: Placement::Together,
        group: "set",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "",
        run,
        subcommands: &[],
    }
}
