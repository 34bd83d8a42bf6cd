//! A durable server is killed at any moment, with any number of shards, and started again: what it acknowledged is there,
//! transactions are there as a whole or not at all, and nothing is there that nobody wrote.
//!
//! `KEVY_CRASH_ROUNDS` says how many kills each test gets.

use kevy_tests::connection::Connection;
use kevy_tests::process::Signal;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Server, Spec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Clients that write at once.
const WRITERS: usize = 4;
/// Keys of a group that is written by one `MSET`; they lie on different shards mostly.
const GROUP: usize = 5;
/// What `everysec` may lose, and as much again for a machine that is busy.
const WINDOW: Duration = Duration::from_secs(3);

fn rounds(default: u32) -> u32 {
    let asked = std::env::var("KEVY_CRASH_ROUNDS");
    asked.map_or(default, |text| {
        text.parse().expect("KEVY_CRASH_ROUNDS is a number")
    })
}

/// What one writer knows: numbers that it sent, in order, and up to which it had replies when.
#[derive(Clone, Debug, Default)]
struct Known {
    sent: u64,
    acknowledged: u64,
    /// Acknowledged before the window that may be lost began.
    safe: u64,
}

struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Writer>>,
}

struct Writer {
    /// Ends the names of its keys: each round has keys of its own.
    name: String,
    known: Known,
    /// When each number was acknowledged.
    times: Vec<(Instant, u64)>,
}

impl Writer {
    /// Writes the next number everywhere; false once the server is gone.
    fn write(&mut self, connection: &mut Connection) -> bool {
        let next = self.known.sent + 1;
        self.known.sent = next;
        let (number, value) = (self.name.as_str(), next.to_string());
        let mut group = vec!["MSET".to_owned()];
        for part in 0..GROUP {
            group.extend([format!("group:{number}:{part}"), value.clone()]);
        }
        let transaction: Vec<Vec<String>> = vec![
            vec!["MULTI".into()],
            vec!["INCR".into(), format!("count:{number}:a")],
            vec!["INCR".into(), format!("count:{number}:b")],
            vec!["LPUSH".into(), format!("stack:{number}"), value.clone()],
            vec!["EXEC".into()],
        ];
        let single = [
            vec!["SET".into(), format!("single:{number}"), value.clone()],
            vec!["RPUSH".into(), format!("list:{number}"), value.clone()],
            vec![
                "LMOVE".into(),
                format!("list:{number}"),
                format!("moved:{number}"),
                "LEFT".into(),
                "RIGHT".into(),
            ],
        ];
        let requests = single.into_iter().chain([group]).chain(transaction);
        for request in requests {
            match connection.try_ask_bytes(&request) {
                Ok(reply) => assert_ne!(reply[0], b'-', "{}", String::from_utf8_lossy(&reply)),
                Err(_) => return false,
            }
        }
        self.known.acknowledged = next;
        self.times.push((Instant::now(), next));
        true
    }
}

