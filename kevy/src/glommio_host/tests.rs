//! The host under a small machine of its own, over real sockets: what arrives is sent back. A line `big <n>` is answered
//! with `n` bytes, a line `quit` with `bye` and a close.

use super::listener::ListenAddress;
use super::mesh::{Doorbell, mesh};
use super::network::DOORBELL;
use super::*;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};
use kevy_node::host::Door;
use kevy_proto::ids::TransactionId;
use mio::Waker;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);

fn parts(listeners: Vec<Vec<Listener>>) -> (Vec<HostParts>, Arc<[Doorbell]>, ConnectionCount) {
    let polls: Vec<_> = listeners.iter().map(|_| Poll::new().unwrap()).collect();
    let doorbells: Arc<[Doorbell]> = polls
        .iter()
        .map(|poll| Doorbell::new(Waker::new(poll.registry(), DOORBELL).unwrap()))
        .collect();
    let count = ConnectionCount::default();
    let parts = polls
        .into_iter()
        .zip(listeners)
        .zip(mesh(&doorbells))
        .map(|((poll, listeners), mesh)| HostParts {
            directory: None,
            poll,
            listeners,
            count: count.clone(),
            mesh,
            clock: HostClock::start(),
            may_spin: true,
        })
        .collect();
    (parts, doorbells, count)
}

fn tcp_listener() -> (Listener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    (
        Listener::new(socket.into(), Door::Main, ListenAddress::Tcp(address)),
        address,
    )
}

fn on_executor<F>(
    parts: HostParts,
    machine: impl FnOnce(GlommioHost) -> F + Send + 'static,
) -> ExecutorJoinHandle<()>
where
    F: Future<Output = ()> + 'static,
{
    LocalExecutorBuilder::new(Placement::Unbound)
        .io_memory(64 * 1024)
        .spawn(move || async move { machine(GlommioHost::new(parts).unwrap()).await })
        .unwrap()
}

fn patience(host: &GlommioHost) -> Patience {
    Patience {
        none: false,
        deadline: host.now().monotonic + SECOND,
        expects_messages: false,
    }
}

/// The machine: per connection what came in as an unfinished line, and what is still to be sent.
#[derive(Default)]
struct Echo {
    sessions: HashMap<Slot, (Vec<u8>, Vec<u8>)>,
    closed_in_this_turn: Vec<Slot>,
}

impl Echo {
    async fn run(mut self, mut host: GlommioHost) {
        let mut events = Vec::new();
        loop {
            host.wait(patience(&host), &mut events).await.unwrap();
            self.closed_in_this_turn.clear();
            for event in events.drain(..) {
                match event {
                    Event::Connected { slot, peer } => {
                        assert!(peer.connected_total > 0);
                        assert!(
                            !self.closed_in_this_turn.contains(&slot),
                            "used again in its turn"
                        );
                        assert!(self.sessions.insert(slot, Default::default()).is_none());
                    }
                    Event::Readable(slot) => self.read(&mut host, slot),
                    Event::Writable(slot) => self.send(&mut host, slot),
                    Event::ShutdownRequested => return,
                    Event::Disk { .. } => unreachable!("nothing is written here"),
                }
            }
        }
    }

    fn read(&mut self, host: &mut GlommioHost, slot: Slot) {
        let mut buffer = [0; 1024];
        while self.sessions.contains_key(&slot) {
            match host.receive_bytes(slot, &mut buffer) {
                Received::Bytes(count) => {
                    self.take(host, slot, &buffer[..count]);
                    // The contract: a short read is the last one, the host tells if there is more.
                    if count < buffer.len() {
                        return;
                    }
                }
                Received::Nothing => return,
                Received::Closed => self.close(host, slot),
            }
        }
    }

    fn take(&mut self, host: &mut GlommioHost, slot: Slot, bytes: &[u8]) {
        let (input, output) = self.sessions.get_mut(&slot).unwrap();
        input.extend_from_slice(bytes);
        let mut quits = false;
        while let Some(end) = input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            if let Some(count) = line.strip_prefix(b"big ") {
                let count = std::str::from_utf8(count).unwrap().trim().parse().unwrap();
                output.extend((0..count).map(pattern));
            } else if line == b"quit\n" {
                output.extend(b"bye\n");
                quits = true;
                break;
            } else {
                output.extend(line);
            }
        }
        self.send(host, slot);
        if quits {
            self.close(host, slot);
        }
    }

    fn send(&mut self, host: &mut GlommioHost, slot: Slot) {
        let Some((_, output)) = self.sessions.get_mut(&slot) else {
            return;
        };
        if output.is_empty() {
            return;
        }
        match host.send_bytes(slot, output) {
            Sent::Bytes(count) => drop(output.drain(..count)),
            Sent::Closed => self.close(host, slot),
        }
    }

    fn close(&mut self, host: &mut GlommioHost, slot: Slot) {
        host.close(slot);
        self.sessions.remove(&slot);
        self.closed_in_this_turn.push(slot);
    }
}

fn pattern(index: usize) -> u8 {
    (index * 31 % 251) as u8
}

/// Runs the machine on one shard while `clients` runs, and checks that no connection is counted afterwards.
fn with_echo(listener: Listener, clients: impl FnOnce()) {
    let (mut parts, doorbells, count) = parts(vec![vec![listener]]);
    let shard = on_executor(parts.remove(0), |host| Echo::default().run(host));
    clients();
    doorbells[0].request_stop().unwrap();
    shard.join().unwrap();
    assert_eq!(count.get(), 0);
}

