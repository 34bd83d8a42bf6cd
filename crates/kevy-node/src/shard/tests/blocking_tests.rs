//! Clients that wait for keys: on one shard and over several, messages in random order. Texts are those of redis-server.

use super::*;
use kevy_proto::time::Instant;

impl Process {
    pub(super) fn heard(&mut self, client: Client) -> String {
        String::from_utf8(self.received.remove(&client).unwrap_or_default()).expect("text")
    }

    /// Lets time pass on all shards.
    pub(super) fn advance(&mut self, milliseconds: u64) {
        let nanos = self.shards[0].now.monotonic.nanos + milliseconds * 1_000_000;
        let unix = UnixMillis((nanos / 1_000_000) as i64);
        let monotonic = Instant::from_nanos(nanos);
        for shard in &mut self.shards {
            shard.handle_time(Now { monotonic, unix });
        }
        self.settle();
    }

    pub(super) fn assert_nobody_waits(&self) {
        self.assert_nothing_is_left();
        for shard in &self.shards {
            assert!(shard.blocking.waiters.is_idle() && shard.blocking.deadline().is_none());
            assert!(!shard.effects.wanted());
        }
    }

    pub(super) fn disconnect(&mut self, client: Client) {
        self.shards[usize::from(client.0)].handle_disconnected(client.1);
    }