impl Writers {
    fn start(server: &Server, round: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..WRITERS).map(|number| {
            let stop = Arc::clone(&stop);
            let mut connection = server.connect();
            thread::spawn(move || {
                let mut writer = Writer {
                    name: format!("{round}:{number}"),
                    known: Known::default(),
                    times: Vec::new(),
                };
                while !stop.load(Ordering::Relaxed) && writer.write(&mut connection) {}
                writer
            })
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    /// What each of them knows, once the server was killed at `killed`.
    fn end(self, killed: Instant) -> Vec<(String, Known)> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.threads.into_iter().map(|thread| {
            let writer = thread.join().expect("a writer");
            let mut known = writer.known;
            let before = writer
                .times
                .iter()
                .filter(|(time, _)| *time + WINDOW < killed);
            known.safe = before
                .map(|(_, number)| *number)
                .next_back()
                .unwrap_or(known.safe);
            (writer.name, known)
        });
        ended.collect()
    }
}

fn number(reply: &Reply) -> u64 {
    if *reply == Reply::Null {
        return 0;
    }
    reply.text().parse().expect("a number")
}

/// Compares what is there with what a writer knows.
fn audit(connection: &mut Connection, writer: &str, known: &Known, may_lose: bool) {
    let least = if may_lose {
        known.safe
    } else {
        known.acknowledged
    };
    let allowed = least..=known.sent;
    let single = number(&connection.run(&format!("GET single:{writer}")));
    assert!(
        allowed.contains(&single),
        "single:{writer} is {single}, allowed {allowed:?}"
    );
    let keys: Vec<String> = (0..GROUP)
        .map(|part| format!("group:{writer}:{part}"))
        .collect();
    let group = connection.run(&format!("MGET {}", keys.join(" ")));
    let group: Vec<u64> = group.items().iter().map(number).collect();
    assert!(
        group.iter().all(|value| *value == group[0]),
        "half a MSET: {group:?}"
    );
    assert!(
        allowed.contains(&group[0]),
        "group:{writer} is {}, allowed {allowed:?}",
        group[0]
    );
    let counts =
        ["a", "b"].map(|name| number(&connection.run(&format!("GET count:{writer}:{name}"))));
    let stack = connection.run(&format!("LLEN stack:{writer}")).integer() as u64;
    assert_eq!(
        (counts[0], stack),
        (counts[1], counts[0]),
        "half an EXEC of {writer}"
    );
    assert!(
        allowed.contains(&stack),
        "stack:{writer} has {stack}, allowed {allowed:?}"
    );
    // What was pushed is in one of the two lists, once, in order.
    let mut values = Vec::new();
    for list in ["moved", "list"] {
        let elements = connection.run(&format!("LRANGE {list}:{writer} 0 -1"));
        values.extend(elements.items().iter().map(number));
    }
    let counted: Vec<u64> = (1..=values.len() as u64).collect();
    assert_eq!(values, counted, "lists of {writer}");
    assert!(
        allowed.contains(&(values.len() as u64)),
        "lists of {writer}: {}, allowed {allowed:?}",
        values.len()
    );
}

/// A directory whose server is killed again and again.
fn kill_again_and_again(appendfsync: &str, threads: &[u16], rounds: u32) {
    let mut directory = TempDir::new().expect("a temporary directory");
    let config = format!(
        "[persistence]\nappendfsync = \"{appendfsync}\"\nauto_aof_rewrite_min_size = \"64kb\"\n"
    );
    let path = directory.path().join("kevy.toml");
    std::fs::write(&path, config).expect("the directory is writable");
    let may_lose = appendfsync != "always";
    let mut known: Vec<(String, Known)> = Vec::new();
    for round in 0..rounds {
        let shards = threads[round as usize % threads.len()];
        let spec = Spec::threads(shards).durable().arg("--config").arg(&path);
        // Some are killed while they load, or place the keys anew.
        if round % 2 == 1 {
            let after = Duration::from_millis(u64::from(round * 13 % 120));
            directory = spec.clone().start_and_kill(directory, after);
        }
        let server = spec.start_in(directory);
        let mut connection = server.connect();
        for (writer, known) in &known {
            audit(&mut connection, writer, known, may_lose);
        }
        let writers = Writers::start(&server, round);
        // Kills come at any moment; some while a snapshot is written.
        sleep(Duration::from_millis(u64::from(round * 37 % 250) + 20));
        if round % 3 == 1 {
            connection.run("BGSAVE");
            sleep(Duration::from_millis(u64::from(round % 7)));
        }
        let killed = Instant::now();
        let (_, left) = server.stop(Signal::KILL);
        known = writers.end(killed);
        directory = left;
    }
    let server = Spec::threads(threads[0]).durable().start_in(directory);
    let mut connection = server.connect();
    for (writer, known) in &known {
        audit(&mut connection, writer, known, may_lose);
    }
}

#[test]
fn always_loses_nothing_on_one_shard() {
    kill_again_and_again("always", &[1], rounds(8));
}

#[test]
fn always_loses_nothing_on_four_shards() {
    kill_again_and_again("always", &[4], rounds(8));
}

#[test]
fn everysec_loses_no_more_than_its_window() {
    kill_again_and_again("everysec", &[1, 4], rounds(8));
}

#[test]
fn nothing_is_lost_when_the_number_of_shards_changes() {
    kill_again_and_again("always", &[2, 3, 1, 4], rounds(8));
}
