//! Replies of one connection, in the order of its requests, whatever shards ran them (spec A3).
//!
//! While nothing is outstanding a reply is written straight into the output. A request that runs elsewhere takes a
//! number; replies that come after it wait behind it until it is completed.
//!
//! Output may be *held* until the log is durable up to a position; only what is free is sent.

use bytes::{Buf, BytesMut};
use std::collections::VecDeque;

/// Output of one connection, and what it waits for.
#[derive(Debug, Default)]
pub struct ReplyOrder {
    output: BytesMut,
    /// Replies from the oldest outstanding one on. Invariant: the front is not ready.
    waiting: VecDeque<Place>,
    /// The number of the request that the front of `waiting` belongs to; without waiting ones, the next request's.
    first: u64,
    /// Bytes in `waiting`.
    waiting_bytes: usize,
    /// One more than the highest number that was completed.
    completed_end: u64,
    /// Bytes of the output that were sent and forgotten.
    sent: u64,
    /// Up to where output may be sent, counted as `sent` is. Invariant: not before `sent`, not behind the output's end.
    free_end: u64,
    /// Up to where output waits, and for which position of the log; both ascend.
    held: VecDeque<(u64, u64)>,
    /// Replies that are known but not in order yet wait for this position of the log, too.
    waiting_for: u64,
}

/// What a request that was not replied to directly waits for.
#[derive(Debug)]
enum Place {
    Outstanding,
    /// Outstanding, and the client does not want to see the reply (`CLIENT REPLY OFF`).
    Muted,
    Ready(BytesMut),
}

/// Largest output buffer that an idle connection keeps.
const KEPT_BYTES: usize = 16 * 1024;

impl ReplyOrder {
    /// Takes the next number for a request whose reply comes later, with [`ReplyOrder::complete`].
    pub fn begin(&mut self) -> u64 {
        self.begin_as(Place::Outstanding)
    }

    /// As [`ReplyOrder::begin`], for a request whose reply the client does not want to see.
    pub fn begin_muted(&mut self) -> u64 {
        self.begin_as(Place::Muted)
    }

    fn begin_as(&mut self, place: Place) -> u64 {
        self.waiting.push_back(place);
        self.first + self.waiting.len() as u64 - 1
    }

    /// Whether replies can be written to [`ReplyOrder::output_mut`] at once. Each such reply must be followed by
    /// [`ReplyOrder::count_direct`].
    pub fn is_direct(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The end of the output, for direct replies only.
    pub fn output_mut(&mut self) -> &mut BytesMut {
        debug_assert!(
            self.waiting.is_empty(),
            "a direct reply would overtake an outstanding one"
        );
        &mut self.output
    }

    /// Counts a request that was replied to directly.
    pub fn count_direct(&mut self) {
        debug_assert!(
            self.waiting.is_empty(),
            "a direct reply would overtake an outstanding one"
        );
        self.first += 1;
    }

    /// Adds the reply of the next request behind those that are outstanding.
    pub fn push(&mut self, reply: BytesMut) {
        let number = self.begin();
        self.complete(number, reply);
    }

    /// Fills in the reply of request `number` (empty: it has none). Unknown numbers are ignored.
    pub fn complete(&mut self, number: u64, reply: BytesMut) {
        let index = number
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok());
        let Some(place) = index.and_then(|index| self.waiting.get_mut(index)) else {
            return;
        };
        let reply = match place {
            Place::Ready(_) => return,
            Place::Muted => BytesMut::new(),
            Place::Outstanding => reply,
        };
        self.waiting_bytes += reply.len();
        *place = Place::Ready(reply);
        self.completed_end = self.completed_end.max(number + 1);
        self.advance();
    }

    fn advance(&mut self) {
        while let Some(Place::Ready(reply)) = self.waiting.front_mut() {
            let reply = std::mem::take(reply);
            self.waiting.pop_front();
            self.first += 1;
            self.waiting_bytes -= reply.len();
            self.append(reply);
        }
    }

    fn append(&mut self, reply: BytesMut) {
        // A large reply that would only be copied becomes the output itself.
        if self.output.is_empty() && reply.len() > KEPT_BYTES {
            self.output = reply;
        } else {
            self.output.extend_from_slice(&reply);
        }
    }

    /// Takes the reply back that the newest request was given, with its number; it is outstanding again. `output_before` is
    /// how much output there was before it. Nothing else may have been added since.
    pub fn take_newest(&mut self, output_before: usize) -> Option<(u64, BytesMut)> {
        let reply = match self.waiting.back_mut() {
            Some(Place::Ready(reply)) => {
                let reply = std::mem::take(reply);
                self.waiting_bytes -= reply.len();
                self.waiting.pop_back();
                reply
            }
            Some(Place::Outstanding | Place::Muted) => return None,
            None => {
                let newest = self.first.checked_sub(1)?;
                self.first = newest;
                self.output.split_off(output_before.min(self.output.len()))
            }
        };
        Some((self.begin(), reply))
    }

