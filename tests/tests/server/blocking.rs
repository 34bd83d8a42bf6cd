//! Clients that wait for keys, as clients see it; the same against Redis (`KEVY_TEST_SERVER=redis`).

use kevy_tests::connection::{Connection, request};
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use kevy_tests::slots::key_on_each_shard;

use crate::info;

/// Runs a test with one shard and with four.
fn on_shards(test: impl Fn(&Server)) {
    for shards in [1, 4] {
        test(&Spec::threads(shards).start());
    }
}

/// Keys that four shards own one each.
fn keys() -> Vec<String> {
    key_on_each_shard("k", 4)
}

/// Sends a request that blocks, and waits until `blocked` clients are.
fn block(server: &Server, client: &mut Connection, words: &[&str], blocked: usize) {
    client.send(&request(words)).expect("sent");
    await_blocked(server, blocked);
}

fn await_blocked(server: &Server, blocked: usize) {
    let mut asker = server.connect();
    while info(&mut asker, "clients", "blocked_clients") != blocked.to_string() {
        std::thread::yield_now();
    }
}

fn strings(reply: &Reply) -> Vec<String> {
    reply.items().iter().map(Reply::text).collect()
}

#[test]
fn the_first_client_that_waits_gets_the_first_element() {
    on_shards(|server| {
        for key in keys() {
            let mut waiters: Vec<Connection> = (0..5).map(|_| server.connect()).collect();
            for (index, waiter) in waiters.iter_mut().enumerate() {
                block(server, waiter, &["BLPOP", "nothing", &key, "0"], index + 1);
            }
            let mut pusher = server.connect();
            assert_eq!(
                pusher
                    .ask(&["RPUSH", &key, "0", "1", "2", "3", "4", "5"])
                    .integer(),
                6
            );
            for (index, waiter) in waiters.iter_mut().enumerate() {
                let reply = waiter.read().expect("served");
                assert_eq!(strings(&reply), [key.as_str(), &index.to_string()]);
            }
            assert_eq!(pusher.ask(&["LPOP", &key]), Reply::bulk("5"));
            await_blocked(server, 0);
        }
    });
}

#[test]
fn a_move_over_shards_waits_and_wakes_the_next() {
    on_shards(|server| {
        let keys = keys();
        let (mut one, mut two, mut last) = (server.connect(), server.connect(), server.connect());
        let request = |from: usize, to: usize| {
            ["BLMOVE", &keys[from], &keys[to], "LEFT", "RIGHT", "0"].map(str::to_owned)
        };
        for (index, (client, words)) in [(&mut one, request(3, 1)), (&mut two, request(1, 2))]
            .into_iter()
            .enumerate()
        {
            block(
                server,
                client,
                &words.each_ref().map(String::as_str),
                index + 1,
            );
        }
        block(server, &mut last, &["BRPOP", &keys[0], &keys[2], "0"], 3);
        let mut pusher = server.connect();
        pusher.ask(&["RPUSH", &keys[3], "x"]);
        assert_eq!(one.read().expect("served"), Reply::bulk("x"));
        assert_eq!(two.read().expect("served"), Reply::bulk("x"));
        assert_eq!(
            strings(&last.read().expect("served")),
            [keys[2].as_str(), "x"]
        );
        assert_eq!(pusher.run("DBSIZE").integer(), 0);
    });
}

#[test]
fn time_runs_out_and_the_connection_goes_on() {
    on_shards(|server| {
        let keys = keys();
        let mut client = server.connect();
        for words in [
            vec!["BLPOP", &keys[0], &keys[1], "0.01"],
            vec!["BLMOVE", &keys[0], &keys[1], "LEFT", "LEFT", "0.01"],
            vec!["BZPOPMAX", &keys[2], "0.01"],
            vec!["BLMPOP", "0.01", "2", &keys[0], &keys[3], "LEFT"],
            vec!["XREAD", "BLOCK", "10", "STREAMS", &keys[1], "$"],
        ] {
            client.send(&request(&words)).expect("sent");
            assert_eq!(
                client.read_bytes().expect("a reply"),
                b"*-1\r\n",
                "{words:?}"
            );
            assert_eq!(client.run("ECHO next").text(), "next");
        }
        assert_eq!(client.run("WAIT 1 10").integer(), 0);
        let mut other = server.connect();
        other.ask(&["RPUSH", &keys[0], "a"]);
        assert_eq!(client.ask(&["LLEN", &keys[0]]).integer(), 1);
        assert_eq!(info(&mut other, "clients", "blocked_clients"), "0");
    });
}

