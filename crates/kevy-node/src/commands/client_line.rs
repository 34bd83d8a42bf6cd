//! A session as `CLIENT LIST` and `CLIENT INFO` show it.

use super::tracking::redirection;
use crate::session::Session;
use crate::shard::Shard;
use crate::subscriptions::Topic;
use crate::tracking::client::Mode;
use kevy_proto::resp::{Args, RespVersion};
use std::fmt::Write;

/// The size of a request that asks for lines: its own line counts it, as Redis's does.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskingRequest {
    request_bytes: usize,
    argument_bytes: usize,
}

impl AskingRequest {
    /// The size of the request with `args`, as clients send it.
    pub(crate) fn of(args: Args<'_>) -> Self {
        let header = |number: usize| number.to_string().len() + b"*\r\n".len();
        let argument_bytes = args.iter().map(<[u8]>::len).sum();
        let framed = |arg: &[u8]| header(arg.len()) + arg.len() + b"\r\n".len();
        Self {
            request_bytes: header(args.len()) + args.iter().map(framed).sum::<usize>(),
            argument_bytes,
        }
    }
}

impl Shard {
    /// The line of one session, without its line end (<https://redis.io/docs/latest/commands/client-list/>).
    pub(crate) fn client_line(&self, session: &Session) -> String {
        let client = &session.client;
        let age = self
            .now
            .monotonic
            .saturating_since(client.since.monotonic)
            .as_secs();
        let idle = self
            .now
            .monotonic
            .saturating_since(client.last_request)
            .as_secs();
        let output = session.replies.len_bytes();
        let input = session.input_bytes();
        let mut line = format!(
            "id={} addr={} laddr={} fd={} name={}",
            session.id,
            session.peer.address,
            session.peer.local_address,
            session.slot.0,
            String::from_utf8_lossy(&client.name),
        );
        let subscribed = &session.subscribed;
        let flags = flags(session);
        let queue = session.queue.as_ref();
        let queued = queue.map_or(-1, |queue| queue.len() as i64);
        let queued_bytes = queue.map_or(0, |queue| queue.len_bytes());
        let asks = client.asks.unwrap_or_default();
        let input = input + asks.request_bytes;
        let argument_bytes = asks.argument_bytes;
        let _ = write!(
            line,
            " age={age} idle={idle} flags={flags} db=0 sub={} psub={} ssub={} multi={queued} qbuf={input} qbuf-free=0 \
             argv-mem={argument_bytes} multi-mem={queued_bytes} rbs=0 rbp=0 obl={output} oll=0 omem={output} tot-mem={} events=r cmd={} \
             user=default redir={} \
             resp={} lib-name={} lib-ver={}",
            subscribed.len(Topic::Channel),
            subscribed.len(Topic::Pattern),
            subscribed.len(Topic::ShardChannel),
            input + output + size_of::<Session>(),
            client.last_command,
            redirection(session),
            if client.version == RespVersion::V3 {
                3
            } else {
                2
            },
            String::from_utf8_lossy(&client.library_name),
            String::from_utf8_lossy(&client.library_version),
        );
        line
    }
}

/// The letters that stand for what a session does, in Redis's order; `N` if there is nothing to say.
fn flags(session: &Session) -> String {
    let tracking = session.tracking.as_ref();
    let letters = [
        (session.is_monitor, 'O'),
        (session.subscribed.any(), 'P'),
        (session.queue.is_some(), 'x'),
        (session.is_blocked() || session.is_paused(), 'b'),
        (tracking.is_some(), 't'),
        (tracking.is_some_and(|t| t.is_broken), 'R'),
        (tracking.is_some_and(|t| t.mode == Mode::Broadcast), 'B'),
        (session.client.no_evict, 'e'),
        (session.client.no_touch, 'T'),
    ];
    let set: String = letters
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, letter)| letter)
        .collect();
    if set.is_empty() { "N".to_owned() } else { set }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::resp::RequestBuffer;

    #[test]
    fn a_request_is_as_long_as_it_is_on_the_wire() {
        let request = RequestBuffer::from_slices([&b"CLIENT"[..], b"LIST"]);
        let asking = AskingRequest::of(request.args());
        assert_eq!(
            asking.request_bytes,
            "*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n".len()
        );
        assert_eq!(asking.argument_bytes, 10);
    }
}
