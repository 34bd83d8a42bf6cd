//! Bytes in, replies out: order, pieces, versions, and what is no command.

use kevy_tests::connection::{Connection, request};
use kevy_tests::reply::Reply;
use kevy_tests::server::{Redis, Spec};
use kevy_tests::slots::key_on_each_shard;

const PIPELINED: usize = 10_000;

#[test]
fn replies_of_a_pipeline_over_all_shards_keep_their_order() {
    for spec in [Spec::threads(4), Spec::threads(4).accept_shards(1)] {
        let server = spec.start();
        let mut connection = server.connect();
        let mut sender = connection.try_clone().expect("a second handle");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let commands = (0..PIPELINED).map(|n| match n % 4 {
                    3 => request(&["PING".to_owned(), n.to_string()]),
                    _ => request(&[
                        "SET".to_owned(),
                        format!("k{}", n % 64),
                        n.to_string(),
                        "GET".to_owned(),
                    ]),
                });
                let bytes: Vec<u8> = commands.flatten().collect();
                sender.send(&bytes).expect("the server reads on");
            });
            let mut stored = vec![None; 64];
            for n in 0..PIPELINED {
                let reply = connection.read().expect("a reply");
                let now = Reply::bulk(&n.to_string());
                let expected = match n % 4 {
                    3 => now,
                    _ => stored[n % 64].replace(now).unwrap_or(Reply::Null),
                };
                assert_eq!(reply, expected, "reply {n}");
            }
        });
    }
}

#[test]
fn hello_chooses_the_version() {
    let server = Spec::threads(2).start();
    let mut connection = server.connect();
    let two = connection.run("HELLO 2");
    assert!(matches!(two, Reply::Array(_)), "{two:?}");
    assert_eq!(two.at("proto"), &Reply::Integer(2));
    let three = connection.run("HELLO 3");
    assert!(matches!(three, Reply::Map(_)), "{three:?}");
    for (field, value) in [
        ("proto", Reply::Integer(3)),
        ("role", Reply::bulk("master")),
    ] {
        assert_eq!(three.at(field), &value);
    }
    for field in ["server", "version", "id", "mode", "modules"] {
        three.at(field);
    }
    assert_eq!(
        connection
            .try_ask_bytes(&["GET", "absent"])
            .expect("a reply"),
        b"_\r\n"
    );
    assert_eq!(
        connection.run("HELLO 4").error(),
        "NOPROTO unsupported protocol version"
    );
    assert_eq!(
        connection.run("HELLO 2 SETNAME me").at("proto"),
        &Reply::Integer(2)
    );
    assert_eq!(connection.run("CLIENT GETNAME"), Reply::bulk("me"));
    assert_eq!(
        connection
            .try_ask_bytes(&["GET", "absent"])
            .expect("a reply"),
        b"$-1\r\n"
    );
}

/// Everything the server says to `bytes` until it closes the connection.
fn conversation(mut connection: Connection, bytes: &[u8]) -> String {
    // A server that closes at the first fault may do so before all is sent.
    let _ = connection.send(bytes);
    let _ = connection.finish_sending();
    let said = connection.read_to_end().expect("the server closes in time");
    said.escape_ascii().to_string()
}

#[test]
fn bytes_that_are_no_command_get_redis_s_answer() {
    let (redis, server) = (Redis::start(), Spec::threads(2).start());
    let long_line = "x".repeat(70_000);
    let cases = [
        "PING\r\n",
        "PING\n",
        "\r\n\r\nPING\r\n",
        "  PING  \r\n",
        "SET a 1\r\nGET a\r\n",
        "SET a \"x \\x41\\n\"\r\nGET a\r\n",
        "SET a 'it''s'\r\n",
        "SET a \"x\r\n",
        "SET a 'x\r\n",
        "SET a \"x\"y\r\n",
        "SET a 'x\\'y'\r\nGET a\r\n",
        "SET '' ''\r\nGET ''\r\n",
        "*0\r\nPING\r\n",
        "*-1\r\nPING\r\n",
        "*-5\r\nPING\r\n",
        "*\r\nPING\r\n",
        "*x\r\nPING\r\n",
        "*1x\r\n",
        "*2147483648\r\n",
        "*99999999999999999999\r\n",
        "*1\r\n$x\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$\r\n",
        "*1\r\n:4\r\nPING\r\n",
        "*1\r\nPING\r\n",
        "*1\r\n$536870913\r\n",
        "*1\r\n$99999999999999999999\r\n",
        "*1\r\n$4\r\nPINGxx",
        "*1\r\n$4\r\nPING\r\n*x\r\n",
        "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n",
        "*2\r\n$3\r\nGET\r\n$1\r\na",
        "*1\r\n$0\r\n\r\n",
        "+PING\r\n",
        "QUIT\r\nPING\r\n",
        &long_line,
        &format!("*{long_line}"),
        &format!("*1\r\n${long_line}"),
    ];
    for case in cases {
        let theirs = conversation(redis.connect(), case.as_bytes());
        let ours = conversation(server.connect(), case.as_bytes());
        let shown: String = case.chars().take(60).collect();
        assert_eq!(ours, theirs, "the left is kevy's answer to {shown:?}");
    }
    assert_eq!(server.connect().run("PING").text(), "PONG");
}

#[test]
fn a_command_may_come_in_any_pieces() {
    let server = Spec::threads(2).start();
    let bytes = [
        request(&["SET", "key", "value\r\n"]),
        request(&["GET", "key"]),
        b"PING\r\n".to_vec(),
    ]
    .concat();
    for cut in 1..bytes.len() {
        let mut connection = server.connect();
        connection.send(&bytes[..cut]).expect("open");
        // Let the first piece arrive alone: something else is asked and answered meanwhile.
        assert_eq!(server.connect().run("PING").text(), "PONG");
        connection.send(&bytes[cut..]).expect("open");
        assert_eq!(connection.read().expect("a reply"), Reply::ok());
        assert_eq!(
            connection.read().expect("a reply"),
            Reply::bulk("value\r\n")
        );
        assert_eq!(connection.read().expect("a reply").text(), "PONG");
    }
}

#[test]
fn large_values_come_back_whole() {
    let server = Spec::threads(4).start();
    let mut connection = server.connect();
    let value: Vec<u8> = (0..8_000_000_u32).map(|n| (n % 251) as u8).collect();
    for key in key_on_each_shard("big", 4) {
        assert_eq!(
            connection.ask(&[b"SET", key.as_bytes(), &value]),
            Reply::ok()
        );
        assert_eq!(connection.ask(&["STRLEN", &key]), Reply::Integer(8_000_000));
        assert!(
            connection.ask(&["GET", &key]) == Reply::Bulk(value.clone()),
            "{key} differs"
        );
    }
}
