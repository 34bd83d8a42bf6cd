//! How a shard's only task gets along with the glommio executor it runs on.
//!
//! A task that sleeps in its own poller does not drive glommio's rings. So whoever starts a glommio operation holds a
//! [`Guard`] until it has completed; while there is one, the shard gives way to the executor each turn and sleeps by
//! awaiting its poller *through* glommio.

use futures_lite::future::{or, yield_now};
use futures_lite::{AsyncReadExt, pin};
use glommio::net::TcpStream;
use glommio::timer::Timer;
use glommio_socket2::Socket;
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Longest sleep through glommio: a timer must always be running, because glommio 0.9 can otherwise sleep for ever with
/// a runnable task (decision record 0001).
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Counts the glommio operations of one shard that have not completed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding(Rc<Cell<usize>>);

/// Held while a glommio operation runs.
#[derive(Debug)]
pub(crate) struct Guard(Rc<Cell<usize>>);

impl Outstanding {
    /// To be called before a glommio operation is started, and the guard kept until it has completed.
    pub(crate) fn begin(&self) -> Guard {
        self.0.set(self.0.get() + 1);
        Guard(Rc::clone(&self.0))
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        self.0.get() > 0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Lets glommio submit, complete, and run whoever waits for that.
pub(crate) async fn give_way() {
    yield_now().await;
}

/// Sleeps until `readiness` is readable, or `timeout` (at most [`LONGEST_SLEEP`]) is over.
pub(crate) async fn sleep_until_readable(readiness: OwnedFd, timeout: Duration) {
    let readable = await_readable(readiness);
    let timer = async {
        Timer::new(timeout.min(LONGEST_SLEEP)).await;
    };
    pin!(readable);
    pin!(timer);
    or(readable, timer).await;
}

/// glommio has no public way to await the readability of a descriptor, but its `TcpStream` starts by polling the one it
/// is made from, and awaits that before it reads. Reading then fails, for a poller is not a socket; by then it is readable.
async fn await_readable(readiness: OwnedFd) {
    let socket = Socket::from(std::net::TcpStream::from(readiness));
    let mut stream = TcpStream::from(socket);
    // Always an error (not a socket), and always after the poll.
    let _ = stream.read(&mut [0]).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use glommio::{LocalExecutorBuilder, Placement};
    use mio::{Poll, Token, Waker};
    use std::time::Instant;

    const PATIENT: Duration = Duration::from_millis(90);

    #[test]
    fn a_poller_is_awaited_through_glommio() {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .make()
            .unwrap();
        executor.run(async move {
            let readiness = || {
                rustix::fd::AsFd::as_fd(poll.registry())
                    .try_clone_to_owned()
                    .unwrap()
            };
            let started = Instant::now();
            sleep_until_readable(readiness(), Duration::from_millis(30)).await;
            assert!(
                started.elapsed() >= Duration::from_millis(30),
                "nothing was ready"
            );

            let rings = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(10));
                waker.wake().unwrap();
            });
            await_readable(readiness()).await;
            rings.join().unwrap();
            // Still readable: does not sleep at all.
            sleep_until_readable(readiness(), PATIENT).await;
        });
    }

    #[test]
    fn guards_are_counted() {
        let outstanding = Outstanding::default();
        let first = outstanding.begin();
        let second = outstanding.begin();
        drop(first);
        assert!(outstanding.any());
        drop(second);
        assert!(!outstanding.any());
    }
}
