//! One process as a cluster: where keys are, and what every port covers.

use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use kevy_tests::slots::{SLOTS, key_on_each_shard, slot_of};

use crate::info;

fn every_node(shards: u16) -> (Server, Vec<u16>) {
    let server = Spec::threads(shards).cluster().start();
    let ports = (0..shards).map(|shard| server.shard_port(shard)).collect();
    (server, ports)
}

#[test]
fn a_shard_s_port_says_where_a_key_is() {
    for shards in [2, 4] {
        let (server, ports) = every_node(shards);
        let keys = key_on_each_shard("k", shards);
        for (here, port) in ports.iter().enumerate() {
            let mut connection = server.connect_shard(here as u16);
            for (there, key) in keys.iter().enumerate() {
                let reply = connection.ask(&["SET", key, "v"]);
                if here == there {
                    assert_eq!(reply, Reply::ok(), "{key} on {port}");
                } else {
                    let moved = format!(
                        "MOVED {} 127.0.0.1:{}",
                        slot_of(key.as_bytes()),
                        ports[there]
                    );
                    assert_eq!(reply.error(), moved);
                }
            }
        }
    }
}

#[test]
fn the_main_port_never_moves_anybody() {
    let (server, _) = every_node(4);
    let mut main = server.connect();
    for key in key_on_each_shard("k", 4) {
        assert_eq!(main.ask(&["SET", &key, "v"]), Reply::ok());
        assert_eq!(main.ask(&["GET", &key]), Reply::bulk("v"));
    }
}

#[test]
fn keys_of_several_shards_are_served_on_every_port() {
    let (server, _) = every_node(4);
    let keys = key_on_each_shard("k", 4);
    for port in server.every_port() {
        let mut connection = Connection::connect(port).expect("it is served");
        let pairs = keys
            .iter()
            .flat_map(|key| [key.clone(), format!("{key} by {port}")]);
        let mset: Vec<_> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
        assert_eq!(connection.ask(&mset), Reply::ok(), "{port}");
        let mget: Vec<_> = std::iter::once(&"MGET".to_owned())
            .chain(&keys)
            .cloned()
            .collect();
        let values = keys
            .iter()
            .map(|key| Reply::bulk(&format!("{key} by {port}")));
        assert_eq!(
            connection.ask(&mget),
            Reply::Array(values.collect()),
            "{port}"
        );
        assert_eq!(
            connection.ask(&["COPY", &keys[0], &keys[3], "REPLACE"]),
            Reply::Integer(1)
        );
        assert_eq!(connection.ask(&["RENAME", &keys[1], &keys[2]]), Reply::ok());
        let del: Vec<_> = std::iter::once(&"DEL".to_owned())
            .chain(&keys)
            .cloned()
            .collect();
        assert_eq!(connection.ask(&del), Reply::Integer(3), "{port}");
    }
}

