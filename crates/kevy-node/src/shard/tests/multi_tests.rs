//! `MULTI` .. `EXEC` and `WATCH`, on one shard and over several. Texts are those of redis-server 7.0.15.

use super::*;

impl Process {
    fn assert_nothing_is_watched(&self) {
        for shard in &self.shards {
            assert!(shard.watches.is_empty() && !shard.effects.wanted());
        }
    }

    /// A few messages, at random.
    fn stir(&mut self) {
        for _ in 0..self.rng.below(6) {
            self.step();
        }
    }

    fn take(&mut self, client: Client) -> String {
        String::from_utf8(self.received.remove(&client).unwrap_or_default()).expect("text")
    }
}

#[test]
fn texts_are_those_of_redis() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 21);
        let client = process.connect(0, 0, Door::Main);
        let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        for (request, reply) in [
            ("MULTI\r\nMULTI\r\nPING\r\nEXEC", "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n".to_owned()),
            ("EXEC", "-ERR EXEC without MULTI\r\n".to_owned()),
            ("DISCARD", "-ERR DISCARD without MULTI\r\n".to_owned()),
            ("WATCH a\r\nUNWATCH", "+OK\r\n+OK\r\n".to_owned()),
            ("MULTI\r\nWATCH a\r\nUNWATCH\r\nEXEC", "+OK\r\n-ERR WATCH inside MULTI is not allowed\r\n+QUEUED\r\n*1\r\n+OK\r\n".to_owned()),
            ("MULTI\r\nWATCH\r\nEXEC", format!("+OK\r\n-ERR wrong number of arguments for 'watch' command\r\n{aborted}")),
            ("MULTI\r\nfoo\r\nset a\r\nset a 1\r\nEXEC\r\nGET a", format!("+OK\r\n-ERR unknown command 'foo', with args beginning with: \r\n-ERR wrong number of arguments for 'set' command\r\n+QUEUED\r\n{aborted}$-1\r\n")),
            ("MULTI\r\nSHUTDOWN\r\nEXEC", format!("+OK\r\n-ERR Command not allowed inside a transaction\r\n{aborted}")),
            ("MULTI\r\nCLIENT FOO\r\nEXEC", format!("+OK\r\n-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n{aborted}")),
            ("MULTI\r\nEXEC 1\r\nDISCARD", "+OK\r\n-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n-ERR DISCARD without MULTI\r\n".to_owned()),
            ("MULTI\r\nDISCARD 1\r\nDISCARD", "+OK\r\n-ERR wrong number of arguments for 'discard' command\r\n+OK\r\n".to_owned()),
            ("MULTI\r\nSET a 1\r\nRESET\r\nDISCARD\r\nGET a", "+OK\r\n+QUEUED\r\n+RESET\r\n-ERR DISCARD without MULTI\r\n$-1\r\n".to_owned()),
            ("MULTI\r\nEXEC", "+OK\r\n*0\r\n".to_owned()),
            ("WATCH k\r\nSET k 1\r\nMULTI\r\nFOO\r\nEXEC\r\nMULTI\r\nEXEC", format!("+OK\r\n+OK\r\n+OK\r\n-ERR unknown command 'FOO', with args beginning with: \r\n{aborted}+OK\r\n*0\r\n")),
            ("WATCH k\r\nSET k 1\r\nMULTI\r\nDISCARD\r\nMULTI\r\nEXEC", "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n*0\r\n".to_owned()),
            ("WATCH k\r\nSET k 1\r\nMULTI\r\nEXEC\r\nMULTI\r\nEXEC", "+OK\r\n+OK\r\n+OK\r\n*-1\r\n+OK\r\n*0\r\n".to_owned()),
            ("MULTI\r\nINCR x\r\nSET x a\r\nINCR x\r\nGET x\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n+OK\r\n-ERR value is not an integer or out of range\r\n$1\r\na\r\n".to_owned()),
            ("MULTI\r\nCLIENT REPLY SKIP\r\nPING\r\nECHO x\r\nEXEC\r\nPING\r\nPING", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+PONG\r\n$1\r\nx\r\n+PONG\r\n".to_owned()),
            ("MULTI\r\nPING\r\nCLIENT REPLY OFF\r\nECHO x\r\nEXEC\r\nPING\r\nCLIENT REPLY ON\r\nPING", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+PONG\r\n+OK\r\n+PONG\r\n".to_owned()),
        ] {
            assert_eq!(process.ask(client, request), reply, "{request}");
            process.assert_nothing_is_left();
            process.assert_nothing_is_watched();
        }
        process.ask(client, "HELLO 3");
        let reply = process.ask(client, "WATCH k\r\nSET k 1\r\nMULTI\r\nEXEC");
        assert_eq!(reply, "+OK\r\n+OK\r\n+OK\r\n_\r\n");
        let quit = process.ask(client, "MULTI\r\nQUIT");
        assert_eq!(quit, "+OK\r\n+OK\r\n");
    }
}

