//! Who is let in, by which shard, and what is left when they are gone.

use std::time::Duration;

use kevy_tests::connection::{Connection, request};
use kevy_tests::process::{self, Signal};
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use kevy_tests::slots::key_on_each_shard;

use crate::info;

const CONNECTIONS: usize = 400;

/// Whichever shard took a connection, it serves the keys of all.
fn every_connection_is_served(server: &Server, shards: u16) {
    let keys = key_on_each_shard("k", shards);
    let mut open: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for (number, connection) in open.iter_mut().enumerate() {
        assert_eq!(connection.run("PING").text(), "PONG");
        for key in &keys {
            let value = format!("{number}");
            assert_eq!(connection.ask(&["SET", key, &value]), Reply::ok());
            assert_eq!(connection.ask(&["GET", key]), Reply::bulk(&value));
        }
    }
}

#[test]
fn every_connection_is_served_however_many_shards_accept() {
    for spec in [
        Spec::threads(4),
        Spec::threads(4).accept_shards(1),
        Spec::threads(4).accept_shards(2),
        Spec::threads(4).accept_shards(4),
        Spec::threads(1).accept_shards(1),
    ] {
        every_connection_is_served(&spec.start(), 4);
    }
}

#[test]
fn shard_ports_are_reached_when_their_shards_do_not_accept() {
    let server = Spec::threads(4).accept_shards(1).cluster().start();
    for (shard, key) in (0..).zip(key_on_each_shard("k", 4)) {
        for _ in 0..20 {
            let mut connection = server.connect_shard(shard);
            assert_eq!(
                connection.ask(&["SET", &key, "v"]),
                Reply::ok(),
                "shard {shard}"
            );
        }
    }
}

#[test]
fn a_unix_socket_serves() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("kevy.sock");
    let server = Spec::threads(2).arg("--unixsocket").arg(&path).start();
    let mut connections: Vec<_> = (0..20)
        .map(|_| Connection::connect_unix(&path).expect("the socket is served"))
        .collect();
    for connection in &mut connections {
        assert_eq!(connection.run("MSET a 1 b 2 c 3"), Reply::ok());
    }
    assert_eq!(server.connect().run("GET c"), Reply::bulk("3"));
    let (status, _data) = server.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert!(!path.exists(), "the socket file is left behind");
}

#[test]
fn clients_above_the_limit_are_told_so() {
    let config = "[server]\nmaxclients = 10\n";
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("kevy.toml");
    std::fs::write(&path, config).expect("writable");
    let server = Spec::threads(1).arg("--config").arg(&path).start();
    // The harness's own first connection may still be going.
    let alone = process::poll(|| {
        let mut first = server.connect();
        (info(&mut first, "clients", "connected_clients") == "1").then_some(first)
    });
    let mut open = vec![alone.expect("one client is left")];
    open.extend((1..10).map(|_| server.connect()));
    for connection in &mut open {
        assert_eq!(connection.run("PING").text(), "PONG");
    }
    let refused = server.connect().read_to_end().expect("closed");
    assert_eq!(
        refused.escape_ascii().to_string(),
        "-ERR max number of clients reached\\r\\n"
    );
    drop(open);
    let again = process::poll(|| {
        let mut connection = Connection::connect(server.port()).ok()?;
        connection.send(b"PING\r\n").ok()?;
        let reply = connection.read().ok()?;
        (reply == Reply::Simple("PONG".into())).then_some(())
    });
    assert!(
        again.is_some(),
        "places that became free are given away again"
    );
}

#[test]
fn clients_gone_in_the_middle_leave_nothing_behind() {
    let server = Spec::threads(4).accept_shards(2).start();
    let mut watcher = server.connect();
    let keys = key_on_each_shard("k", 4);
    let mut pipeline: Vec<u8> = Vec::new();
    for _ in 0..500 {
        for key in &keys {
            pipeline.extend(request(&["GET", key]));
        }
    }
    for cut in 0..50 {
        let mut client = server.connect();
        let end = pipeline.len() - cut * 7;
        // The server may close on us first; that is its right.
        let _ = client.send(&pipeline[..end]);
    }
    let alone = process::poll(|| {
        let clients = info(&mut watcher, "clients", "connected_clients");
        (clients == "1").then_some(())
    });
    assert!(alone.is_some(), "connected_clients does not go back to 1");
    for key in &keys {
        assert_eq!(watcher.ask(&["SET", key, "v"]), Reply::ok());
    }
}

/// Nothing in the data directory may depend on it.
#[test]
fn the_number_of_accepting_shards_changes_with_a_restart() {
    let mut directory = tempfile::TempDir::new().expect("a temporary directory");
    for accept in [1, 3, 4, 2] {
        let server = Spec::threads(4).accept_shards(accept).start_in(directory);
        for key in key_on_each_shard("k", 4) {
            assert_eq!(server.connect().ask(&["SET", &key, "v"]), Reply::ok());
        }
        let (status, left) = server.stop(Signal::TERM);
        assert_eq!(status.code(), Some(0), "{accept} accepting shards");
        directory = left;
    }
}

/// Printed for whoever reads the log; a number of this machine decides nothing.
#[test]
fn idle_processor_time_is_reported() {
    let mut server = Spec::threads(4).start();
    let ticks = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let fields: Vec<_> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        // User and system time, the 14th and 15th field, two of which were cut off.
        fields[11..13]
            .iter()
            .filter_map(|field| field.parse::<u64>().ok())
            .sum::<u64>()
    };
    let pid = server.process().pid();
    let before = ticks(pid);
    std::thread::sleep(Duration::from_secs(2));
    println!(
        "idle for 2 s: {} ticks of 10 ms of processor time",
        ticks(pid) - before
    );
    assert_eq!(server.connect().run("PING").text(), "PONG");
}
