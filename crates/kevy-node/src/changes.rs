//! What follows once keys have changed: everyone who waits for changes hears of them.
//!
//! Changes are noticed by the effects that commands emit. While nobody on the shard waits for any, effects are not even
//! collected. Commands that run on entries lent by their owners report the changed keys to the owners, who alone know who
//! waits for what.

use crate::command_table::{CommandTable, Handler};
use crate::shard::Shard;
use kevy_proto::ids::ShardId;
use kevy_proto::resp::{Args, RequestBuffer};

impl Shard {
    /// Whether somebody here waits for changes of keys.
    pub(crate) fn wants_changes(&self) -> bool {
        !self.watches.is_empty() || !self.tracking.is_idle() || !self.blocking.waiters.is_empty()
    }

    /// Collects effects from now on if somebody waits for changes. To be called whenever that may have become different.
    pub(crate) fn renew_wish_for_changes(&mut self) {
        self.effects
            .want(self.wants_changes() || self.durability.is_some());
    }

    /// Lets everyone who waits for changes hear of those that the effects collected tell, and forgets the effects.
    #[inline]
    pub(crate) fn settle_effects(&mut self) {
        if !self.effects.is_empty() {
            self.log_effects();
            self.note_effects();
            self.effects.clear();
        }
        self.gather_events();
    }

    fn note_effects(&mut self) {
        if !self.wants_changes() {
            return;
        }
        let effects = std::mem::take(&mut self.effects);
        for effect in effects.iter() {
            match key_of(&mut self.commands, effect) {
                Some(key) if is_beside_entries(effect) => {
                    self.watches.hit_beside_entries(key);
                    // A consumer must hear that its group is gone.
                    self.blocking.waiters.note(key);
                }
                Some(key) => self.note_change(key),
                None => self.note_emptied(),
            }
        }
        self.effects = effects;
    }

    /// A key of ours has changed.
    fn note_change(&mut self, key: &[u8]) {
        self.watches.hit(key);
        self.invalidate(key);
        self.blocking.waiters.note(key);
    }

    /// All keys of ours are gone.
    fn note_emptied(&mut self) {
        self.watches.hit_all_that_existed();
        self.blocking.waiters.note_emptied();
    }

    /// Keys of ours that another shard's coordinator changed.
    pub(crate) fn note_changed_keys(&mut self, keys: Args<'_>) {
        keys.iter().for_each(|key| self.note_change(key));
    }

    /// The effects collected, for each of `shards` those on keys of its own; none unless they are `wanted`.
    pub(crate) fn effects_by_owner(
        &mut self,
        shards: &[ShardId],
        wanted: bool,
    ) -> Vec<Vec<RequestBuffer>> {
        let mut of_owners: Vec<Vec<RequestBuffer>> = shards.iter().map(|_| Vec::new()).collect();
        if !wanted {
            return of_owners;
        }
        for effect in self.effects.iter() {
            let key = key_of(&mut self.commands, effect);
            let owner = key.map(|key| self.map.owner_of_key(key));
            if let Some(index) = shards.iter().position(|shard| Some(*shard) == owner) {
                of_owners[index].push(RequestBuffer::from_args(effect));
            }
        }
        of_owners
    }

    /// Takes the effects collected: for each of `shards` the keys of its own that were changed.
    pub(crate) fn changed_keys(&mut self, shards: &[ShardId]) -> Vec<RequestBuffer> {
        let mut changed: Vec<RequestBuffer> = shards.iter().map(|_| RequestBuffer::new()).collect();
        for effect in self.effects.iter() {
            let Some(key) = key_of(&mut self.commands, effect) else {
                continue;
            };
            // A command on several keys makes no stream for the sake of a group.
            if is_beside_entries(effect) {
                continue;
            }
            let owner = self.map.owner_of_key(key);
            if let Some(index) = shards.iter().position(|shard| *shard == owner) {
                changed[index].push(key);
            }
        }
        self.effects.clear();
        changed
    }
}

/// Whether an effect concerns what a stream knows beside its entries: its consumer groups and its last id. As in Redis
/// that is no change to those who watch the key.
fn is_beside_entries(effect: Args<'_>) -> bool {
    let names: [&[u8]; 4] = [b"XGROUP", b"XCLAIM", b"XACK", b"XSETID"];
    names.contains(&effect.at(0))
}

/// The key that an effect concerns: where its row says, else argument 1. `FLUSHALL` has none.
pub(crate) fn key_of<'a>(commands: &mut CommandTable, effect: Args<'a>) -> Option<&'a [u8]> {
    let mut positions = Vec::new();
    if let Ok(found) = commands.find(effect)
        && let Handler::Engine(command) = found.handler
    {
        command.keys.positions(effect, &mut positions);
    }
    effect.get(positions.first().copied().unwrap_or(1))
}