#[test]
fn a_pipelined_exec_runs_its_commands_in_order_on_all_shards() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 22);
        let client = process.connect(0, 0, Door::Main);
        let on = |prefix: &str, shard: u16| key_on(prefix, shard % shards, shards);
        let [a, b, c] = [on("a", 0), on("b", 1), on("c", 2)];
        let reply = process.ask(
            client,
            &format!(
                "SET {a} 0\r\nMULTI\r\nMSET {a} 1 {b} 2 {c} 3\r\nRENAME {a} {b}\r\nGET {b}\r\nPING\r\nMGET {a} {b} {c}\r\n\
                 INCR {c}\r\nGET {c}\r\nDBSIZE\r\nCONFIG SET maxclients 77\r\nDEL {a} {b} {c}\r\nKEYS *\r\nRENAME {a} {b}\r\n\
                 EXEC\r\nDBSIZE"
            ),
        );
        let queued = "+QUEUED\r\n".repeat(12);
        assert_eq!(
            reply,
            format!(
                "+OK\r\n+OK\r\n{queued}*12\r\n+OK\r\n+OK\r\n$1\r\n1\r\n+PONG\r\n*3\r\n$-1\r\n$1\r\n1\r\n$1\r\n3\r\n:4\r\n\
                 $1\r\n4\r\n:2\r\n+OK\r\n:2\r\n*0\r\n-ERR no such key\r\n:0\r\n"
            )
        );
        let reply = process.ask(
            client,
            &format!("SET {b} 1\r\nMULTI\r\nFLUSHALL\r\nSET {c} 1\r\nDBSIZE\r\nSCAN 0\r\nEXEC"),
        );
        assert!(
            reply.contains("*4\r\n+OK\r\n+OK\r\n:1\r\n*2\r\n"),
            "{reply}"
        );
        process.assert_nothing_is_left();
    }
}

#[test]
fn messages_are_published_and_subscribed_to_within_exec() {
    let mut process = Process::new(2, 29);
    let client = process.connect(0, 0, Door::Main);
    let listener = process.connect(1, 0, Door::Main);
    process.ask(listener, "SUBSCRIBE news");
    let b = key_on("b", 1, 2);
    let reply = process.ask(
        client,
        &format!("MULTI\r\nSET {b} 1\r\nPUBLISH news x\r\nSUBSCRIBE own\r\nGET {b}\r\nEXEC"),
    );
    assert!(
        reply.ends_with(
            "*4\r\n+OK\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$3\r\nown\r\n:1\r\n$1\r\n1\r\n"
        ),
        "{reply}"
    );
    let message = "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n";
    assert_eq!(process.take(listener), message);
    process.assert_nothing_is_left();
}

#[test]
fn hello_within_exec_changes_what_follows() {
    let mut process = Process::new(2, 23);
    let client = process.connect(0, 0, Door::Main);
    let b = key_on("b", 1, 2);
    let reply = process.ask(client, &format!("MULTI\r\nHELLO 3\r\nGET {b}\r\nEXEC"));
    assert!(reply.ends_with("*0\r\n_\r\n"), "{reply}");
}

