//! Client-side caching over shards whose messages travel in any order that keeps each pair of shards in order.

use super::announcement_tests::{configure, connect, connect_resp3, pass, taken};
use super::tests::{Client, Process, key_on};
use super::*;
use kevy_proto::time::UnixMillis;
use std::collections::{BTreeMap as Map, VecDeque};
use std::fmt::Write;

fn invalidate(keys: &[&str]) -> String {
    let mut text = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len());
    for key in keys {
        let _ = write!(text, "${}\r\n{key}\r\n", key.len());
    }
    text
}

const EVERYTHING: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

#[test]
fn whoever_has_read_a_key_hears_of_its_change_once() {
    let mut process = Process::new(4, 1);
    let writer = connect(&mut process, 3, 0);
    let reader = connect_resp3(&mut process, 0, 0);
    assert_eq!(process.ask(reader, "CLIENT TRACKING ON"), "+OK\r\n");
    for shard in 0..4 {
        let key = key_on("k", shard, 4);
        process.ask(reader, &format!("GET {key}"));
        process.ask(writer, &format!("SET {key} 1"));
        process.ask(writer, &format!("SET {key} 2"));
        assert_eq!(taken(&mut process, reader), invalidate(&[&key]));
    }
    let [a, b] = [key_on("k", 1, 4), key_on("k", 2, 4)];
    process.ask(reader, &format!("SUNION {a}{a} {b}{b}"));
    process.ask(reader, &format!("MULTI\r\nGET {a}\r\nGET {b}\r\nEXEC"));
    process.ask(writer, &format!("RENAME {a} {b}"));
    let heard = taken(&mut process, reader);
    let [one, other] = [invalidate(&[&a]), invalidate(&[&b])];
    assert!(
        heard == one.clone() + &other || heard == other + &one,
        "{heard}"
    );
    process.ask(writer, &format!("SADD {a}{a} x"));
    assert_eq!(
        taken(&mut process, reader),
        invalidate(&[&format!("{a}{a}")])
    );
    assert_eq!(process.ask(writer, "FLUSHALL"), "+OK\r\n");
    assert_eq!(taken(&mut process, reader), EVERYTHING);
    process.ask(reader, &format!("GET {a}\r\nCLIENT TRACKING OFF"));
    process.ask(writer, &format!("SET {a} 1"));
    assert_eq!(taken(&mut process, reader), "");
    assert!(process.shards.iter().all(|shard| shard.tracking.is_idle()));
    process.assert_nothing_is_left();
}

#[test]
fn listeners_hear_of_prefixes_wherever_the_keys_are() {
    let mut process = Process::new(4, 2);
    let writer = connect_resp3(&mut process, 3, 0);
    let listener = connect_resp3(&mut process, 0, 0);
    let on = "CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:";
    assert_eq!(process.ask(listener, on), "+OK\r\n");
    for shard in 0..4 {
        let [user, other] = [key_on("user:", shard, 4), key_on("other:", shard, 4)];
        process.ask(writer, &format!("SET {other} 1"));
        process.ask(writer, &format!("SET {user} 1"));
        assert_eq!(taken(&mut process, listener), invalidate(&[&user]));
        assert_eq!(process.shards[usize::from(shard)].tracking.prefixes(), 2);
    }
    process.ask(writer, "CLIENT TRACKING ON BCAST NOLOOP");
    process.ask(writer, "SET mine 1");
    assert_eq!(taken(&mut process, writer), "");
    process.ask(listener, "SET theirs 1");
    assert_eq!(taken(&mut process, writer), invalidate(&["theirs"]));
    for client in [writer, listener] {
        process.shards[usize::from(client.0)].handle_disconnected(client.1);
    }
    process.settle();
    assert!(process.shards.iter().all(|shard| shard.tracking.is_idle()));
}

