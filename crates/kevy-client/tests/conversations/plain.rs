//! One connection.

use std::time::Duration;

use kevy_client::{
    Client, KevyError, MAX_KEPT_PUSHES, Options, PubsubEvent, Reply, StoreError, Subscriber,
};

use crate::fake::{Fake, Step, line};

fn impatient() -> Options {
    Options::default().with_timeout(Some(Duration::from_millis(20)))
}

#[test]
fn a_late_reply_does_not_become_the_next_one_s() {
    let server = Fake::start(|request| match request {
        "GET slow" => Step::Silence,
        // The late reply comes first, then the one that was asked for.
        "GET quick" => Step::Send("$4\r\nlate\r\n$3\r\nnow\r\n".to_owned()),
        other => panic!("{other}"),
    });
    let mut client = Client::connect_with("127.0.0.1", server.port(), &impatient()).unwrap();
    assert!(matches!(client.get(b"slow"), Err(KevyError::TimedOut)));
    assert_eq!(client.get(b"quick").unwrap(), Some(b"now".to_vec()));
}

#[test]
fn a_cut_connection_is_closed_for_good() {
    let server = Fake::start(|_| Step::Cut);
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    assert!(client.ping().is_err());
    assert!(client.is_closed());
    assert!(matches!(client.ping(), Err(KevyError::Closed)));
    assert_eq!(server.seen(), ["PING"]);
}

#[test]
fn bytes_that_are_no_reply_close_it_too() {
    let server = Fake::start(|_| line("HTTP/1.1 400 Bad Request"));
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    assert!(matches!(client.ping(), Err(KevyError::Protocol(_))));
    assert!(client.is_closed());
}

#[test]
fn error_replies_become_errors_of_verbs_and_values_of_requests() {
    let server = Fake::start(|request| match request {
        "INCR k" => line("-WRONGTYPE Operation against a key holding the wrong kind of value"),
        "SET k v" => line("-READONLY You can't write against a read only replica."),
        _ => line("-ERR something else"),
    });
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    let error = client.incr(b"k").unwrap_err();
    assert!(matches!(error, KevyError::Store(StoreError::WrongType)));
    assert!(matches!(client.set(b"k", b"v"), Err(KevyError::ReadOnly)));
    let error = client.strlen(b"k").unwrap_err();
    assert!(matches!(error, KevyError::Protocol(text) if text == "ERR something else"));
    let reply = client.request(&["STRLEN", "k"]).unwrap();
    assert_eq!(reply, Reply::Error("ERR something else".into()));
}

#[test]
fn pushes_between_replies_are_kept_up_to_their_bound() {
    let push = |n: usize| format!(">2\r\n+n\r\n:{n}\r\n");
    let server = Fake::start(move |_| {
        let pushes: String = (0..=MAX_KEPT_PUSHES).map(push).collect();
        Step::Send(format!("{pushes}+PONG\r\n"))
    });
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    client.ping().unwrap();
    let first = client.take_push().unwrap();
    assert_eq!(first[1], Reply::Integer(1), "the oldest was dropped");
    let rest = std::iter::from_fn(|| client.take_push()).count();
    assert_eq!(rest, MAX_KEPT_PUSHES - 1);
}

#[test]
fn hello_3_is_said_first_and_its_refusal_is_an_error() {
    let server = Fake::start(|request| match request {
        "HELLO 3" => line("-NOPROTO unsupported protocol version"),
        other => panic!("{other}"),
    });
    let options = Options::default().with_resp3();
    let refused = Client::connect_with("127.0.0.1", server.port(), &options);
    assert!(matches!(refused, Err(KevyError::Protocol(_))));
}

#[test]
fn a_limit_of_0_is_refused_before_anything_is_sent() {
    let server = Fake::start(|_| line("*-1"));
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    let refused = client.blpop(&[b"l"], Some(Duration::ZERO));
    assert!(matches!(refused, Err(KevyError::InvalidInput(_))));
    let limit = Some(Duration::from_millis(1500));
    assert_eq!(client.blpop(&[b"l", b"m"], limit).unwrap(), None);
    assert_eq!(client.bzpopmin(&[b"z"], None).unwrap(), None);
    assert_eq!(server.seen(), ["BLPOP l m 1.500", "BZPOPMIN z 0.000"]);
}

#[test]
fn a_dropped_transaction_is_discarded() {
    let server = Fake::start(|request| match request {
        "MULTI" | "DISCARD" => line("+OK"),
        "PING" => line("+PONG"),
        other => panic!("{other}"),
    });
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    let mut transaction = client.multi().unwrap();
    transaction.set(b"k", b"v").incr(b"n");
    drop(transaction);
    client.ping().unwrap();
    assert_eq!(server.seen(), ["MULTI", "DISCARD", "PING"]);
}

#[test]
fn a_command_that_cannot_be_queued_fails_the_transaction_in_its_own_words() {
    let server = Fake::start(|request| match request {
        "MULTI" => line("+OK"),
        "GET k" => line("+QUEUED"),
        "NO" => line("-ERR unknown command 'NO'"),
        "EXEC" => line("-EXECABORT Transaction discarded because of previous errors."),
        other => panic!("{other}"),
    });
    let mut client = Client::connect("127.0.0.1", server.port()).unwrap();
    let mut transaction = client.multi().unwrap();
    transaction.get(b"k").cmd(&["NO"]).unwrap();
    let error = transaction.exec().unwrap_err();
    assert_eq!(error.to_string(), "ERR unknown command 'NO'");
}

#[test]
fn a_subscriber_waits_for_acknowledgements_and_keeps_what_comes_before() {
    let server = Fake::start(|request| match request {
        "SUBSCRIBE a b" => Step::Send(
            "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n\
             *3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nearly\r\n\
             *3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"
                .to_owned(),
        ),
        other => panic!("{other}"),
    });
    let url = format!("kevy://127.0.0.1:{}", server.port());
    let mut subscriber = Subscriber::connect(&url).unwrap();
    subscriber.subscribe(&[b"a", b"b"]).unwrap();
    let early = PubsubEvent::Message {
        channel: b"a".to_vec(),
        payload: b"early".to_vec(),
    };
    assert!(matches!(
        subscriber.recv(),
        Ok(PubsubEvent::Subscribe { count: 1, .. })
    ));
    assert_eq!(subscriber.recv_message().unwrap(), early);
    subscriber.set_read_timeout(Some(Duration::from_millis(5)));
    assert!(matches!(
        subscriber.recv(),
        Ok(PubsubEvent::Subscribe { count: 2, .. })
    ));
    assert!(matches!(subscriber.recv(), Err(KevyError::TimedOut)));
}
