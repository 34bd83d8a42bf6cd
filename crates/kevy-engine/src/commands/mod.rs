//! The commands of the engine, a file per family.

#![allow(
    clippy::unnecessary_wraps,
    reason = "all commands have one signature, whether they can fail or not"
)]

mod bitfield;
mod bitmap;
mod dump;
mod element_scan;
mod expiry;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod inspect;
mod keys;
mod lcs;
mod list;
mod object;
mod set;
mod sort;
mod sorted_set;
mod stream;
mod string;

pub use sort::{sort_follows_patterns, sort_reach};
pub use stream::request_for_stream;
pub(crate) use stream::{group_has_news, stream_blocks};

use crate::Command;
use kevy_proto::resp::Args;

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
        generic::COMMANDS,
        expiry::COMMANDS,
        keys::COMMANDS,
        object::COMMANDS,
        inspect::COMMANDS,
        dump::COMMANDS,
        sort::COMMANDS,
        list::read::COMMANDS,
        list::push::COMMANDS,
        list::change::COMMANDS,
        list::pop::COMMANDS,
        list::shift::COMMANDS,
        list::blocking::COMMANDS,
        set::members::COMMANDS,
        set::random::COMMANDS,
        set::algebra::COMMANDS,
        sorted_set::add::COMMANDS,
        sorted_set::get::COMMANDS,
        sorted_set::range::COMMANDS,
        sorted_set::remove::COMMANDS,
        sorted_set::pop::COMMANDS,
        sorted_set::blocking::COMMANDS,
        sorted_set::random::COMMANDS,
        sorted_set::scan::COMMANDS,
        sorted_set::combine::COMMANDS,
        geo::COMMANDS,
        geo::search::COMMANDS,
        hash::COMMANDS,
        hash::field_expiry::COMMANDS,
        hash::expiring::COMMANDS,
        hyperloglog::COMMANDS,
        stream::write::COMMANDS,
        stream::range::COMMANDS,
        stream::read::COMMANDS,
        stream::group::COMMANDS,
        stream::pending::COMMANDS,
        stream::claim::COMMANDS,
        stream::info::COMMANDS,
    ]
    .into_iter()
}

/// Whether the argument at `position` is the option `name`, in any case.
pub(crate) fn is_option(args: Args<'_>, position: usize, name: &str) -> bool {
    args.at(position).eq_ignore_ascii_case(name.as_bytes())
}
