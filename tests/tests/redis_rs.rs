//! redis-rs as a cluster client, blocking and on tokio, at four shards, from a shard's port and from the main port.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use kevy_tests::server::{Server, Spec};
use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{AsyncCommands, Commands, TypedCommands};

const SHARDS: u16 = 4;
const MANY: i64 = 500;

fn server() -> Server {
    Spec::threads(SHARDS).cluster().start()
}

fn client(port: u16) -> ClusterClient {
    ClusterClient::new([format!("redis://127.0.0.1:{port}/")]).unwrap()
}

fn names() -> Vec<String> {
    (0..MANY).map(|n| format!("many:{n}")).collect()
}

/// Any command, with the type that the caller expects.
macro_rules! ask {
    ($connection:ident, $type:ty, $name:literal $(, $arg:expr)*) => {
        redis::cmd($name)$(.arg($arg))*.query::<$type>($connection).unwrap()
    };
}

fn types(c: &mut ClusterConnection) {
    assert_eq!(ask!(c, String, "SET", "s", "v"), "OK");
    assert_eq!(ask!(c, Option<String>, "GET", "s").as_deref(), Some("v"));
    assert_eq!(ask!(c, i64, "INCRBY", "n", 41), 41);
    assert_eq!(ask!(c, i64, "RPUSH", "l", "a", "b"), 2);
    assert_eq!(ask!(c, Vec<String>, "LRANGE", "l", 0, -1), ["a", "b"]);
    assert_eq!(ask!(c, i64, "HSET", "h", "f", "1", "g", "2"), 2);
    let all = ask!(c, BTreeMap<String, i64>, "HGETALL", "h");
    assert_eq!(
        all,
        BTreeMap::from([("f".to_owned(), 1), ("g".to_owned(), 2)])
    );
    assert_eq!(ask!(c, i64, "SADD", "{t}1", "a", "b"), 2);
    assert_eq!(ask!(c, i64, "SADD", "{t}2", "b", "c"), 2);
    assert_eq!(ask!(c, Vec<String>, "SINTER", "{t}1", "{t}2"), ["b"]);
    assert_eq!(ask!(c, i64, "ZADD", "z", 1.5, "a", 2, "b"), 2);
    let scored = ask!(c, Vec<(String, f64)>, "ZRANGE", "z", 0, -1, "WITHSCORES");
    assert_eq!(scored, [("a".to_owned(), 1.5), ("b".to_owned(), 2.0)]);
    assert_eq!(ask!(c, String, "XADD", "x", "1-1", "f", "v"), "1-1");
    assert_eq!(ask!(c, i64, "XLEN", "x"), 1);
    assert_eq!(ask!(c, i64, "PFADD", "p", "a", "b"), 1);
    let wrong = redis::cmd("INCR").arg("l").query::<i64>(c).unwrap_err();
    assert_eq!(wrong.code(), Some("WRONGTYPE"));
}

/// redis-rs parts MGET, MSET and DEL by slots itself.
fn many_keys(c: &mut ClusterConnection) {
    let pairs: Vec<(String, i64)> = names().into_iter().zip(0..).collect();
    Commands::mset::<_, _, ()>(c, &pairs).unwrap();
    let values: Vec<i64> = Commands::mget(c, names()).unwrap();
    assert_eq!(values, (0..MANY).collect::<Vec<_>>());
    assert_eq!(TypedCommands::del(c, names()).unwrap(), MANY as usize);
}

fn pipeline(c: &mut ClusterConnection) {
    let mut pipe = cluster_pipe();
    for (name, n) in names().iter().zip(0..) {
        pipe.set(name, n).ignore().incr(name, 1);
    }
    let sums: Vec<i64> = pipe.query(c).unwrap();
    assert_eq!(sums, (1..=MANY).collect::<Vec<_>>());
}

/// Each node speaks for all shards, so the scan of one is the scan of all.
fn scan(c: &mut ClusterConnection) {
    let mut found = BTreeSet::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor)
            .arg("MATCH")
            .arg("many:*")
            .arg("COUNT")
            .arg(50);
        // One node by its slot, for every step.
        let reply = c.route_command(&scan, first_node()).unwrap();
        let (next, keys): (u64, Vec<String>) = redis::from_redis_value(reply).unwrap();
        found.extend(keys);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(found, names().into_iter().collect());
}

fn first_node() -> redis::cluster_routing::RoutingInfo {
    use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
    RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(Route::new(
        0,
        SlotAddr::Master,
    )))
}

fn publish_subscribe(c: &mut ClusterConnection, port: u16) {
    let plain = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    let mut connection = plain.get_connection().unwrap();
    let mut subscriber = connection.as_pubsub();
    subscriber.subscribe("news").unwrap();
    assert_eq!(ask!(c, i64, "PUBLISH", "news", "hello"), 1);
    let message = subscriber.get_message().unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), "hello");
}

#[test]
fn blocking() {
    let server = server();
    for port in [server.shard_port(1), server.port()] {
        let client = client(port);
        let c = &mut client.get_connection().unwrap();
        ask!(c, (), "FLUSHALL");
        types(c);
        many_keys(c);
        pipeline(c);
        scan(c);
        publish_subscribe(c, port);
    }
}

#[test]
fn on_tokio() {
    let server = server();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    for port in [server.shard_port(1), server.port()] {
        runtime.block_on(async {
            let mut c = client(port).get_async_connection().await.unwrap();
            redis::cmd("FLUSHALL")
                .query_async::<()>(&mut c)
                .await
                .unwrap();
            let pairs: Vec<(String, i64)> = names().into_iter().zip(0..).collect();
            AsyncCommands::mset::<_, _, ()>(&mut c, &pairs)
                .await
                .unwrap();
            let values: Vec<i64> = AsyncCommands::mget(&mut c, names()).await.unwrap();
            assert_eq!(values, (0..MANY).collect::<Vec<_>>());
            for name in names() {
                let sum: i64 = AsyncCommands::incr(&mut c, name, 1).await.unwrap();
                assert!(sum > 0);
            }
            let _: i64 = AsyncCommands::hset(&mut c, "h", "f", "v").await.unwrap();
            let field: String = AsyncCommands::hget(&mut c, "h", "f").await.unwrap();
            assert_eq!(field, "v");
            // The keys of a pipeline share a node here.
            let mut pipe = redis::pipe();
            pipe.atomic()
                .set("{t}a", 1)
                .ignore()
                .incr("{t}a", 1)
                .rpush("{t}l", "x");
            let replies: (i64, i64) = pipe.query_async(&mut c).await.unwrap();
            assert_eq!(replies, (2, 1));
            let removed: i64 = AsyncCommands::del(&mut c, names()).await.unwrap();
            assert_eq!(removed, MANY);
        });
    }
}
