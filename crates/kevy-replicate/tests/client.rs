//! The blocking client beside a real socket, with a source behind it.

mod world;

use bytes::Bytes;
use kevy_proto::replication::{Epoch, History, HistoryId};
use kevy_proto::time::Instant;
use kevy_replicate::{
    ConnectOptions, LinkId, Position, ReplicaClient, ReplicaError, ReplicaEvent, Source,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use world::{config, effects};

const A: HistoryId = HistoryId(0xa);

/// Serves one connection until it ends; gives back what the replica had acknowledged.
struct Server {
    addr: SocketAddr,
    serving: JoinHandle<u64>,
}

fn serve(mut source: Source, state: Bytes) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("bound");
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let pause = Some(Duration::from_millis(2));
        stream.set_read_timeout(pause).expect("a socket");
        source.handle_open(LinkId(1), "127.0.0.1:9", Instant::default());
        let mut now = Instant::default();
        while turn(&mut source, &mut stream, &state, now) {
            now = now + Duration::from_millis(20);
        }
        source
            .replicas(now)
            .next()
            .map_or(0, |replica| replica.offset)
    });
    Server { addr, serving }
}

/// Returns whether the connection still stands.
fn turn(source: &mut Source, stream: &mut TcpStream, state: &Bytes, now: Instant) -> bool {
    source.handle_timeout(now);
    let wants: Vec<_> = source.wants_snapshot().collect();
    for link in wants {
        source
            .snapshot_begin(link, source.last_offset())
            .expect("wanted");
        source.snapshot_chunk(link, state.clone()).expect("begun");
        source.snapshot_end(link).expect("begun");
    }
    while let Some(bytes) = source.poll_transmit(LinkId(1), 1000) {
        if stream.write_all(&bytes).is_err() {
            return false;
        }
    }
    let mut bytes = [0; 1000];
    match stream.read(&mut bytes) {
        Ok(0) => false,
        Ok(length) => {
            source.handle_bytes(LinkId(1), &bytes[..length], now);
            true
        }
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

fn source(entries: u64) -> Source {
    let mut source = Source::new(config(1 << 20), History::unknown(), 0);
    source.lead(A, Epoch(3));
    (0..entries).for_each(|number| {
        source.append(effects(number, 100));
    });
    source
}

#[test]
fn it_reads_frames_from_the_beginning_and_acknowledges_them() {
    let server = serve(source(50), Bytes::new());
    let mut client = ReplicaClient::connect(server.addr, "r1", 0).expect("accepted");
    assert_eq!(
        (
            client.primary_offset_at_handshake(),
            client.expected_offset()
        ),
        (0, 1)
    );
    for number in 0..50 {
        let frame = client.next().expect("a frame").expect("sound");
        assert_eq!((frame.offset, frame.epoch), (number + 1, Some(Epoch(3))));
        assert_eq!(frame.payload, effects(number, 100));
        assert!(frame.entry().is_ok());
    }
    // The next that comes is a heartbeat; whoever waits for it has acknowledged everything.
    let event = client.next_event().expect("a heartbeat").expect("sound");
    let next_offset = Some(51);
    let epoch = Some(Epoch(3));
    assert_eq!(event, ReplicaEvent::Ping { epoch, next_offset });
    let handle = client.socket_handle().expect("a descriptor");
    handle.shutdown(Shutdown::Write).expect("connected");
    assert_eq!(server.serving.join().expect("no panic"), 50);
    assert!(matches!(client.next(), Some(Err(ReplicaError::Truncated))));
    assert!(client.next().is_none());
}

#[test]
fn it_goes_on_where_it_was() {
    let history = History::begin(A, Epoch(3), 0);
    let position = Position {
        history,
        offset: 45,
    };
    let server = serve(source(50), Bytes::new());
    let options = ConnectOptions::resume("r1", position);
    let mut client = ReplicaClient::connect_with(server.addr, &options).expect("accepted");
    assert_eq!(client.next().expect("a frame").expect("sound").offset, 46);
    assert_eq!(client.position().offset, 46);
    assert_eq!(client.position().history.tip().map(|tip| tip.id), Some(A));
    drop(client);
    server.serving.join().expect("no panic");
}

#[test]
fn an_offset_of_no_history_is_answered_with_a_snapshot() {
    let state = Bytes::from(vec![7; 5000]);
    let server = serve(source(50), state.clone());
    let mut client = ReplicaClient::connect(server.addr, "r1", 20).expect("accepted");
    assert_eq!(client.primary_offset_at_handshake(), 50);
    let mut seen = Vec::new();
    let mut begun = false;
    loop {
        match client.next_event().expect("an event").expect("sound") {
            ReplicaEvent::SnapshotBegin { offset } => {
                assert_eq!(offset, 50);
                begun = true;
            }
            ReplicaEvent::SnapshotChunk(chunk) => seen.extend_from_slice(&chunk),
            ReplicaEvent::SnapshotEnd { offset, totals } => {
                assert_eq!((offset, totals.bytes), (50, 5000));
                break;
            }
            ReplicaEvent::Ping { .. } => {}
            ReplicaEvent::Frame(frame) => panic!("{frame:?}"),
        }
    }
    assert!(begun && seen == state && client.expected_offset() == 51);
    drop(client);
    server.serving.join().expect("no panic");
    // Whoever reads frames only is told.
    let server = serve(source(50), state);
    let mut client = ReplicaClient::connect(server.addr, "r1", 20).expect("accepted");
    assert!(matches!(
        client.next(),
        Some(Err(ReplicaError::SnapshotNeeded))
    ));
    drop(client);
    server.serving.join().expect("no panic");
}

#[test]
fn refusals_and_silence_are_told() {
    let mut follower = source(1);
    follower.follow(None);
    let server = serve(follower, Bytes::new());
    let refused = ReplicaClient::connect(server.addr, "r1", 0);
    let Err(ReplicaError::HandshakeRejected(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(text.starts_with("ERR chained replication"), "{text}");
    server.serving.join().expect("no panic");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = silent.local_addr().expect("bound");
    let wait = Duration::from_millis(50);
    let answer = ReplicaClient::connect_with_timeout(addr, "r1", 0, wait);
    assert!(matches!(answer, Err(ReplicaError::Silent)), "{answer:?}");
}
