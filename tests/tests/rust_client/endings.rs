//! Clients that go away in the middle of something leave nothing behind.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use kevy_client::{ClusterClient, Subscriber};
use kevy_tests::clients::tool;
use kevy_tests::connection::{Connection, request};
use kevy_tests::process::{Process, Signal};
use kevy_tests::reply::Reply;
use kevy_tests::server::Server;

use crate::server;

const TRIES: usize = 500;

fn connected(main: &mut Connection) -> usize {
    let text = main.run("INFO clients").text();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("connected_clients:"));
    count.unwrap().trim().parse().unwrap()
}

/// Waits until the server has noticed that only `main` is left.
fn assert_nothing_left(server: &Server) {
    let mut main = server.connect();
    let mut left = 0;
    for _ in 0..TRIES {
        left = connected(&mut main);
        let patterns = main.run("PUBSUB NUMPAT");
        let subscribers = main.run("PUBSUB NUMSUB news");
        let none = Reply::Array(vec![Reply::bulk("news"), Reply::Integer(0)]);
        if left == 1 && patterns == Reply::Integer(0) && subscribers == none {
            assert_eq!(main.run("PUBSUB CHANNELS"), Reply::Array(vec![]));
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{left} clients are left");
}

#[test]
fn dropped_clients() {
    let server = server();
    let url = format!("kevy://127.0.0.1:{}", server.shard_port(2));
    let mut cluster = ClusterClient::connect("127.0.0.1", server.port()).unwrap();
    cluster.set(b"k", b"v").unwrap();
    let mut subscriber = Subscriber::connect_channels(&url, &[b"news"]).unwrap();
    subscriber.psubscribe(&[b"n*", b"*"]).unwrap();
    assert_eq!(cluster.publish(b"news", b"m").unwrap(), 3);
    drop((cluster, subscriber));
    assert_nothing_left(&server);
}

/// Half a command, half a transaction, thousands of replies that nobody reads: then a reset.
#[test]
fn connections_reset_in_the_middle_of_a_pipeline() {
    let server = server();
    let large = "v".repeat(10_000);
    server.connect().ask(&["SET", "large", &large]);
    for port in server.every_port() {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut bytes = request(&["PING"]);
        for n in 0..500 {
            bytes.extend(request(&["GET", "large"]));
            bytes.extend(request(&["SET", &format!("key:{n}"), "v"]));
        }
        for half in [
            &["WATCH", "key:1"][..],
            &["MULTI"],
            &["SET", "key:1", "never"],
        ] {
            bytes.extend(request(half));
        }
        bytes.extend(&request(&["SET", "key:2", "never"])[..20]);
        stream.write_all(&bytes).unwrap();
        // The replies are unread, so closing resets the connection.
    }
    for port in server.every_port() {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut bytes = request(&["SUBSCRIBE", "news", "other"]);
        bytes.extend(request(&["PSUBSCRIBE", "n*"]));
        bytes.extend(&request(&["UNSUBSCRIBE", "news"])[..9]);
        stream.write_all(&bytes).unwrap();
    }
    assert_nothing_left(&server);
    assert_ne!(server.connect().run("GET key:1"), Reply::bulk("never"));
}

#[test]
fn a_process_killed_in_the_middle_of_its_pipelines() {
    let server = server();
    let directory = tempfile::TempDir::new().unwrap();
    let mut command = Command::new(tool("redis-benchmark"));
    command
        .args(["-h", "127.0.0.1", "-p", &server.port().to_string()])
        .args([
            "-c",
            "20",
            "-P",
            "100",
            "-n",
            "100000000",
            "-r",
            "1000",
            "-t",
            "set",
        ]);
    let mut client = Process::spawn("redis-benchmark", command, directory.path());
    let mut main = server.connect();
    // It is at work when its keys are there.
    for _ in 0..TRIES {
        if main.run("DBSIZE").integer() > 500 {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(connected(&mut main) > 20);
    client.signal(Signal::KILL);
    client.wait();
    drop(main);
    assert_nothing_left(&server);
}
