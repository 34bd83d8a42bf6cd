//! Slow log, latencies, counters and settings, on one shard and over several. Without a clock of the host commands take no
//! time, so what is logged depends on nothing but the requests. Texts are those of redis-server 7.0.15.

use super::*;

impl Process {
    /// The value of a field of an `INFO` section.
    fn info(&mut self, client: Client, section: &str, field: &str) -> Option<String> {
        let text = self.ask(client, &format!("INFO {section}"));
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name == field).then(|| value.to_owned())
        })
    }
}

/// A key that the shard owns.
fn key_of(process: &Process, shard: u16) -> String {
    let map = process.shards[0].map;
    let mut keys = (0..).map(|number| format!("key{number}"));
    keys.find(|key| map.owner(slot_of(key.as_bytes())) == ShardId(shard))
        .expect("every shard owns slots")
}

#[test]
fn the_slow_log_has_each_request_once_wherever_it_ran() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 31);
        let client = process.connect(shards - 1, 0, Door::Main);
        let request = "CONFIG SET slowlog-log-slower-than 0";
        assert_eq!(process.ask(client, request), "+OK\r\n");
        assert_eq!(process.ask(client, "SLOWLOG RESET"), "+OK\r\n");
        process.ask(client, "CLIENT SETNAME me");
        for shard in 0..shards {
            let key = key_of(&process, shard);
            assert_eq!(process.ask(client, &format!("SET {key} value")), "+OK\r\n");
        }
        process.ask(client, "MSET a 1 b 2 c 3");
        process.ask(client, "CONFIG SET slowlog-log-slower-than -1");
        // The reset, the name, a SET for each shard, MSET; whether the last CONFIG SET counts is not said.
        let length = process.ask(client, "SLOWLOG LEN");
        let expected = i64::from(shards) + 3;
        assert_eq!(length, format!(":{expected}\r\n"), "{shards} shards");
        let log = process.ask(client, "SLOWLOG GET -1");
        for shard in 0..shards {
            let key = key_of(&process, shard);
            assert_eq!(log.matches(&format!("\r\n{key}\r\n")).count(), 1, "{log}");
        }
        assert_eq!(log.matches("\r\nMSET\r\n").count(), 1, "{log}");
        assert!(log.contains("127.0.0.1:1\r\n$2\r\nme\r\n"), "{log}");
        let two = process.ask(client, "SLOWLOG GET 2");
        assert!(two.starts_with("*2\r\n*6\r\n:"), "{two}");
        assert_eq!(process.ask(client, "SLOWLOG RESET"), "+OK\r\n");
        assert_eq!(process.ask(client, "SLOWLOG GET"), "*0\r\n");
        process.assert_nothing_is_left();
    }
}

#[test]
fn exec_is_not_logged_but_what_it_runs_is() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 32);
        let client = process.connect(0, 0, Door::Main);
        process.ask(client, "CONFIG SET slowlog-log-slower-than 0");
        process.ask(client, "SLOWLOG RESET");
        process.ask(client, "MULTI");
        for shard in 0..shards {
            let key = key_of(&process, shard);
            process.ask(client, &format!("SET {key} b"));
        }
        process.ask(client, "MSET a 1 b 2 c 3");
        process.ask(client, "EXEC");
        let log = process.ask(client, "SLOWLOG GET");
        let sets = usize::from(shards);
        for (word, times) in [("MULTI", 1), ("SET", sets), ("MSET", 1), ("EXEC", 0)] {
            let bulk = format!("\r\n{word}\r\n");
            assert_eq!(log.matches(&bulk).count(), times, "{word} in {log}");
        }
    }
}

#[test]
fn a_request_that_was_blocked_is_logged_when_it_is_served() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 33);
        let client = process.connect(0, 0, Door::Main);
        let waiter = process.connect(shards - 1, 1, Door::Main);
        for shard in 0..shards {
            let key = key_of(&process, shard);
            process.ask(client, "CONFIG SET slowlog-log-slower-than 0");
            process.ask(client, "SLOWLOG RESET");
            process.ask(waiter, &format!("BLPOP {key} 0"));
            let log = process.ask(client, "SLOWLOG GET");
            assert_eq!(log.matches("BLPOP").count(), 0, "{log}");
            process.ask(client, &format!("RPUSH {key} x"));
            let log = process.ask(client, "SLOWLOG GET");
            assert_eq!(log.matches("BLPOP").count(), 1, "{log}");
        }
    }
}

