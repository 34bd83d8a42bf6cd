//! One connection's conversation as a machine: requests in, bytes out; bytes in, replies out. No I/O.
//!
//! The blocking and the tokio hosts drive the same machine, and a test drives it byte by byte. Three things are decided
//! here: which reply belongs to which request (the oldest unanswered one), what an out-of-band push is, and what happens
//! to the replies of requests whose sender gave up: they are dropped when they come, so that a timeout or a cancelled
//! future does not spoil the connection.

use bytes::{Buf, BytesMut};
use kevy_proto::resp::{Reply, ReplyDecoder, encode_request};

use crate::{KevyError, KevyResult};

/// The machine of one connection.
///
/// ```
/// use kevy_client::Reply;
/// use kevy_client::protocol::{Conversation, Event};
///
/// let mut conversation = Conversation::new();
/// conversation.request([&b"GET"[..], b"k"].into_iter());
/// assert_eq!(conversation.transmit(), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
/// conversation.transmitted(conversation.transmit().len());
///
/// conversation.handle_bytes(b"$1\r\n");
/// assert_eq!(conversation.poll_event()?, None);
/// conversation.handle_bytes(b"v\r\n");
/// let event = conversation.poll_event()?;
/// assert_eq!(event, Some(Event::Reply(Reply::Bulk("v".into()))));
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug, Default)]
pub struct Conversation {
    /// Requests not yet transmitted.
    outgoing: BytesMut,
    /// Bytes received that are not yet a reply.
    incoming: BytesMut,
    decoder: ReplyDecoder,
    /// The oldest unanswered requests, whose replies nobody wants any more.
    abandoned: usize,
    /// Unanswered requests after those.
    awaited: usize,
    /// Whether replies may come without a request, as RESP2's published messages do.
    listening: bool,
}

/// What came from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The answer to the oldest unanswered request, or, while listening, anything that is no push.
    Reply(Reply),
    /// An out-of-band message of RESP3, its kind first.
    Push(Vec<Reply>),
}

impl Conversation {
    /// The machine of a connection on which nothing was said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The machine of a connection that subscribes: every array may come without a request.
    pub fn listening() -> Self {
        Self {
            listening: true,
            ..Self::default()
        }
    }

