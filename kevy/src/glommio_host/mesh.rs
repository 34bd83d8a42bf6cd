//! Messages between shards: one bounded ring for each ordered pair of shards, and a doorbell per shard.
//!
//! A ring has one writer and one reader, so it needs no lock and keeps order. A shard that is awake finds messages by
//! looking (two loads per peer); only one that announced its sleep is rung, through its poller ([`park`](super::park)).
//! See decision record 0003 for what this costs beside the other ways.

use super::park::ParkFlag;
use kevy_proto::ids::ShardId;
use mio::Waker;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most messages that wait from one shard for another, with few shards.
pub(crate) const MESSAGES_PER_PAIR: usize = 1024;
/// Messages that may wait for one shard from all others: what bounds the rings' memory when there are many shards.
pub(crate) const MESSAGES_PER_SHARD: usize = 8192;
/// Even with very many shards a ring holds this many.
pub(crate) const FEWEST_MESSAGES_PER_PAIR: usize = 64;
/// How many messages of one peer are taken before the next peer has its turn.
const MESSAGES_PER_PEER: usize = 32;

/// How many messages a ring holds when there are `shards` shards.
pub(crate) fn ring_capacity(shards: usize) -> usize {
    (MESSAGES_PER_SHARD / shards.max(1)).clamp(FEWEST_MESSAGES_PER_PAIR, MESSAGES_PER_PAIR)
}

/// How other threads get a shard's attention.
pub(crate) struct Doorbell {
    flag: ParkFlag,
    stop: AtomicBool,
    waker: Waker,
}

impl Doorbell {
    /// A doorbell that wakes the poller of `waker`.
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            flag: ParkFlag::new(),
            stop: AtomicBool::new(false),
            waker,
        }
    }

    /// Asks the shard to shut down. Works from any thread and at any time.
    ///
    /// # Errors
    /// As writing to an eventfd says; the request then stands all the same, and is seen within
    /// [`LONGEST_PARK`](super::LONGEST_PARK).
    pub(crate) fn request_stop(&self) -> io::Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake()
    }

    /// Whether the shard was asked to shut down.
    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag that tells producers whether to ring.
    pub(crate) fn flag(&self) -> &ParkFlag {
        &self.flag
    }

    /// Wakes the shard if it sleeps; called after something was queued for it.
    fn ring_if_parked(&self) {
        if self.flag.must_ring() {
            // An eventfd refuses only when its counter is full: then it is readable and the shard wakes anyway.
            let _ = self.waker.wake();
        }
    }
}

/// One shard's end of all rings.
pub(crate) struct MeshPort<M> {
    own: ShardId,
    outgoing: Vec<Producer<M>>,
    incoming: Vec<Consumer<M>>,
    doorbells: Arc<[Doorbell]>,
    current: usize,
    taken_of_current: usize,
}

/// Builds the rings between shards that have these doorbells: one port per shard, in order.
pub(crate) fn mesh<M>(doorbells: &Arc<[Doorbell]>) -> Vec<MeshPort<M>> {
    let shards = doorbells.len();
    let mut writers: Vec<Vec<_>> = (0..shards).map(|_| Vec::with_capacity(shards)).collect();
    let mut readers: Vec<Vec<_>> = (0..shards).map(|_| Vec::with_capacity(shards)).collect();
    for writer in &mut writers {
        for reader in &mut readers {
            let (producer, consumer) = RingBuffer::new(ring_capacity(shards));
            writer.push(producer);
            reader.push(consumer);
        }
    }
    (0..)
        .zip(writers.into_iter().zip(readers))
        .map(|(index, (outgoing, incoming))| MeshPort {
            own: ShardId(index),
            outgoing,
            incoming,
            doorbells: Arc::clone(doorbells),
            current: 0,
            taken_of_current: 0,
        })
        .collect()
}

impl<M> MeshPort<M> {
    /// Queues `message` for `to`, and rings if `to` sleeps.
    ///
    /// # Errors
    /// Gives the message back if the ring is full.
    pub(crate) fn send(&mut self, to: ShardId, message: M) -> Result<(), M> {
        let Some(ring) = self.outgoing.get_mut(to.index()) else {
            return Err(message);
        };
        ring.push(message)
            .map_err(|rtrb::PushError::Full(message)| message)?;
        self.doorbells[to.index()].ring_if_parked();
        Ok(())
    }

