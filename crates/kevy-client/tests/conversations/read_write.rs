//! A primary and its replicas.

use kevy_client::{ReadWriteClient, Reply};

use crate::fake::{Fake, Step, line};

const COMMANDS: &str = "*2\r\n\
    *3\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n\
    *3\r\n$3\r\nset\r\n:-3\r\n*2\r\n+write\r\n+denyoom\r\n";

fn node(name: &'static str) -> Fake {
    Fake::start(move |request| match request {
        "COMMAND" => Step::Send(COMMANDS.to_owned()),
        _ => line(format!("+{name}")),
    })
}

fn simple(text: &'static str) -> Reply {
    Reply::Simple(text.into())
}

#[test]
fn writes_go_to_the_primary_and_reads_round_the_replicas() {
    let (primary, one, two) = (node("primary"), node("one"), node("two"));
    let replicas = [("127.0.0.1", one.port()), ("127.0.0.1", two.port())];
    let mut client = ReadWriteClient::connect(("127.0.0.1", primary.port()), &replicas).unwrap();
    client.set(b"k", b"v").unwrap();
    for _ in 0..2 {
        client.get(b"k").unwrap();
    }
    assert_eq!(
        client.request(&["SET", "k", "v"]).unwrap(),
        simple("primary")
    );
    assert_ne!(client.request(&["Get", "k"]).unwrap(), simple("primary"));
    let consistent = client.request_read(&["GET", "k"], true).unwrap();
    assert_eq!(consistent, simple("primary"));
    assert_eq!(
        client.request_write(&["GET", "k"]).unwrap(),
        simple("primary")
    );
    assert_eq!(one.seen().len() + two.seen().len(), 3);
    assert!(!one.seen().is_empty() && !two.seen().is_empty());
}

#[test]
fn a_replica_that_fails_or_is_not_ready_is_passed_over() {
    let primary = node("primary");
    let cut = Fake::start(|_| Step::Cut);
    let loading = Fake::start(|_| line("-LOADING Redis is loading the dataset in memory"));
    let replicas = [("127.0.0.1", cut.port()), ("127.0.0.1", loading.port())];
    let mut client = ReadWriteClient::connect(("127.0.0.1", primary.port()), &replicas).unwrap();
    for _ in 0..3 {
        assert_eq!(client.get(b"k").unwrap(), Some(b"primary".to_vec()));
    }
    assert_eq!((cut.seen().len(), loading.seen().len()), (3, 3));
}
