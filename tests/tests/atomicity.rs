//! Commands over several shards happen at one moment, as in a server that has only one thread.
//!
//! Writers and readers run against each other on their own connections; every state that a reader can
//! name must be one that existed between two commands. Each run is bounded by a number of commands, never
//! by time.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use kevy_tests::connection::Connection;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use kevy_tests::slots::key_on_each_shard;

const SHARDS: [u16; 2] = [2, 4];
const WRITERS: usize = 2;
const READERS: usize = 2;
const WRITES: usize = 1_500;

/// Runs `write(connection, writer, turn)` by several writers, and `read` by several readers for as long
/// as any writer is at it, and at least once after.
fn race(
    server: &Server,
    write: impl Fn(&mut Connection, usize, usize) + Sync,
    read: impl Fn(&mut Connection) + Sync,
) {
    let writing = AtomicUsize::new(WRITERS);
    let (writing, write, read) = (&writing, &write, &read);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let _done = Done(writing);
                let mut connection = server.connect();
                for turn in 0..WRITES {
                    write(&mut connection, writer, turn);
                }
            });
        }
        for _ in 0..READERS {
            scope.spawn(move || {
                let mut connection = server.connect();
                loop {
                    let last = writing.load(Ordering::SeqCst) == 0;
                    read(&mut connection);
                    if last {
                        break;
                    }
                }
            });
        }
    });
}

/// Counts a writer off, also when it fails: its readers must not wait for ever.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn command(name: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(words).collect()
}

fn mset(keys: &[String], value: &str) -> Vec<String> {
    command(
        "MSET",
        keys.iter().flat_map(|key| [key.clone(), value.to_owned()]),
    )
}

fn over_all_shards(test: impl Fn(&Server, u16, &[String])) {
    for shards in SHARDS {
        let server = Spec::threads(shards).start();
        test(&server, shards, &key_on_each_shard("k", shards));
    }
}

#[test]
fn no_reader_sees_half_an_mset() {
    over_all_shards(|server, _, keys| {
        // The writers name the keys in opposite order: that must not lock them against each other.
        let backwards: Vec<_> = keys.iter().rev().cloned().collect();
        race(
            server,
            |connection, writer, turn| {
                let keys = if writer == 0 { keys } else { &backwards };
                assert_eq!(
                    connection.ask(&mset(keys, &format!("{writer}:{turn}"))),
                    Reply::ok()
                );
            },
            |connection| {
                let reply = connection.ask(&command("MGET", keys.iter().cloned()));
                let values = reply.items();
                assert!(
                    values.iter().all(|value| *value == values[0]),
                    "half an MSET: {values:?}"
                );
            },
        );
    });
}

#[test]
fn every_msetnx_sets_all_or_nothing() {
    over_all_shards(|server, _, keys| {
        race(
            server,
            |connection, writer, turn| {
                let mut msetnx = mset(keys, &format!("{writer}:{turn}"));
                "MSETNX".clone_into(&mut msetnx[0]);
                let set = connection.ask(&msetnx).integer();
                let deleted = connection
                    .ask(&command("DEL", keys.iter().cloned()))
                    .integer();
                let all = keys.len() as i64;
                assert!(
                    set <= 1 && (deleted == 0 || deleted == all),
                    "{set} {deleted} of {all}"
                );
            },
            |connection| {
                let reply = connection.ask(&command("MGET", keys.iter().cloned()));
                let values = reply.items();
                assert!(
                    values.iter().all(|value| *value == values[0]),
                    "half a write: {values:?}"
                );
                let there = connection
                    .ask(&command("EXISTS", keys.iter().cloned()))
                    .integer();
                assert!(
                    there == 0 || there == keys.len() as i64,
                    "{there} of {} exist",
                    keys.len()
                );
            },
        );
    });
}

#[test]
fn a_renamed_key_is_always_under_one_name() {
    over_all_shards(|server, _, keys| {
        let (here, there) = (&keys[0], &keys[keys.len() - 1]);
        assert_eq!(server.connect().ask(&["SET", here, "ball"]), Reply::ok());
        race(
            server,
            |connection, _, turn| {
                let (from, to) = if turn % 2 == 0 {
                    (here, there)
                } else {
                    (there, here)
                };
                // Two writers play: who finds nothing under the name is told so.
                let reply = connection.ask(&["RENAME", from, to]);
                let missed = Reply::Error("ERR no such key".into());
                assert!(reply == Reply::ok() || reply == missed, "{reply:?}");
            },
            |connection| {
                let reply = connection.ask(&["MGET", here, there]);
                let balls = reply.items().iter().filter(|value| **value != Reply::Null);
                assert_eq!(balls.count(), 1, "{reply:?}");
                assert_eq!(connection.ask(&["EXISTS", here, there]), Reply::Integer(1));
                assert_eq!(connection.run("DBSIZE"), Reply::Integer(1));
            },
        );
    });
}