    /// Adds an out-of-band message. It comes after all replies that are known, such as the confirmation of the
    /// subscription that brings it, and before those that are outstanding behind them.
    pub fn push_out_of_band(&mut self, message: &[u8]) {
        let newest = self.completed_end.checked_sub(self.first + 1);
        let index = newest.and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.waiting.get_mut(index)) {
            Some(Place::Ready(reply)) => {
                reply.extend_from_slice(message);
                self.waiting_bytes += message.len();
            }
            Some(Place::Outstanding | Place::Muted) | None => {
                self.output.extend_from_slice(message);
            }
        }
    }

    /// Number of requests whose reply is outstanding, or waits behind such.
    pub fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of replies that are known and in order.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Of the output, the bytes that can be sent now.
    pub fn sendable(&self) -> &[u8] {
        &self.output[..(self.free_end - self.sent) as usize]
    }

    /// Lets all output go that does not wait behind such as is held.
    #[inline]
    pub fn let_go(&mut self) {
        if self.held.is_empty() {
            self.free_end = self.end();
        }
    }

    /// Lets output that came since wait until the log is durable up to `position`. Whether this is the first that waits.
    pub fn hold_until(&mut self, position: u64) -> bool {
        let end = self.end();
        let last = self.held.back().map_or(self.free_end, |(end, _)| *end);
        if end == last {
            return false;
        }
        self.held.push_back((end, position));
        self.held.len() == 1
    }

    /// Lets also those replies wait for `position` that are not output yet.
    pub fn hold_waiting_until(&mut self, position: u64) {
        if !self.waiting.is_empty() {
            self.waiting_for = position;
        }
    }

    /// The position that whatever is output now has to wait for.
    pub fn waits_for(&self) -> u64 {
        self.waiting_for
    }

    /// The log is durable up to `synced`. Whether output still waits.
    pub fn release(&mut self, synced: u64) -> bool {
        while let Some((end, position)) = self.held.front()
            && *position <= synced
        {
            self.free_end = *end;
            self.held.pop_front();
        }
        !self.held.is_empty()
    }

    fn end(&self) -> u64 {
        self.sent + self.output.len() as u64
    }

    /// Bytes held for this connection.
    pub fn len_bytes(&self) -> usize {
        self.output.len() + self.waiting_bytes
    }

    /// Forgets `count` bytes of the output: they were sent.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.output.len());
        self.output.advance(count);
        self.sent += count as u64;
        if self.output.is_empty() {
            if self.output.capacity() > KEPT_BYTES {
                self.output = BytesMut::new();
            } else {
                // Gets back the room in front that `advance` left.
                self.output.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::rng::Rng;

    #[test]
    fn replies_wait_for_the_oldest_outstanding_one() {
        let mut order = ReplyOrder::default();
        order.output_mut().extend_from_slice(b"0");
        order.count_direct();
        let one = order.begin();
        let two = order.begin();
        order.push(BytesMut::from("3"));
        order.complete(two, BytesMut::from("2"));
        assert_eq!(order.output(), b"0");
        assert_eq!(order.outstanding(), 3);
        order.complete(one, BytesMut::from("1"));
        assert_eq!(order.output(), b"0123");
        assert!(order.is_direct());
        order.complete(one, BytesMut::from("again"));
        order.consume(2);
        assert_eq!(order.output(), b"23");
    }

    #[test]
    fn messages_stand_behind_the_newest_reply_that_is_known() {
        let mut order = ReplyOrder::default();
        order.push_out_of_band(b"a");
        let zero = order.begin();
        order.push_out_of_band(b"b");
        order.push(BytesMut::from("1"));
        let two = order.begin();
        order.push_out_of_band(b"c");
        assert_eq!(order.output(), b"ab");
        assert_eq!(order.len_bytes(), 4);
        order.complete(zero, BytesMut::from("0"));
        assert_eq!(order.output(), b"ab01c");
        order.push_out_of_band(b"d");
        order.complete(two, BytesMut::from("2"));
        order.push_out_of_band(b"e");
        assert_eq!(order.output(), b"ab01cd2e");
        assert_eq!(order.len_bytes(), 8);
    }

    #[test]
    fn held_output_goes_when_the_log_is_durable_and_in_order() {
        let mut order = ReplyOrder::default();
        order.push(BytesMut::from("a"));
        assert_eq!(order.sendable(), b"", "its turn is not over");
        order.let_go();
        order.push(BytesMut::from("b"));
        assert_eq!(order.sendable(), b"a");
        assert!(order.hold_until(10));
        order.push(BytesMut::from("c"));
        assert!(!order.hold_until(20));
        assert!(!order.hold_until(30), "nothing came since");
        order.consume(1);
        assert_eq!(order.sendable(), b"");
        order.push(BytesMut::from("d"));
        order.let_go();
        assert_eq!(order.sendable(), b"", "it does not overtake");
        assert!(order.release(19));
        assert_eq!(order.sendable(), b"b");
        assert!(!order.release(20));
        assert_eq!(order.sendable(), b"bc");
        order.let_go();
        assert_eq!(order.sendable(), b"bcd");
    }

    #[test]
    fn any_order_of_completion_gives_the_order_of_requests() {
        for seed in 0..100 {
            let mut rng = Rng::from_seed(seed);
            let mut order = ReplyOrder::default();
            let mut open = Vec::new();
            let mut expected = Vec::new();
            for byte in 0..200_u8 {
                expected.push(byte);
                if order.is_direct() && rng.below(3) == 0 {
                    order.output_mut().extend_from_slice(&[byte]);
                    order.count_direct();
                } else {
                    open.push((order.begin(), byte));
                }
                while !open.is_empty() && rng.below(2) == 0 {
                    let (number, byte) = open.swap_remove(rng.below(open.len() as u64) as usize);
                    order.complete(number, BytesMut::from(&[byte][..]));
                }
            }
            for (number, byte) in open {
                order.complete(number, BytesMut::from(&[byte][..]));
            }
            assert_eq!(order.output(), expected, "seed {seed}");
            assert_eq!(order.len_bytes(), expected.len());
        }
    }
}
