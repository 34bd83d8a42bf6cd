//! Conversations with shards that have no operating system: bytes in, bytes out, messages carried by the test in any
//! order that keeps each pair of shards in order.

use super::*;
use crate::host::Door;
use kevy_proto::slot::slot_of;
use kevy_proto::time::UnixMillis;
use std::collections::BTreeMap as Map;
use std::fmt::Write;

mod administration_tests;
mod blocking_tests;
mod gather_tests;
mod hold_tests;
mod multi_tests;
mod queue_tests;

/// All shards of one process.
pub(super) struct Process {
    pub(super) shards: Vec<Shard>,
    /// Messages under way, by sender and receiver.
    queues: Map<(u16, u16), VecDeque<Message>>,
    pub(super) received: Map<(u16, Slot), Vec<u8>>,
    rng: Rng,
}

/// A client of the process: its shard and its slot there.
pub(super) type Client = (u16, Slot);

impl Process {
    pub(super) fn new(shards: u16, seed: u64) -> Self {
        let mut settings = Settings::default();
        settings.server.threads = shards;
        let settings = Arc::new(settings);
        let config = |id| ShardConfig {
            id: ShardId(id),
            settings: Arc::clone(&settings),
            seed: seed + u64::from(id),
            process: super::Process::default(),
            now: Now::default(),
            journal: None,
        };
        Self {
            shards: (0..shards).map(|id| Shard::new(config(id))).collect(),
            queues: Map::new(),
            received: Map::new(),
            rng: Rng::from_seed(seed),
        }
    }

    pub(super) fn connect(&mut self, shard: u16, slot: u32, door: Door) -> Client {
        let peer = Peer {
            door,
            address: "127.0.0.1:1".to_owned(),
            local_address: "127.0.0.1:6004".to_owned(),
            local_ip: Some([127, 0, 0, 1].into()),
            connected_total: 1,
        };
        self.shards[usize::from(shard)].handle_connected(Slot(slot), peer);
        (shard, Slot(slot))
    }

    pub(super) fn send(&mut self, client: Client, bytes: &[u8]) {
        self.shards[usize::from(client.0)].handle_bytes(client.1, bytes);
    }

    /// Carries one message, or output of one shard; false if there is none.
    pub(super) fn step(&mut self) -> bool {
        for (from, shard) in self.shards.iter_mut().enumerate() {
            for to in 0..shard.shards() {
                while let Some(message) = shard.poll_message(ShardId(to)) {
                    self.queues
                        .entry((from as u16, to))
                        .or_default()
                        .push_back(message);
                }
            }
            while let Some(slot) = shard.poll_output() {
                let output = shard.output(slot).to_vec();
                shard.handle_sent(slot, output.len());
                self.received
                    .entry((from as u16, slot))
                    .or_default()
                    .extend(output);
            }
        }
        let pairs: Vec<(u16, u16)> = self
            .queues
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(pair, _)| *pair)
            .collect();
        let Some(&(from, to)) = pairs.get(self.rng.below(pairs.len() as u64) as usize) else {
            return false;
        };
        let message = self
            .queues
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
            .expect("not empty");
        self.shards[usize::from(to)].handle_message(ShardId(from), message);
        true
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the shards talk for ever");
    }

    pub(super) fn ask(&mut self, client: Client, request: &str) -> String {
        self.send(client, format!("{request}\r\n").as_bytes());
        self.settle();
        String::from_utf8(self.received.remove(&client).unwrap_or_default()).expect("text")
    }

    pub(super) fn assert_nothing_is_left(&self) {
        for shard in &self.shards {
            assert!(shard.locks.is_empty() && shard.held.is_empty() && shard.waiting.is_empty());
            assert!(shard.transactions.is_empty() && shard.meeting.is_empty());
            assert_eq!(shard.unanswered, 0);
        }
    }
}