#[test]
fn each_prefix_is_told_of_by_itself_and_earlier_reads_no_more() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 4);
        let writer = connect_resp3(&mut process, 0, 0);
        let listener = connect_resp3(&mut process, 0, 1);
        process.ask(listener, "CLIENT TRACKING ON\r\nMGET {x}a {x}b");
        process.ask(listener, "CLIENT TRACKING OFF\r\nCLIENT TRACKING ON BCAST");
        process.ask(writer, "MSET {x}a 1 {x}b 2 {x}c 3");
        let all = invalidate(&["{x}a", "{x}b", "{x}c"]);
        assert_eq!(taken(&mut process, listener), all);
        process.ask(listener, "CLIENT TRACKING OFF");
        process.ask(listener, "CLIENT TRACKING ON BCAST PREFIX b PREFIX a");
        process.ask(writer, "MSET b{x}2 1 a{x}1 1 a{x}2 1 {x}a 1");
        let apart = invalidate(&["a{x}1", "a{x}2"]) + &invalidate(&["b{x}2"]);
        assert_eq!(taken(&mut process, listener), apart);
    }
}

#[test]
fn another_connection_is_told_in_place_of_the_reader() {
    let mut process = Process::new(3, 3);
    let listener = connect(&mut process, 2, 0);
    let id = process.ask(listener, "CLIENT ID");
    let id = id.trim_start_matches(':').trim_end().to_owned();
    process.ask(listener, "SUBSCRIBE __redis__:invalidate");
    let reader = connect_resp3(&mut process, 0, 0);
    let missing = "-ERR The client ID you want redirect to does not exist\r\n";
    let on = |id: &str| format!("CLIENT TRACKING ON REDIRECT {id}");
    assert_eq!(process.ask(reader, &on("999")), missing);
    assert_eq!(process.ask(reader, "CLIENT GETREDIR"), ":-1\r\n");
    assert_eq!(process.ask(reader, &on(&id)), "+OK\r\n");
    assert_eq!(process.ask(reader, "CLIENT GETREDIR"), format!(":{id}\r\n"));
    process.ask(reader, "GET k");
    process.ask(reader, "SET k 1");
    let told = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n";
    assert_eq!(taken(&mut process, listener), told);
    process.ask(reader, "GET k");
    process.shards[2].handle_disconnected(listener.1);
    process.ask(reader, "SET k 2");
    let info = process.ask(reader, "CLIENT TRACKINGINFO");
    let broken = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n");
    assert!(info.contains("broken_redirect"), "{info}");
    process.ask(reader, "GET k");
    process.send(reader, b"SET k 3\r\n");
    process.settle();
    assert_eq!(taken(&mut process, reader), "+OK\r\n".to_owned() + &broken);
}

#[test]
fn the_table_gives_keys_up_with_word_to_their_readers() {
    let mut process = Process::new(2, 4);
    let reader = connect_resp3(&mut process, 0, 0);
    process.ask(reader, "CLIENT TRACKING ON");
    configure(&mut process, "tracking-table-max-keys", "10");
    let mut heard = String::new();
    for n in 0..100 {
        process.send(reader, format!("GET key{n}\r\n").as_bytes());
        process.settle();
        heard += &taken(&mut process, reader);
    }
    let kept: usize = process.shards.iter().map(|s| s.tracking.keys()).sum();
    assert_eq!(kept, 10);
    assert_eq!(heard.matches("invalidate").count(), 90);
    configure(&mut process, "tracking-table-max-keys", "2");
    let heard = taken(&mut process, reader);
    assert_eq!(heard.matches("invalidate").count(), 8);
}

