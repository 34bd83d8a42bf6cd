//! The twins on tokio.

use kevy_client::{AsyncClient, AsyncClusterClient, AsyncSubscriber, Options, Reply};
use kevy_tests::slots::key_on_each_shard;

use crate::{SHARDS, bytes, server, some};

fn run(future: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future);
}

#[test]
fn one_connection() {
    let server = server();
    run(async {
        for options in [Options::default(), Options::default().with_resp3()] {
            let connected = AsyncClient::connect_with("127.0.0.1", server.port(), &options).await;
            let mut client = connected.unwrap();
            client.set(b"k", b"v").await.unwrap();
            assert_eq!(client.get(b"k").await.unwrap(), some("v"));
            client.hset(b"h", &[(b"f", b"1")]).await.unwrap();
            let all = client.hgetall(b"h").await.unwrap();
            assert_eq!(all, [(bytes("f"), bytes("1"))]);
            let transaction = client.transaction(|p| {
                p.cmd(&["INCR", "n"]).cmd(&["GET", "k"]);
            });
            let mut replies = transaction.await.unwrap().unwrap();
            assert!(replies.next_int().unwrap() > 0);
            assert_eq!(replies.next_bulk().unwrap(), some("v"));
            client.watch(&[b"k"]).await.unwrap();
            client.set(b"k", b"v").await.unwrap();
            let aborted = client.transaction(|p| {
                p.cmd(&["INCR", "n"]);
            });
            assert!(aborted.await.unwrap().is_none());
        }
    });
}

#[test]
fn a_cluster() {
    let server = server();
    run(async {
        let connected = AsyncClusterClient::connect("127.0.0.1", server.shard_port(1)).await;
        let mut client = connected.unwrap();
        assert_eq!(client.shard_count(), usize::from(SHARDS));
        let keys = key_on_each_shard("k", SHARDS);
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        for key in &keys {
            client.set(key, b"v").await.unwrap();
        }
        let values = client.mget(&keys).await.unwrap();
        assert_eq!(values, vec![some("v"); keys.len()]);
        assert_eq!(client.exists(&keys).await.unwrap(), keys.len());
        let mut pipeline = client.pipeline();
        for n in 0..10_000 {
            let key = format!("key:{}", n % 100);
            pipeline = pipeline.cmd(&["INCR", &key]);
        }
        let replies = pipeline.execute().await.unwrap();
        let expected = (0..10_000).map(|n| Reply::Integer(n / 100 + 1));
        assert_eq!(replies, expected.collect::<Vec<_>>());
        assert_eq!(client.del(&keys).await.unwrap(), keys.len());
    });
}

#[test]
fn a_subscriber() {
    let server = server();
    run(async {
        let url = format!("kevy://127.0.0.1:{}", server.port());
        let mut subscriber = AsyncSubscriber::connect_channels(&url, &[b"a", b"b"])
            .await
            .unwrap();
        subscriber.psubscribe(&[b"n*"]).await.unwrap();
        let mut client = AsyncClient::connect("127.0.0.1", server.port())
            .await
            .unwrap();
        for channel in [&b"a"[..], b"news"] {
            assert_eq!(client.publish(channel, b"m").await.unwrap(), 1);
            assert!(subscriber.recv_message().await.unwrap().is_message());
        }
        subscriber.unsubscribe(&[]).await.unwrap();
        assert_eq!(client.publish(b"a", b"m").await.unwrap(), 0);
    });
}
