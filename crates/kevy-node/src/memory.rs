//! What a shard may hold: its share of `maxmemory`, and what clients may let pile up.

use crate::host::Slot;
use crate::message::Message;
use crate::session::Session;
use crate::settings::{MaxmemoryPolicy, OutputLimit, OutputLimits, Settings};
use crate::shard::Shard;
use kevy_engine::keyspace::EvictionPolicy;

/// How many keys one command may evict to make room for itself; what is missing then is left to the next ones.
fn evictions_per_command(tenacity: u32) -> usize {
    const DEFAULT: u32 = 10;
    match tenacity {
        0..DEFAULT => 100 * tenacity as usize,
        DEFAULT..100 => (1000.0 * 1.15_f64.powi((tenacity - DEFAULT) as i32)) as usize,
        _ => usize::MAX,
    }
}

impl Shard {
    /// Takes what concerns keys from settings that have just come into force.
    pub(crate) fn apply_memory_settings(&mut self) {
        self.memory_limit_bytes = self
            .settings
            .server
            .maxmemory
            .div_ceil(u64::from(self.shards()));
        self.eviction_policy = policy(&self.settings);
        let limits = self.settings.encoding.limits;
        for keyspace in [&mut self.keyspace, &mut self.meeting] {
            keyspace.set_access_tracking(self.eviction_policy.tracking());
            keyspace.set_encoding_limits(limits);
            keyspace.set_longest_string(self.settings.server.proto_max_bulk_len as usize);
            keyspace.set_eviction_samples(self.settings.memory.maxmemory_samples);
        }
        self.bound_requests();
    }

    /// Lets the decoders of sessions refuse arguments longer than `proto_max_bulk_len`.
    fn bound_requests(&mut self) {
        let bulk_bytes = self.settings.server.proto_max_bulk_len as usize;
        for session in self.sessions.iter_mut().flatten() {
            session.decoder.set_bulk_limit(bulk_bytes);
        }
    }

    /// Whether the shard is within its share of `maxmemory`, if need be after evicting keys. Keys and values count, by
    /// estimate; buffers of clients do not.
    pub(crate) fn make_room(&mut self) -> bool {
        if self.memory_limit_bytes == 0 {
            return true;
        }
        if self.pausing.is_on() {
            return true;
        }
        let asker = std::mem::take(&mut self.asker);
        let roomy = self.evict_to_limit();
        self.settle_effects();
        self.asker = asker;
        roomy
    }

    /// Makes room before requests are looked at, as Redis does before each; who has cached what goes hears of it before the
    /// replies. Between handlers every earlier reply has its place, so that none is overtaken.
    pub(crate) fn make_room_ahead(&mut self) {
        if self.memory_limit_bytes == 0
            || self.keyspace.used_bytes() as u64 <= self.memory_limit_bytes
        {
            return;
        }
        self.make_room();
        for (shard, invalidation) in std::mem::take(&mut self.announcements.invalidations) {
            if shard == self.id {
                self.take_invalidations(shard, vec![invalidation]);
            } else {
                self.send(shard, Message::Invalidate(vec![invalidation]));
            }
        }
    }

    fn evict_to_limit(&mut self) -> bool {
        for _ in 0..evictions_per_command(self.settings.memory.maxmemory_eviction_tenacity) {
            if self.keyspace.used_bytes() as u64 <= self.memory_limit_bytes {
                return true;
            }
            if !self
                .keyspace
                .evict(self.eviction_policy, self.now, &mut self.effects)
            {
                return false;
            }
        }
        true
    }

    /// Closes clients that let replies pile up above `client_output_buffer_limit`, at once above the hard limit, after a
    /// while above the soft one.
    pub(crate) fn close_slow_clients(&mut self) {
        let limits = self.settings.server.client_output_buffer_limit;
        let none = |limit: OutputLimit| limit.hard_bytes == 0 && limit.soft_bytes == 0;
        if none(limits.normal) && (none(limits.pubsub) || self.subscriptions.is_empty()) {
            return;
        }
        for slot in self.slots() {
            let now = self.now.monotonic;
            let Some(session) = self.session_mut(slot) else {
                continue;
            };
            let limit = limit_of(session, &limits);
            let held = session.replies.len_bytes() as u64;
            let soft = limit.soft_bytes > 0 && held > limit.soft_bytes;
            let since = *session.above_soft_limit_since.get_or_insert(now);
            if !soft {
                session.above_soft_limit_since = None;
            }
            let waited = soft && now.saturating_since(since).as_secs() >= limit.soft_seconds;
            if waited {
                self.close_slow(slot);
            } else {
                self.close_above_hard_limit(slot);
            }
        }
    }

    /// Closes a session whose replies exceed the hard limit of its class (0: there is none).
    pub(crate) fn close_above_hard_limit(&mut self, slot: Slot) {
        let limits = &self.settings.server.client_output_buffer_limit;
        let exceeds = |session: &Session| {
            let hard_bytes = limit_of(session, limits).hard_bytes;
            hard_bytes > 0 && session.replies.len_bytes() as u64 > hard_bytes
        };
        if self.session(slot).is_some_and(exceeds) {
            self.close_slow(slot);
        }
    }

    pub(crate) fn close_slow(&mut self, slot: Slot) {
        if let Some(session) = self.session(slot) {
            let held = session.replies.len_bytes();
            tracing::warn!(client = %session.id, held, "closing a client: its replies exceed client_output_buffer_limit");
            self.stats.output_buffer_limit_disconnections += 1;
            self.close(slot);
        }
    }
}

/// The limit of a session's class.
fn limit_of(session: &Session, limits: &OutputLimits) -> OutputLimit {
    if session.subscribed.any() {
        limits.pubsub
    } else {
        limits.normal
    }
}

fn policy(settings: &Settings) -> EvictionPolicy {
    match settings.server.maxmemory_policy {
        MaxmemoryPolicy::NoEviction => EvictionPolicy::NoEviction,
        MaxmemoryPolicy::AllkeysLru => EvictionPolicy::AllKeysLru,
        MaxmemoryPolicy::AllkeysLfu => EvictionPolicy::AllKeysLfu,
        MaxmemoryPolicy::AllkeysRandom => EvictionPolicy::AllKeysRandom,
        MaxmemoryPolicy::VolatileLru => EvictionPolicy::VolatileLru,
        MaxmemoryPolicy::VolatileLfu => EvictionPolicy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom => EvictionPolicy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl => EvictionPolicy::VolatileTtl,
    }
}
