//! `CLIENT TRACKING`, `CLIENT CACHING` and what tells about them.

use super::{Answered, Outcome, integer, is, ok};
use crate::message::Message;
use crate::query::{Answer, Finish, Query};
use crate::session::Session;
use crate::shard::Shard;
use crate::tracking::client::{Mode, PREFIXES_PER_CONNECTION, Tracking};
use bytes::{Bytes, BytesMut};
use kevy_proto::ids::{ConnectionId, ShardId};
use kevy_proto::resp::{Args, Encoder, ErrorReply};
use std::collections::BTreeSet;

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`.
///
/// If another connection is to be told in place of this one, or prefixes are listened for, all shards are asked first.
pub(super) fn tracking(
    shard: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let options = Options::read(args)?;
    let turn_on = match (is(args.at(2), "on"), is(args.at(2), "off")) {
        (true, _) => true,
        (_, true) => false,
        _ => return Err(ErrorReply::Syntax),
    };
    if turn_on {
        options.check(session)?;
    }
    let listens = turn_on && options.broadcast;
    if options.redirect.is_none() && !listens {
        options.settle(shard, session, turn_on);
        return ok(session, reply);
    }
    let connection = session.id;
    let prefixes = if listens {
        options.listened()
    } else {
        Vec::new()
    };
    let query = Query::Track {
        connection,
        prefixes,
        redirect: options.redirect,
    };
    let finish = Finish::new(move |shard, slot, answers, reply| {
        let missing = options.redirect.is_some() && Answer::total(&answers) == 0;
        let mut session = shard.take_session(slot);
        if let Some(session) = session.as_deref_mut().filter(|s| s.id == connection) {
            if missing {
                shard.listen_as_before(session);
            } else {
                options.settle(shard, session, turn_on);
            }
        }
        shard.sessions[slot.index()] = session;
        if missing {
            reply.error(&ErrorReply::text(
                "ERR The client ID you want redirect to does not exist",
            ));
        } else {
            reply.ok();
        }
    });
    Ok(Outcome::Ask(query, finish))
}

/// What `CLIENT TRACKING` was given.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each word that may be given"
)]
struct Options {
    redirect: Option<ConnectionId>,
    prefixes: BTreeSet<Bytes>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
}

impl Options {
    fn read(args: Args<'_>) -> Result<Self, ErrorReply> {
        let mut options = Self::default();
        let mut at = 3;
        while let Some(option) = args.get(at) {
            let value = args.get(at + 1);
            match value {
                Some(id) if is(option, "redirect") => {
                    if options.redirect.is_some() {
                        return Err(ErrorReply::text(
                            "ERR A client can only redirect to a single other client",
                        ));
                    }
                    options.redirect = Some(ConnectionId(integer(id)? as u64));
                    at += 1;
                }
                Some(prefix) if is(option, "prefix") => {
                    options.add_prefix(prefix)?;
                    at += 1;
                }
                _ if is(option, "bcast") => options.broadcast = true,
                _ if is(option, "optin") => options.opt_in = true,
                _ if is(option, "optout") => options.opt_out = true,
                _ if is(option, "noloop") => options.no_loop = true,
                _ => return Err(ErrorReply::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }

    fn add_prefix(&mut self, prefix: &[u8]) -> Result<(), ErrorReply> {
        if self.prefixes.len() >= PREFIXES_PER_CONNECTION {
            return Err(ErrorReply::text("ERR too many prefixes"));
        }
        if let Some(other) = self.prefixes.iter().find(|other| overlap(other, prefix)) {
            return Err(overlaps(other, "another provided", prefix));
        }
        self.prefixes.insert(Bytes::copy_from_slice(prefix));
        Ok(())
    }

    fn mode(&self) -> Mode {
        match (self.broadcast, self.opt_in, self.opt_out) {
            (true, ..) => Mode::Broadcast,
            (_, true, _) => Mode::OptIn,
            (_, _, true) => Mode::OptOut,
            (false, false, false) => Mode::Reads,
        }
    }

    /// Whether the options fit together, and fit what the session tracks already.
    fn check(&self, session: &Session) -> Result<(), ErrorReply> {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(ErrorReply::text(
                "ERR PREFIX option requires BCAST mode to be enabled",
            ));
        }
        let before = session.tracking.as_ref();
        if before.is_some_and(|t| self.broadcast != (t.mode == Mode::Broadcast)) {
            return Err(ErrorReply::text(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it \
                 with a different mode.",
            ));
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err(ErrorReply::text(
                "ERR OPTIN and OPTOUT are not compatible with BCAST",
            ));
        }
        if self.opt_in && self.opt_out {
            return Err(ErrorReply::text(
                "ERR You can't specify both OPTIN mode and OPTOUT mode",
            ));
        }
        let Some(before) = before else {
            return Ok(());
        };
        let switches = match before.mode {
            Mode::OptIn => self.opt_out,
            Mode::OptOut => self.opt_in,
            Mode::Reads | Mode::Broadcast => false,
        };
        if switches {
            return Err(ErrorReply::text(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
                 it with a different mode.",
            ));
        }
        if before.prefixes.len() + self.prefixes.len() > PREFIXES_PER_CONNECTION {
            return Err(ErrorReply::text("ERR too many prefixes"));
        }
        for prefix in &self.prefixes {
            if let Some(other) = before.prefixes.iter().find(|other| overlap(other, prefix)) {
                return Err(overlaps(prefix, "an existing", other));
            }
        }
        Ok(())
    }

    /// What is listened for: everything if nothing is said.
    fn listened(&self) -> Vec<Bytes> {
        if self.prefixes.is_empty() {
            vec![Bytes::new()]
        } else {
            self.prefixes.iter().cloned().collect()
        }
    }

    /// Puts the options into force.
    fn settle(&self, shard: &mut Shard, session: &mut Session, turn_on: bool) {
        if !turn_on {
            return shard.stop_tracking(session);
        }
        let mode = self.mode();
        let tracking = session
            .tracking
            .get_or_insert_with(|| Box::new(Tracking::new(mode)));
        tracking.mode = mode;
        tracking.redirect = self.redirect;
        tracking.is_broken = false;
        tracking.no_loop = self.no_loop;
        if mode == Mode::Broadcast {
            tracking.prefixes.extend(self.listened());
        }
    }
}

fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn overlaps(one: &[u8], which: &str, other: &[u8]) -> ErrorReply {
    let error = format!(
        "ERR Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single client must not overlap.",
        String::from_utf8_lossy(one),
        String::from_utf8_lossy(other)
    );
    ErrorReply::Other(error.into())
}

impl Shard {
    /// The session tracks no more. What it has read is forgotten when it is changed.
    pub(crate) fn stop_tracking(&mut self, session: &mut Session) {
        if let Some(tracking) = session.tracking.take()
            && tracking.mode == Mode::Broadcast
        {
            self.send_to_all_shards(|| Message::StopListening(session.id));
        }
    }

    /// Takes back what the shards were told for a session whose wish was refused.
    fn listen_as_before(&mut self, session: &Session) {
        self.send_to_all_shards(|| Message::StopListening(session.id));
        if let Some(tracking) = &session.tracking
            && tracking.mode == Mode::Broadcast
        {
            let prefixes: Vec<Bytes> = tracking.prefixes.iter().cloned().collect();
            self.send_to_all_shards(|| Message::Listen(session.id, prefixes.clone()));
        }
    }

    fn send_to_all_shards(&mut self, message: impl Fn() -> Message) {
        for index in 0..self.shards() {
            self.send(ShardId(index), message());
        }
    }
}

/// `CLIENT CACHING YES|NO`: about the keys of the next request.
pub(super) fn caching(
    _: &mut Shard,
    session: &mut Session,
    args: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    const NOT_TRACKING: ErrorReply = ErrorReply::text(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    );
    let tracking = session.tracking.as_mut().ok_or(NOT_TRACKING)?;
    let wanted = match (is(args.at(2), "yes"), is(args.at(2), "no"), tracking.mode) {
        (_, _, Mode::Reads | Mode::Broadcast) => return Err(NOT_TRACKING),
        (true, _, mode) => (mode, Mode::OptIn, "YES", "OPTIN"),
        (_, true, mode) => (mode, Mode::OptOut, "NO", "OPTOUT"),
        _ => return Err(ErrorReply::Syntax),
    };
    let (mode, needed, word, name) = wanted;
    if mode != needed {
        let error = format!(
            "ERR CLIENT CACHING {word} is only valid when tracking is enabled in {name} mode."
        );
        return Err(ErrorReply::Other(error.into()));
    }
    tracking.caching = true;
    ok(session, reply)
}

/// `CLIENT GETREDIR`: who is told in place of this client; 0: nobody, -1: it does not track.
pub(super) fn get_redirection(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    Encoder::new(reply, session.client.version).integer(redirection(session));
    Ok(Outcome::Replied)
}

/// Who is told in place of a client, as a number: 0 for nobody, -1 if it does not track.
pub(super) fn redirection(session: &Session) -> i64 {
    session
        .tracking
        .as_ref()
        .map_or(-1, |tracking| tracking.redirect.map_or(0, |to| to.0 as i64))
}

/// `CLIENT TRACKINGINFO`.
pub(super) fn tracking_info(
    _: &mut Shard,
    session: &mut Session,
    _: Args<'_>,
    reply: &mut BytesMut,
) -> Answered {
    let mut reply = Encoder::new(reply, session.client.version);
    let flags = flags(session);
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirection(session));
    reply.bulk(b"prefixes");
    let prefixes = session.tracking.iter().flat_map(|t| &t.prefixes);
    reply.array(prefixes.clone().count());
    prefixes.for_each(|prefix| reply.bulk(prefix));
    Ok(Outcome::Replied)
}

fn flags(session: &Session) -> Vec<&'static str> {
    let Some(tracking) = &session.tracking else {
        return vec!["off"];
    };
    let mut flags = vec!["on"];
    match tracking.mode {
        Mode::Reads => {}
        Mode::Broadcast => flags.push("bcast"),
        Mode::OptIn => flags.push("optin"),
        Mode::OptOut => flags.push("optout"),
    }
    match (tracking.mode, tracking.caching) {
        (Mode::OptIn, true) => flags.push("caching-yes"),
        (Mode::OptOut, true) => flags.push("caching-no"),
        (Mode::OptIn | Mode::OptOut, false) | (Mode::Reads | Mode::Broadcast, _) => {}
    }
    if tracking.no_loop {
        flags.push("noloop");
    }
    if tracking.is_broken {
        flags.push("broken_redirect");
    }
    flags
}
