//! perfgate end to end, against redis-server: as a server of its own, and behind a script that takes
//! kevy's flags. What is checked is what is counted, reported and gated, never how fast it was.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kevy_benches::report::Report;

const REDIS: &str = "redis=redis-server --port {port} --save '' --appendonly no";
/// The shortest run that still has every part.
const SHORT: [&str; 10] = [
    "--rounds",
    "2",
    "--warm-up-ms",
    "20",
    "--window-ms",
    "100",
    "--keys",
    "500",
    "-c",
    "5",
];

fn perfgate(args: &[&str]) -> Output {
    assert!(
        Command::new("redis-server")
            .arg("--version")
            .output()
            .is_ok(),
        "this test needs redis-server in PATH"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfgate"));
    command.args(args).args(["--no-pin", "--server", REDIS]);
    command.output().expect("perfgate starts")
}

/// A program that takes kevy's flags and is redis-server.
fn stand_in(directory: &Path, more: &str) -> PathBuf {
    let path = directory.join("kevy");
    let script =
        format!("#!/bin/sh\nexec redis-server --port \"$2\" --save '' --appendonly no {more}\n");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    path
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_sweep_writes_table_json_and_plot_and_gates_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let kevy = stand_in(directory.path(), "");
    let json = directory.path().join("r.json");
    let svg = directory.path().join("r.svg");
    let files = [&kevy, &json, &svg].map(|path| path.to_str().expect("UTF-8"));
    let mut args = vec!["--kevy", files[0], "--json", files[1], "--svg", files[2]];
    args.extend(["--threads", "3", "--accept-shards", "unset,2"]);
    args.extend(["--commands", "set,get,mixed:50,ping", "-P", "1,8"]);
    args.extend(SHORT);
    let output = perfgate(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("mixed:50 c=5 P=8 d=64"), "{table}");
    assert!(
        table.contains("best accept-shards without a p99 budget"),
        "{table}"
    );
    assert!(fs::read_to_string(&svg).expect("a plot").contains("</svg>"));

    let report = Report::read(&json).expect("a report");
    assert_eq!(report.rows().count(), 4 * 2 * 3);
    for (cell, server) in report.rows() {
        let sample = &server.median;
        assert!(sample.ops_per_s > 0.0, "{cell} {}", server.name);
        assert!(sample.latency.expect("latencies").p50_us > 0.0);
        assert!(sample.resident_bytes > 0);
        assert_eq!(server.rounds.len(), 2);
    }
    gate_catches_a_better_past(&files, report);
}

/// Against a past whose ratios were a hundred times better, the gate must shut.
fn gate_catches_a_better_past(files: &[&str; 3], mut report: Report) {
    for server in report.cells.iter_mut().flat_map(|cell| &mut cell.servers) {
        server.ratios.throughput = server.ratios.throughput.map(|ratio| ratio * 100.0);
    }
    report.write(Path::new(files[1])).expect("rewritten");
    let mut args = vec!["--kevy", files[0], "--gate", files[1], "-P", "1"];
    args.extend(["--threads", "3", "--commands", "set"]);
    args.extend(SHORT);
    let output = perfgate(&args);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("throughput ratio"));
}

#[test]
fn wrong_replies_shut_the_gate() {
    let directory = tempfile::tempdir().expect("a directory");
    // The data can be loaded, but every GET under load is an error.
    let kevy = stand_in(directory.path(), "--rename-command GET GETTING");
    let kevy = kevy.to_str().expect("UTF-8");
    let mut args = vec!["--kevy", kevy, "--commands", "get", "-P", "4"];
    args.extend(SHORT);
    let output = perfgate(&args);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("Get answered -ERR unknown command"),
        "{errors}"
    );
}

#[test]
fn redis_benchmark_can_make_the_load() {
    let mut args = vec!["--no-kevy", "--generator", "redis-benchmark", "-P", "4"];
    args.extend(SHORT);
    let output = perfgate(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("get c=5 P=4 d=64"));
}

#[test]
fn idle_and_memory_report_each_server() {
    let output = perfgate(&[
        "--no-kevy",
        "--idle",
        "--idle-seconds",
        "1",
        "--starts",
        "2",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("first PONG ms"));
    let shapes = "string,hash,set,zset,list";
    let output = perfgate(&[
        "--no-kevy",
        "--memory",
        "--memory-keys",
        "2000",
        "--shapes",
        shapes,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).trim().lines().count(), 1 + 5);
}

#[test]
fn persistence_sweeps_loads_and_saves() {
    let directory = tempfile::tempdir().expect("a directory");
    let kevy = stand_in(
        directory.path(),
        "--appendonly yes --aof-use-rdb-preamble no",
    );
    let json = directory.path().join("r.json");
    let files = [&kevy, &json].map(|path| path.to_str().expect("UTF-8"));
    let mut args = vec!["--kevy", files[0], "--json", files[1], "--persistence"];
    args.extend(["--persistence-keys", "3000", "--persistence-rounds", "1"]);
    args.extend(["--snapshot-writes", "2000", "--max-turn-us", "1000"]);
    args.extend(SHORT);
    let output = perfgate(&args);
    // The stand-in does not tell its turns: what cannot be seen does not pass.
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("does not tell its longest turn"),
        "{errors}"
    );

    let table = text(&output.stdout);
    for part in [
        "set c=5 P=16 d=64 always",
        "load 3000 keys",
        "save 3000 keys",
    ] {
        assert!(table.contains(part), "{table}");
    }
    let report = Report::read(&json).expect("a report");
    assert_eq!(report.rows().count(), 2 * 2 * 2);
    let result = report.persistence.expect("loading and saving");
    assert!(result.loads.iter().all(|load| load.median.load_ms > 0.0));
    for save in &result.saves {
        assert!(save.median.saving_us > 0.0 && save.median.writes_per_s > 0.0);
        assert!(save.ratio.is_some());
    }
}

#[test]
fn usage_faults_exit_with_two() {
    for bad in [
        &["--kevy", "/nowhere/kevy"][..],
        &["--no-kevy", "--baseline", "nobody"],
        &["--no-kevy", "--server-cores", "x"],
        &["--no-kevy", "--gate", "/nowhere/r.json"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_perfgate"))
            .args(bad)
            .output();
        let output = output.expect("perfgate starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
}