#[test]
fn renamenx_never_overwrites() {
    over_all_shards(|server, _, keys| {
        let (here, there) = (&keys[0], &keys[keys.len() - 1]);
        assert_eq!(
            server.connect().ask(&["MSET", here, "a", there, "b"]),
            Reply::ok()
        );
        race(
            server,
            |connection, _, _| {
                assert_eq!(
                    connection.ask(&["RENAMENX", here, there]),
                    Reply::Integer(0)
                );
                assert_eq!(connection.ask(&["COPY", there, here]), Reply::Integer(0));
            },
            |connection| {
                let values = [b"a", b"b"].map(|value| Reply::Bulk(value.to_vec()));
                assert_eq!(
                    connection.ask(&["MGET", here, there]),
                    Reply::Array(values.into())
                );
            },
        );
    });
}

#[test]
fn a_copy_is_of_one_moment() {
    over_all_shards(|server, _, keys| {
        let (source, copy) = (&keys[0], &keys[keys.len() - 1]);
        assert_eq!(
            server.connect().ask(&["MSET", source, "0", copy, "0"]),
            Reply::ok()
        );
        race(
            server,
            |connection, writer, _| {
                if writer == 0 {
                    connection.ask(&["INCR", source]);
                } else {
                    assert_eq!(
                        connection.ask(&["COPY", source, copy, "REPLACE"]),
                        Reply::Integer(1)
                    );
                }
            },
            |connection| {
                let reply = connection.ask(&["MGET", source, copy]);
                let numbers = reply.items().iter().map(|value| value.text().parse());
                let numbers: Result<Vec<u64>, _> = numbers.collect();
                let numbers = numbers.expect("numbers");
                assert!(
                    numbers[1] <= numbers[0],
                    "a copy from the future: {numbers:?}"
                );
            },
        );
        let mut connection = server.connect();
        assert_eq!(connection.ask(&["GET", source]).text(), WRITES.to_string());
    });
}

#[test]
fn views_of_the_whole_keyspace_show_no_half_mset() {
    over_all_shards(|server, _, keys| {
        let all = keys.len() as i64;
        race(
            server,
            |connection, writer, turn| {
                let reply = match (writer, turn % 4) {
                    (0, _) => connection.ask(&mset(keys, &turn.to_string())),
                    (_, 0) => connection.run("FLUSHALL"),
                    (_, 1) => connection.run("FLUSHDB"),
                    (_, _) => {
                        let deleted = connection
                            .ask(&command("DEL", keys.iter().cloned()))
                            .integer();
                        assert!(deleted == 0 || deleted == all, "{deleted} of {all} deleted");
                        return;
                    }
                };
                assert_eq!(reply, Reply::ok());
            },
            |connection| {
                let size = connection.run("DBSIZE").integer();
                assert!(size == 0 || size == all, "DBSIZE {size} of {all}");
                let listed = connection.run("KEYS *").items().len() as i64;
                assert!(listed == 0 || listed == all, "KEYS shows {listed} of {all}");
                let reply = connection.ask(&command("MGET", keys.iter().cloned()));
                let values = reply.items();
                assert!(
                    values.iter().all(|value| *value == values[0]),
                    "half a flush: {values:?}"
                );
            },
        );
    });
}

/// A reader whose own writes are pipelined sees them in their order, whatever shards they went to.
#[test]
fn a_connection_reads_its_own_writes() {
    over_all_shards(|server, _, keys| {
        race(
            server,
            |connection, writer, turn| {
                let own: Vec<_> = keys.iter().map(|key| format!("{key}:{writer}")).collect();
                let value = turn.to_string();
                let mut bytes = Vec::new();
                for key in &own {
                    bytes.extend(kevy_tests::connection::request(&["SET", key, &value]));
                }
                bytes.extend(kevy_tests::connection::request(&command(
                    "MGET",
                    own.clone(),
                )));
                connection.send(&bytes).expect("open");
                for _ in &own {
                    assert_eq!(connection.read().expect("a reply"), Reply::ok());
                }
                let values = connection.read().expect("a reply");
                let expected = vec![Reply::Bulk(value.into_bytes()); own.len()];
                assert_eq!(values, Reply::Array(expected));
            },
            |connection| {
                connection.run("DBSIZE").integer();
            },
        );
    });
}
