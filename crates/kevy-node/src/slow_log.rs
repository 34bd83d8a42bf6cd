//! The slow log: requests that took long, with who sent them. One shard keeps it for the process, so that numbers rise in
//! the order in which clients see them; the others send what they find ([`Message::Slow`]).

use crate::host::Slot;
use crate::message::Message;
use crate::session::Session;
use crate::shard::Shard;
use kevy_proto::ids::ShardId;
use kevy_proto::resp::Args;
use kevy_proto::time::{Instant, UnixMillis};
use std::collections::VecDeque;
use std::time::Duration;

/// The shard that keeps the log.
pub(crate) const KEEPER: ShardId = ShardId(0);
/// Most arguments that an entry keeps; the last of them then says how many are missing.
const MAX_ARGUMENTS: usize = 32;
/// Most bytes of an argument that an entry keeps.
const MAX_ARGUMENT_BYTES: usize = 128;
/// Most entries, whatever `slowlog-max-len` allows.
const MAX_ENTRIES: u64 = 1 << 20;

/// A request that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Its number; they rise and never repeat while the process lives.
    pub id: u64,
    /// When it was over.
    pub at: UnixMillis,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// Its arguments, cut as Redis cuts them.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name, empty if it has none.
    pub client_name: Vec<u8>,
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    /// Newest first.
    entries: VecDeque<SlowRequest>,
    next_id: u64,
}

impl SlowLog {
    /// The newest entries, at most `count`.
    pub(crate) fn newest(&self, count: usize) -> Vec<SlowRequest> {
        self.entries.iter().take(count).cloned().collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    fn add(&mut self, mut request: SlowRequest, max_len: u64) {
        request.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(request);
        self.entries.truncate(max_len.min(MAX_ENTRIES) as usize);
    }
}

impl Shard {
    /// Whether a request that took so long belongs into the slow log.
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        u64::try_from(self.settings.monitoring.slowlog_log_slower_than)
            .is_ok_and(|threshold| took.as_micros() as u64 >= threshold)
    }

    /// Logs a request of a session of ours. `EXEC` is not logged, what it runs is.
    pub(crate) fn log_slow(&mut self, session: &Session, args: Args<'_>, took: Duration) {
        if args.at(0).eq_ignore_ascii_case(b"exec") {
            return;
        }
        let request = SlowRequest {
            id: 0,
            at: self.now.unix,
            micros: took.as_micros() as u64,
            arguments: shortened(args),
            address: session.peer.address.clone(),
            client_name: session.client.name.clone(),
        };
        self.send(KEEPER, Message::Slow(Box::new(request)));
    }

    /// As [`Shard::log_slow`], for the request of a blocked session that was served by what began at `began`: its waiting does
    /// not count.
    pub(crate) fn log_served(&mut self, slot: Slot, args: Args<'_>, began: Instant) {
        let took = self.clock().saturating_since(began);
        if !self.is_slow(took) {
            return;
        }
        if let Some(session) = self.take_session(slot) {
            self.log_slow(&session, args, took);
            self.sessions[slot.index()] = Some(session);
        }
    }

    /// Keeps what a shard found slow.
    pub(crate) fn keep_slow(&mut self, request: SlowRequest) {
        let max_len = self.settings.monitoring.slowlog_max_len;
        self.slow_log.add(request, max_len);
    }
}

/// The arguments as the log keeps them. Passwords are not kept.
fn shortened(args: Args<'_>) -> Vec<Vec<u8>> {
    if args.at(0).eq_ignore_ascii_case(b"auth") {
        let hidden = args.iter().skip(1).map(|_| b"(redacted)".to_vec());
        return [args.at(0).to_vec()]
            .into_iter()
            .chain(hidden)
            .take(MAX_ARGUMENTS)
            .collect();
    }
    let count = args.len();
    let kept = if count > MAX_ARGUMENTS {
        MAX_ARGUMENTS - 1
    } else {
        count
    };
    let mut arguments: Vec<Vec<u8>> = args.iter().take(kept).map(shortened_argument).collect();
    if kept < count {
        arguments.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    arguments
}

fn shortened_argument(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= MAX_ARGUMENT_BYTES {
        return argument.to_vec();
    }
    let mut kept = argument[..MAX_ARGUMENT_BYTES].to_vec();
    let more = argument.len() - MAX_ARGUMENT_BYTES;
    kept.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::resp::RequestBuffer;

    fn request(micros: u64) -> SlowRequest {
        SlowRequest {
            id: 0,
            at: UnixMillis(0),
            micros,
            arguments: Vec::new(),
            address: String::new(),
            client_name: Vec::new(),
        }
    }

    #[test]
    fn numbers_go_on_after_a_reset_and_the_oldest_entries_go() {
        let mut log = SlowLog::default();
        for micros in 0..5 {
            log.add(request(micros), 3);
        }
        let ids = |log: &SlowLog| log.newest(9).iter().map(|e| e.id).collect::<Vec<_>>();
        assert_eq!(ids(&log), [4, 3, 2]);
        log.clear();
        log.add(request(9), 3);
        assert_eq!((ids(&log), log.len()), (vec![5], 1));
        log.add(request(9), 0);
        assert_eq!(log.len(), 0);
    }

    /// Observed on redis-server 7.0.15.
    #[test]
    fn arguments_are_cut_as_redis_cuts_them() {
        let cut =
            |words: &[&[u8]]| shortened(RequestBuffer::from_slices(words.iter().copied()).args());
        let long = [b'x'; 140];
        assert_eq!(
            cut(&[b"set", b"k", &long])[2],
            [&[b'x'; 128][..], b"... (12 more bytes)"].concat()
        );
        let many = cut(&[&b"x"[..]; 42]);
        assert_eq!(
            (many.len(), &many[31][..]),
            (32, &b"... (11 more arguments)"[..])
        );
        assert_eq!(cut(&[&b"x"[..]; 32]).len(), 32);
        assert_eq!(cut(&[b"auth", b"secret"])[1], b"(redacted)");
    }
}
