//! Many commands at once: their replies come in order, whichever shards answer.

use kevy_client::{Client, ClusterClient, Pipeline, Reply};

use crate::server;

const COMMANDS: usize = 10_000;

/// Every command's reply says which it was: keys of all shards, and a counter that shows order on one of them.
fn fill(p: &mut Pipeline) {
    for n in 0..COMMANDS / 2 {
        p.cmd(&["ECHO", &format!("{n}")]);
        p.cmd(&["INCRBY", &format!("key:{}", n % 100), &format!("{n}")]);
    }
}

fn expected() -> Vec<Reply> {
    let mut sums = [0; 100];
    let pairs = (0..COMMANDS / 2).flat_map(|n| {
        sums[n % 100] += n as i64;
        [
            Reply::Bulk(n.to_string().into()),
            Reply::Integer(sums[n % 100]),
        ]
    });
    pairs.collect()
}

#[test]
fn ten_thousand_commands_on_one_connection_keep_their_order() {
    let server = server();
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    assert_eq!(client.pipeline(fill).unwrap(), expected());
}

#[test]
fn ten_thousand_commands_over_four_shards_keep_their_order() {
    let server = server();
    let mut client = ClusterClient::connect("127.0.0.1", server.port()).unwrap();
    assert_eq!(client.pipeline(fill).unwrap(), expected());
}

/// Both sides would wait for ever if the client wrote everything before it read anything.
#[test]
fn large_values_in_both_directions_do_not_block() {
    let server = server();
    let value = "v".repeat(4_000_000);
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    let replies = client
        .pipeline(|p| {
            for n in 0..4 {
                let key = format!("large:{n}");
                p.cmd(&["SET", &key, &value]);
                (0..10).for_each(|_| {
                    p.cmd(&["GET", &key]);
                });
            }
        })
        .unwrap();
    assert_eq!(replies.len(), 44);
    let whole = |reply: &&Reply| {
        reply
            .as_bytes()
            .is_some_and(|bytes| bytes.len() == value.len())
    };
    assert_eq!(replies.iter().filter(whole).count(), 40);
}