/// A key with this beginning that `shard` of `shards` owns.
pub(super) fn key_on(prefix: &str, shard: u16, shards: u16) -> String {
    let map = SlotMap::new(shards);
    let mut candidates = (0..).map(|n| format!("{prefix}{n}"));
    candidates
        .find(|key| map.owner_of_key(key.as_bytes()) == ShardId(shard))
        .expect("some key is there")
}

#[test]
fn a_request_runs_on_the_owner_of_its_key() {
    let mut process = Process::new(4, 1);
    let client = process.connect(0, 0, Door::Main);
    for shard in 0..4 {
        let key = key_on("k", shard, 4);
        assert_eq!(
            process.ask(client, &format!("SET {key} v{shard}")),
            "+OK\r\n"
        );
        assert_eq!(
            process.ask(client, &format!("GET {key}")),
            format!("$2\r\nv{shard}\r\n")
        );
        assert_eq!(process.shards[usize::from(shard)].keyspace.len(), 1);
    }
    process.assert_nothing_is_left();
}

#[test]
fn pipelined_replies_keep_their_order_over_shards() {
    let mut process = Process::new(4, 2);
    let client = process.connect(1, 0, Door::Main);
    let mut pipeline = String::new();
    let mut expected = String::new();
    for n in 0..1000 {
        let _ = write!(pipeline, "SET key{n} {n}\r\nGET key{n}\r\nPING {n}\r\n");
        let length = n.to_string().len();
        let _ = write!(expected, "+OK\r\n${length}\r\n{n}\r\n${length}\r\n{n}\r\n");
    }
    // In pieces that cut requests anywhere.
    for piece in pipeline.as_bytes().chunks(777) {
        process.send(client, piece);
        process.step();
    }
    process.settle();
    assert_eq!(
        String::from_utf8(process.received.remove(&client).expect("replies")).expect("text"),
        expected
    );
}

#[test]
fn commands_over_several_shards_answer_as_one() {
    let mut process = Process::new(3, 3);
    let client = process.connect(2, 5, Door::Main);
    let [a, b, c] = [key_on("a", 0, 3), key_on("b", 1, 3), key_on("c", 2, 3)];
    assert_eq!(
        process.ask(client, &format!("MSET {c} 3 {a} 1 {b} 2")),
        "+OK\r\n"
    );
    assert_eq!(
        process.ask(client, &format!("MGET {a} none {b} {c} {a}")),
        "*5\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n1\r\n"
    );
    assert_eq!(
        process.ask(client, &format!("EXISTS {a} {b} {c} {a}")),
        ":4\r\n"
    );
    let odd = process.ask(client, &format!("MSET {a} 9 {b} 9 {c}"));
    assert_eq!(odd, "-ERR wrong number of arguments for 'mset' command\r\n");
    assert_eq!(process.ask(client, &format!("GET {a}")), "$1\r\n1\r\n");
    assert_eq!(process.ask(client, "DBSIZE"), ":3\r\n");
    assert_eq!(process.ask(client, &format!("RENAME {a} {b}")), "+OK\r\n");
    assert_eq!(
        process.ask(client, &format!("MGET {a} {b}")),
        "*2\r\n$-1\r\n$1\r\n1\r\n"
    );
    assert_eq!(
        process.ask(client, &format!("RENAME {a} {b}")),
        "-ERR no such key\r\n"
    );
    assert_eq!(process.ask(client, &format!("COPY {b} {a}")), ":1\r\n");
    assert_eq!(process.ask(client, &format!("COPY {b} {c}")), ":0\r\n");
    assert_eq!(
        process.ask(client, &format!("MSETNX {a} x {b}new y")),
        ":0\r\n"
    );
    assert_eq!(process.ask(client, &format!("DEL {a} {b} {c}")), ":3\r\n");
    assert_eq!(process.ask(client, "KEYS *"), "*0\r\n");
    assert_eq!(process.ask(client, "RANDOMKEY"), "$-1\r\n");
    process.assert_nothing_is_left();
}