    /// Adds a request, the command's name first, and expects one reply to it.
    pub fn request<'a>(&mut self, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        encode_request(args, &mut self.outgoing);
        self.awaited += 1;
    }

    /// The bytes to transmit next.
    pub fn transmit(&self) -> &[u8] {
        &self.outgoing
    }

    /// The first `count` bytes of [`transmit`](Self::transmit) are on their way.
    pub fn transmitted(&mut self, count: usize) {
        self.outgoing.advance(count.min(self.outgoing.len()));
    }

    /// Takes bytes that were received. Call [`poll_event`](Self::poll_event) until `None` after it: then no more is kept
    /// than the beginning of one reply.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
    }

    /// The next reply or push, or `None` until more bytes come.
    ///
    /// # Errors
    ///
    /// [`KevyError::Protocol`] when the bytes are no reply, or nobody asked for it; the connection is to be closed then.
    pub fn poll_event(&mut self) -> KevyResult<Option<Event>> {
        while let Some((reply, length)) = self.decoder.decode(&self.incoming)? {
            self.incoming.advance(length);
            if let Reply::Push(items) = reply {
                return Ok(Some(Event::Push(items)));
            }
            if self.listening {
                return Ok(Some(Event::Reply(reply)));
            }
            if self.abandoned > 0 {
                self.abandoned -= 1;
                continue;
            }
            if self.awaited == 0 {
                return Err(KevyError::Protocol(format!(
                    "a reply without a request: {reply:?}"
                )));
            }
            self.awaited -= 1;
            return Ok(Some(Event::Reply(reply)));
        }
        Ok(None)
    }

    /// How many requests wait for their reply.
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// Gives up all unanswered requests. They are still transmitted to their end, and their replies are dropped.
    pub fn abandon(&mut self) {
        self.abandoned += std::mem::take(&mut self.awaited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn asked(requests: usize) -> Conversation {
        let mut conversation = Conversation::new();
        for _ in 0..requests {
            conversation.request([&b"PING"[..]].into_iter());
        }
        conversation.transmitted(usize::MAX);
        conversation
    }

    fn events(conversation: &mut Conversation) -> Vec<Event> {
        std::iter::from_fn(|| conversation.poll_event().unwrap()).collect()
    }

    fn number(number: i64) -> Event {
        Event::Reply(Reply::Integer(number))
    }

    const STREAM: &[u8] =
        b":1\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n-ERR no\r\n*2\r\n$-1\r\n:7\r\n";

    fn expected() -> Vec<Event> {
        let bulk = |text: &'static str| Reply::Bulk(Bytes::from_static(text.as_bytes()));
        vec![
            number(1),
            Event::Push(vec![bulk("invalidate"), Reply::Array(vec![bulk("k")])]),
            Event::Reply(Reply::Error(Bytes::from_static(b"ERR no"))),
            Event::Reply(Reply::Array(vec![Reply::Null, Reply::Integer(7)])),
        ]
    }

    #[test]
    fn the_events_are_the_same_wherever_the_bytes_are_cut() {
        for cut in 0..=STREAM.len() {
            let mut conversation = asked(3);
            let mut found = Vec::new();
            for part in [&STREAM[..cut], &STREAM[cut..]] {
                conversation.handle_bytes(part);
                found.extend(events(&mut conversation));
            }
            assert_eq!(found, expected(), "cut at {cut}");
            assert_eq!(conversation.awaited(), 0);
        }
        let mut conversation = asked(3);
        let mut found = Vec::new();
        for byte in STREAM.chunks(1) {
            conversation.handle_bytes(byte);
            found.extend(events(&mut conversation));
        }
        assert_eq!(found, expected());
    }

    #[test]
    fn replies_of_abandoned_requests_are_dropped() {
        let mut conversation = asked(2);
        conversation.handle_bytes(b":1");
        assert_eq!(conversation.poll_event().unwrap(), None);
        conversation.abandon();
        conversation.request([&b"GET"[..], b"k"].into_iter());
        conversation.handle_bytes(b"\r\n-ERR 2\r\n:3\r\n");
        assert_eq!(events(&mut conversation), [number(3)]);
        assert_eq!(conversation.awaited(), 0);
    }

    #[test]
    fn an_abandoned_request_is_still_transmitted_whole() {
        let mut conversation = Conversation::new();
        conversation.request([&b"PING"[..]].into_iter());
        conversation.transmitted(3);
        conversation.abandon();
        conversation.request([&b"A"[..]].into_iter());
        assert_eq!(
            conversation.transmit(),
            b"\n$4\r\nPING\r\n*1\r\n$1\r\nA\r\n"
        );
    }

    #[test]
    fn what_nobody_asked_for_is_an_error_unless_one_listens() {
        let mut conversation = asked(1);
        conversation.handle_bytes(b":1\r\n:2\r\n");
        assert_eq!(conversation.poll_event().unwrap(), Some(number(1)));
        let error = conversation.poll_event().unwrap_err();
        assert!(error.to_string().contains("without a request"), "{error}");

        let mut listening = Conversation::listening();
        listening.handle_bytes(b":1\r\n:2\r\n");
        assert_eq!(events(&mut listening), [number(1), number(2)]);
    }

    #[test]
    fn bytes_that_are_no_reply_are_an_error() {
        let mut conversation = asked(1);
        conversation.handle_bytes(b"HTTP/1.1 400\r\n");
        assert!(matches!(
            conversation.poll_event(),
            Err(KevyError::Protocol(_))
        ));
    }
}
