//! The commands of the engine, a file per family.

#![allow(
    clippy::unnecessary_wraps,
    reason = "all commands have one signature, whether they can fail or not"
)]

mod bitfield;
mod bitmap;
mod lcs;
mod string;

pub use string::LONGEST_STRING_BYTES;

use crate::Command;

/// Every command of the engine, family by family.
pub fn families() -> impl Iterator<Item = &'static [Command]> {
    [
        string::get::COMMANDS,
        string::set::COMMANDS,
        string::change::COMMANDS,
        string::increment::COMMANDS,
        lcs::COMMANDS,
        bitmap::COMMANDS,
        bitfield::COMMANDS,
    ]
    .into_iter()
}
