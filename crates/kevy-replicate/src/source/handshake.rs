//! What replicas say, and what becomes of it.

use super::link::{CloseReason, Link, LinkId, LinkState};
use super::{Role, Source, SourceEvent};
use bytes::{Buf, BytesMut};
use kevy_proto::replication::{Answer, Continuity, Handshake, PeerRequest, Terms, VERSION};
use kevy_proto::resp::Decoded;
use kevy_proto::time::Instant;

impl Source {
    /// A replica has connected, from `peer`. `link` was never used before.
    pub fn handle_open(&mut self, link: LinkId, peer: &str, now: Instant) {
        self.links.insert(link, Link::new(peer.into(), now));
        if self.links.len() > self.max_links() {
            self.close(link, CloseReason::TooMany);
        }
    }

    fn max_links(&self) -> usize {
        // Each replica may have one that has not been found dead yet, and a few strangers may come by.
        2 * self.config.max_replicas + 8
    }

    /// A connection is gone, whoever closed it.
    pub fn handle_closed(&mut self, link: LinkId, now: Instant) {
        let Some(gone) = self.links.remove(&link) else {
            return;
        };
        let Some(replica) = gone.replica else {
            return;
        };
        let slot = self.slots.get_mut(&replica);
        if let Some(slot) = slot.filter(|slot| slot.link == Some(link)) {
            slot.detach(now);
            self.events.push_back(SourceEvent::Detached { replica });
        }
    }

    /// Bytes have come from a replica.
    pub fn handle_bytes(&mut self, link: LinkId, bytes: &[u8], now: Instant) {
        let Some(open) = self.links.get_mut(&link) else {
            return;
        };
        open.input.extend_from_slice(bytes);
        loop {
            let request = match self.next_request(link) {
                Ok(Some(request)) => request,
                Ok(None) => return,
                Err(text) => return self.refuse(link, &text, CloseReason::Protocol),
            };
            match request {
                PeerRequest::Replicate(handshake) => self.handle_handshake(link, &handshake, now),
                PeerRequest::Ack { offset, durable } => {
                    self.handle_ack(link, offset, durable, now);
                }
                PeerRequest::Ignored => {}
            }
        }
    }

    fn next_request(&mut self, link: LinkId) -> Result<Option<PeerRequest>, String> {
        let Some(open) = self.links.get_mut(&link) else {
            return Ok(None);
        };
        if matches!(open.state, LinkState::Closing) {
            open.input.clear();
            return Ok(None);
        }
        match open.decoder.decode(&open.input) {
            Ok(Decoded::Incomplete) => Ok(None),
            Ok(Decoded::Nothing { consumed }) => {
                open.input.advance(consumed);
                Ok(Some(PeerRequest::Ignored))
            }
            Ok(Decoded::Request { consumed }) => {
                let request = PeerRequest::parse(open.decoder.args(&open.input));
                open.input.advance(consumed);
                request.map(Some).map_err(|fault| format!("ERR {fault}"))
            }
            Err(error) => {
                let mut text = BytesMut::new();
                error.encode(&mut text);
                let text = String::from_utf8_lossy(&text);
                Err(text.trim_start_matches('-').trim_end().into())
            }
        }
    }

    fn refuse(&mut self, link: LinkId, text: &str, reason: CloseReason) {
        self.answer(link, &Answer::Refused(text.into()));
        self.close(link, reason);
    }

    pub(super) fn answer(&mut self, link: LinkId, answer: &Answer) {
        let mut out = BytesMut::new();
        answer.encode(&mut out);
        if let Some(open) = self.links.get_mut(&link) {
            open.queue(out.freeze());
        }
    }

    /// A replica asks for the stream.
    pub fn handle_handshake(&mut self, link: LinkId, handshake: &Handshake, now: Instant) {
        let greets = |open: &Link| matches!(open.state, LinkState::Greeting);
        if !self.links.get(&link).is_some_and(greets) {
            let text = "ERR REPLICATE was already said on this connection";
            return self.refuse(link, text, CloseReason::Protocol);
        }
        if let Err(text) = self.admit(handshake) {
            return self.refuse(link, &text, CloseReason::Refused);
        }
        let last = self.last_offset();
        let found = self
            .history
            .judge(handshake.history, handshake.epoch, handshake.from, last);
        let continues = !handshake.full
            && found == Continuity::Continues
            && self.backlog.frames_from(handshake.from).is_ok();
        self.attach(link, handshake, continues, now);
        if let Continuity::Forked { common } = found {
            self.events.push_back(SourceEvent::Forked {
                replica: handshake.id.clone(),
                common,
                discarded: handshake.from - common,
            });
        }
        if continues {
            let terms = self.terms(handshake.from);
            self.answer(link, &Answer::Continue(terms));
        }
    }