#[test]
fn what_expires_or_is_evicted_is_forgotten_even_by_its_own_writer() {
    let mut process = Process::new(2, 5);
    let reader = connect_resp3(&mut process, 0, 0);
    process.ask(reader, "CLIENT TRACKING ON NOLOOP");
    let key = key_on("k", 1, 2);
    process.ask(reader, &format!("SET {key} 1 PX 100"));
    process.ask(reader, &format!("GET {key}"));
    pass(&mut process, 1000);
    assert_eq!(taken(&mut process, reader), invalidate(&[&key]));
    process.ask(reader, &format!("SET {key} 1 PX 100\r\nGET {key}"));
    for shard in &mut process.shards {
        // Time passes, but the cron does not see to expiry before the key is asked for.
        shard.now.unix = UnixMillis(5000);
    }
    process.send(reader, format!("GET {key}\r\n").as_bytes());
    process.settle();
    assert_eq!(
        taken(&mut process, reader),
        "_\r\n".to_owned() + &invalidate(&[&key])
    );
    process.ask(reader, &format!("SET {key} 1\r\nGET {key}"));
    configure(&mut process, "maxmemory-policy", "allkeys-random");
    configure(&mut process, "maxmemory", "2");
    let evicted = process.ask(reader, &format!("SET {key} 2"));
    assert_eq!(evicted, invalidate(&[&key]) + "+OK\r\n");
}

/// A value of RESP3, as far as the clients of [`Caching`] need it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Null,
    Many(char, Vec<Value>),
}

fn parse(bytes: &mut &[u8]) -> Option<Value> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, line) = (
        bytes[0],
        String::from_utf8_lossy(&bytes[1..end]).into_owned(),
    );
    let mut rest = &bytes[end + 2..];
    let value = match kind {
        b'_' => Value::Null,
        b'$' => {
            let length: usize = line.parse().expect("length");
            let text = String::from_utf8_lossy(rest.get(..length)?).into_owned();
            rest = rest.get(length + 2..)?;
            Value::Text(text)
        }
        b'*' | b'>' | b'~' | b'%' => {
            let count: usize = line.parse().expect("count");
            let count = if kind == b'%' { 2 * count } else { count };
            let elements: Option<Vec<Value>> = (0..count).map(|_| parse(&mut rest)).collect();
            Value::Many(char::from(kind), elements?)
        }
        _ => Value::Text(line),
    };
    *bytes = rest;
    Some(value)
}

/// What a client asked for, and what it learns of the reply.
#[derive(Clone, Debug)]
enum Request {
    /// The values of these keys.
    Read(Vec<String>),
    /// Nothing, but it has itself changed these keys.
    Write(Vec<String>),
    /// The values of these keys, in the last reply of a transaction; queued before.
    Exec(Vec<String>),
    Nothing,
}

/// A client with a cache.
struct Caching {
    client: Client,
    no_loop: bool,
    listens: bool,
    asked: VecDeque<Request>,
    stream: Vec<u8>,
    cache: Map<String, Value>,
}

impl Caching {
    /// Takes what came: replies fill the cache, invalidations empty it.
    fn take(&mut self, process: &mut Process) {
        self.stream
            .extend(process.received.remove(&self.client).unwrap_or_default());
        let stream = std::mem::take(&mut self.stream);
        let mut rest = &stream[..];
        while let Some(value) = parse(&mut rest) {
            match value {
                Value::Many('>', elements) => self.forget(&elements),
                reply @ (Value::Text(_) | Value::Null | Value::Many(..)) => self.learn(&reply),
            }
        }
        self.stream = rest.to_vec();
    }

    fn forget(&mut self, elements: &[Value]) {
        match &elements[1] {
            Value::Null => self.cache.clear(),
            Value::Many(_, keys) => {
                for key in keys {
                    let Value::Text(key) = key else {
                        panic!("no key: {key:?}")
                    };
                    self.cache.remove(key);
                }
            }
            Value::Text(text) => panic!("no keys: {text}"),
        }
    }

    fn learn(&mut self, reply: &Value) {
        match (self.asked.pop_front().expect("a request"), reply) {
            (Request::Read(keys) | Request::Exec(keys), Value::Many(_, values)) => {
                self.cache
                    .extend(keys.into_iter().zip(values.iter().cloned()));
            }
            (Request::Read(keys), value) => {
                self.cache.insert(keys[0].clone(), value.clone());
            }
            (Request::Exec(_), reply) => panic!("not run: {reply:?}"),
            (Request::Write(keys), _) if self.no_loop => {
                keys.iter().for_each(|key| drop(self.cache.remove(key)));
            }
            (Request::Write(_) | Request::Nothing, _) => {}
        }
    }