#[test]
fn memory_that_runs_out_is_noticed_before_anything_runs() {
    let mut process = Process::new(2, 24);
    let client = process.connect(0, 0, Door::Main);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    let filler = "x".repeat(10_000);
    process.ask(client, &format!("SET {b} {filler}"));
    process.ask(client, "CONFIG SET maxmemory 8000");
    let reply = process.ask(client, &format!("MULTI\r\nSET {a} 1\r\nSET {b} 1\r\nEXEC"));
    assert_eq!(
        reply,
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of: OOM command not allowed when used \
         memory > 'maxmemory'.\r\n"
    );
    assert_eq!(process.ask(client, &format!("EXISTS {a}")), ":0\r\n");
    let other = process.connect(1, 0, Door::Main);
    let reply = process.ask(other, "MULTI\r\nGET k\r\nEXEC");
    assert_eq!(
        reply,
        "+OK\r\n-OOM command not allowed when used memory > 'maxmemory'.\r\n\
         -EXECABORT Transaction discarded because of previous errors.\r\n"
    );
    process.assert_nothing_is_left();
}

/// Transfers keep the sum, and readers of all accounts see it, whatever the order of messages.
#[test]
fn nobody_sees_half_of_an_exec() {
    for seed in 0..200 {
        let shards = 2 + (seed % 3) as u16;
        let mut process = Process::new(shards, seed);
        let accounts: Vec<String> = (0..shards)
            .flat_map(|shard| ["k", "l"].map(|prefix| key_on(prefix, shard, shards)))
            .collect();
        let clients: Vec<Client> = (0..6)
            .map(|n| process.connect(n as u16 % shards, n, Door::Main))
            .collect();
        let all = accounts.join(" ");
        process.ask(clients[0], &format!("MSET {} 100", accounts.join(" 100 ")));
        let mut rng = Rng::from_seed(seed);
        for _ in 0..60 {
            let client = clients[rng.below(6) as usize];
            let [from, to] = [(); 2].map(|()| &accounts[rng.below(accounts.len() as u64) as usize]);
            let request = match rng.below(5) {
                0 => format!("MGET {all}\r\n"),
                1 => format!("MULTI\r\nMGET {all}\r\nEXEC\r\n"),
                2 => format!(
                    "MULTI\r\nDECR {from}\r\nRENAME {to} tmp\r\nRENAME tmp {to}\r\nINCR {to}\r\nEXEC\r\n"
                ),
                _ => format!("MULTI\r\nDECRBY {from} 3\r\nINCRBY {to} 3\r\nEXEC\r\n"),
            };
            process.send(client, request.as_bytes());
            process.stir();
        }
        process.settle();
        let header = format!("*{}\r\n$", accounts.len());
        let mut seen = 0;
        for replies in process.received.values() {
            let replies = String::from_utf8_lossy(replies);
            for array in replies.split(&header).skip(1) {
                let lines = array.split("\r\n").skip(1).step_by(2).take(accounts.len());
                let sum: i64 = lines
                    .map(|line| line.parse::<i64>().expect("a balance"))
                    .sum();
                assert_eq!(sum, 100 * accounts.len() as i64, "seed {seed}: {array:?}");
                seen += 1;
            }
            assert!(
                !replies.contains('-') || !replies.contains("-ERR"),
                "seed {seed}: {replies}"
            );
        }
        assert!(seen > 0, "seed {seed}: nobody looked");
        process.assert_nothing_is_left();
    }
}

/// Two clients watch the same keys, read, and write: exactly one of them gets through.
#[test]
fn one_of_two_optimistic_writers_wins() {
    for seed in 0..200 {
        let shards = 1 + (seed % 3) as u16;
        let mut process = Process::new(shards, seed);
        let [a, b] = [key_on("a", 0, shards), key_on("b", shards - 1, shards)];
        let clients = [0, 1].map(|n| process.connect(n % shards, u32::from(n), Door::Main));
        for client in clients {
            assert_eq!(process.ask(client, &format!("WATCH {a} {b}")), "+OK\r\n");
        }
        let mut rng = Rng::from_seed(seed);
        let write = match rng.below(4) {
            0 => format!("MSET {a} 1 {b} 2"),
            1 => format!("SETRANGE {b} 3 x"),
            2 => format!("BITOP NOT {a} src\r\nMSETNX {b} 1 other 2"),
            _ => format!("LPUSH {a} 1\r\nLMOVE {a} {b} LEFT LEFT"),
        };
        process.ask(clients[0], "SETNX src 1");
        for client in clients {
            process.send(client, format!("MULTI\r\n{write}\r\nEXEC\r\n").as_bytes());
            process.stir();
        }
        process.settle();
        let lost = clients
            .map(|client| process.take(client))
            .iter()
            .filter(|replies| replies.ends_with("*-1\r\n"))
            .count();
        assert_eq!(lost, 1, "seed {seed}: {write}");
        process.assert_nothing_is_left();
        process.assert_nothing_is_watched();
    }
}

