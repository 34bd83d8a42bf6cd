//! Every verb, through every kind of client: the same conversation with each, written once.

use std::collections::BTreeSet;
use std::time::Duration;

use kevy_client::{
    Aggregate, Client, ClusterClient, Connection, KevyError, Options, ReadWriteClient, StoreError,
};

use crate::{SHARDS, bytes, server, some};

/// The conversation; `$client` is a client of any kind, connected to an empty server.
macro_rules! converse {
    ($client:expr) => {{
        let client = &mut $client;
        client.flushall().unwrap();
        strings!(client);
        expiry!(client);
        hashes!(client);
        lists!(client);
        sets!(client);
        sorted_sets!(client);
        keyspace!(client);
    }};
}

macro_rules! strings {
    ($c:ident) => {
        $c.ping().unwrap();
        $c.set(b"s", b"one").unwrap();
        assert_eq!($c.get(b"s").unwrap(), some("one"));
        assert_eq!($c.get(b"absent").unwrap(), None);
        assert!(!$c.set_nx(b"s", b"two").unwrap());
        assert_eq!($c.append(b"s", b"\x00\r\n").unwrap(), 6);
        assert_eq!($c.strlen(b"s").unwrap(), 6);
        assert_eq!($c.getdel(b"s").unwrap(), some("one\0\r\n"));
        assert_eq!($c.incr(b"n").unwrap(), 1);
        assert_eq!($c.incr_by(b"n", -11).unwrap(), -10);
        assert_eq!($c.incr_by_float(b"n", 0.5).unwrap().to_string(), "-9.5");
        let error = $c.incr(b"n").unwrap_err();
        assert!(
            matches!(error, KevyError::Store(StoreError::NotInteger)),
            "{error:?}"
        );
        $c.mset(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
            .unwrap();
        let values = $c.mget(&[b"a", b"b", b"none", b"c"]).unwrap();
        assert_eq!(values, [some("1"), some("2"), None, some("3")]);
        assert_eq!($c.exists(&[b"a", b"b", b"a", b"none"]).unwrap(), 3);
        assert_eq!($c.del(&[b"a", b"b", b"c", b"none"]).unwrap(), 3);
    };
}

macro_rules! expiry {
    ($c:ident) => {
        $c.set_with_ttl(b"e", b"v", Duration::from_secs(100))
            .unwrap();
        assert!((90_000..=100_000).contains(&$c.ttl_ms(b"e").unwrap()));
        assert!($c.persist(b"e").unwrap());
        assert_eq!($c.ttl_ms(b"e").unwrap(), -1);
        assert!($c.expire(b"e", Duration::from_secs(50)).unwrap());
        assert!(!$c.expire(b"none", Duration::from_secs(50)).unwrap());
        assert_eq!($c.ttl_ms(b"none").unwrap(), -2);
    };
}

macro_rules! hashes {
    ($c:ident) => {
        assert_eq!($c.hset(b"h", &[(b"f", b"1"), (b"g", b"two")]).unwrap(), 2);
        assert_eq!($c.hget(b"h", b"f").unwrap(), some("1"));
        assert_eq!($c.hmget(b"h", &[b"g", b"x"]).unwrap(), [some("two"), None]);
        assert_eq!($c.hincr_by(b"h", b"f", 4).unwrap(), 5);
        assert!($c.hexists(b"h", b"f").unwrap());
        assert_eq!($c.hlen(b"h").unwrap(), 2);
        let all: BTreeSet<_> = $c.hgetall(b"h").unwrap().into_iter().collect();
        let expected = [("f", "5"), ("g", "two")].map(|(f, v)| (bytes(f), bytes(v)));
        assert_eq!(all, BTreeSet::from(expected.clone()));
        let page = $c.hscan(b"h", 0, Some(b"*"), Some(10)).unwrap();
        assert_eq!(page.items.into_iter().collect::<BTreeSet<_>>(), all);
        assert_eq!($c.hkeys(b"h").unwrap().len(), 2);
        assert_eq!($c.hvals(b"h").unwrap().len(), 2);
        let minute = Duration::from_mins(1);
        assert_eq!($c.hexpire(b"h", minute, &[b"f", b"x"]).unwrap(), [1, -2]);
        let left = $c.httl(b"h", &[b"f", b"g"]).unwrap();
        assert!((50..=60).contains(&left[0]) && left[1] == -1, "{left:?}");
        assert_eq!($c.hpexpire(b"h", minute, &[b"g"]).unwrap(), [1]);
        assert!($c.hpttl(b"h", &[b"g"]).unwrap()[0] > 50_000);
        assert_eq!($c.hpersist(b"h", &[b"g", b"x"]).unwrap(), [1, -2]);
        assert_eq!($c.hdel(b"h", &[b"f", b"x"]).unwrap(), 1);
    };
}

macro_rules! lists {
    ($c:ident) => {
        assert_eq!($c.rpush(b"l", &[b"b", b"c"]).unwrap(), 2);
        assert_eq!($c.lpush(b"l", &[b"a"]).unwrap(), 3);
        assert_eq!($c.llen(b"l").unwrap(), 3);
        assert_eq!($c.lindex(b"l", -1).unwrap(), some("c"));
        assert_eq!($c.lrange(b"l", 0, -1).unwrap(), ["a", "b", "c"].map(bytes));
        $c.ltrim(b"l", 0, 1).unwrap();
        assert_eq!($c.lpop(b"l").unwrap(), some("a"));
        assert_eq!($c.rpop(b"l").unwrap(), some("b"));
        assert_eq!($c.rpop(b"l").unwrap(), None);
    };
}

macro_rules! sets {
    ($c:ident) => {
        assert_eq!($c.sadd(b"{s}1", &[b"a", b"b", b"c"]).unwrap(), 3);
        assert_eq!($c.sadd(b"{s}2", &[b"b", b"d"]).unwrap(), 2);
        assert_eq!($c.scard(b"{s}1").unwrap(), 3);
        assert!($c.sismember(b"{s}1", b"a").unwrap());
        assert_eq!($c.smembers(b"{s}2").unwrap().len(), 2);
        assert_eq!($c.sinter(&[b"{s}1", b"{s}2"]).unwrap(), [bytes("b")]);
        assert_eq!($c.sunion(&[b"{s}1", b"{s}2"]).unwrap().len(), 4);
        assert_eq!($c.sdiff(&[b"{s}2", b"{s}1"]).unwrap(), [bytes("d")]);
        assert_eq!($c.sscan(b"{s}2", 0, None, None).unwrap().items.len(), 2);
        assert_eq!($c.srem(b"{s}2", &[b"b", b"x"]).unwrap(), 1);
        assert_eq!($c.spop(b"{s}2").unwrap(), some("d"));
    };
}

macro_rules! sorted_sets {
    ($c:ident) => {
        assert_eq!($c.zadd(b"{z}1", &[(1.5, b"a"), (2.0, b"b")]).unwrap(), 2);
        assert_eq!($c.zadd(b"{z}2", &[(10.0, b"b"), (f64::INFINITY, b"c")]).unwrap(), 2);
        assert_eq!($c.zscore(b"{z}1", b"a").unwrap(), Some(1.5));
        assert_eq!($c.zscore(b"{z}1", b"x").unwrap(), None);
        assert_eq!($c.zscore(b"{z}2", b"c").unwrap(), Some(f64::INFINITY));
        assert_eq!($c.zrank(b"{z}1", b"b").unwrap(), Some(1));
        assert_eq!($c.zcard(b"{z}1").unwrap(), 2);
        assert_eq!($c.zcount(b"{z}2", f64::NEG_INFINITY, 10.0).unwrap(), 1);
        assert_eq!($c.zrange(b"{z}1", 0, -1).unwrap(), ["a", "b"].map(bytes));
        let scored = $c.zrange_with_scores(b"{z}1", 0, -1).unwrap();
        assert_eq!(scored, [(bytes("a"), 1.5), (bytes("b"), 2.0)]);
        let keys: [&[u8]; 2] = [b"{z}1", b"{z}2"];
        assert_eq!($c.zinterstore(b"{z}3", &keys).unwrap(), 1);
        assert_eq!($c.zscore(b"{z}3", b"b").unwrap(), Some(12.0));
        assert_eq!($c.zunionstore(b"{z}3", &keys).unwrap(), 3);
        let stored = $c.zinterstore_with(b"{z}3", &keys, &[3.0, 1.0], Aggregate::Min);
        assert_eq!(stored.unwrap(), 1);
        assert_eq!($c.zscore(b"{z}3", b"b").unwrap(), Some(6.0));
        assert_eq!($c.zunionstore_with(b"{z}3", &keys, &[], Aggregate::Max).unwrap(), 3);
        assert_eq!($c.zintercard(&keys, Some(1)).unwrap(), 1);
        assert_eq!($c.zincr_by(b"{z}1", 1.0, b"a").unwrap().to_string(), "2.5");
        assert_eq!($c.zpopmin(b"{z}1").unwrap(), [(bytes("b"), 2.0)]);
        assert_eq!($c.zrem(b"{z}1", &[b"a", b"x"]).unwrap(), 1);
        assert!($c.zpopmin(b"{z}1").unwrap().is_empty());
    };
}

macro_rules! keyspace {
    ($c:ident) => {
        $c.flushall().unwrap();
        assert_eq!($c.randomkey().unwrap(), None);
        let names: BTreeSet<_> = (0..300).map(|n| bytes(format!("k:{n}"))).collect();
        for name in &names {
            $c.set(name, b"v").unwrap();
        }
        assert_eq!($c.dbsize().unwrap(), 300);
        assert_eq!($c.type_of(b"k:0").unwrap(), "string");
        assert_eq!($c.keys(b"k:29?").unwrap().len(), 10);
        assert!(names.contains(&$c.randomkey().unwrap().unwrap()));
        let mut found = BTreeSet::new();
        let mut cursor = 0;
        loop {
            let page = $c.scan(cursor, Some(b"k:*"), Some(7)).unwrap();
            found.extend(page.items);
            cursor = page.cursor;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(found, names);
        assert_eq!($c.publish(b"nobody", b"listens").unwrap(), 0);
    };
}

#[test]
fn one_connection() {
    let server = server();
    for options in [Options::default(), Options::default().with_resp3()] {
        let mut client = Client::connect_with("127.0.0.1", server.port(), &options).unwrap();
        converse!(client);
    }
}

#[test]
fn a_url() {
    let server = server();
    let url = format!("kevy://127.0.0.1:{}/0", server.port());
    converse!(Connection::connect(&url).unwrap());
}

#[test]
fn a_unix_socket() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("kevy.sock");
    let spec = kevy_tests::server::Spec::threads(2);
    let _server = spec.arg("--unixsocket").arg(&path).start();
    converse!(Connection::connect(&format!("unix://{}", path.display())).unwrap());
}

#[test]
fn a_cluster_from_any_of_its_ports() {
    let server = server();
    for port in server.every_port() {
        let mut client = ClusterClient::connect("127.0.0.1", port).unwrap();
        assert_eq!(client.shard_count(), usize::from(SHARDS));
        converse!(client);
    }
}

/// There is no replication yet: the primary and its replicas are ports of one server, so every read is fresh.
#[test]
fn a_primary_and_replicas() {
    let server = server();
    let port = ("127.0.0.1", server.port());
    let mut client = ReadWriteClient::connect(port, &[port, port]).unwrap();
    converse!(client);
    client.request(&["SET", "k", "v"]).unwrap();
    let reply = client.request(&["GET", "k"]).unwrap();
    assert_eq!(reply, kevy_client::Reply::Bulk("v".into()));
}