    /// The next message, peers taking turns.
    pub(crate) fn receive(&mut self) -> Option<(ShardId, M)> {
        for _ in 0..=self.incoming.len() {
            if self.taken_of_current < MESSAGES_PER_PEER
                && let Ok(message) = self.incoming[self.current].pop()
            {
                self.taken_of_current += 1;
                return Some((ShardId(self.current as u16), message));
            }
            self.current = (self.current + 1) % self.incoming.len();
            self.taken_of_current = 0;
        }
        None
    }

    /// Whether a message waits.
    pub(crate) fn has_messages(&self) -> bool {
        self.incoming.iter().any(|ring| !ring.is_empty())
    }

    /// This shard's doorbell.
    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbells[self.own.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::Duration;

    fn ports(shards: usize) -> (Vec<Poll>, Vec<MeshPort<u64>>) {
        let polls: Vec<_> = (0..shards).map(|_| Poll::new().unwrap()).collect();
        let doorbells = polls
            .iter()
            .map(|poll| Doorbell::new(Waker::new(poll.registry(), Token(0)).unwrap()))
            .collect();
        (polls, mesh(&doorbells))
    }

    #[test]
    fn every_pair_has_a_ring_of_its_own() {
        let (_polls, mut ports) = ports(3);
        for from in 0..3_u16 {
            for to in 0..3_u16 {
                let message = u64::from(from) * 10 + u64::from(to);
                ports[usize::from(from)].send(ShardId(to), message).unwrap();
            }
        }
        for (to, port) in (0..).zip(&mut ports) {
            let mut received: Vec<_> = std::iter::from_fn(|| port.receive()).collect();
            received.sort_unstable();
            let expected: Vec<_> = (0..3_u16)
                .map(|from| (ShardId(from), u64::from(from) * 10 + to))
                .collect();
            assert_eq!(received, expected);
            assert!(!port.has_messages());
        }
    }

    #[test]
    fn a_full_ring_gives_the_message_back() {
        let (_polls, mut ports) = ports(2);
        for number in 0..ring_capacity(2) as u64 {
            ports[0].send(ShardId(1), number).unwrap();
        }
        assert_eq!(ports[0].send(ShardId(1), 7777), Err(7777));
        assert_eq!(ports[1].receive(), Some((ShardId(0), 0)));
        assert_eq!(ports[0].send(ShardId(1), 7777), Ok(()));
    }

    #[test]
    fn a_busy_peer_does_not_starve_another() {
        let (_polls, mut ports) = ports(3);
        for number in 0..100 {
            ports[0].send(ShardId(2), number).unwrap();
        }
        ports[1].send(ShardId(2), 555).unwrap();
        let position = (0..).find(|_| ports[2].receive() == Some((ShardId(1), 555)));
        assert!(position.unwrap() <= MESSAGES_PER_PEER);
    }

    #[test]
    fn rings_stay_small_with_many_shards() {
        assert_eq!(ring_capacity(1), MESSAGES_PER_PAIR);
        assert_eq!(ring_capacity(64), 128);
        assert_eq!(ring_capacity(1000), FEWEST_MESSAGES_PER_PAIR);
    }

    /// Each side parks whenever its inbox is empty, so every message needs a wake-up that must not be lost. `window`
    /// messages are in flight: small windows park for each, large ones sometimes.
    fn bounce(window: u64, rounds: u64) {
        let (polls, ports) = ports(2);
        std::thread::scope(|scope| {
            for ((index, mut poll), mut port) in (0_u16..).zip(polls).zip(ports) {
                scope.spawn(move || {
                    let peer = ShardId(1 - index);
                    let mut events = Events::with_capacity(8);
                    if index == 0 {
                        (0..window).for_each(|_| port.send(peer, 0).unwrap());
                    }
                    let mut received = 0;
                    while received < window * rounds {
                        while let Some((_, round)) = port.receive() {
                            received += 1;
                            if round + 1 < 2 * rounds {
                                port.send(peer, round + 1).unwrap();
                            }
                        }
                        port.doorbell().flag().announce();
                        if !port.has_messages() && received < window * rounds {
                            // A lost wake-up shows as a timeout: nothing else ends this sleep.
                            poll.poll(&mut events, Some(Duration::from_secs(20)))
                                .unwrap();
                            assert!(!events.is_empty(), "window {window}: a wake-up was lost");
                        }
                        port.doorbell().flag().withdraw();
                    }
                });
            }
        });
    }

    #[test]
    fn thousands_of_parks_lose_no_wake_up_at_any_load() {
        for (window, rounds) in [(1, 4000), (2, 2000), (8, 1000), (64, 300), (500, 50)] {
            bounce(window, rounds);
        }
    }
}