    pub(super) fn terms(&self, offset: u64) -> Terms {
        Terms {
            epoch: self.epoch(),
            offset,
            shards: Some(self.config.shards),
            history: Some(self.history.clone()),
        }
    }

    fn admit(&mut self, handshake: &Handshake) -> Result<(), String> {
        if let Role::Follows { upstream } = &self.role {
            let primary = upstream.as_ref();
            let primary = primary.map_or(String::new(), |at| format!(", ask the primary at {at}"));
            return Err(format!(
                "ERR chained replication is not supported: this node is a replica{primary}"
            ));
        }
        if handshake.version > VERSION {
            return Err(format!(
                "ERR replication version {} is unknown, this node speaks {VERSION}",
                handshake.version
            ));
        }
        let (shard, shards) = (self.config.shard, self.config.shards);
        if handshake.shards.is_some_and(|theirs| theirs != shards) {
            return Err(format!(
                "ERR shard count mismatch: the primary has {shards}, the replica {}",
                handshake.shards.unwrap_or_default()
            ));
        }
        if handshake.shard.is_some_and(|theirs| theirs != shard.0) {
            return Err(format!(
                "ERR this port streams shard {shard}, not {}",
                handshake.shard.unwrap_or_default()
            ));
        }
        if self.slots.contains_key(&handshake.id) || self.make_room() {
            return Ok(());
        }
        Err("ERR too many replicas".into())
    }

    /// Forgets the replica that has been gone for longest, if there are too many.
    fn make_room(&mut self) -> bool {
        if self.slots.len() < self.config.max_replicas {
            return true;
        }
        let gone = self.slots.iter().filter(|(_, slot)| slot.gone_at.is_some());
        let oldest = gone.min_by_key(|(_, slot)| slot.gone_at);
        let oldest = oldest.map(|(replica, _)| replica.clone());
        oldest.is_some_and(|replica| self.slots.remove(&replica).is_some())
    }

    fn attach(&mut self, link: LinkId, handshake: &Handshake, continues: bool, now: Instant) {
        let slot = self.slots.entry(handshake.id.clone()).or_default();
        let before = slot.link.filter(|before| *before != link);
        // What it has applied counts only if it is of this history.
        slot.attach(link, continues.then_some(handshake.from), handshake.port);
        if let Some(before) = before {
            self.close(before, CloseReason::Replaced);
        }
        if let Some(open) = self.links.get_mut(&link) {
            open.replica = Some(handshake.id.clone());
            open.heard_at = now;
            open.next = handshake.from.saturating_add(1);
            open.state = if continues {
                LinkState::Live
            } else {
                LinkState::Waiting { announced: false }
            };
        }
        self.events.push_back(SourceEvent::Attached {
            link,
            replica: handshake.id.clone(),
            offset: handshake.from,
            continues,
        });
    }

    /// A replica says what it has applied, and what of that is durable.
    ///
    /// It counts if it can be true: never more than what was handed to this very connection. While a snapshot is under way
    /// it only says that the replica is there.
    pub fn handle_ack(&mut self, link: LinkId, offset: u64, durable: Option<u64>, now: Instant) {
        let last = self.last_offset();
        let Some(open) = self.links.get_mut(&link) else {
            return;
        };
        if !open.is_accepted() {
            let text = "ERR REPLCONF ACK comes after REPLICATE";
            return self.refuse(link, text, CloseReason::Protocol);
        }
        open.heard_at = now;
        let slot = open.replica.as_ref().and_then(|id| self.slots.get_mut(id));
        let Some(slot) = slot.filter(|slot| slot.link == Some(link)) else {
            return;
        };
        slot.heard_at = Some(now);
        if !matches!(open.state, LinkState::Live) {
            return;
        }
        if offset >= open.next {
            return self.close(link, CloseReason::FalseAcknowledgement);
        }
        if slot.acknowledge(offset, durable, last, now) {
            self.events.push_back(SourceEvent::Acknowledged);
        }
    }
}
