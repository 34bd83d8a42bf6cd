//! `--idle`: what a server costs while nobody asks, and how soon it answers after its start.

use std::time::Duration;

use serde::Serialize;

use crate::cores::Cores;
use crate::error::Error;
use crate::interrupt;
use crate::launch::{self, Target};
use crate::options::Options;
use crate::procfs;
use crate::stats::median;
use crate::table::aligned;

/// One server's rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdleResult {
    /// Its name.
    pub name: String,
    /// Whether it is the kevy under test.
    pub is_kevy: bool,
    /// CPU time over the watch, in seconds.
    pub cpu_s: f64,
    /// Length of the watch, in seconds.
    pub watched_s: u64,
    /// Median time from the start of the process to its first PONG, in milliseconds.
    pub start_ms: f64,
    /// Resident memory at the end of the watch, in bytes.
    pub resident_bytes: u64,
}

/// Watches each target alone.
///
/// # Errors
/// When a server cannot be started.
pub fn watch(
    targets: &[Target],
    cores: Option<&Cores>,
    options: &Options,
) -> Result<Vec<IdleResult>, Error> {
    let watch = |target| watch_one(target, cores, options.starts, options.idle_seconds);
    targets.iter().map(watch).collect()
}

fn watch_one(
    target: &Target,
    cores: Option<&Cores>,
    starts: usize,
    watched_s: u64,
) -> Result<IdleResult, Error> {
    let mut start_ms = Vec::new();
    for _ in 1..starts {
        let running = launch::start(target, cores)?;
        start_ms.push(running.start_time.as_secs_f64() * 1000.0);
    }
    let running = launch::start(target, cores)?;
    start_ms.push(running.start_time.as_secs_f64() * 1000.0);
    eprintln!("{}: idle for {watched_s} s", target.name);
    let before = procfs::cpu_seconds(running.pid())?;
    interrupt::pause(Duration::from_secs(watched_s))?;
    Ok(IdleResult {
        name: target.name.clone(),
        is_kevy: target.kevy().is_some(),
        cpu_s: procfs::cpu_seconds(running.pid())? - before,
        watched_s,
        start_ms: median(&start_ms).unwrap_or_default(),
        resident_bytes: procfs::resident_bytes(running.pid())?,
    })
}

/// The results as a table.
pub fn table(results: &[IdleResult]) -> String {
    let head = ["server", "CPU s idle", "over s", "first PONG ms", "RSS MB"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(results.iter().map(|result| {
        vec![
            result.name.clone(),
            format!("{:.2}", result.cpu_s),
            result.watched_s.to_string(),
            format!("{:.1}", result.start_ms),
            format!("{:.1}", result.resident_bytes as f64 / 1e6),
        ]
    }));
    aligned(&rows, 1)
}

/// Where kevy passes the limits given.
pub fn findings(results: &[IdleResult], options: &Options) -> Vec<String> {
    let mut findings = Vec::new();
    for result in results.iter().filter(|result| result.is_kevy) {
        if let Some(most) = options.max_start_ms.filter(|most| result.start_ms > *most) {
            let took = result.start_ms;
            findings.push(format!("first PONG after {took:.1} ms, above {most} ms"));
        }
        if let Some(most) = options.max_idle_cpu_s.filter(|most| result.cpu_s > *most) {
            let used = result.cpu_s;
            findings.push(format!("{used:.2} s of CPU while idle, above {most} s"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn only_kevy_is_held_to_the_limits() {
        let result = |is_kevy| IdleResult {
            name: "x".into(),
            is_kevy,
            cpu_s: 0.5,
            watched_s: 10,
            start_ms: 60.0,
            resident_bytes: 0,
        };
        let options = |words: &[&str]| Options::try_parse_from(words).unwrap();
        let strict = options(&["p", "--max-start-ms", "50", "--max-idle-cpu-s", "0.1"]);
        assert_eq!(findings(&[result(true)], &strict).len(), 2);
        assert!(findings(&[result(false)], &strict).is_empty());
        assert!(findings(&[result(true)], &options(&["p"])).is_empty());
        assert_eq!(table(&[result(true)]).lines().count(), 2);
    }
}
