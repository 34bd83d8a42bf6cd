//! One connection: transactions over shards, RESP3, timeouts.

use kevy_client::{Client, KevyError, Reply, StoreError, Subscriber};
use kevy_tests::slots::key_on_each_shard;

use crate::{SHARDS, server, some};

fn connect(server: &kevy_tests::server::Server) -> Client {
    Client::connect("127.0.0.1", server.port()).unwrap()
}

#[test]
fn a_transaction_over_every_shard() {
    let server = server();
    let mut client = connect(&server);
    let keys = key_on_each_shard("t", SHARDS);
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let mut transaction = client.multi().unwrap();
    for key in &keys {
        transaction.set(key, b"1").incr(key).incr_by(key, 40);
    }
    transaction
        .mget(&keys)
        .exists(&keys)
        .del(&keys)
        .get(keys[0]);
    let mut replies = transaction.exec_typed().unwrap();
    assert_eq!(replies.remaining(), 3 * keys.len() + 4);
    for _ in &keys {
        assert!(replies.next_ok_or_nil().unwrap());
        assert_eq!(replies.next_int().unwrap(), 2);
        assert_eq!(replies.next_int().unwrap(), 42);
    }
    let all = replies.next_array_of_bulks().unwrap();
    assert_eq!(all, vec![some("42"); keys.len()]);
    assert_eq!(replies.next_int().unwrap(), i64::from(SHARDS));
    assert_eq!(replies.next_int().unwrap(), i64::from(SHARDS));
    assert!(replies.expect_empty().is_err());
    assert_eq!(replies.raw().unwrap(), Reply::Null);
    assert!(matches!(replies.raw(), Err(KevyError::NotFound)));
}

#[test]
fn a_transaction_may_be_dropped_discarded_or_hold_errors() {
    let server = server();
    let mut client = connect(&server);
    let mut transaction = client.multi().unwrap();
    transaction.set(b"k", b"dropped");
    drop(transaction);
    let mut transaction = client.multi().unwrap();
    transaction.set(b"k", b"discarded");
    transaction.discard().unwrap();
    assert_eq!(client.get(b"k").unwrap(), None);
    let mut transaction = client.multi().unwrap();
    transaction.set(b"k", b"text").incr(b"k").get(b"k");
    let mut replies = transaction.exec_typed().unwrap();
    replies.next_ok().unwrap();
    let error = replies.next_int().unwrap_err();
    assert!(matches!(error, KevyError::Store(StoreError::NotInteger)));
    assert_eq!(replies.next_bulk().unwrap(), some("text"));
}

#[test]
fn errors_have_types() {
    let server = server();
    let mut client = connect(&server);
    client.rpush(b"l", &[b"x"]).unwrap();
    let error = client.get(b"l").unwrap_err();
    assert!(matches!(error, KevyError::Store(StoreError::WrongType)));
    client.set(b"max", i64::MAX.to_string().as_bytes()).unwrap();
    let error = client.incr(b"max").unwrap_err();
    assert!(matches!(error, KevyError::Store(StoreError::Overflow)));
    let error = client.request(&["LSET", "none", "0", "x"]).unwrap();
    assert_eq!(error, Reply::Error("ERR no such key".into()));
}

#[test]
fn a_subscriber_may_switch_to_resp3() {
    let server = server();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let mut subscriber = Subscriber::connect_channels(&url, &[b"c"]).unwrap();
    // In RESP2 a subscriber may not say HELLO; without subscriptions it may.
    subscriber.unsubscribe(&[]).unwrap();
    subscriber.hello3().unwrap();
    subscriber.subscribe(&[b"d"]).unwrap();
    assert_eq!(connect(&server).publish(b"d", b"m").unwrap(), 1);
    assert!(subscriber.recv_message().unwrap().is_message());
}