    fn ask(&mut self, rng: &mut Rng, value: u64) -> String {
        let mut key = || format!("key{}", rng.below(6));
        let [a, b] = [key(), key()];
        let choice = rng.below(if self.listens { 13 } else { 14 });
        let (requests, text) = match choice {
            0..4 => (vec![Request::Read(vec![a.clone()])], format!("GET {a}\r\n")),
            4..6 => {
                let keys = vec![a.clone(), b.clone()];
                (vec![Request::Read(keys)], format!("MGET {a} {b}\r\n"))
            }
            6 => {
                let mut requests = vec![Request::Nothing; 3];
                requests.push(Request::Exec(vec![a.clone(), b.clone()]));
                (requests, format!("MULTI\r\nGET {a}\r\nGET {b}\r\nEXEC\r\n"))
            }
            7 => (
                vec![Request::Write(vec![a.clone()])],
                format!("DEL {a}\r\n"),
            ),
            8 => {
                let keys = vec![a.clone(), b.clone()];
                (
                    vec![Request::Write(keys)],
                    format!("MSET {a} {value} {b} {value}\r\n"),
                )
            }
            9 => {
                let keys = vec![a.clone(), b.clone()];
                (vec![Request::Write(keys)], format!("RENAME {a} {b}\r\n"))
            }
            10 if value.is_multiple_of(7) => (vec![Request::Nothing], "FLUSHALL\r\n".to_owned()),
            13 => {
                let requests = vec![
                    Request::Nothing,
                    Request::Write(vec![a.clone()]),
                    Request::Read(vec![a.clone()]),
                ];
                (requests, format!("PING\r\nSET {a} {value}\r\nGET {a}\r\n"))
            }
            _ => (
                vec![Request::Write(vec![a.clone()])],
                format!("SET {a} {value}\r\n"),
            ),
        };
        self.asked.extend(requests);
        text
    }
}

/// The property that all of tracking is for (decision record 0007).
#[test]
fn nothing_stale_stays_in_any_cache() {
    let mut cached = 0;
    for seed in 0..300 {
        let mut process = Process::new(3, seed);
        let mut rng = Rng::from_seed(seed);
        let mut clients: Vec<Caching> = (0..4_u32)
            .map(|n| {
                let client = connect_resp3(&mut process, (n % 3) as u16, n);
                let (no_loop, listens) = (n == 1, n == 2);
                let options = match n {
                    1 => "NOLOOP",
                    2 => "BCAST",
                    3 => "OPTOUT",
                    _ => "",
                };
                process.ask(client, &format!("CLIENT TRACKING ON {options}"));
                Caching {
                    client,
                    no_loop,
                    listens,
                    asked: VecDeque::new(),
                    stream: Vec::new(),
                    cache: Map::new(),
                }
            })
            .collect();
        for value in 0..60 {
            let index = rng.below(4) as usize;
            let text = clients[index].ask(&mut rng, value);
            process.send(clients[index].client, text.as_bytes());
            for _ in 0..rng.below(6) {
                process.step();
            }
            clients[index].take(&mut process);
        }
        process.settle();
        let judge = connect_resp3(&mut process, 0, 50);
        for caching in &mut clients {
            caching.take(&mut process);
            assert!(caching.asked.is_empty() && caching.stream.is_empty());
            for (key, value) in &caching.cache {
                let reply = process.ask(judge, &format!("GET {key}")).into_bytes();
                let now = parse(&mut &reply[..]).expect("a reply");
                assert_eq!(
                    *value, now,
                    "seed {seed}: {key} of {:?} is stale",
                    caching.client
                );
                cached += 1;
            }
        }
        process.assert_nothing_is_left();
    }
    assert!(
        cached > 300,
        "only {cached} keys were cached: the test says little"
    );
}
