//! What an `EXEC` needs to itself: of each shard the keys of all its commands and watches, or the whole key space.

use super::participate::{access, fingerprint};
use super::queue::Queued;
use crate::command_table::Handler;
use crate::host::Door;
use crate::message::{Access, Claim};
use crate::route::{Route, route};
use crate::session::Session;
use kevy_engine::Command;
use kevy_proto::command::Placement;
use kevy_proto::ids::ShardId;
use kevy_proto::resp::Args;
use kevy_proto::slot::SlotMap;
use std::collections::BTreeMap;

/// What is needed of one shard.
#[derive(Debug, Default)]
pub(super) struct Needs {
    whole: Option<Access>,
    keys: Vec<(u64, Access)>,
    /// Keys of this shard are watched.
    pub(super) watched: bool,
}

impl Needs {
    /// The whole shard, and nobody else on it.
    pub(super) fn everything() -> Self {
        Self {
            whole: Some(Access::Exclusive),
            ..Self::default()
        }
    }

    /// All of it as one claim.
    pub(super) fn claim(&self) -> Claim {
        let exclusive = |access: &Access| *access == Access::Exclusive;
        if let Some(whole) = self.whole {
            let any = exclusive(&whole) || self.keys.iter().any(|(_, access)| exclusive(access));
            return Claim::Whole(if any {
                Access::Exclusive
            } else {
                Access::Shared
            });
        }
        // Of each key the strongest use.
        let mut keys = self.keys.clone();
        keys.sort_unstable_by_key(|(key, access)| (*key, !exclusive(access)));
        keys.dedup_by_key(|(key, _)| *key);
        Claim::Keys(keys)
    }
}

/// What the commands and the watches need, by shard.
pub(super) fn needs_of(
    commands: &[Queued],
    session: &Session,
    map: SlotMap,
    here: ShardId,
) -> BTreeMap<ShardId, Needs> {
    let mut needs: BTreeMap<ShardId, Needs> = BTreeMap::new();
    for key in &session.watched {
        let need = needs.entry(map.owner_of_key(key)).or_default();
        need.watched = true;
        need.keys.push((fingerprint(key), Access::Shared));
    }
    for queued in commands {
        let Handler::Engine(command) = queued.found.handler else {
            continue;
        };
        add_needs(&mut needs, command, queued.request.args(), map, here);
    }
    needs
}

fn add_needs(
    needs: &mut BTreeMap<ShardId, Needs>,
    command: &'static Command,
    args: Args<'_>,
    map: SlotMap,
    here: ShardId,
) {
    let own = access(command);
    let whole = |need: &mut Needs| {
        if need.whole != Some(Access::Exclusive) {
            need.whole = Some(own);
        }
    };
    let whole_alone = |need: &mut Needs| need.whole = Some(Access::Exclusive);
    let key = |need: &mut Needs, position: usize, access| {
        need.keys.push((fingerprint(args.at(position)), access));
    };
    match (
        command.placement,
        route(command, args, map, here, Door::Main),
    ) {
        (Placement::Together, Route::Everywhere) => {
            let mut need = |index| whole_alone(needs.entry(ShardId(index)).or_default());
            (0..map.shards()).for_each(&mut need);
        }
        (_, Route::Everywhere) => {
            (0..map.shards()).for_each(|index| whole(needs.entry(ShardId(index)).or_default()));
        }
        (Placement::EveryShard(_) | Placement::Cursor(_), Route::One(shard)) => {
            whole(needs.entry(shard).or_default());
        }
        (_, Route::One(shard)) => {
            let mut positions = Vec::new();
            command.keys.positions(args, &mut positions);
            for position in positions {
                key(needs.entry(shard).or_default(), position, own);
            }
        }
        (placement, Route::Owners(owners)) => {
            // Entries that leave their shard for a while must not be looked at.
            let access = match placement {
                Placement::Split(_) => own,
                Placement::Together
                | Placement::EveryShard(_)
                | Placement::Cursor(_)
                | Placement::Session
                | Placement::Node => Access::Exclusive,
            };
            for (shard, positions) in owners {
                let need = needs.entry(shard).or_default();
                positions.into_iter().for_each(|at| key(need, at, access));
            }
        }
        (_, Route::Moved { .. }) => debug_assert!(false, "the main port never redirects"),
    }
}
