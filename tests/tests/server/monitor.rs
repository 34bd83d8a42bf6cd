//! `MONITOR` and `CLIENT PAUSE`. With `KEVY_TEST_SERVER=redis` Redis shows that it is as there.

use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::Spec;

/// The command of the next line that a monitor gets.
fn shown(monitor: &mut Connection) -> String {
    let Reply::Simple(line) = monitor.read().expect("a line") else {
        panic!("no line");
    };
    let (head, command) = line.split_once("] ").expect("an address");
    let (time, address) = head.split_once(" [0 ").expect("a database");
    let (seconds, micros) = time.split_once('.').expect("a time");
    assert!(
        seconds.parse::<u64>().is_ok() && micros.len() == 6,
        "{line}"
    );
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    command.to_owned()
}

#[test]
fn a_monitor_sees_what_everybody_does() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let mut monitor = server.connect();
        assert_eq!(monitor.run("MONITOR"), Reply::ok());
        let mut client = server.connect();
        client.ask(&[&b"SET"[..], b"k\x00\"\\\n", b"\xff"]);
        assert_eq!(shown(&mut monitor), r#""SET" "k\x00\"\\\n" "\xff""#);
        client.run("CONFIG GET port");
        client.run("nonsense");
        client.run("GET");
        client.run("MULTI");
        client.run("SET a 1");
        client.run("GET b");
        client.run("EXEC");
        for expected in [
            r#""MULTI""#,
            r#""SET" "a" "1""#,
            r#""GET" "b""#,
            r#""EXEC""#,
        ] {
            assert_eq!(shown(&mut monitor), expected);
        }
        client.run("AUTH secret");
        assert_eq!(shown(&mut monitor), r#""AUTH" "(redacted)""#);
        let refused = "ERR Replica can't interact with the keyspace";
        assert_eq!(monitor.run("GET a"), Reply::Error(refused.to_owned()));
        assert_eq!(monitor.run("RESET"), Reply::Simple("RESET".to_owned()));
        client.run("PING");
        let next = monitor.run("ECHO x");
        // Of its own RESET a monitor may still hear.
        let next = if matches!(next, Reply::Simple(_)) {
            monitor.read().expect("a reply")
        } else {
            next
        };
        assert_eq!(next, Reply::bulk("x"));
    }
}

#[test]
fn a_pause_holds_writes_up_until_it_is_lifted() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let (mut client, mut writer) = (server.connect(), server.connect());
        assert_eq!(client.run("CLIENT PAUSE 100000 WRITE"), Reply::ok());
        assert_eq!(client.run("GET k"), Reply::Null);
        writer.send(b"GET k\r\nINCR k\r\nGET k\r\n").expect("open");
        assert_eq!(writer.read().expect("a reply"), Reply::Null);
        assert_eq!(client.run("GET k"), Reply::Null);
        assert_eq!(client.run("CLIENT UNPAUSE"), Reply::ok());
        assert_eq!(writer.read().expect("a reply"), Reply::Integer(1));
        assert_eq!(writer.read().expect("a reply"), Reply::bulk("1"));
        // Ends by itself.
        assert_eq!(client.run("CLIENT PAUSE 50 ALL"), Reply::ok());
        assert_eq!(client.run("PING").text(), "PONG");
        for (request, error) in [
            (
                "CLIENT PAUSE x",
                "ERR timeout is not an integer or out of range",
            ),
            ("CLIENT PAUSE -1", "ERR timeout is negative"),
            (
                "CLIENT PAUSE 1 FOO",
                "ERR CLIENT PAUSE mode must be WRITE or ALL",
            ),
        ] {
            assert_eq!(client.run(request), Reply::Error(error.to_owned()));
        }
    }
}
