//! `CLIENT PAUSE`: requests wait, all of them or those that write, until a moment that all shards know
//! (<https://redis.io/docs/latest/commands/client-pause/>).
//!
//! A request that must wait stays in its session's input, which is not executed further. Meanwhile no key expires and none
//! is evicted: readers do not see what is due, and nothing is removed.

use crate::command_table::{Found, Handler};
use crate::host::Slot;
use crate::session::{Session, State};
use crate::shard::Shard;
use kevy_engine::keyspace::ExpiryMode;
use kevy_proto::command::Flags;
use kevy_proto::time::Instant;

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    /// Requests that write, and those that others hear of (`PUBLISH`).
    Write,
    /// All.
    All,
}

/// A pause that is on.
#[derive(Clone, Copy, Debug)]
struct Pause {
    mode: PauseMode,
    until: Instant,
}

/// The pause, and the sessions that wait for its end: no more than there are sessions.
#[derive(Debug, Default)]
pub(crate) struct Pausing {
    pause: Option<Pause>,
    waiting: Vec<Slot>,
}

impl Pausing {
    /// Whether a pause is on.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.pause.is_some()
    }

    /// When it is over.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.pause.map(|pause| pause.until)
    }
}

impl Shard {
    /// Begins a pause, or makes one that is on longer and stricter; never shorter or milder.
    pub(crate) fn pause(&mut self, mode: PauseMode, until: Instant) {
        let before = self.pausing.pause.unwrap_or(Pause { mode, until });
        self.pausing.pause = Some(Pause {
            mode: mode.max(before.mode),
            until: until.max(before.until),
        });
        self.keyspace.set_expiry_mode(self.expiry_mode());
    }

    /// Ends the pause: what waited is executed.
    pub(crate) fn unpause(&mut self) {
        self.pausing.pause = None;
        self.keyspace.set_expiry_mode(self.expiry_mode());
        for slot in std::mem::take(&mut self.pausing.waiting) {
            let Some(mut session) = self.take_session(slot) else {
                continue;
            };
            if session.state == State::Paused {
                session.state = State::Open;
                self.execute_buffered(&mut session);
                self.readable.push_back(slot);
            }
            self.return_session(session);
        }
    }

    /// Ends the pause if its time is over.
    #[inline]
    pub(crate) fn end_pause_if_due(&mut self) {
        if self
            .pausing
            .until()
            .is_some_and(|until| self.now.monotonic >= until)
        {
            self.unpause();
        }
    }

    /// What happens to keys whose time has come, when nothing special is going on.
    pub(crate) fn expiry_mode(&self) -> ExpiryMode {
        if self.pausing.is_on() || self.write_refusal().is_some() {
            ExpiryMode::Hide
        } else {
            ExpiryMode::Remove
        }
    }

    /// Lets the session wait if the pause holds up `found`, and returns true.
    pub(crate) fn wait_for_pause(&mut self, session: &mut Session, found: Found) -> bool {
        let Some(pause) = self.pausing.pause else {
            return false;
        };
        if pause.mode == PauseMode::Write && !writes(session, found) {
            return false;
        }
        session.state = State::Paused;
        self.pausing.waiting.push(session.slot);
        true
    }
}

/// Whether a request changes something, or is heard of elsewhere.
fn writes(session: &Session, found: Found) -> bool {
    match found.handler {
        Handler::Node(row) if row.name == "exec" => session
            .queue
            .as_ref()
            .is_some_and(|queue| queue.has_writes()),
        handler @ (Handler::Engine(_) | Handler::Node(_)) => {
            let flags = handler.flags();
            flags.contains(Flags::WRITE) || flags.contains(Flags::MAY_REPLICATE)
        }
    }
}
