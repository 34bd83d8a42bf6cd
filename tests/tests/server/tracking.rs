//! Client-side caching: who hears of which changes. With `KEVY_TEST_SERVER=redis` Redis shows that it is as there.

use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};

fn resp3(server: &Server) -> Connection {
    let mut connection = server.connect();
    connection.run("HELLO 3");
    connection
}

/// The keys of an invalidation; none: all keys.
fn invalidated(connection: &mut Connection) -> Option<Vec<String>> {
    let Reply::Push(message) = connection.read().expect("a push") else {
        panic!("no push");
    };
    assert_eq!(message[0].text(), "invalidate");
    match &message[1] {
        Reply::Array(keys) => Some(keys.iter().map(Reply::text).collect()),
        Reply::Null => None,
        other => panic!("no keys: {other:?}"),
    }
}

fn keys(keys: &[&str]) -> Option<Vec<String>> {
    Some(keys.iter().map(|key| (*key).to_owned()).collect())
}

#[test]
fn a_reader_hears_once_of_what_it_has_read() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let (mut reader, mut writer) = (resp3(&server), server.connect());
        assert_eq!(reader.run("CLIENT TRACKING ON"), Reply::ok());
        for key in ["a", "b", "c", "d"] {
            reader.ask(&["GET", key]);
            writer.ask(&["SET", key, "1"]);
            writer.ask(&["SET", key, "2"]);
            assert_eq!(invalidated(&mut reader), keys(&[key]));
        }
        reader.run("MGET a b");
        writer.run("RENAME a b");
        let mut both = [invalidated(&mut reader), invalidated(&mut reader)];
        both.sort();
        assert_eq!(both, [keys(&["a"]), keys(&["b"])]);
        reader.run("MGET b c");
        writer.run("FLUSHALL");
        assert_eq!(invalidated(&mut reader), None);
        writer.run("SET e 1 PX 20");
        reader.run("GET e");
        assert_eq!(invalidated(&mut reader), keys(&["e"]));
        reader.run("MULTI");
        reader.run("GET x");
        reader.run("EXEC");
        writer.run("LPUSH x 1");
        assert_eq!(invalidated(&mut reader), keys(&["x"]));
        assert_eq!(reader.run("PING").text(), "PONG");
    }
}

#[test]
fn opting_in_and_out_is_about_the_next_request() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let (mut reader, mut writer) = (resp3(&server), server.connect());
        reader.run("CLIENT TRACKING ON OPTIN");
        reader.run("GET a");
        assert_eq!(reader.run("CLIENT CACHING YES"), Reply::ok());
        reader.run("GET b");
        reader.run("GET c");
        writer.run("MSET a 1 b 1 c 1");
        assert_eq!(invalidated(&mut reader), keys(&["b"]));
        reader.run("CLIENT TRACKING OFF");
        reader.run("CLIENT TRACKING ON OPTOUT");
        reader.run("CLIENT CACHING NO");
        reader.run("GET a");
        reader.run("GET b");
        writer.run("MSET a 2 b 2 c 2");
        assert_eq!(invalidated(&mut reader), keys(&["b"]));
        assert_eq!(reader.run("PING").text(), "PONG");
    }
}

#[test]
fn listeners_hear_of_prefixes_and_not_of_themselves() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let (mut listener, mut writer) = (resp3(&server), server.connect());
        let on = "CLIENT TRACKING ON BCAST PREFIX user: PREFIX item: NOLOOP";
        assert_eq!(listener.run(on), Reply::ok());
        let overlap = listener.run("CLIENT TRACKING ON BCAST PREFIX user:1");
        let error = "ERR Prefix 'user:1' overlaps with an existing prefix 'user:'. \
                     Prefixes for a single client must not overlap.";
        assert_eq!(overlap, Reply::Error(error.to_owned()));
        listener.run("SET user:0 1");
        writer.run("SET other:1 1");
        writer.run("SET user:1 1");
        assert_eq!(invalidated(&mut listener), keys(&["user:1"]));
        writer.run("DEL user:1");
        assert_eq!(invalidated(&mut listener), keys(&["user:1"]));
        let info = crate::info(&mut writer, "stats", "tracking_total_prefixes");
        assert_eq!(info, "2");
        let info = crate::info(&mut writer, "clients", "tracking_clients");
        assert_eq!(info, "1");
    }
}

#[test]
fn another_connection_hears_in_place_of_the_reader() {
    for threads in [1, 4] {
        let server = Spec::threads(threads).start();
        let mut listener = server.connect();
        let Reply::Integer(id) = listener.run("CLIENT ID") else {
            panic!("no id");
        };
        listener.run("SUBSCRIBE __redis__:invalidate");
        let mut reader = server.connect();
        let on = format!("CLIENT TRACKING ON REDIRECT {id}");
        assert_eq!(reader.run(&on), Reply::ok());
        assert_eq!(reader.run("CLIENT GETREDIR"), Reply::Integer(id));
        reader.run("GET k");
        reader.run("SET k 1");
        let message = listener.read().expect("a message");
        let bulk = |text: &str| Reply::bulk(text);
        let expected = vec![
            bulk("message"),
            bulk("__redis__:invalidate"),
            Reply::Array(vec![bulk("k")]),
        ];
        assert_eq!(message, Reply::Array(expected));
        reader.run("GET k");
        listener.finish_sending().expect("open");
        listener.read_to_end().expect("closed");
        reader.run("SET k 2");
        // The word that nobody is there may have a longer way than the reply.
        let broken = || reader.run("CLIENT LIST").text().contains("flags=tR");
        assert!(std::iter::repeat_with(broken).take(10_000).any(|is| is));
    }
}

#[test]
fn readers_of_keys_above_the_limit_are_told() {
    let server = Spec::threads(1).start();
    let mut reader = resp3(&server);
    reader.run("CLIENT TRACKING ON");
    let mut other = server.connect();
    other.run("CONFIG SET tracking-table-max-keys 5");
    for number in 0..20 {
        reader
            .send(format!("GET key{number}\r\n").as_bytes())
            .expect("open");
    }
    let mut told = 0;
    let mut replies = 0;
    while told < 15 || replies < 20 {
        match reader.read().expect("a reply") {
            Reply::Push(_) => told += 1,
            _ => replies += 1,
        }
    }
    assert_eq!(crate::info(&mut other, "stats", "tracking_total_keys"), "5");
}
