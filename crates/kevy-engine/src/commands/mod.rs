//! The commands of the engine, a file per family.

#![allow(
    clippy::unnecessary_wraps,
    reason = "all commands have one signature, those included that cannot fail"
)]

mod dump;
mod expiry;
mod generic;
mod keys;
mod object;
mod sort;

use crate::Command;
use kevy_proto::resp::Args;

/// Every command of the engine, family by family.
pub fn families() -> impl Iterator<Item = &'static [Command]> {
    [
        dump::COMMANDS,
        expiry::COMMANDS,
        generic::COMMANDS,
        keys::COMMANDS,
        object::COMMANDS,
        sort::COMMANDS,
    ]
    .into_iter()
}

/// Whether the argument at `position` is the option `name`, in any case.
pub(crate) fn is_option(args: Args<'_>, position: usize, name: &str) -> bool {
    args.at(position).eq_ignore_ascii_case(name.as_bytes())
}
