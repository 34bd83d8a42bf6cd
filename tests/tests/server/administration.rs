//! What operators look at: settings that are written back, the slow log, latencies, counters.

use super::info;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Spec, redis_stands_in};
use tempfile::TempDir;

#[test]
fn a_rewritten_configuration_is_read_again() {
    if redis_stands_in() {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("kevy.toml");
    let before = "# mine\n[server]\nhz = 20 # often\n";
    std::fs::write(&path, before).expect("the test's directory is writable");
    let spec = Spec::threads(2).arg("--config").arg(&path);
    let server = spec.start_in(directory);
    let mut client = server.connect();
    assert_eq!(
        info(&mut client, "server", "config_file"),
        path.display().to_string()
    );
    for setting in [
        "hz 30",
        "maxmemory 10mb",
        "hash-max-ziplist-entries 7",
        "notify-keyspace-events KEA",
    ] {
        assert_eq!(client.run(&format!("CONFIG SET {setting}")), Reply::ok());
    }
    assert_eq!(client.run("CONFIG REWRITE"), Reply::ok());
    let after = std::fs::read_to_string(&path).expect("it is still there");
    for line in [
        "# mine",
        "hz = 30 # often",
        "maxmemory = \"10mb\"",
        "hash_max_listpack_entries = 7",
    ] {
        assert!(after.contains(line), "{line} is missing in {after}");
    }
    let ended =
        kevy_tests::server::run_kevy(&["check-config", "kevy.toml"], &[("kevy.toml", &after)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("notify_keyspace_events = \"AKE\""),
        "{}",
        ended.stdout
    );
}

#[test]
fn without_a_configuration_file_nothing_is_rewritten() {
    let server = Spec::threads(1).start();
    let refused = server.connect().run("CONFIG REWRITE");
    assert_eq!(
        refused.error(),
        "ERR The server is running without a config file"
    );
}

#[test]
fn slow_requests_are_logged_with_their_clients() {
    let server = Spec::threads(2).start();
    let mut client = server.connect();
    assert_eq!(
        client.run("CONFIG SET slowlog-log-slower-than 0"),
        Reply::ok()
    );
    assert_eq!(client.run("SLOWLOG RESET"), Reply::ok());
    client.run("CLIENT SETNAME me");
    for number in 0..20 {
        client.run(&format!("SET key{number} value"));
    }
    let log = client.run("SLOWLOG GET -1");
    let log = log.items();
    let ids: Vec<i64> = log.iter().map(|entry| entry.items()[0].integer()).collect();
    assert!(ids.is_sorted_by(|newer, older| newer > older), "{ids:?}");
    for number in 0..20 {
        let key = Reply::bulk(&format!("key{number}"));
        let entries = log
            .iter()
            .filter(|entry| entry.items()[3].items().get(1) == Some(&key));
        let entries: Vec<_> = entries.collect();
        assert_eq!(entries.len(), 1, "{key:?}");
        assert_eq!(entries[0].items()[5], Reply::bulk("me"));
        assert!(entries[0].items()[4].text().starts_with("127.0.0.1:"));
    }
}

#[test]
fn what_takes_long_is_a_latency_event() {
    let server = Spec::threads(1).start();
    let mut client = server.connect();
    if redis_stands_in() {
        return;
    }
    assert_eq!(
        client.run("CONFIG SET latency-monitor-threshold 1"),
        Reply::ok()
    );
    assert_eq!(client.run("DEBUG SLEEP 0.02"), Reply::ok());
    let latest = client.run("LATENCY LATEST");
    let event = latest.items()[0].items();
    assert_eq!(event[0], Reply::bulk("command"));
    assert!(
        event[2].integer() >= 20 && event[3].integer() >= 20,
        "{event:?}"
    );
    assert_eq!(client.run("LATENCY HISTORY command").items().len(), 1);
    assert!(
        client
            .run("LATENCY DOCTOR")
            .text()
            .starts_with("Dave, I have observed")
    );
    assert_eq!(client.run("LATENCY RESET"), Reply::Integer(1));
}

#[test]
fn durations_are_counted() {
    let server = Spec::threads(2).start();
    let mut client = server.connect();
    for _ in 0..100 {
        client.run("SET key value");
    }
    let counted = info(&mut client, "commandstats", "cmdstat_set");
    assert!(counted.starts_with("calls=100,usec="), "{counted}");
    assert!(!counted.contains("usec=0,"), "{counted}");
    let histogram = client.run("LATENCY HISTOGRAM set");
    let set = histogram.items()[1].items();
    assert_eq!(set[1], Reply::Integer(100), "{histogram:?}");
    let counts = set[3].items();
    assert_eq!(counts.last(), Some(&Reply::Integer(100)), "{histogram:?}");
    let percentiles = info(&mut client, "latencystats", "latency_percentiles_usec_set");
    assert!(percentiles.starts_with("p50="), "{percentiles}");
}