#[test]
fn clients_that_are_gone_take_nothing() {
    on_shards(|server| {
        for key in keys() {
            let (mut gone, mut killed) = (server.connect(), server.connect());
            let id = killed.run("CLIENT ID").integer().to_string();
            block(server, &mut gone, &["BLPOP", &key, "0"], 1);
            block(server, &mut killed, &["BRPOP", "nothing", &key, "0"], 2);
            drop(gone);
            await_blocked(server, 1);
            let mut other = server.connect();
            assert_eq!(other.ask(&["CLIENT", "KILL", "ID", &id]).integer(), 1);
            await_blocked(server, 0);
            other.ask(&["RPUSH", &key, "a"]);
            assert_eq!(other.ask(&["LPOP", &key]), Reply::bulk("a"));
        }
    });
}

#[test]
fn another_client_ends_a_wait() {
    on_shards(|server| {
        let (mut waiter, mut other) = (server.connect(), server.connect());
        let id = waiter.run("CLIENT ID").integer().to_string();
        block(server, &mut waiter, &["BLPOP", "k", "0"], 1);
        let list = other.ask(&["CLIENT", "LIST", "ID", &id]).text();
        assert!(
            list.contains(" flags=b ") && list.contains(" cmd=blpop "),
            "{list}"
        );
        assert_eq!(other.ask(&["CLIENT", "UNBLOCK", &id]).integer(), 1);
        assert_eq!(waiter.read_bytes().expect("a reply"), b"*-1\r\n");
        block(
            server,
            &mut waiter,
            &["XREAD", "BLOCK", "0", "STREAMS", "k", "$"],
            1,
        );
        assert_eq!(other.ask(&["CLIENT", "UNBLOCK", &id, "ERROR"]).integer(), 1);
        let error = waiter.read().expect("a reply");
        assert_eq!(
            error.error(),
            "UNBLOCKED client unblocked via CLIENT UNBLOCK"
        );
        assert_eq!(other.ask(&["CLIENT", "UNBLOCK", &id]).integer(), 0);
        assert_eq!(
            other.ask(&["CLIENT", "UNBLOCK", &id, "NOW"]).error(),
            "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
        );
    });
}

#[test]
fn nobody_waits_within_multi_and_exec_wakes() {
    on_shards(|server| {
        let keys = keys();
        let (mut waiter, mut other) = (server.connect(), server.connect());
        block(server, &mut waiter, &["BLPOP", &keys[2], "0"], 1);
        other.run("MULTI");
        other.ask(&["BLPOP", &keys[0], &keys[1], "0"]);
        other.ask(&["BLMOVE", &keys[0], &keys[1], "LEFT", "LEFT", "0"]);
        other.ask(&["RPUSH", &keys[2], "a"]);
        other.ask(&["SET", &keys[3], "v"]);
        other.ask(&["LPOP", &keys[2]]);
        other.ask(&["RPUSH", &keys[2], "b"]);
        other.send(&request(&["EXEC"])).expect("sent");
        let replies = other.read_bytes().expect("a reply");
        assert_eq!(
            replies,
            b"*6\r\n*-1\r\n$-1\r\n:1\r\n+OK\r\n$1\r\na\r\n:1\r\n"
        );
        assert_eq!(
            strings(&waiter.read().expect("served")),
            [keys[2].as_str(), "b"]
        );
    });
}

#[test]
fn streams_wake_readers_and_one_consumer() {
    on_shards(|server| {
        let keys = keys();
        let (mut reader, mut consumer, mut writer) =
            (server.connect(), server.connect(), server.connect());
        writer.ask(&["XGROUP", "CREATE", &keys[1], "g", "$", "MKSTREAM"]);
        let from_group = [
            "XREADGROUP",
            "GROUP",
            "g",
            "c",
            "BLOCK",
            "0",
            "STREAMS",
            &keys[1],
            ">",
        ];
        block(
            server,
            &mut reader,
            &[
                "XREAD", "BLOCK", "0", "STREAMS", &keys[0], &keys[1], "$", "$",
            ],
            1,
        );
        block(server, &mut consumer, &from_group, 2);
        writer.ask(&["XADD", &keys[1], "1-1", "f", "v"]);
        for client in [&mut reader, &mut consumer] {
            let reply = client.read().expect("served");
            assert_eq!(reply.items()[0].items()[0].text(), keys[1]);
        }
        block(server, &mut consumer, &from_group, 1);
        writer.ask(&["XGROUP", "DESTROY", &keys[1], "g"]);
        let error = consumer.read().expect("an error");
        assert!(error.error().contains("group"), "{error:?}");
    });
}
