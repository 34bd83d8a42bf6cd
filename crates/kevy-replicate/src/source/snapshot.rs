//! Full synchronization: the owner hands over a snapshot in chunks while the log goes on.

use super::link::{CloseReason, LinkId, LinkState};
use super::slot::Slot;
use super::{Source, SourceEvent};
use bytes::{Bytes, BytesMut};
use kevy_proto::replication::{
    MAX_CHUNK_BYTES, push_snapshot_begin, push_snapshot_chunk, push_snapshot_end,
};
use std::fmt;

/// How much of a snapshot may wait for a connection to take it.
pub const SNAPSHOT_PENDING_BYTES: usize = 1 << 20;
/// How often a snapshot may be outrun by the backlog before the connection is closed.
pub const MAX_SNAPSHOT_ATTEMPTS: u32 = 3;

/// No snapshot is under way for this connection: it went, or the snapshot was outrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSnapshot;

impl Source {
    /// The connections that need a snapshot, know it, and take what they are sent. The owner answers with
    /// [`Source::snapshot_begin`] when it can.
    pub fn wants_snapshot(&self) -> impl Iterator<Item = LinkId> {
        let waiting = self.links.iter().filter(|(_, link)| {
            let announced = matches!(link.state, LinkState::Waiting { announced: true });
            announced && link.outgoing.is_empty()
        });
        waiting.map(|(id, _)| *id)
    }

    /// A snapshot of the state at `offset` begins; usually that is the last offset.
    ///
    /// # Errors
    /// If the connection does not wait for one.
    pub fn snapshot_begin(&mut self, id: LinkId, offset: u64) -> Result<(), NoSnapshot> {
        let link = self.links.get_mut(&id).ok_or(NoSnapshot)?;
        if !matches!(link.state, LinkState::Waiting { announced: true }) {
            return Err(NoSnapshot);
        }
        let mut out = BytesMut::new();
        push_snapshot_begin(&mut out, offset);
        link.queue(out.freeze());
        let digest = Box::default();
        link.state = LinkState::Loading { offset, digest };
        self.drop_fallen();
        Ok(())
    }

    /// How many bytes of its snapshot a connection has room for. Zero if none is under way.
    pub fn snapshot_room(&self, id: LinkId) -> usize {
        let link = self.links.get(&id);
        let loading = link.filter(|link| matches!(link.state, LinkState::Loading { .. }));
        loading.map_or(0, |link| {
            SNAPSHOT_PENDING_BYTES.saturating_sub(link.outgoing_bytes)
        })
    }

    /// The next bytes of the snapshot; not more at once than there is room for, if memory is to stay bounded.
    ///
    /// # Errors
    /// If none is under way: the owner drops the rest.
    pub fn snapshot_chunk(&mut self, id: LinkId, mut bytes: Bytes) -> Result<(), NoSnapshot> {
        let link = self.links.get_mut(&id).ok_or(NoSnapshot)?;
        let LinkState::Loading { digest, .. } = &mut link.state else {
            return Err(NoSnapshot);
        };
        let mut out = BytesMut::new();
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(MAX_CHUNK_BYTES));
            digest.add(&chunk);
            push_snapshot_chunk(&mut out, &chunk);
        }
        if !out.is_empty() {
            link.queue(out.freeze());
        }
        Ok(())
    }

    /// The snapshot is complete; the entries after its offset follow.
    ///
    /// # Errors
    /// If none is under way.
    pub fn snapshot_end(&mut self, id: LinkId) -> Result<(), NoSnapshot> {
        let link = self.links.get_mut(&id).ok_or(NoSnapshot)?;
        let LinkState::Loading { offset, digest } = &link.state else {
            return Err(NoSnapshot);
        };
        let offset = *offset;
        let mut out = BytesMut::new();
        push_snapshot_end(&mut out, offset, &digest.totals());
        link.queue(out.freeze());
        link.next = offset + 1;
        link.state = LinkState::Live;
        link.snapshot_attempts = 0;
        Ok(())
    }

    /// The owner cannot make the snapshot. The replica will come again.
    pub fn snapshot_failed(&mut self, id: LinkId) {
        self.close(id, CloseReason::SnapshotFailed);
    }

    /// Whoever needs an entry that is no longer kept begins anew.
    pub(super) fn drop_fallen(&mut self) {
        let (first, next_offset) = (self.backlog.first_offset(), self.next_offset());
        let mut outrun = Vec::new();
        for (id, link) in &mut self.links {
            let replica = link.replica.clone().unwrap_or_default();
            let event = match &link.state {
                LinkState::Live if link.next < first => {
                    let slot = self.slots.get_mut(&replica);
                    slot.into_iter().for_each(Slot::begin_full_sync);
                    SourceEvent::FellOut {
                        replica,
                        lag_entries: next_offset - link.next,
                    }
                }
                LinkState::Loading { offset, .. } if offset + 1 < first => {
                    link.snapshot_attempts += 1;
                    outrun.extend((link.snapshot_attempts >= MAX_SNAPSHOT_ATTEMPTS).then_some(*id));
                    SourceEvent::SnapshotOutrun { link: *id, replica }
                }
                LinkState::Greeting
                | LinkState::Waiting { .. }
                | LinkState::Loading { .. }
                | LinkState::Live
                | LinkState::Closing => continue,
            };
            link.state = LinkState::Waiting { announced: false };
            self.events.push_back(event);
        }
        let ids = outrun.into_iter();
        ids.for_each(|id| self.close(id, CloseReason::SnapshotsOutrun));
    }
}

impl fmt::Display for NoSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no snapshot is under way for this connection")
    }
}

impl std::error::Error for NoSnapshot {}