/// Each watches what the other one writes: whoever comes second must notice the first.
#[test]
fn writes_that_cross_do_not_both_get_through() {
    for seed in 0..200 {
        let mut process = Process::new(3, seed);
        let [a, b] = [key_on("a", 1, 3), key_on("b", 2, 3)];
        let clients = [0, 1].map(|n| process.connect(n, 0, Door::Main));
        for (client, watched) in clients.into_iter().zip([&a, &b]) {
            assert_eq!(process.ask(client, &format!("WATCH {watched}")), "+OK\r\n");
        }
        for (client, written) in clients.into_iter().zip([&b, &a]) {
            let request = format!("MULTI\r\nSET {written} 1\r\nEXEC\r\n");
            process.send(client, request.as_bytes());
            process.stir();
        }
        process.settle();
        let replies = clients.map(|client| process.take(client));
        let lost = replies.iter().filter(|reply| reply.ends_with("*-1\r\n"));
        assert_eq!(lost.count(), 1, "seed {seed}");
        process.assert_nothing_is_left();
        process.assert_nothing_is_watched();
    }
}

#[test]
fn every_kind_of_change_hits_a_watch_and_nothing_else_does() {
    let mut process = Process::new(2, 25);
    let client = process.connect(0, 0, Door::Main);
    let other = process.connect(1, 0, Door::Main);
    let [a, b] = [key_on("a", 0, 2), key_on("b", 1, 2)];
    for (change, hit) in [
        (format!("SET {b} 1"), true),
        (format!("GET {b}\r\nSET {a} 1\r\nDEL none"), false),
        (format!("EXPIRE {b} 100"), true),
        (format!("RENAME {a} {b}"), true),
        (format!("COPY {b} {a}"), false),
        (format!("MSET {a} 1 {b} 2"), true),
        (format!("MGET {a} {b}\r\nDBSIZE"), false),
        ("FLUSHALL".to_owned(), true),
        ("FLUSHALL".to_owned(), false),
        (format!("MULTI\r\nSET {a} 1\r\nSET {b} 1\r\nEXEC"), true),
        (format!("DEL {b}"), true),
        (format!("DEL {b}"), false),
        // What groups of a stream know is no content of it.
        (format!("XGROUP CREATE {b} g $ MKSTREAM"), true),
        (format!("XADD {b} 1-1 f v"), true),
        (format!("XADD {a} 1-1 f v\r\nXGROUP CREATE {a} g 0"), false),
        (
            format!("XREADGROUP GROUP g alice STREAMS {a} {b} > >"),
            false,
        ),
        (format!("XCLAIM {b} g bob 0 1-1\r\nXACK {b} g 1-1"), false),
        (format!("XGROUP DESTROY {b} g\r\nXSETID {b} 2-2"), false),
        (format!("XDEL {b} 1-1"), true),
        (format!("DEL {a} {b}"), true),
    ] {
        process.ask(client, &format!("WATCH {b} {b}"));
        process.ask(other, &change);
        let reply = process.ask(client, "MULTI\r\nPING\r\nEXEC");
        let expected = if hit { "*-1\r\n" } else { "*1\r\n+PONG\r\n" };
        assert!(reply.ends_with(expected), "{change}: {reply}");
    }
    process.assert_nothing_is_left();
    process.assert_nothing_is_watched();
}

