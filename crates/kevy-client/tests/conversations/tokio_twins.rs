//! The twins on tokio decide as the blocking clients do; what is theirs alone is that a future may be dropped.

use std::time::Duration;

use kevy_client::{AsyncClient, AsyncClusterClient, AsyncSubscriber, PubsubEvent, Reply};

use crate::cluster::{alone, quick};
use crate::fake::{Fake, Step, line};

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

#[test]
fn a_dropped_future_does_not_spoil_the_connection() {
    let server = Fake::start(|request| match request {
        "GET slow" => Step::Silence,
        "GET quick" => Step::Send("$4\r\nlate\r\n$3\r\nnow\r\n".to_owned()),
        other => panic!("{other}"),
    });
    run(async {
        let mut client = AsyncClient::connect("127.0.0.1", server.port())
            .await
            .unwrap();
        let short = Duration::from_millis(20);
        let dropped = tokio::time::timeout(short, client.get(b"slow")).await;
        assert!(dropped.is_err());
        assert_eq!(client.get(b"quick").await.unwrap(), Some(b"now".to_vec()));
    });
}

#[test]
fn a_cluster_s_redirects_waits_and_failures_are_dealt_with() {
    let mut cut = true;
    let writer = alone(move |request, _| match request {
        "GET cut" if std::mem::take(&mut cut) => Step::Cut,
        "GET cut" => line("+here"),
        _ => line("+OK"),
    });
    let address = writer.address();
    let mut quiesced = 2;
    let server = alone(move |request, own| match request {
        "SET app:1 v" | "SET app:3 v" => line(format!("-MISDIRECTED writer is {address}")),
        "SET q v" if quiesced > 0 => {
            quiesced -= 1;
            line(format!("-QUIESCED migrating to {own}"))
        }
        "GET cut" => line(format!("-ASK 1 {address}")),
        "GET moved" => line(format!("-MOVED 10 {address}")),
        "DEL a" | "DEL b" => line(":1"),
        _ => line("+OK"),
    });
    run(async {
        let port = server.port();
        let connected = AsyncClusterClient::connect_with("127.0.0.1", port, quick()).await;
        let mut client = connected.unwrap();
        client.set(b"app:1", b"v").await.unwrap();
        client.set(b"app:2", b"v").await.unwrap();
        client.set(b"q", b"v").await.unwrap();
        assert_eq!(client.get(b"moved").await.unwrap(), Some(b"OK".to_vec()));
        assert_eq!(client.del(&[b"a", b"b"]).await.unwrap(), 2);
        assert_eq!(client.get(b"cut").await.unwrap(), Some(b"here".to_vec()));
        let replies = client
            .pipeline()
            .cmd(&["SET", "x", "v"])
            .cmd(&["SET", "app:3", "v"]);
        assert_eq!(replies.execute().await.unwrap(), [Reply::OK, Reply::OK]);
    });
    let seen = writer.seen();
    let written: Vec<_> = seen
        .iter()
        .filter(|request| request.starts_with("SET"))
        .collect();
    assert_eq!(written, ["SET app:1 v", "SET app:2 v", "SET app:3 v"]);
}

#[test]
fn a_subscriber_loses_nothing_when_its_waiting_is_dropped() {
    let server = Fake::start(|request| match request {
        "SUBSCRIBE a" => Step::Send(
            "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n"
                .to_owned(),
        ),
        "SUBSCRIBE b" => {
            Step::Send("$1\r\nm\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n".to_owned())
        }
        other => panic!("{other}"),
    });
    run(async {
        let url = format!("kevy://127.0.0.1:{}", server.port());
        let mut subscriber = AsyncSubscriber::connect_channels(&url, &[b"a"])
            .await
            .unwrap();
        let short = Duration::from_millis(20);
        let half = tokio::time::timeout(short, subscriber.recv_message()).await;
        assert!(half.is_err());
        subscriber.subscribe(&[b"b"]).await.unwrap();
        let message = PubsubEvent::Message {
            channel: b"a".to_vec(),
            payload: b"m".to_vec(),
        };
        assert_eq!(subscriber.recv_message().await.unwrap(), message);
    });
}