    pub(super) fn stir_well(&mut self, most: u64) {
        for _ in 0..self.rng.below(most) {
            self.step();
        }
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn pair(key: &str, element: &str) -> String {
    format!("*2\r\n{}{}", bulk(key), bulk(element))
}

/// Every waiter's shard against every owner of its key.
fn everywhere(seed: u64, test: impl Fn(&mut Process, Client, Client, u16, u16)) {
    for shards in 1..4 {
        for home in 0..shards {
            for owner in 0..shards {
                let mut process = Process::new(shards, seed);
                let waiter = process.connect(home, 0, Door::Main);
                let other = process.connect((home + 1) % shards, 9, Door::Main);
                test(&mut process, waiter, other, owner, shards);
            }
        }
    }
}

/// Requests that wait, what is pushed, and the reply.
fn waits(k: &str, d: &str) -> [(String, String, String); 10] {
    [
        (
            format!("BLPOP {k} 0"),
            format!("RPUSH {k} a b"),
            pair(k, "a"),
        ),
        (
            format!("BRPOP nope {k} 0"),
            format!("RPUSH {k} a b"),
            pair(k, "b"),
        ),
        (
            format!("BLMPOP 0 2 {k} nope LEFT COUNT 5"),
            format!("RPUSH {k} a b"),
            format!("*2\r\n{}*2\r\n{}{}", bulk(k), bulk("a"), bulk("b")),
        ),
        (
            format!("BLMOVE {k} {d} LEFT RIGHT 0"),
            format!("RPUSH {k} a b"),
            bulk("a"),
        ),
        (
            format!("BLMOVE {k} {k} LEFT RIGHT 0"),
            format!("RPUSH {k} a b"),
            bulk("a"),
        ),
        (
            format!("BRPOPLPUSH {k} {d} 0"),
            format!("RPUSH {k} a b"),
            bulk("b"),
        ),
        (
            format!("BZPOPMIN {k} 0"),
            format!("ZADD {k} 1 a 2 b"),
            format!("*3\r\n{}{}{}", bulk(k), bulk("a"), bulk("1")),
        ),
        (
            format!("BZPOPMAX nope {k} 0"),
            format!("ZADD {k} 1 a 2 b"),
            format!("*3\r\n{}{}{}", bulk(k), bulk("b"), bulk("2")),
        ),
        (
            format!("BZMPOP 0 1 {k} MIN COUNT 2"),
            format!("ZADD {k} 1 a"),
            format!("*2\r\n{}*1\r\n*2\r\n{}{}", bulk(k), bulk("a"), bulk("1")),
        ),
        (
            format!("XREAD BLOCK 0 STREAMS nope {k} $ $"),
            format!("XADD {k} 1 f v"),
            format!(
                "*1\r\n*2\r\n{}*1\r\n*2\r\n{}*2\r\n{}{}",
                bulk(k),
                bulk("1-0"),
                bulk("f"),
                bulk("v")
            ),
        ),
    ]
}

#[test]
fn what_is_pushed_is_popped_by_who_waits() {
    everywhere(41, |process, waiter, pusher, owner, shards| {
        let k = key_on("k", owner, shards);
        let d = key_on("d", (owner + 1) % shards, shards);
        for (request, push, expected) in waits(&k, &d) {
            assert_eq!(process.ask(waiter, &request), "", "{request}");
            assert!(process.ask(pusher, "CLIENT LIST").contains(" flags=b "));
            process.ask(pusher, &push);
            assert_eq!(process.heard(waiter), expected, "{request}");
            process.assert_nobody_waits();
            let moved = process.ask(pusher, &format!("LLEN {d}"));
            assert_eq!(moved == ":1\r\n", request.contains(&d), "{request}");
            assert_eq!(process.ask(waiter, "PING"), "+PONG\r\n");
            process.ask(pusher, "FLUSHALL");
        }
    });
}

#[test]
fn who_finds_something_does_not_wait() {
    everywhere(42, |process, client, _, owner, shards| {
        let k = key_on("k", owner, shards);
        let d = key_on("d", (owner + 1) % shards, shards);
        process.ask(client, &format!("RPUSH {k} a b c"));
        let reply = process.ask(
            client,
            &format!("BLPOP nope {d} {k} 0\r\nBLMOVE {k} {d} LEFT LEFT 0\r\nLLEN {k}"),
        );
        assert_eq!(reply, format!("{}{}:1\r\n", pair(&k, "a"), bulk("b")));
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        assert_eq!(
            process.ask(client, &format!("SET s 1\r\nBLPOP s {k} 0")),
            format!("+OK\r\n{wrong}")
        );
        let timeouts = process.ask(client, "BLPOP q x\r\nBLPOP q -1\r\nBLMOVE q q LEFT UP x");
        assert_eq!(
            timeouts,
            "-ERR timeout is not a float or out of range\r\n-ERR timeout is negative\r\n-ERR syntax error\r\n"
        );
        process.assert_nobody_waits();
    });
}

#[test]
fn nobody_waits_within_multi() {
    everywhere(43, |process, client, _, owner, shards| {
        let k = key_on("k", owner, shards);
        let d = key_on("d", (owner + 1) % shards, shards);
        let reply = process.ask(
            client,
            &format!(
                "MULTI\r\nBLPOP {k} {d} 0\r\nBLMOVE {k} {d} LEFT LEFT 0\r\nBLMPOP 0 1 {k} LEFT\r\nBZPOPMIN {k} 0\r\n\
                 XREAD BLOCK 0 STREAMS {k} {d} $ $\r\nWAIT 1 0\r\nEXEC"
            ),
        );
        let queued = "+QUEUED\r\n".repeat(6);
        assert_eq!(
            reply,
            format!("+OK\r\n{queued}*6\r\n*-1\r\n$-1\r\n*-1\r\n*-1\r\n*-1\r\n:0\r\n")
        );
        process.assert_nobody_waits();
    });
}

#[test]
fn waiting_ends_in_time_and_the_pipeline_goes_on() {
    everywhere(44, |process, client, other, owner, shards| {
        let k = key_on("k", owner, shards);
        for request in [
            format!("BLPOP {k} nope 0.1"),
            format!("BLMOVE {k} d LEFT LEFT 0.1"),
            format!("XREAD BLOCK 100 STREAMS {k} $"),
            format!("BZMPOP 0.1 1 {k} MIN"),
        ] {
            assert_eq!(process.ask(client, &format!("{request}\r\nECHO x")), "");
            process.advance(99);
            assert_eq!(process.heard(client), "", "{request}");
            process.advance(1);
            assert_eq!(process.heard(client), "*-1\r\n$1\r\nx\r\n", "{request}");
            process.assert_nobody_waits();
        }
        assert_eq!(
            process.ask(client, "WAIT 0 0\r\nWAIT 1 50\r\nECHO x"),
            ":0\r\n"
        );
        process.advance(50);
        assert_eq!(process.heard(client), ":0\r\n$1\r\nx\r\n");
        // What comes later is nobody's.
        process.ask(other, &format!("RPUSH {k} a"));
        assert_eq!(process.ask(client, &format!("LLEN {k}")), ":1\r\n");
        assert_eq!(process.heard(client), "");
        process.assert_nobody_waits();
    });
}

#[test]
fn the_first_to_come_is_the_first_to_be_served() {
    for seed in 0..60 {
        let shards = 1 + (seed % 4) as u16;
        let mut process = Process::new(shards, seed);
        let k = key_on("k", seed as u16 % shards, shards);
        let waiters: Vec<Client> = (0..6)
            .map(|index| process.connect(index % shards, u32::from(index), Door::Main))
            .collect();
        for waiter in &waiters {
            assert_eq!(process.ask(*waiter, &format!("BLPOP {k} 0")), "");
        }
        let pusher = process.connect(0, 20, Door::Main);
        let thief = process.connect(shards - 1, 21, Door::Main);
        // Nobody who comes later overtakes those that wait.
        process.send(
            pusher,
            format!("RPUSH {k} 0 1\r\nLPOP {k}\r\nRPUSH {k} 2 3 4 5 6\r\n").as_bytes(),
        );
        process.stir_well(8);
        process.send(thief, format!("LPOP {k}\r\n").as_bytes());
        process.settle();
        for (index, waiter) in waiters.iter().enumerate() {
            let heard = process.heard(*waiter);
            if index < 2 {
                assert_eq!(heard, pair(&k, &index.to_string()), "seed {seed}");
            } else {
                assert!(heard.starts_with("*2"), "seed {seed}: {heard}");
            }
        }
        let replies = process.heard(pusher);
        assert!(
            replies.starts_with(":2\r\n$-1\r\n:"),
            "seed {seed}: {replies}"
        );
        process.assert_nobody_waits();
    }
}

#[test]
fn exec_is_over_before_anybody_is_served() {
    everywhere(46, |process, waiter, other, owner, shards| {
        let k = key_on("k", owner, shards);
        let b = key_on("b", (owner + 1) % shards, shards);
        process.ask(waiter, &format!("BLPOP {k} 0"));
        process.ask(
            other,
            &format!(
                "MULTI\r\nRPUSH {k} a\r\nSET {b} 1\r\nDEL {k}\r\nRPUSH {k} b\r\nLLEN {k}\r\nEXEC"
            ),
        );
        assert_eq!(process.heard(waiter), pair(&k, "b"));
        assert_eq!(process.ask(waiter, &format!("BLPOP {k} 0")), "");
        let replies = process.ask(
            other,
            &format!("MULTI\r\nRPUSH {k} a\r\nDEL {k}\r\nSET {k} x\r\nEXEC"),
        );
        assert!(replies.ends_with(":1\r\n:1\r\n+OK\r\n"), "{replies}");
        assert_eq!(process.heard(waiter), "", "the key holds a string");
        process.ask(other, &format!("DEL {k}\r\nRPUSH {k} c"));
        assert_eq!(process.heard(waiter), pair(&k, "c"));
        process.assert_nobody_waits();
    });
}

#[test]
fn keys_that_come_by_other_ways_wake() {
    everywhere(47, |process, waiter, other, owner, shards| {
        let k = key_on("k", owner, shards);
        let b = key_on("b", (owner + 1) % shards, shards);
        for fill in [
            format!("RPUSH {b} a\r\nRENAME {b} {k}"),
            format!("RPUSH {b} a\r\nCOPY {b} {k}"),
            format!("RPUSH {b} a\r\nSORT {b} BY nosort STORE {k}"),
            format!("RPUSH {b} a\r\nLMOVE {b} {k} LEFT LEFT"),
            format!("RPUSH {b} a\r\nMULTI\r\nRENAME {b} {k}\r\nEXEC"),
        ] {
            assert_eq!(process.ask(waiter, &format!("BLPOP {k} 0")), "");
            process.ask(other, &fill);
            assert_eq!(process.heard(waiter), pair(&k, "a"), "{fill}");
            process.assert_nobody_waits();
            process.ask(other, "FLUSHALL");
        }
        assert_eq!(process.ask(waiter, &format!("BZPOPMIN {k} 0")), "");
        process.ask(other, &format!("ZADD {b} 1 a\r\nZUNIONSTORE {k} 1 {b}"));
        assert!(process.heard(waiter).starts_with("*3"));
        process.assert_nobody_waits();
    });
}

#[test]
fn moves_wake_those_that_wait_for_their_destination() {
    everywhere(48, |process, first, other, owner, shards| {
        let keys: Vec<String> = (0..4)
            .map(|n| key_on(&format!("k{n}-"), (owner + n) % shards, shards))
            .collect();
        let clients: Vec<Client> = (0..3)
            .map(|n| process.connect(n % shards, 20 + u32::from(n), Door::Main))
            .collect();
        for (n, client) in clients.iter().enumerate() {
            process.ask(
                *client,
                &format!("BLMOVE {} {} LEFT RIGHT 0", keys[n], keys[n + 1]),
            );
        }
        process.ask(first, &format!("BLPOP {} 0", keys[3]));
        process.ask(other, &format!("RPUSH {} x", keys[0]));
        for client in clients {
            assert_eq!(process.heard(client), bulk("x"));
        }
        assert_eq!(process.heard(first), pair(&keys[3], "x"));
        process.assert_nobody_waits();
        assert_eq!(process.ask(other, "DBSIZE"), ":0\r\n");
    });
}

#[test]
fn a_move_to_something_else_fails_and_the_next_is_served() {
    everywhere(49, |process, first, other, owner, shards| {
        let k = key_on("k", owner, shards);
        let d = key_on("d", (owner + 1) % shards, shards);
        let second = process.connect(0, 30, Door::Main);
        process.ask(other, &format!("SET {d} x"));
        process.ask(first, &format!("BLMOVE {k} {d} LEFT RIGHT 0"));
        process.ask(second, &format!("BLPOP {k} 0"));
        process.ask(other, &format!("RPUSH {k} a"));
        assert!(process.heard(first).starts_with("-WRONGTYPE"));
        assert_eq!(process.heard(second), pair(&k, "a"));
        process.assert_nobody_waits();
    });
}

#[test]
fn every_reader_of_a_stream_gets_an_entry_and_only_one_consumer_does() {
    everywhere(50, |process, first, other, owner, shards| {
        let k = key_on("k", owner, shards);
        let second = process.connect(0, 30, Door::Main);
        process.ask(other, &format!("XGROUP CREATE {k} g $ MKSTREAM"));
        for client in [first, second] {
            assert_eq!(
                process.ask(client, &format!("XREAD BLOCK 0 STREAMS {k} $")),
                ""
            );
        }
        process.ask(other, &format!("XADD {k} 1 f v"));
        assert_eq!(process.heard(first), process.heard(second));
        process.ask(first, &format!("XREADGROUP GROUP g c STREAMS {k} >"));
        for client in [first, second] {
            let request = format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {k} >");
            assert_eq!(process.ask(client, &request), "");
        }
        process.ask(other, &format!("XACK {k} g 1"));
        process.ask(other, &format!("XADD {k} 2 f v"));
        assert!(process.heard(first).contains("2-0"));
        assert_eq!(process.heard(second), "");
        process.ask(other, &format!("XGROUP DESTROY {k} g"));
        let no_group = format!(
            "-NOGROUP No such key '{k}' or consumer group 'g' in XREADGROUP with GROUP option\r\n"
        );
        assert_eq!(process.heard(second), no_group);
        for (gone, text) in [
            (format!("DEL {k}"), "-NOGROUP"),
            ("FLUSHALL".to_owned(), "-NOGROUP"),
            (format!("SET {k} x"), "-WRONGTYPE"),
            (format!("MULTI\r\nSET {k} x\r\nEXEC"), "-WRONGTYPE"),
            (format!("XADD b 1 f v\r\nRENAME b {k}"), "-NOGROUP"),
        ] {
            process.ask(other, &format!("DEL {k}\r\nXGROUP CREATE {k} g $ MKSTREAM"));
            process.ask(
                second,
                &format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {k} >"),
            );
            process.ask(other, &gone);
            assert!(process.heard(second).starts_with(text), "{gone}");
        }
        process.assert_nobody_waits();
    });
}

#[test]
fn a_client_that_is_gone_takes_nothing_with_it() {
    everywhere(51, |process, client, other, owner, shards| {
        let k = key_on("k", owner, shards);
        let d = key_on("d", (owner + 1) % shards, shards);
        for (slot, request) in [
            format!("BLPOP {k} {d} 0"),
            format!("BLMOVE {k} {d} LEFT LEFT 0"),
        ]
        .iter()
        .enumerate()
        {
            let killed = process.connect(client.0, 40 + slot as u32, Door::Main);
            let gone = process.connect(client.0, 50 + slot as u32, Door::Main);
            process.ask(killed, request);
            process.ask(gone, request);
            let id = process.shards[usize::from(killed.0)]
                .session(killed.1)
                .unwrap()
                .id;
            assert_eq!(
                process.ask(other, &format!("CLIENT KILL ID {id}")),
                ":1\r\n"
            );
            process.disconnect(gone);
            assert_eq!(
                process.shards[usize::from(gone.0)].poll_close(),
                Some(killed.1)
            );
            assert_eq!(
                process.shards[usize::from(gone.0)].poll_close(),
                Some(gone.1)
            );
            process.settle();
            process.assert_nobody_waits();
            process.ask(other, &format!("RPUSH {k} a"));
            assert_eq!(process.ask(client, &format!("LPOP {k}")), bulk("a"));
        }
    });
}

#[test]
fn unblock_ends_a_wait_as_asked() {
    everywhere(52, |process, client, other, owner, shards| {
        let k = key_on("k", owner, shards);
        let id = process.shards[usize::from(client.0)]
            .session(client.1)
            .unwrap()
            .id;
        for (reason, reply) in [
            ("", "*-1\r\n"),
            (" TIMEOUT", "*-1\r\n"),
            (
                " error",
                "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
            ),
        ] {
            process.ask(client, &format!("BLPOP {k} 0"));
            assert!(
                process
                    .ask(other, "INFO clients")
                    .contains("blocked_clients:1\r\n")
            );
            assert_eq!(
                process.ask(other, &format!("CLIENT UNBLOCK {id}{reason}")),
                ":1\r\n"
            );
            assert_eq!(process.heard(client), reply);
            assert_eq!(
                process.ask(other, &format!("CLIENT UNBLOCK {id}")),
                ":0\r\n"
            );
            assert!(
                process
                    .ask(other, "INFO clients")
                    .contains("blocked_clients:0\r\n")
            );
            process.assert_nobody_waits();
        }
    });
}

#[test]
fn a_shutdown_does_not_wait_for_who_waits() {
    let mut process = Process::new(2, 53);
    let client = process.connect(0, 0, Door::Main);
    let k = key_on("k", 1, 2);
    process.ask(client, &format!("BLPOP {k} 0"));
    process.shards[0].handle_shutdown();
    process.settle();
    assert_eq!(process.shards[0].poll_close(), Some(client.1));
    process.assert_nobody_waits();
}
