//! How long a start takes that loads a log: from the start of the process to the first PONG that is not
//! `-LOADING`.
//!
//! The server is filled through the wire with its log on, ends cleanly, and starts again in the same
//! directory. No rewrite is allowed, so it is the log that is loaded, and not a snapshot. The files are in
//! the page cache: what is measured is decoding and inserting.

use serde::{Deserialize, Serialize};

use super::{baseline_at, fill};
use crate::control::Control;
use crate::error::Error;
use crate::launch::{self, Target};
use crate::measure::Setup;
use crate::procfs;
use crate::stats::{median, paired_ratio};
use crate::table::{aligned, two_digits};

/// One start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSample {
    /// From the start of the process to the first PONG, in milliseconds.
    pub load_ms: f64,
    /// CPU time of the process until then, in milliseconds.
    pub cpu_ms: f64,
    /// From SIGTERM to the end of the process before, in milliseconds.
    pub stop_ms: f64,
}

/// One server's starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Its name.
    pub name: String,
    /// Whether it is the kevy under test.
    pub is_kevy: bool,
    /// Medians over the rounds.
    pub median: LoadSample,
    /// Time to load, against the baseline in the same rounds: less is better.
    pub ratio: Option<f64>,
    /// CPU time, against the baseline in the same rounds: less is better.
    pub cpu_ratio: Option<f64>,
    /// Every round.
    pub rounds: Vec<LoadSample>,
}

/// Fills, stops and starts the target.
///
/// # Errors
/// When it cannot be started or stopped, refuses a key, or has another number of them afterwards.
pub fn measure(target: &Target, setup: &Setup, keys: u64) -> Result<LoadSample, Error> {
    let cores = setup.server_cores.as_ref();
    let filled = launch::start(target, cores)?;
    fill(&filled, keys)?;
    let begun = std::time::Instant::now();
    let directory = filled.stop()?;
    let stop_ms = begun.elapsed().as_secs_f64() * 1000.0;
    let running = launch::start_in(target, cores, &directory)?;
    let cpu_ms = procfs::cpu_seconds(running.pid())? * 1000.0;
    let load_ms = running.start_time.as_secs_f64() * 1000.0;
    let held = Control::connect(running.addr)?.key_count()?;
    if held != keys {
        return Err(Error::Reply(format!("{held} of {keys} keys were loaded")));
    }
    eprintln!("{}: {keys} keys loaded in {load_ms:.0} ms", target.name);
    Ok(LoadSample {
        load_ms,
        cpu_ms,
        stop_ms,
    })
}

/// Medians and ratios: one list of samples per target.
pub fn results(targets: &[Target], samples: &[Vec<LoadSample>], baseline: &str) -> Vec<LoadResult> {
    let base = baseline_at(targets, baseline).map_or(&[][..], |at| &samples[at]);
    let rows = targets.iter().zip(samples);
    rows.map(|(target, rounds)| {
        let all = |of: fn(&LoadSample) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        let middle = |of| median(&all(of)).unwrap_or_default();
        let ratio = |of: fn(&LoadSample) -> f64| {
            paired_ratio(&all(of), &base.iter().map(of).collect::<Vec<_>>())
        };
        LoadResult {
            name: target.name.clone(),
            is_kevy: target.kevy().is_some(),
            median: LoadSample {
                load_ms: middle(|sample| sample.load_ms),
                cpu_ms: middle(|sample| sample.cpu_ms),
                stop_ms: middle(|sample| sample.stop_ms),
            },
            ratio: ratio(|sample| sample.load_ms),
            cpu_ratio: ratio(|sample| sample.cpu_ms),
            rounds: rounds.clone(),
        }
    })
    .collect()
}

/// The results as a table.
pub fn table(keys: u64, results: &[LoadResult]) -> String {
    let title = format!("load {keys} keys");
    let head = [
        &title, "server", "load ms", "ratio", "CPU ms", "ratio", "stop ms",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(results.iter().map(|result| {
        vec![
            String::new(),
            result.name.clone(),
            format!("{:.0}", result.median.load_ms),
            two_digits(result.ratio),
            format!("{:.0}", result.median.cpu_ms),
            two_digits(result.cpu_ratio),
            format!("{:.0}", result.median.stop_ms),
        ]
    }));
    aligned(&rows, 2)
}

/// Where kevy takes longer than the ratio given.
pub fn findings(results: &[LoadResult], most: Option<f64>) -> Vec<String> {
    let Some(most) = most else { return Vec::new() };
    let slow = |result: &&LoadResult| result.ratio.is_none_or(|ratio| ratio > most);
    results
        .iter()
        .filter(|result| result.is_kevy)
        .filter(slow)
        .map(|result| {
            let (name, took) = (&result.name, result.median.load_ms);
            format!("{name} loads in {took:.0} ms, above {most} of the baseline")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::targets;
    use super::*;

    fn sample(load_ms: f64) -> LoadSample {
        LoadSample {
            load_ms,
            cpu_ms: load_ms / 2.0,
            stop_ms: 1.0,
        }
    }

    #[test]
    fn ratios_are_paired_and_kevy_is_held_to_them() {
        // The second round ran at half speed for both.
        let samples = [
            vec![sample(100.0), sample(200.0)],
            vec![sample(80.0), sample(160.0)],
        ];
        let results = results(&targets(), &samples, "redis");
        assert_eq!(results[1].ratio, Some(0.8));
        assert_eq!(results[1].cpu_ratio, Some(0.8));
        assert!((results[1].median.load_ms - 120.0).abs() < 1e-9);
        assert!(findings(&results, Some(1.0)).is_empty());
        assert!(findings(&results, None).is_empty());
        assert_eq!(findings(&results, Some(0.7)).len(), 1);
        assert_eq!(table(5, &results).lines().count(), 3);
    }

    #[test]
    fn without_a_baseline_a_limit_is_not_met() {
        let results = results(&targets(), &[vec![], vec![sample(1.0)]], "nobody");
        assert_eq!(results[1].ratio, None);
        assert_eq!(findings(&results, Some(1.0)).len(), 1);
    }
}