#[test]
fn what_follows_a_transaction_in_the_pipeline_sees_it() {
    let mut process = Process::new(2, 4);
    let client = process.connect(0, 0, Door::Main);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    let reply = process.ask(
        client,
        &format!("MSET {a} 1 {b} 2\r\nGET {b}\r\nGET {a}\r\nRENAME {a} {b}\r\nGET {b}"),
    );
    assert_eq!(reply, "+OK\r\n$1\r\n2\r\n$1\r\n1\r\n+OK\r\n$1\r\n1\r\n");
}

/// Writers set pairs to equal values, readers never see a mixture, whatever the order of messages.
#[test]
fn readers_see_all_of_a_transaction_or_nothing() {
    for seed in 0..200 {
        let shards = 2 + (seed % 3) as u16;
        let mut process = Process::new(shards, seed);
        let keys: Vec<String> = (0..shards)
            .map(|shard| key_on("k", shard, shards))
            .collect();
        let clients: Vec<Client> = (0..6)
            .map(|n| process.connect(n as u16 % shards, n, Door::Main))
            .collect();
        let mut rng = Rng::from_seed(seed);
        for round in 0..100_u64 {
            let client = clients[rng.below(6) as usize];
            let request = match rng.below(4) {
                0 => format!(
                    "MSET {}\r\n",
                    keys.iter()
                        .map(|key| format!("{key} {round}"))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
                1 => format!("DEL {}\r\n", keys.join(" ")),
                _ => format!("MGET {}\r\n", keys.join(" ")),
            };
            process.send(client, request.as_bytes());
            for _ in 0..rng.below(8) {
                process.step();
            }
        }
        process.settle();
        for replies in process.received.values() {
            for array in String::from_utf8_lossy(replies).split('*').skip(1) {
                let elements = array.split_once("\r\n").expect("a header").1;
                let elements = elements.split(['+', ':']).next().expect("one");
                let mut values: Vec<&str> = elements.split('$').skip(1).collect();
                values.dedup();
                assert_eq!(values.len(), 1, "seed {seed}: a mixture: {array:?}");
            }
        }
        process.assert_nothing_is_left();
    }
}

#[test]
fn a_command_that_finds_no_memory_on_one_shard_changes_nothing_on_any() {
    let mut process = Process::new(2, 9);
    let client = process.connect(0, 0, Door::Main);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    let filler = "x".repeat(10_000);
    assert_eq!(process.ask(client, &format!("SET {b} {filler}")), "+OK\r\n");
    assert_eq!(process.ask(client, "CONFIG SET maxmemory 8000"), "+OK\r\n");
    let refused = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(process.ask(client, &format!("MSET {a} 1 {b} 2")), refused);
    assert_eq!(
        process.ask(client, &format!("MSETNX {a} 1 {{{b}}} 2")),
        refused
    );
    assert_eq!(process.ask(client, &format!("APPEND {b} y")), refused);
    assert_eq!(process.ask(client, &format!("EXISTS {a}")), ":0\r\n");
    assert_eq!(
        process.ask(client, "CONFIG SET maxmemory-policy allkeys-lru"),
        "+OK\r\n"
    );
    assert_eq!(process.ask(client, &format!("MSET {a} 1 {b} 2")), "+OK\r\n");
    assert_eq!(
        process.ask(client, &format!("MGET {a} {b}")),
        "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    );
    process.assert_nothing_is_left();
}

/// Both keys have one deadline. It passes on the other shard, by its own clock and by another reader's, after the transaction
/// has taken its locks and before it reads.
#[test]
fn keys_of_one_deadline_are_seen_or_missed_together() {
    for meddler in ["active expiry", "another reader"] {
        let mut process = Process::new(2, 11);
        let at = |millis: i64| Now {
            monotonic: Instant::from_nanos(millis as u64 * 1_000_000),
            unix: UnixMillis(millis),
        };
        let client = process.connect(0, 0, Door::Main);
        let other = process.connect(1, 0, Door::Main);
        let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
        process.ask(
            client,
            &format!("MSET {a} 1 {b} 2\r\nPEXPIREAT {a} 1000\r\nPEXPIREAT {b} 1000"),
        );
        process.send(client, format!("MGET {a} {b}\r\n").as_bytes());
        while process.shards[1].held.is_empty() {
            assert!(process.step());
        }
        process.shards[1].handle_time(at(2000));
        if meddler == "another reader" {
            process.send(other, format!("GET {b}\r\n").as_bytes());
        }
        process.settle();
        assert_eq!(
            process.received.remove(&client).unwrap(),
            b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n",
            "{meddler}"
        );
        assert_eq!(
            process.shards[1].keyspace.len(),
            0,
            "{meddler}: the key goes once the lock is gone"
        );
        process.assert_nothing_is_left();
    }
}

#[test]
fn a_client_that_does_not_read_is_closed_at_the_limit() {
    let mut process = Process::new(1, 10);
    let client = process.connect(0, 0, Door::Main);
    process.ask(
        client,
        "CONFIG SET client-output-buffer-limit \"normal 20000 0 0\"",
    );
    process.ask(client, &format!("SET k {}", "x".repeat(10_000)));
    process.send(client, b"GET k\r\nGET k\r\nGET k\r\n");
    assert_eq!(process.shards[0].poll_close(), Some(client.1));
}

#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let mut process = Process::new(2, 5);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    let client = process.connect(0, 0, Door::Main);
    process.send(
        client,
        format!("MSET {a} 1 {b} 2\r\nGET {b}\r\n").as_bytes(),
    );
    process.shards[0].handle_disconnected(client.1);
    process.shards[0].handle_disconnected(client.1);
    assert_eq!(process.shards[0].poll_close(), Some(client.1));
    // Another one at the same place gets none of its replies.
    let other = process.connect(0, 0, Door::Main);
    process.settle();
    assert_eq!(
        process.ask(other, &format!("MGET {a} {b}")),
        "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    );
    process.assert_nothing_is_left();
}

#[test]
fn shard_ports_redirect_single_keys_and_serve_everything_else() {
    let mut process = Process::new(2, 6);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    let client = process.connect(0, 0, Door::Shard(ShardId(0)));
    let slot = slot_of(b.as_bytes());
    assert_eq!(
        process.ask(client, &format!("SET {b} 1")),
        format!("-MOVED {slot} 127.0.0.1:6006\r\n")
    );
    assert_eq!(process.ask(client, &format!("MSET {a} 1 {b} 2")), "+OK\r\n");
    assert_eq!(process.ask(client, "DBSIZE"), ":2\r\n");
}

#[test]
fn too_many_clients_are_told_so() {
    let mut process = Process::new(1, 7);
    let peer = Peer {
        door: Door::Main,
        address: String::new(),
        local_address: String::new(),
        local_ip: None,
        connected_total: 10_001,
    };
    process.shards[0].handle_connected(Slot(0), peer);
    process.settle();
    assert_eq!(
        process.received[&(0, Slot(0))],
        b"-ERR max number of clients reached\r\n"
    );
    process.shards[0].poll_output();
    assert_eq!(process.shards[0].poll_close(), Some(Slot(0)));
}

#[test]
fn a_shutdown_sends_outstanding_replies_first() {
    let mut process = Process::new(2, 8);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    let client = process.connect(0, 0, Door::Main);
    process.send(
        client,
        format!("GET {b}\r\nMSET {a} 1 {b} 2\r\nPING\r\n").as_bytes(),
    );
    process.shards.iter_mut().for_each(Shard::handle_shutdown);
    for millis in 1..50 {
        let now = Now {
            monotonic: Instant::from_nanos(millis * 1_000_000),
            ..Now::default()
        };
        process
            .shards
            .iter_mut()
            .for_each(|shard| shard.handle_time(now));
        process.settle();
    }
    assert_eq!(process.received[&client], b"$-1\r\n+OK\r\n");
    assert!(process.shards.iter().all(Shard::has_finished));
}