#[test]
fn a_watched_key_that_has_expired_has_changed() {
    for (when, expected) in [("before", "*0\r\n"), ("after", "*-1\r\n")] {
        for shard in 0..2 {
            let mut process = Process::new(2, 26);
            let client = process.connect(0, 0, Door::Main);
            let key = key_on("k", shard, 2);
            process.ask(client, "DEBUG SET-ACTIVE-EXPIRE 0");
            process.ask(client, &format!("SET {key} 1\r\nPEXPIREAT {key} 1000"));
            let late = Now {
                monotonic: Instant::from_nanos(2_000_000_000),
                unix: UnixMillis(2000),
            };
            if when == "after" {
                process.ask(client, &format!("WATCH {key}"));
            }
            process
                .shards
                .iter_mut()
                .for_each(|shard| shard.handle_time(late));
            if when == "before" {
                process.ask(client, &format!("WATCH {key}"));
            }
            let reply = process.ask(client, "MULTI\r\nEXEC");
            assert!(reply.ends_with(expected), "{when}, shard {shard}: {reply}");
            process.assert_nothing_is_watched();
        }
    }
}

#[test]
fn too_many_watched_keys_are_refused() {
    let mut process = Process::new(1, 27);
    let client = process.connect(0, 0, Door::Main);
    for n in 0..crate::watch::WATCHED_KEYS_PER_CONNECTION {
        assert_eq!(
            process.ask(client, &format!("WATCH k{n}")),
            "+OK\r\n",
            "{n}"
        );
    }
    assert_eq!(process.ask(client, "WATCH k0"), "+OK\r\n");
    assert_eq!(
        process.ask(client, "WATCH one"),
        "-ERR too many watched keys\r\n"
    );
}

#[test]
fn what_is_queued_counts_towards_the_query_buffer_limit() {
    let mut process = Process::new(1, 28);
    process.shards[0].settings.server.client_query_buffer_limit = 10_000;
    let client = process.connect(0, 0, Door::Main);
    process.ask(client, "MULTI");
    let tainted = process.connect(0, 1, Door::Main);
    process.ask(tainted, "MULTI\r\nFOO");
    for _ in 0..8 {
        let request = format!("SET k {}", "x".repeat(1000));
        assert_eq!(process.ask(client, &request), "+QUEUED\r\n");
    }
    for n in 0..8 {
        let request = format!("SET k {}", "x".repeat(1000));
        let reply = process.ask(client, &request);
        assert!(reply.is_empty(), "{n}: {reply}");
        assert_eq!(process.ask(tainted, &request), "+QUEUED\r\n");
    }
    assert_eq!(process.shards[0].poll_close(), Some(client.1));
    assert_eq!(process.shards[0].poll_close(), None);
}

#[test]
fn a_client_that_vanishes_anywhere_leaves_nothing() {
    for seed in 0..200 {
        let mut process = Process::new(3, seed);
        let [a, b, c] = [key_on("a", 0, 3), key_on("b", 1, 3), key_on("c", 2, 3)];
        let client = process.connect(0, 0, Door::Main);
        let request = format!(
            "WATCH {a} {b}\r\nMULTI\r\nSET {a} 1\r\nRENAME {a} {b}\r\nDBSIZE\r\nCLIENT LIST\r\nPING\r\nSET {c} 1\r\nEXEC\r\n\
             WATCH {c}\r\n"
        );
        process.send(client, request.as_bytes());
        for _ in 0..seed / 4 {
            process.step();
        }
        process.shards[0].handle_disconnected(client.1);
        process.shards[0].handle_disconnected(client.1);
        let other = process.connect(0, 0, Door::Main);
        process.settle();
        process.received.clear();
        let all = process.ask(other, &format!("MGET {b} {c}"));
        assert!(
            ["*2\r\n$-1\r\n$-1\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"].contains(&all.as_str()),
            "seed {seed}: {all}"
        );
        process.assert_nothing_is_left();
        process.assert_nothing_is_watched();
    }
}

#[test]
fn subcommands_named_like_what_rules_a_transaction_are_queued() {
    let mut process = Process::new(2, 77);
    let client = process.connect(0, 0, Door::Main);
    let queued = process.ask(client, "MULTI\r\nSLOWLOG RESET\r\nLATENCY RESET\r\nEXEC");
    assert_eq!(queued, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:0\r\n");
    process.assert_nothing_is_left();
}
