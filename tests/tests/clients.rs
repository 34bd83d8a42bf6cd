//! Stock clients work unchanged, on the main port and as cluster clients, at 1, 2 and 4 shards.
//!
//! The scripts in `tests/clients/` check every reply themselves. With `KEVY_TEST_SERVER=redis` the plain
//! ones run against Redis, which shows that they expect what Redis does.
#![forbid(unsafe_code)]

use std::process::Command;

use kevy_tests::clients::{node, python, succeed, tool};
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use kevy_tests::slots::key_on_each_shard;

const SHARDS: [u16; 3] = [1, 2, 4];

fn servers() -> impl Iterator<Item = (u16, Server)> {
    SHARDS
        .into_iter()
        .map(|shards| (shards, Spec::threads(shards).cluster().start()))
}

fn run(mut command: Command, args: &[&str]) -> String {
    command.args(args);
    succeed(command)
}

/// The client says that it got to its end, and in cluster mode that it saw every shard.
fn assert_passed(output: &str, nodes: Option<u16>) {
    assert!(output.ends_with("passed\n"), "{output}");
    if let Some(nodes) = nodes {
        assert!(output.contains(&format!("nodes {nodes}\n")), "{output}");
    }
}

#[test]
fn redis_py_on_the_main_port() {
    for (_, server) in servers() {
        for protocol in ["2", "3"] {
            let port = server.port().to_string();
            assert_passed(
                &run(python("redis_py.py"), &["plain", &port, protocol]),
                None,
            );
        }
    }
}

#[test]
fn redis_py_cluster() {
    for (shards, server) in servers() {
        for (protocol, port) in [("2", server.shard_port(shards - 1)), ("3", server.port())] {
            let port = port.to_string();
            let output = run(python("redis_py.py"), &["cluster", &port, protocol]);
            assert_passed(&output, Some(shards));
        }
    }
}

#[test]
fn ioredis_on_the_main_port() {
    for (_, server) in servers() {
        assert_passed(
            &run(node("ioredis.mjs"), &["plain", &server.port().to_string()]),
            None,
        );
    }
}

#[test]
fn ioredis_cluster() {
    for (shards, server) in servers() {
        for port in [server.shard_port(shards - 1), server.port()] {
            let output = run(node("ioredis.mjs"), &["cluster", &port.to_string()]);
            assert_passed(&output, Some(shards));
        }
    }
}

/// At four shards, from a shard's port and from the main port.
fn cluster_of_four() -> (Server, [String; 2]) {
    let server = Spec::threads(4).cluster().start();
    let ports = [server.shard_port(1), server.port()].map(|port| port.to_string());
    (server, ports)
}

#[test]
fn node_redis_cluster() {
    let (_server, ports) = cluster_of_four();
    for port in &ports {
        for protocol in ["2", "3"] {
            let output = run(node("node_redis.mjs"), &[port, protocol]);
            assert_passed(&output, Some(4));
        }
    }
}

#[test]
fn valkey_glide_cluster() {
    let (_server, ports) = cluster_of_four();
    for port in &ports {
        assert_passed(&run(python("valkey_glide.py"), &[port]), None);
    }
}

fn redis_cli(port: u16, args: &[&str]) -> String {
    let mut command = Command::new(tool("redis-cli"));
    command
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(args);
    succeed(command)
}

#[test]
fn redis_cli_on_the_main_port() {
    for (_, server) in servers() {
        let cli = |args: &[&str]| redis_cli(server.port(), args);
        assert_eq!(cli(&["set", "foo", "bar"]), "OK\n");
        assert_eq!(cli(&["get", "foo"]), "bar\n");
        assert_eq!(cli(&["mset", "a", "1", "b", "2", "c", "3"]), "OK\n");
        assert_eq!(cli(&["mget", "a", "b", "c", "d"]), "1\n2\n3\n\n");
        assert_eq!(cli(&["incr", "a"]), "2\n");
        assert_eq!(cli(&["dbsize"]), "4\n");
        assert_eq!(cli(&["-3", "get", "absent"]), "\n");
        assert!(cli(&["get"]).starts_with("ERR wrong number of arguments for 'get' command"));
        assert_eq!(cli(&["--scan", "--pattern", "f*"]), "foo\n");
        assert_eq!(cli(&["flushall"]), "OK\n");
    }
}

/// `-c` follows `MOVED` by reading its text, so any port serves any key.
#[test]
fn redis_cli_follows_moved() {
    for (shards, server) in servers() {
        let keys = key_on_each_shard("cli:", shards);
        for port in server.every_port() {
            for key in &keys {
                assert_eq!(
                    redis_cli(port, &["-c", "set", key, "v"]),
                    "OK\n",
                    "{key} by {port}"
                );
                assert_eq!(
                    redis_cli(port, &["-c", "get", key]),
                    "v\n",
                    "{key} by {port}"
                );
            }
        }
        let mut main = server.connect();
        assert_eq!(main.run("DBSIZE"), Reply::Integer(i64::from(shards)));
    }
}

fn redis_benchmark(port: u16, args: &[&str]) -> String {
    let mut command = Command::new(tool("redis-benchmark"));
    command
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["-t", "set,get", "-n", "20000", "-r", "1000", "-q"])
        .args(args);
    succeed(command)
}

/// It reports a rate for each test, and errors in the same output.
fn assert_measured(output: &str) {
    for name in ["SET: ", "GET: "] {
        let rates = output.matches(name).count();
        assert!(
            rates >= 1 && output.contains("requests per second"),
            "{output}"
        );
    }
    assert!(!output.contains("rror"), "{output}");
}

#[test]
fn redis_benchmark_on_the_main_port() {
    for (_, server) in servers() {
        assert_measured(&redis_benchmark(server.port(), &["-P", "16"]));
        let keys = server.connect().run("DBSIZE").integer();
        assert!((900..=1_001).contains(&keys), "{keys} of about 1000 keys");
    }
}

/// It calls a cluster of one node invalid.
#[test]
fn redis_benchmark_cluster() {
    for (shards, server) in servers().filter(|(shards, _)| *shards > 1) {
        assert_measured(&redis_benchmark(
            server.shard_port(0),
            &["--cluster", "-P", "4"],
        ));
        let counts = (0..shards).map(|shard| {
            let mut main = server.connect_shard(shard);
            main.run("DBSIZE").integer()
        });
        // Every port speaks for the whole keyspace.
        let counts: Vec<_> = counts.collect();
        assert!(
            counts
                .iter()
                .all(|count| *count == counts[0] && *count > 900),
            "{counts:?}"
        );
    }
}
