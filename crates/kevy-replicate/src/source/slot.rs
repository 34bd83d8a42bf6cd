//! What is known of each replica, by its name.

use super::Source;
use super::link::{LinkId, LinkState};
use kevy_proto::time::Instant;
use std::time::Duration;

/// A replica, connected or gone for not too long.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) link: Option<LinkId>,
    /// What it said it has applied of this history, on this connection.
    acked: u64,
    durable: u64,
    /// When it last acknowledged anything.
    pub(super) heard_at: Option<Instant>,
    /// When it last is known to have had everything that there was at that time.
    fresh_at: Option<Instant>,
    /// Once it has this offset it is as fresh as this time.
    mark: Option<(u64, Instant)>,
    pub(super) gone_at: Option<Instant>,
    port: Option<u16>,
    full_syncs: u64,
    partial_syncs: u64,
}

/// A replica as `INFO replication`, `ROLE` and the log show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its name.
    pub id: String,
    /// Where its connection comes from; empty if it is gone.
    pub peer: String,
    /// The port that its clients use, if it said so.
    pub port: Option<u16>,
    /// `online`, `send_bulk` or `wait_bgsave`, as Redis says; `offline` if it is gone.
    pub state: &'static str,
    /// The last entry that it has applied.
    pub offset: u64,
    /// The last entry that is durable there.
    pub durable: u64,
    /// How many entries it lacks.
    pub lag_entries: u64,
    /// Since when it has acknowledged nothing.
    pub lag: Option<Duration>,
    /// How often it got a snapshot.
    pub full_syncs: u64,
    /// How often it continued where it was.
    pub partial_syncs: u64,
}

impl Slot {
    pub(super) fn attach(&mut self, link: LinkId, continues_at: Option<u64>, port: Option<u16>) {
        let (full_syncs, partial_syncs) = match continues_at {
            Some(_) => (self.full_syncs, self.partial_syncs + 1),
            None => (self.full_syncs + 1, self.partial_syncs),
        };
        *self = Self {
            link: Some(link),
            acked: continues_at.unwrap_or(0),
            port,
            full_syncs,
            partial_syncs,
            ..Self::default()
        };
    }

    pub(super) fn detach(&mut self, now: Instant) {
        self.link = None;
        self.gone_at = Some(now);
    }

    /// It fell out of the backlog.
    pub(super) fn begin_full_sync(&mut self) {
        self.full_syncs += 1;
        self.mark = None;
    }

    /// Whether it has more than before.
    pub(super) fn acknowledge(
        &mut self,
        offset: u64,
        durable: Option<u64>,
        last: u64,
        now: Instant,
    ) -> bool {
        let before = (self.acked, self.durable);
        self.acked = self.acked.max(offset);
        let durable = durable.map_or(0, |durable| durable.min(offset));
        self.durable = self.durable.max(durable);
        if let Some((mark, at)) = self.mark.filter(|(mark, _)| self.acked >= *mark) {
            debug_assert!(mark <= last, "what was not written is not marked");
            self.fresh_at = self.fresh_at.max(Some(at));
            self.mark = None;
        }
        if self.acked >= last {
            self.fresh_at = Some(now);
        } else if self.mark.is_none() {
            self.mark = Some((last, now));
        }
        before != (self.acked, self.durable)
    }
}

impl Source {
    /// What is known of each replica.
    pub fn replicas(&self, now: Instant) -> impl Iterator<Item = ReplicaStatus> {
        self.slots.iter().map(move |(id, slot)| {
            let link = slot.link.and_then(|link| self.links.get(&link));
            ReplicaStatus {
                id: id.clone(),
                peer: link.map_or(String::new(), |link| link.peer.clone()),
                port: slot.port,
                state: link.map_or("offline", |link| state_name(&link.state)),
                offset: slot.acked,
                durable: slot.durable,
                lag_entries: self.last_offset().saturating_sub(slot.acked),
                lag: slot.heard_at.map(|at| now.saturating_since(at)),
                full_syncs: slot.full_syncs,
                partial_syncs: slot.partial_syncs,
            }
        })
    }

    /// The connected replicas that follow the stream.
    fn live(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values().filter(|slot| {
            let link = slot.link.and_then(|link| self.links.get(&link));
            link.is_some_and(|link| matches!(link.state, LinkState::Live))
        })
    }

    /// How many replicas had, at most `max_lag` ago, everything that there was then (`min_replicas_max_lag_ms`). A replica
    /// that only says that it is there and does not advance is not among them.
    pub fn good_replicas(&self, now: Instant, max_lag: Duration) -> usize {
        let fresh = self.live().filter_map(|slot| slot.fresh_at);
        fresh
            .filter(|at| now.saturating_since(*at) <= max_lag)
            .count()
    }

    /// How many replicas have applied everything up to `offset` (`WAIT`).
    pub fn acknowledged_by(&self, offset: u64) -> usize {
        self.live().filter(|slot| slot.acked >= offset).count()
    }

    /// On how many replicas everything up to `offset` is durable (`WAITAOF`).
    pub fn durable_on(&self, offset: u64) -> usize {
        self.live().filter(|slot| slot.durable >= offset).count()
    }

    /// Up to where at least `replicas` replicas have applied everything (`min_replicas_to_write`): what waits for them may go
    /// up to here. No limit if `replicas` is 0.
    pub fn acknowledged_offset(&self, replicas: usize) -> u64 {
        let Some(at) = replicas.checked_sub(1) else {
            return u64::MAX;
        };
        let mut acked: Vec<_> = self.live().map(|slot| slot.acked).collect();
        acked.sort_unstable_by(|a, b| b.cmp(a));
        acked.get(at).copied().unwrap_or(0)
    }
}

fn state_name(state: &LinkState) -> &'static str {
    match state {
        LinkState::Greeting | LinkState::Closing => "offline",
        LinkState::Waiting { .. } => "wait_bgsave",
        LinkState::Loading { .. } => "send_bulk",
        LinkState::Live => "online",
    }
}