fn say(stream: &mut (impl Read + Write), request: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = vec![0; request.len()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, request.as_bytes());
}

#[test]
fn many_connections_are_served_and_counted() {
    let (listener, address) = tcp_listener();
    with_echo(listener, || {
        let mut kept: Vec<_> = (0..150)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for round in 0..3 {
            for (index, stream) in kept.iter_mut().enumerate() {
                say(stream, &format!("hello {index} {round}\n"));
            }
        }
        // A loop of short connections reuses slots all the time.
        for index in 0..500 {
            say(
                &mut TcpStream::connect(address).unwrap(),
                &format!("short {index}\n"),
            );
        }
        for stream in &mut kept {
            say(stream, "still here\n");
        }
    });
}

#[test]
fn a_reply_larger_than_every_buffer_arrives_whole() {
    const BYTES: usize = 24 * 1024 * 1024;
    let (listener, address) = tcp_listener();
    let read_slowly = |stream: &mut dyn Read| {
        // The server has long filled the buffers between us by now.
        std::thread::sleep(Duration::from_millis(30));
        let mut reply = vec![0; BYTES];
        stream.read_exact(&mut reply).unwrap();
        assert!(
            (0..BYTES).map(pattern).eq(reply),
            "bytes were lost or doubled"
        );
    };
    with_echo(listener, || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(format!("big {BYTES}\n").as_bytes())
            .unwrap();
        read_slowly(&mut stream);
        say(&mut stream, "and again\n");
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let socket = UnixListener::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = Listener::new(socket.into(), Door::Unix, ListenAddress::Unix(path.clone()));
    with_echo(listener, || {
        let mut stream = UnixStream::connect(&path).unwrap();
        say(&mut stream, "small\n");
        stream
            .write_all(format!("big {BYTES}\n").as_bytes())
            .unwrap();
        read_slowly(&mut stream);
        say(&mut stream, "and again\n");
    });
}

#[test]
fn the_last_reply_arrives_before_the_end_whatever_was_left_unread() {
    let (listener, address) = tcp_listener();
    with_echo(listener, || {
        for _ in 0..50 {
            let mut stream = TcpStream::connect(address).unwrap();
            let junk = "unread\n".repeat(5000);
            stream
                .write_all(format!("quit\n{junk}").as_bytes())
                .unwrap();
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).unwrap();
            assert_eq!(reply, b"bye\n");
        }
    });
}

#[test]
fn requests_before_a_half_close_are_answered() {
    let (listener, address) = tcp_listener();
    with_echo(listener, || {
        for count in 0..200 {
            let mut stream = TcpStream::connect(address).unwrap();
            // Bytes and end often arrive together, so that one edge tells of both.
            let request = "line\n".repeat(count);
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            assert_eq!(reply, request);
        }
    });
}

#[test]
fn a_shutdown_is_reported_once() {
    let (mut parts, doorbells, _) = parts(vec![vec![]]);
    let shard = on_executor(parts.remove(0), |mut host| async move {
        let mut events = Vec::new();
        while events.is_empty() {
            host.wait(patience(&host), &mut events).await.unwrap();
        }
        let soon = Patience {
            deadline: host.now().monotonic,
            ..patience(&host)
        };
        host.wait(soon, &mut events).await.unwrap();
        assert_eq!(events, [Event::ShutdownRequested]);
    });
    doorbells[0].request_stop().unwrap();
    shard.join().unwrap();
}

/// `window` messages go back and forth between two hosts until each has been passed on `hops` times. A lost wake-up shows
/// as a wait that ends by its deadline although messages are under way.
fn bounce(window: u64, hops: u64, through_glommio: bool) {
    let (parts, _doorbells, _) = parts(vec![vec![], vec![]]);
    let message = |hop| {
        Message::Release(TransactionId {
            coordinator: ShardId(0),
            sequence: hop,
        })
    };
    let shards: Vec<_> = (0..)
        .zip(parts)
        .map(|(index, parts)| {
            on_executor(parts, move |mut host| async move {
                let peer = ShardId(1 - index);
                let outstanding = host.outstanding.clone();
                let _operation = through_glommio.then(|| outstanding.begin());
                let mut events = Vec::new();
                if index == 0 {
                    (0..window).for_each(|_| host.send_message(peer, message(1)).unwrap());
                }
                let mut left = window * hops / 2;
                while left > 0 {
                    let begin = host.now().monotonic;
                    let patience = Patience {
                        deadline: begin + 20 * SECOND,
                        ..patience(&host)
                    };
                    host.wait(patience, &mut events).await.unwrap();
                    assert!(
                        host.now().monotonic - begin < 10 * SECOND,
                        "a wake-up was lost"
                    );
                    while let Some((_, Message::Release(id))) = host.receive_message() {
                        left -= 1;
                        if id.sequence < hops {
                            host.send_message(peer, message(id.sequence + 1)).unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    for shard in shards {
        shard.join().unwrap();
    }
}

#[test]
fn no_message_waits_for_a_wake_up_that_is_lost() {
    for (window, hops) in [(1, 2000), (4, 1000), (64, 200), (500, 40)] {
        bounce(window, hops, false);
    }
}

#[test]
fn nor_does_one_while_glommio_has_work() {
    for (window, hops) in [(1, 400), (64, 40)] {
        bounce(window, hops, true);
    }
}
