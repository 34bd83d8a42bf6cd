//! Talks to every shard of a kevy in cluster mode.
//!
//! ```sh
//! cargo run -p kevy -- --port 6004 --threads 4 --cluster
//! cargo run -p kevy-client --example cluster -- 127.0.0.1 6005
//! ```

use kevy_client::{ClusterClient, KevyError, PubsubEvent};

fn main() -> Result<(), KevyError> {
    let mut args = std::env::args().skip(1);
    let host = args.next().unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = args.next().map_or(Ok(6005), |port| port.parse());
    let port = port.map_err(|_| KevyError::InvalidInput("the port is no number".to_owned()))?;

    // Any port of the cluster will do: the client learns the others from it.
    let mut cc = ClusterClient::connect(&host, port)?;
    println!("{} shards", cc.shard_count());

    // Each of these goes straight to the shard that owns its key.
    cc.set(b"user:42", b"alice")?;
    println!("user:42 = {:?}", text(cc.get(b"user:42")?));
    println!("counter = {}", cc.incr(b"counter")?);
    cc.hset(b"profile:42", &[(b"name", b"Alice"), (b"city", b"Paris")])?;
    cc.zadd(b"scores", &[(1.5, b"alice"), (2.5, b"bob")])?;
    println!("scores = {:?}", cc.zrange_with_scores(b"scores", 0, -1)?);

    // Keys of several shards: counted at each, written all at once by any.
    cc.mset(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])?;
    println!("removed {}", cc.del(&[b"a", b"b", b"c"])?);

    // Many commands without waiting between them; their replies come in order.
    let replies = cc.pipeline(|p| {
        for n in 0..100 {
            p.cmd(&["SET", &format!("key:{n}"), "v"]);
        }
    })?;
    println!("{} replies, {} keys", replies.len(), cc.dbsize()?);

    // A subscriber at any port hears what is published at any other.
    let mut subscriber = cc.subscriber()?;
    subscriber.subscribe(&[b"news"])?;
    cc.publish(b"news", b"hello")?;
    if let PubsubEvent::Message { channel, payload } = subscriber.recv_message()? {
        println!("{:?} on {:?}", text(Some(payload)), text(Some(channel)));
    }

    // Any other command, by its words.
    let length = cc.request_keyed(b"user:42", &["STRLEN", "user:42"])?;
    println!("STRLEN = {length:?}");
    Ok(())
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map_or_else(
        || "nothing".to_owned(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}
