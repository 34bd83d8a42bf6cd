//! How kevy starts, refuses to start, and ends.

use kevy_tests::process::Signal;
use kevy_tests::reply::Reply;
use kevy_tests::server::{Spec, run_kevy};

#[test]
fn signals_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Spec::threads(2).start();
        assert_eq!(server.connect().run("SET a 1"), Reply::ok());
        let (status, _directory) = server.stop(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_signal_ends_it_with_clients_connected() {
    let server = Spec::threads(4).accept_shards(1).start();
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.run("PING").text(), "PONG");
    }
    let (status, _directory) = server.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    for client in &mut clients {
        assert_eq!(client.read_to_end().expect("the connection is closed"), b"");
    }
}

#[test]
fn a_taken_port_is_said_and_ends_it_with_1() {
    let first = Spec::threads(1).start();
    let port = first.port().to_string();
    let second = run_kevy(
        &[
            "--port",
            &port,
            "--threads",
            "1",
            "--dir",
            "other",
            "--no-aof",
        ],
        &[],
    );
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    let words = second.stderr.to_lowercase();
    assert!(words.contains(&port) && words.contains("in use"), "{words}");
    assert_eq!(
        first.connect().run("PING").text(),
        "PONG",
        "the first is unharmed"
    );
}

#[test]
fn a_taken_shard_port_is_said_and_ends_it_with_1() {
    let first = Spec::threads(2).cluster().start();
    let port = (first.shard_port(0) - 2).to_string();
    let arguments = [
        "--port",
        &port,
        "--threads",
        "2",
        "--cluster",
        "--dir",
        "other",
        "--no-aof",
    ];
    let second = run_kevy(&arguments, &[]);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    let words = second.stderr.to_lowercase();
    assert!(words.contains("in use"), "{words}");
}

#[test]
fn more_accepting_shards_than_shards_end_it_with_2() {
    for accept in ["3", "0"] {
        let ended = run_kevy(&["--threads", "2", "--accept-shards", accept], &[]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        let words = ended.stderr.replace('_', "-");
        assert!(
            words.contains("accept-shards") && words.contains(accept),
            "{words}"
        );
    }
}

#[test]
fn every_fault_of_a_configuration_is_said_at_once() {
    let config = "[server]\nthredas = 2\nport = 70000\nbind = \"nowhere\"\n\n[cluster]\nenabled = \"perhaps\"\n";
    for first in [
        &["--config", "kevy.toml"][..],
        &["check-config", "kevy.toml"],
    ] {
        let ended = run_kevy(first, &[("kevy.toml", config)]);
        assert_eq!(
            ended.code,
            Some(2),
            "{first:?}: {}{}",
            ended.stdout,
            ended.stderr
        );
        let words = ended.stdout + &ended.stderr;
        for said in ["thredas", "threads", "70000", "nowhere", "enabled"] {
            assert!(words.contains(said), "{said} is missing in {words}");
        }
    }
}

#[test]
fn a_good_configuration_passes_the_check() {
    let config = "[server]\nthreads = 2\naccept_shards = 1\n";
    let ended = run_kevy(&["check-config", "kevy.toml"], &[("kevy.toml", config)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn an_unknown_flag_ends_it_with_2() {
    let ended = run_kevy(&["--thread", "2"], &[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--threads"), "{}", ended.stderr);
}

#[test]
fn it_says_what_it_is() {
    let version = run_kevy(&["--version"], &[]);
    assert_eq!(version.code, Some(0));
    let words = version.stdout.split_whitespace().collect::<Vec<_>>();
    assert_eq!(words.first(), Some(&"kevy"), "{words:?}");
    let help = run_kevy(&["--help"], &[]);
    assert_eq!(help.code, Some(0));
    let flags = [
        "--config",
        "--port",
        "--bind",
        "--threads",
        "--accept-shards",
        "--cluster",
    ];
    for flag in flags
        .iter()
        .chain(&["--dir", "--no-aof", "--unixsocket", "check-config"])
    {
        assert!(
            help.stdout.contains(flag),
            "{flag} is missing in {}",
            help.stdout
        );
    }
}
