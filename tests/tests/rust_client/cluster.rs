//! The cluster's client where it differs from a plain one: routing, raw requests, pub/sub, transactions.

use std::time::Duration;

use kevy_client::{ClusterClient, ClusterOptions, KevyError, Options, PubsubEvent, Reply};
use kevy_tests::slots::key_on_each_shard;

use crate::{SHARDS, bytes, server, some};

/// The example of the documentation, word for word, with the types that a user would see.
#[test]
fn the_documented_example() {
    fn example(port: u16) -> Result<(), KevyError> {
        let mut cc = ClusterClient::connect("127.0.0.1", port)?;

        cc.set(b"user:42", b"alice")?;
        let v = cc.get(b"user:42")?;
        let n = cc.incr(b"counter")?;
        assert_eq!((v, n), (some("alice"), 1));

        cc.set(b"a", b"1")?;
        let removed = cc.del(&[b"a", b"b", b"c"])?;
        assert_eq!(removed, 1);

        let reply = cc.request_keyed(b"mykey", &[b"STRLEN".to_vec(), b"mykey".to_vec()])?;
        assert_eq!(reply, Reply::Integer(0));
        let reply = cc.request_unkeyed(&[b"PING".to_vec()])?;
        assert_eq!(reply, Reply::Simple("PONG".into()));
        Ok::<(), KevyError>(())
    }
    let server = server();
    example(server.shard_port(0)).unwrap();
}

/// Redirects would be followed, so this client may follow none.
#[test]
fn every_command_goes_straight_to_the_owner() {
    let server = server();
    let mut options = ClusterOptions::default();
    options.max_redirects = 0;
    let mut client = ClusterClient::connect_with("127.0.0.1", server.port(), options).unwrap();
    let keys = key_on_each_shard("k", SHARDS);
    for key in &keys {
        client.set(key.as_bytes(), b"v").unwrap();
        assert_eq!(client.get(key.as_bytes()).unwrap(), some("v"));
    }
    let astray = client.request_keyed(keys[0].as_bytes(), &["GET", &keys[1]]);
    assert!(matches!(astray, Ok(Reply::Error(text)) if text.starts_with(b"MOVED")));
    // One connection to each shard, and this one.
    let clients = server.connect().run("INFO clients").text();
    let expected = usize::from(SHARDS) + 1;
    assert!(
        clients.contains(&format!("connected_clients:{expected}\r")),
        "{clients}"
    );
}

#[test]
fn what_is_published_anywhere_is_heard_everywhere() {
    let server = server();
    let options = Options::default();
    for options in [options.clone(), options.with_resp3()] {
        let options = ClusterOptions::default().with_connection(options);
        let mut client =
            ClusterClient::connect_with("127.0.0.1", server.shard_port(0), options).unwrap();
        let mut subscriber = client.subscriber().unwrap();
        subscriber.subscribe(&[b"a", b"b"]).unwrap();
        subscriber.psubscribe(&[b"n*"]).unwrap();
        // The channels' names belong to several shards.
        let channels = key_on_each_shard("n", SHARDS);
        for channel in &channels {
            assert_eq!(client.publish(channel.as_bytes(), b"hello").unwrap(), 1);
            let message = PubsubEvent::Pmessage {
                pattern: bytes("n*"),
                channel: bytes(channel),
                payload: bytes("hello"),
            };
            assert_eq!(subscriber.recv_message().unwrap(), message);
        }
        subscriber.unsubscribe(&[]).unwrap();
        subscriber.punsubscribe(&[b"n*"]).unwrap();
        assert_eq!(client.publish(b"a", b"nobody").unwrap(), 0);
        subscriber.set_read_timeout(Some(Duration::from_millis(1)));
        let last = subscriber.events().map_while(Result::ok).last().unwrap();
        assert!(
            matches!(last, PubsubEvent::Punsubscribe { count: 0, .. }),
            "{last:?}"
        );
    }
}

#[test]
fn transactions_run_at_the_shard_of_a_key() {
    let server = server();
    let mut cc = ClusterClient::connect("127.0.0.1", server.port()).unwrap();
    let mut other = ClusterClient::connect("127.0.0.1", server.port()).unwrap();
    let shard = cc.shard_of(b"{t}1").unwrap();
    shard.watch(&[b"{t}1"]).unwrap();
    other.set(b"{t}1", b"changed").unwrap();
    let mut transaction = shard.multi().unwrap();
    transaction.set(b"{t}2", b"never");
    assert_eq!(transaction.exec_watched().unwrap(), None);
    let mut transaction = shard.multi().unwrap();
    transaction
        .get(b"{t}1")
        .mset(&[(b"{t}2", b"2"), (b"{t}3", b"3")]);
    let mut replies = transaction.exec_typed().unwrap();
    assert_eq!(replies.next_bulk().unwrap(), some("changed"));
    replies.next_ok().unwrap();
    replies.expect_empty().unwrap();
    assert_eq!(
        cc.mget(&[b"{t}2", b"{t}3"]).unwrap(),
        [some("2"), some("3")]
    );
}
