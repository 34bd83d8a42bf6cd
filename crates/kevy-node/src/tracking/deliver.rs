//! How clients are told to forget keys: as a push, or as a message of `__redis__:invalidate` to the connection that they
//! chose.

use super::Invalidation;
use super::client::Mode;
use crate::message::Message;
use crate::session::{Session, State};
use crate::shard::Shard;
use bytes::{Bytes, BytesMut};
use kevy_proto::ids::{ConnectionId, ShardId};
use kevy_proto::resp::{Encoder, RespVersion};

/// The channel of RESP2 connections that others are redirected to.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Shard {
    /// Another shard, or this one, has changed keys that sessions of ours may have read.
    pub(crate) fn take_invalidations(&mut self, from: ShardId, invalidations: Vec<Invalidation>) {
        for invalidation in invalidations {
            match invalidation {
                Invalidation::Key {
                    key,
                    readers,
                    cause,
                } => {
                    // Who listens for prefixes by now does not hear of what it read before.
                    for reader in readers {
                        if self.listens_for_prefixes(reader) {
                            continue;
                        }
                        let keys = vec![(key.clone(), cause)];
                        self.tell_changed(reader, keys);
                    }
                }
                Invalidation::Broadcast { listener, keys } => self.tell_changed(listener, keys),
                Invalidation::Redirected { from, to, keys } => {
                    self.tell_in_place(from, to, keys.as_deref());
                }
                Invalidation::RedirectionBroken(connection) => self.note_broken(connection),
                Invalidation::Everything => self.count_flush(from),
            }
        }
    }

    fn listens_for_prefixes(&mut self, connection: ConnectionId) -> bool {
        self.session_of(connection)
            .and_then(|session| session.tracking.as_ref())
            .is_some_and(|tracking| tracking.mode == Mode::Broadcast)
    }

    /// All keys are gone: every client that tracks is told.
    pub(super) fn invalidate_everything(&mut self) {
        let sessions = self.sessions.iter().flatten();
        let tracking = sessions.filter(|session| session.tracking.is_some());
        let connections: Vec<ConnectionId> = tracking.map(|session| session.id).collect();
        for connection in connections {
            self.tell(connection, None);
        }
    }

    fn tell_changed(&mut self, connection: ConnectionId, keys: Vec<(Bytes, Option<ConnectionId>)>) {
        let no_loop = self
            .session_of(connection)
            .and_then(|session| session.tracking.as_ref())
            .is_some_and(|tracking| tracking.no_loop);
        let keys: Vec<Bytes> = keys
            .into_iter()
            .filter(|(_, cause)| !(no_loop && *cause == Some(connection)))
            .map(|(key, _)| key)
            .collect();
        if !keys.is_empty() {
            self.tell(connection, Some(keys));
        }
    }

    /// Tells a client to forget `keys`, or all; later if the reply of a transaction must come first.
    fn tell(&mut self, connection: ConnectionId, keys: Option<Vec<Bytes>>) {
        let Some(session) = self.session_of(connection) else {
            return;
        };
        let Some(tracking) = &mut session.tracking else {
            return;
        };
        if tracking.is_reading {
            return tracking.hold(keys);
        }
        match tracking.redirect {
            None => self.push_invalidation(connection, keys.as_deref()),
            Some(to) => {
                let shard = to.shard(self.shards());
                let from = connection;
                let redirected = Invalidation::Redirected { from, to, keys };
                self.send(shard, Message::Invalidate(vec![redirected]));
            }
        }
    }

    /// A session's transaction is over and its reply has its place: what had to wait for it is told now.
    pub(crate) fn tell_held(&mut self, connection: ConnectionId, held: Vec<Option<Vec<Bytes>>>) {
        for keys in held {
            self.tell(connection, keys);
        }
    }

    fn tell_in_place(&mut self, from: ConnectionId, to: ConnectionId, keys: Option<&[Bytes]>) {
        if self.session_of(to).is_some() {
            return self.push_invalidation(to, keys);
        }
        let shard = from.shard(self.shards());
        let broken = Invalidation::RedirectionBroken(from);
        self.send(shard, Message::Invalidate(vec![broken]));
    }

    fn push_invalidation(&mut self, connection: ConnectionId, keys: Option<&[Bytes]>) {
        self.push_message(connection, |session, out| {
            let version = session.client.version;
            let mut encoder = Encoder::new(out, version);
            match version {
                RespVersion::V3 => {
                    encoder.push(2);
                    encoder.bulk(b"invalidate");
                }
                RespVersion::V2 if session.subscribed.any() => {
                    encoder.array(3);
                    encoder.bulk(b"message");
                    encoder.bulk(CHANNEL);
                }
                // Nothing can be told to it.
                RespVersion::V2 => return,
            }
            match keys {
                None => encoder.null(),
                Some(keys) => {
                    encoder.array(keys.len());
                    keys.iter().for_each(|key| encoder.bulk(key));
                }
            }
        });
    }

    fn note_broken(&mut self, connection: ConnectionId) {
        let Some(session) = self.session_of(connection) else {
            return;
        };
        let Some(tracking) = &mut session.tracking else {
            return;
        };
        tracking.is_broken = true;
        let to = tracking.redirect.map_or(0, |to| to.0);
        self.push_message(connection, |session, out| {
            if session.client.version == RespVersion::V3 {
                let mut encoder = Encoder::new(out, RespVersion::V3);
                encoder.push(2);
                encoder.bulk(b"tracking-redir-broken");
                encoder.integer(to as i64);
            }
        });
    }

    fn push_message(
        &mut self,
        connection: ConnectionId,
        encode: impl FnOnce(&Session, &mut BytesMut),
    ) {
        let Some(session) = self.session_of(connection) else {
            return;
        };
        if session.state == State::Draining {
            return;
        }
        let mut message = BytesMut::new();
        encode(session, &mut message);
        session.replies.push_out_of_band(&message);
        let slot = session.slot;
        self.announce_output(slot);
        self.close_above_hard_limit(slot);
    }

    /// The session of a connection of ours, if it is still there.
    pub(crate) fn session_of(&mut self, connection: ConnectionId) -> Option<&mut Session> {
        let slot = *self.connections.get(&connection)?;
        self.session_mut(slot)
    }
}
