//! Where a request runs: a pure decision from its row, its keys and who owns them.

use kevy_engine::Command;
use kevy_engine::commands::sort_follows_patterns;
use kevy_engine::keyspace::Cursor;
use kevy_proto::command::{Flags, Keys, Placement};
use kevy_proto::ids::ShardId;
use kevy_proto::resp::Args;
use kevy_proto::slot::{SlotMap, slot_of};

use crate::host::Door;

/// Where a request runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// On this one shard.
    One(ShardId),
    /// Nowhere: the client asked the port of another shard (spec C3).
    Moved {
        /// The slot of its key.
        slot: u16,
        /// Who owns it.
        owner: ShardId,
    },
    /// On the owners of its keys, as a transaction: for each shard, in the order of their numbers, the positions of its
    /// keys.
    Owners(Vec<(ShardId, Vec<usize>)>),
    /// On every shard, as a transaction: in parts, or, if its row wants its entries together, once what it reaches is known.
    Everywhere,
}

/// Decides for the engine command `command` on the shard `here`.
pub fn route(command: &Command, args: Args<'_>, map: SlotMap, here: ShardId, door: Door) -> Route {
    match command.placement {
        Placement::Together
            if map.shards() > 1
                && command.flags.contains(Flags::MOVABLEKEYS)
                && sort_follows_patterns(args) =>
        {
            match by_keys(command.keys, args, map, here, door) {
                moved @ Route::Moved { .. } => moved,
                Route::One(_) | Route::Owners(_) | Route::Everywhere => Route::Everywhere,
            }
        }
        Placement::Together | Placement::Split(_) => by_keys(command.keys, args, map, here, door),
        Placement::EveryShard(_) if map.shards() > 1 => Route::Everywhere,
        Placement::Cursor(position) if map.shards() > 1 => {
            Route::One(by_cursor(args.at(position), map, here))
        }
        Placement::EveryShard(_) | Placement::Cursor(_) | Placement::Session | Placement::Node => {
            Route::One(here)
        }
    }
}

fn by_keys(keys: Keys, args: Args<'_>, map: SlotMap, here: ShardId, door: Door) -> Route {
    // A slot is only worth computing if somebody else could own it.
    if map.shards() == 1 {
        return Route::One(here);
    }
    if let (
        Keys::Range {
            first: 1, last: 1, ..
        },
        Some(key),
    ) = (keys, args.get(1))
    {
        return one_key(key, map, door);
    }
    let mut positions = Vec::new();
    keys.positions(args, &mut positions);
    match positions.as_slice() {
        [] => Route::One(here),
        [position] => one_key(args.at(*position), map, door),
        _ if !is_whole(keys, args) => Route::One(here),
        _ => owners(&positions, args, map),
    }
}

/// Whether every key has what belongs to it. If not (`MSET key value key`) the command must see all of its arguments: it
/// refuses them, which a part of it might not.
fn is_whole(keys: Keys, args: Args<'_>) -> bool {
    match keys {
        Keys::Range {
            first,
            last: -1,
            step,
        } if step > 1 => args
            .len()
            .saturating_sub(first.max(0) as usize)
            .is_multiple_of(step as usize),
        Keys::None
        | Keys::Range { .. }
        | Keys::Counted { .. }
        | Keys::WithOption { .. }
        | Keys::AfterOption { .. } => true,
    }
}

fn one_key(key: &[u8], map: SlotMap, door: Door) -> Route {
    let slot = slot_of(key);
    let owner = map.owner(slot);
    match door {
        Door::Shard(shard) if shard != owner => Route::Moved { slot, owner },
        Door::Shard(_) | Door::Main | Door::Unix => Route::One(owner),
    }
}

fn owners(positions: &[usize], args: Args<'_>, map: SlotMap) -> Route {
    let mut owners: Vec<(ShardId, Vec<usize>)> = Vec::new();
    for &position in positions {
        let owner = map.owner_of_key(args.at(position));
        match owners.binary_search_by_key(&owner, |(shard, _)| *shard) {
            Ok(index) => owners[index].1.push(position),
            Err(index) => owners.insert(index, (owner, vec![position])),
        }
    }
    match owners.as_slice() {
        [(owner, _)] => Route::One(*owner),
        _ => Route::Owners(owners),
    }
}

/// A cursor that names no shard of ours is answered here; the command then says that it is at its end, or invalid.
fn by_cursor(cursor: &[u8], map: SlotMap, here: ShardId) -> ShardId {
    let cursor = std::str::from_utf8(cursor)
        .ok()
        .and_then(|text| text.parse().ok());
    match cursor.map(Cursor::partition) {
        Some(index) if index < usize::from(map.shards()) => ShardId(index as u16),
        Some(_) | None => here,
    }
}