#[test]
fn commands_on_the_whole_keyspace_cover_it_on_every_port() {
    let (server, _) = every_node(4);
    for port in server.every_port() {
        let mut connection = Connection::connect(port).expect("it is served");
        let mut main = server.connect();
        let mut names: Vec<_> = (0..100).map(|n| format!("key:{n}")).collect();
        names.sort();
        for name in &names {
            assert_eq!(main.ask(&["SET", name, "v"]), Reply::ok());
        }
        let sorted = |reply: &Reply| {
            let mut found: Vec<_> = reply.items().iter().map(Reply::text).collect();
            found.sort();
            found
        };
        assert_eq!(connection.run("DBSIZE"), Reply::Integer(100), "{port}");
        assert_eq!(sorted(&connection.run("KEYS *")), names, "{port}");
        assert!(
            names.contains(&connection.run("RANDOMKEY").text()),
            "{port}"
        );
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        for _ in 0..1_000 {
            let reply = connection.ask(&["SCAN", &cursor, "COUNT", "7"]);
            found.extend(sorted(&reply.items()[1]));
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        found.sort();
        found.dedup();
        assert_eq!((cursor.as_str(), &found), ("0", &names), "{port}");
        let flush = if port == server.port() {
            "FLUSHDB"
        } else {
            "FLUSHALL"
        };
        assert_eq!(connection.run(flush), Reply::ok());
        assert_eq!(main.run("DBSIZE"), Reply::Integer(0), "{port}");
        assert_eq!(connection.run("RANDOMKEY"), Reply::Null, "{port}");
    }
}

#[test]
fn slots_are_shared_out_in_order_and_evenly() {
    for shards in [1, 2, 3, 4] {
        let (server, ports) = every_node(shards);
        for port in server.every_port() {
            let slots = Connection::connect(port)
                .expect("it is served")
                .run("CLUSTER SLOTS");
            let mut next = 0;
            let mut sizes = Vec::new();
            for (range, port) in slots.items().iter().zip(&ports) {
                let [first, last, node] = range.items() else {
                    panic!("{range:?}");
                };
                assert_eq!(first.integer(), next);
                next = last.integer() + 1;
                sizes.push(next - first.integer());
                assert_eq!(
                    node.items()[..2],
                    [Reply::bulk("127.0.0.1"), Reply::Integer(i64::from(*port))]
                );
                assert_is_node_id(&node.items()[2].text());
            }
            assert_eq!(slots.items().len(), usize::from(shards));
            assert_eq!(next, i64::from(SLOTS));
            let uneven = sizes
                .iter()
                .max()
                .zip(sizes.iter().min())
                .map(|(a, b)| a - b);
            assert!(uneven <= Some(1), "{sizes:?}");
        }
    }
}

fn assert_is_node_id(id: &str) {
    let hex = id
        .bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    assert!(id.len() == 40 && hex, "{id}");
}

#[test]
fn nodes_are_listed_in_redis_s_format() {
    let (server, ports) = every_node(4);
    for (shard, own) in (0..).zip(&ports) {
        let mut connection = server.connect_shard(shard);
        let text = connection.run("CLUSTER NODES").text();
        let my_id = connection.run("CLUSTER MYID").text();
        assert_eq!(text.lines().count(), 4, "{text}");
        for (line, port) in text.lines().zip(&ports) {
            let fields: Vec<_> = line.split(' ').collect();
            assert_eq!(fields.len(), 9, "{line}");
            assert_is_node_id(fields[0]);
            assert!(
                fields[1].starts_with(&format!("127.0.0.1:{port}@")),
                "{line}"
            );
            assert_eq!(
                fields[2],
                if port == own {
                    "myself,master"
                } else {
                    "master"
                }
            );
            assert_eq!(fields[0] == my_id, port == own, "{line}");
            assert_eq!((fields[3], fields[7]), ("-", "connected"), "{line}");
        }
        let last = text.lines().last().unwrap_or_default();
        assert!(last.ends_with(" 12288-16383"), "{last}");
    }
}

#[test]
fn the_cluster_is_well() {
    let (server, _) = every_node(4);
    for port in server.every_port() {
        let mut connection = Connection::connect(port).expect("it is served");
        let text = connection.run("CLUSTER INFO").text();
        let expected = [
            "cluster_state:ok",
            "cluster_slots_assigned:16384",
            "cluster_slots_ok:16384",
            "cluster_slots_pfail:0",
            "cluster_slots_fail:0",
            "cluster_known_nodes:4",
            "cluster_size:4",
        ];
        for line in expected {
            assert!(
                text.lines().any(|said| said == line),
                "{line} is missing in {text}"
            );
        }
        assert_eq!(info(&mut connection, "cluster", "cluster_enabled"), "1");
    }
}

#[test]
fn slots_of_keys_are_told() {
    let (server, _) = every_node(2);
    let mut connection = server.connect();
    let keys = [
        "foo",
        "bar",
        "{user1000}.following",
        "foo{}{bar}",
        "foo{{bar}}zap",
        "123456789",
        "{}",
        "a{",
        "}{",
    ];
    for key in keys {
        let slot = connection.ask(&["CLUSTER", "KEYSLOT", key]);
        assert_eq!(
            slot,
            Reply::Integer(i64::from(slot_of(key.as_bytes()))),
            "{key}"
        );
    }
    assert_eq!(connection.run("SET foo 1"), Reply::ok());
    assert_eq!(
        connection.run("CLUSTER COUNTKEYSINSLOT 12182"),
        Reply::Integer(1)
    );
    assert_eq!(
        connection.run("CLUSTER GETKEYSINSLOT 12182 10"),
        Reply::Array(vec![Reply::bulk("foo")])
    );
}
