//! How a shard goes to sleep without missing a message, as a piece small enough to be checked exhaustively.
//!
//! A shard that polls its queues needs no waking; one that sleeps must be rung. Ringing is a system call, so a producer
//! rings only if the consumer said that it sleeps:
//!
//! * consumer: [`announce`](ParkFlag::announce) (swap, fence), **look at the queues once more**, then sleep until rung,
//!   then [`withdraw`](ParkFlag::withdraw);
//! * producer: queue the message, [`must_ring`](ParkFlag::must_ring) (fence, load, swap), ring if it says so.
//!
//! Of the two fences one comes first. If it is the consumer's, the producer sees the flag and rings; if it is the
//! producer's, the consumer sees the message. All writes are swaps, so that their order is plain to a model checker too. The test explores every interleaving with loom.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// An atomic bit and the fence that orders it: std's, or a model checker's.
pub(crate) trait Bit {
    /// A bit that is not set.
    fn clear() -> Self;
    /// Reads it, relaxed.
    fn load(&self) -> bool;
    /// Writes it and says what it was, acquire and release.
    fn swap(&self, value: bool) -> bool;
    /// A sequentially consistent fence.
    fn fence();
}

impl Bit for AtomicBool {
    fn clear() -> Self {
        Self::new(false)
    }

    fn load(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

    fn swap(&self, value: bool) -> bool {
        self.swap(value, Ordering::AcqRel)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Whether a consumer sleeps. Shared between one consumer and any number of producers.
pub(crate) struct ParkFlag<B = AtomicBool> {
    parked: B,
}

impl<B: Bit> ParkFlag<B> {
    /// A consumer that is awake.
    pub(crate) fn new() -> Self {
        Self { parked: B::clear() }
    }

    /// The consumer is about to sleep. It must look at its queues once more after this, and must not sleep if it finds
    /// something.
    pub(crate) fn announce(&self) {
        self.parked.swap(true);
        B::fence();
    }

    /// The consumer is awake again.
    pub(crate) fn withdraw(&self) {
        self.parked.swap(false);
    }

    /// Asked by a producer after it queued something: whether it must ring. At most one producer per sleep is told so.
    pub(crate) fn must_ring(&self) -> bool {
        B::fence();
        self.parked.load() && self.parked.swap(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicBool as LoomBool, AtomicUsize, fence as loom_fence};
    use loom::sync::{Arc, Condvar, Mutex};

    impl Bit for LoomBool {
        fn clear() -> Self {
            Self::new(false)
        }

        fn load(&self) -> bool {
            self.load(Ordering::Relaxed)
        }

        fn swap(&self, value: bool) -> bool {
            self.swap(value, Ordering::AcqRel)
        }

        fn fence() {
            loom_fence(Ordering::SeqCst);
        }
    }

    /// One shard's inbox: a ring (only its tail matters), the flag, and a bell that remembers having been rung.
    struct Inbox {
        queued: AtomicUsize,
        flag: ParkFlag<LoomBool>,
        rung: Mutex<bool>,
        bell: Condvar,
    }

    impl Inbox {
        fn send(&self) {
            self.queued.fetch_add(1, Ordering::Release);
            if self.flag.must_ring() {
                *self.rung.lock().unwrap() = true;
                self.bell.notify_one();
            }
        }

        /// Sleeps until there are more than `seen` messages; loom reports a deadlock if a wake-up gets lost.
        fn wait(&self, seen: usize) {
            loop {
                if self.queued.load(Ordering::Acquire) > seen {
                    return;
                }
                self.flag.announce();
                if self.queued.load(Ordering::Acquire) == seen {
                    let mut rung = self.rung.lock().unwrap();
                    while !*rung {
                        rung = self.bell.wait(rung).unwrap();
                    }
                    *rung = false;
                }
                self.flag.withdraw();
            }
        }
    }

    fn explore(producers: usize, messages_each: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let inbox = Arc::new(Inbox {
                queued: AtomicUsize::new(0),
                flag: ParkFlag::new(),
                rung: Mutex::new(false),
                bell: Condvar::new(),
            });
            let threads: Vec<_> = (0..producers)
                .map(|_| {
                    let inbox = Arc::clone(&inbox);
                    loom::thread::spawn(move || (0..messages_each).for_each(|_| inbox.send()))
                })
                .collect();
            for seen in 0..producers * messages_each {
                inbox.wait(seen);
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn no_wake_up_is_lost_with_one_producer() {
        explore(1, 3);
    }

    #[test]
    fn no_wake_up_is_lost_with_two_producers() {
        explore(2, 1);
    }
}