#[test]
fn slow_log_and_latency_refuse_in_the_words_of_redis() {
    let mut process = Process::new(2, 33);
    let client = process.connect(0, 0, Door::Main);
    let get =
        "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.\r\n";
    let count = "-ERR count should be greater than or equal to -1\r\n";
    for (request, reply) in [
        ("SLOWLOG GET 2 3", get),
        ("SLOWLOG GET -2", count),
        ("SLOWLOG GET abc", count),
        (
            "SLOWLOG foo",
            "-ERR unknown subcommand 'foo'. Try SLOWLOG HELP.\r\n",
        ),
        ("LATENCY LATEST", "*0\r\n"),
        ("LATENCY HISTORY command", "*0\r\n"),
        ("LATENCY RESET", ":0\r\n"),
        (
            "LATENCY GRAPH foo",
            "-ERR No samples available for event 'foo'\r\n",
        ),
        ("MEMORY USAGE nosuch", "$-1\r\n"),
        ("MEMORY USAGE nosuch SAMPLES -1", "-ERR syntax error\r\n"),
        ("MEMORY USAGE nosuch foo 1", "-ERR syntax error\r\n"),
        (
            "MEMORY USAGE nosuch SAMPLES x",
            "-ERR value is not an integer or out of range\r\n",
        ),
        (
            "MEMORY foo",
            "-ERR unknown subcommand 'foo'. Try MEMORY HELP.\r\n",
        ),
        ("MEMORY PURGE", "+OK\r\n"),
        (
            "DEBUG foo",
            "-ERR unknown subcommand or wrong number of arguments for 'foo'. Try DEBUG HELP.\r\n",
        ),
        ("DEBUG OBJECT nosuch", "-ERR no such key\r\n"),
        ("DEBUG ERROR MYERR", "-MYERR\r\n"),
        ("DEBUG SLEEP 0", "+OK\r\n"),
        (
            "DEBUG POPULATE x",
            "-ERR value is out of range, must be positive\r\n",
        ),
        (
            "CONFIG REWRITE",
            "-ERR The server is running without a config file\r\n",
        ),
    ] {
        assert_eq!(process.ask(client, request), reply, "{request}");
    }
}

#[test]
fn keys_are_looked_at_where_they_are() {
    let mut process = Process::new(3, 34);
    let client = process.connect(1, 0, Door::Main);
    assert_eq!(process.ask(client, "DEBUG POPULATE 50 pre 20"), "+OK\r\n");
    assert_eq!(process.ask(client, "DBSIZE"), ":50\r\n");
    for number in 0..50 {
        let usage = process.ask(client, &format!("MEMORY USAGE pre:{number} SAMPLES 0"));
        assert!(usage.starts_with(':'), "{usage}");
        let object = process.ask(client, &format!("DEBUG OBJECT pre:{number}"));
        assert!(
            object.contains(" encoding:embstr serializedlength:"),
            "{object}"
        );
    }
    let stats = process.ask(client, "MEMORY STATS");
    assert!(stats.contains("keys.count\r\n:50\r\n"), "{stats}");
}

#[test]
fn commands_and_their_errors_are_counted() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 35);
        let client = process.connect(0, 0, Door::Main);
        for request in [
            "SET text x",
            "INCR text",
            "GET",
            "LPUSH text x",
            "NOSUCH",
            "LPOP text",
        ] {
            process.ask(client, request);
        }
        for (name, counts) in [
            (
                "set",
                "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
            ),
            (
                "incr",
                "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1",
            ),
            (
                "get",
                "calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0",
            ),
            (
                "lpop",
                "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1",
            ),
        ] {
            let counted = process.info(client, "commandstats", &format!("cmdstat_{name}"));
            assert_eq!(counted.as_deref(), Some(counts), "{name}, {shards} shards");
        }
        let error = |process: &mut Process, code: &str| {
            process.info(client, "errorstats", &format!("errorstat_{code}"))
        };
        assert_eq!(error(&mut process, "ERR").as_deref(), Some("count=3"));
        assert_eq!(error(&mut process, "WRONGTYPE").as_deref(), Some("count=2"));
        let total = process.info(client, "stats", "total_error_replies");
        assert_eq!(total.as_deref(), Some("5"));
        let histogram = process.ask(client, "LATENCY HISTOGRAM set nosuch");
        assert!(
            histogram.starts_with("*2\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:1\r\n"),
            "{histogram}"
        );
        let percentiles = process.info(client, "latencystats", "latency_percentiles_usec_incr");
        assert_eq!(
            percentiles.as_deref(),
            Some("p50=0.000,p99=0.000,p99.9=0.000")
        );
        process.ask(client, "CONFIG RESETSTAT");
        assert_eq!(error(&mut process, "ERR"), None);
        assert_eq!(process.info(client, "commandstats", "cmdstat_set"), None);
    }
}

#[test]
fn settings_of_encodings_and_sizes_reach_every_shard() {
    for shards in 1..4 {
        let mut process = Process::new(shards, 36);
        let client = process.connect(0, 0, Door::Main);
        for (request, reply) in [
            ("CONFIG SET hash-max-ziplist-entries 2", "+OK\r\n"),
            (
                "CONFIG GET hash-max-listpack-entries",
                "*2\r\n$25\r\nhash-max-listpack-entries\r\n$1\r\n2\r\n",
            ),
            ("HSET h a 1 b 2", ":2\r\n"),
            ("OBJECT ENCODING h", "$8\r\nlistpack\r\n"),
            ("HSET h c 3", ":1\r\n"),
            ("OBJECT ENCODING h", "$9\r\nhashtable\r\n"),
            ("CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n"),
            (
                "SETRANGE s 1048575 xx",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n",
            ),
            (
                "SETBIT s 8388608 1",
                "-ERR bit offset is not an integer or out of range\r\n",
            ),
            ("SETBIT s 8388607 1", ":0\r\n"),
            (
                "APPEND s x",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n",
            ),
        ] {
            assert_eq!(process.ask(client, request), reply, "{request}");
        }
        process.send(client, b"*2\r\n$4\r\nECHO\r\n$1048577\r\n");
        process.settle();
        let received = process.received.remove(&client).unwrap_or_default();
        assert_eq!(
            String::from_utf8_lossy(&received),
            "-ERR Protocol error: invalid bulk length\r\n"
        );
    }
}
