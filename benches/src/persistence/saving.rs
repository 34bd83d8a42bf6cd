//! How long a GET takes while a snapshot is written and SETs go on, against the same load without one.
//!
//! kevy also tells how long its longest turn was: until BGSAVE has begun, and over the whole snapshot. It
//! is a wall-clock time, so a machine that does something else adds to it; the quiet window says how much.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::paced::{Paced, Seen};
use super::{PersistenceOptions, baseline_at, fill};
use crate::control::{Control, Value};
use crate::error::Error;
use crate::interrupt;
use crate::launch::{self, Target};
use crate::measure::Setup;
use crate::stats::{median, paired_ratio};
use crate::table::{aligned, dash, two_digits};

/// Between two looks whether a snapshot is complete.
const LOOK_PERIOD: Duration = Duration::from_millis(5);
/// How long a snapshot may take.
const SAVE_TIMEOUT: Duration = Duration::from_mins(2);
/// After BGSAVE was answered the snapshot has begun within this.
const BEGIN_TIME: Duration = Duration::from_millis(2);
/// The quantile of the GETs.
const QUANTILE: f64 = 0.999;

/// One round; kevy's turns are none for servers that do not tell them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SaveSample {
    /// p99.9 of GET without a snapshot, in microseconds.
    pub quiet_us: f64,
    /// p99.9 of GET while snapshots are written, in microseconds.
    pub saving_us: f64,
    /// The longest GET while snapshots are written, in microseconds.
    pub longest_us: f64,
    /// SETs per second without a snapshot.
    pub quiet_writes_per_s: f64,
    /// SETs per second while snapshots are written.
    pub writes_per_s: f64,
    /// Mean time of a snapshot as INFO shows it, in milliseconds.
    pub save_ms: f64,
    /// Longest turn without a snapshot, in microseconds.
    pub quiet_turn_us: Option<f64>,
    /// Longest turn while a snapshot begins, in microseconds.
    pub begin_turn_us: Option<f64>,
    /// Longest turn from the first BGSAVE to the end, in microseconds.
    pub turn_us: Option<f64>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaveResult {
    /// Its name.
    pub name: String,
    /// Whether it is the kevy under test.
    pub is_kevy: bool,
    /// Medians over the rounds.
    pub median: SaveSample,
    /// p99.9 while snapshots are written, against the baseline in the same rounds: less is better.
    pub ratio: Option<f64>,
    /// Every round.
    pub rounds: Vec<SaveSample>,
}

/// Fills a fresh instance, loads it for a window without and one with snapshots.
///
/// # Errors
/// When it cannot be started or asked, a snapshot fails, or a reply is wrong.
pub fn measure(
    target: &Target,
    setup: &Setup,
    options: &PersistenceOptions,
) -> Result<SaveSample, Error> {
    let running = launch::start(target, setup.server_cores.as_ref())?;
    fill(&running, options.keys)?;
    let mut control = Control::connect(running.addr)?;
    let cores = setup.load_cores.as_ref();
    let mut load = Paced::start(running.addr, options.keys, options.writes_per_s, cores)?;
    interrupt::pause(setup.warm_up)?;

    reset(&mut control)?;
    load.take()?;
    interrupt::pause(setup.window)?;
    let quiet = load.take()?;
    let quiet_turn_us = longest_turn_us(&mut control)?;

    reset(&mut control)?;
    load.take()?;
    let saved = save_for(&mut control, setup.window)?;
    let saving = load.take()?;
    let turn_us = longest_turn_us(&mut control)?;
    load.finish()?;
    let sample = SaveSample {
        quiet_us: quantile_us(&quiet),
        saving_us: quantile_us(&saving),
        longest_us: saving.get_ns.max() as f64 / 1000.0,
        quiet_writes_per_s: quiet.sets as f64 / quiet.span.as_secs_f64(),
        writes_per_s: saving.sets as f64 / saving.span.as_secs_f64(),
        save_ms: saved.mean_ms,
        quiet_turn_us,
        begin_turn_us: saved.begin_turn_us,
        turn_us,
    };
    eprintln!(
        "{}: GET p99.9 {:.0} us, with BGSAVE {:.0} us",
        target.name, sample.quiet_us, sample.saving_us
    );
    Ok(sample)
}

fn quantile_us(seen: &Seen) -> f64 {
    seen.get_ns.value_at_quantile(QUANTILE) as f64 / 1000.0
}

fn reset(control: &mut Control) -> Result<(), Error> {
    match control.call(&["CONFIG", "RESETSTAT"])? {
        Value::Text(_) => Ok(()),
        other @ (Value::Integer(_) | Value::Array(_) | Value::Nil | Value::Error(_)) => {
            Err(Error::Reply(format!("CONFIG RESETSTAT: {other:?}")))
        }
    }
}

fn longest_turn_us(control: &mut Control) -> Result<Option<f64>, Error> {
    let stats = control.info("stats")?;
    Ok(stats
        .get("longest_turn_usec")
        .and_then(|turn| turn.parse().ok()))
}

struct Saved {
    mean_ms: f64,
    begin_turn_us: Option<f64>,
}

/// One snapshot after the other, until this time is full; the last is waited for.
fn save_for(control: &mut Control, window: Duration) -> Result<Saved, Error> {
    let begun = Instant::now();
    let mut count = 0;
    let mut begin_turn_us = None;
    loop {
        let before = saves(control)?.complete;
        match control.call(&["BGSAVE"])? {
            Value::Text(_) => {}
            other @ (Value::Integer(_) | Value::Array(_) | Value::Nil | Value::Error(_)) => {
                return Err(Error::Reply(format!("BGSAVE: {other:?}")));
            }
        }
        if count == 0 {
            interrupt::pause(BEGIN_TIME)?;
            begin_turn_us = longest_turn_us(control)?;
        }
        await_save(control, before)?;
        count += 1;
        if begun.elapsed() >= window {
            let mean_ms = begun.elapsed().as_secs_f64() * 1000.0 / f64::from(count);
            return Ok(Saved {
                mean_ms,
                begin_turn_us,
            });
        }
    }
}

fn await_save(control: &mut Control, before: u64) -> Result<(), Error> {
    let begun = Instant::now();
    while begun.elapsed() < SAVE_TIMEOUT {
        interrupt::pause(LOOK_PERIOD)?;
        let now = saves(control)?;
        if now.has_failed {
            return Err(Error::Reply("BGSAVE failed".into()));
        }
        if now.complete > before && !now.is_running {
            return Ok(());
        }
    }
    Err(Error::Reply(format!("no snapshot in {SAVE_TIMEOUT:?}")))
}

struct Saves {
    complete: u64,
    is_running: bool,
    has_failed: bool,
}

fn saves(control: &mut Control) -> Result<Saves, Error> {
    let info = control.info("persistence")?;
    let field = |name: &str| {
        info.get(name)
            .ok_or_else(|| Error::Reply(format!("INFO persistence has no {name}")))
    };
    let complete = field("rdb_saves")?;
    Ok(Saves {
        complete: complete
            .parse()
            .map_err(|_| Error::Reply(format!("rdb_saves:{complete}")))?,
        is_running: field("rdb_bgsave_in_progress")? != "0",
        has_failed: field("rdb_last_bgsave_status")? != "ok",
    })
}

/// Medians and ratios: one list of samples per target.
pub fn results(targets: &[Target], samples: &[Vec<SaveSample>], baseline: &str) -> Vec<SaveResult> {
    let saving = |samples: &[SaveSample]| samples.iter().map(|s| s.saving_us).collect::<Vec<_>>();
    let base = baseline_at(targets, baseline).map_or_else(Vec::new, |at| saving(&samples[at]));
    let rows = targets.iter().zip(samples);
    rows.map(|(target, rounds)| SaveResult {
        name: target.name.clone(),
        is_kevy: target.kevy().is_some(),
        median: median_sample(rounds),
        ratio: paired_ratio(&saving(rounds), &base),
        rounds: rounds.clone(),
    })
    .collect()
}

fn median_sample(rounds: &[SaveSample]) -> SaveSample {
    let middle = |of: fn(&SaveSample) -> f64| {
        let all: Vec<f64> = rounds.iter().map(of).collect();
        median(&all).unwrap_or_default()
    };
    let known = |of: fn(&SaveSample) -> Option<f64>| {
        let all: Vec<f64> = rounds.iter().filter_map(of).collect();
        median(&all)
    };
    SaveSample {
        quiet_us: middle(|s| s.quiet_us),
        saving_us: middle(|s| s.saving_us),
        longest_us: middle(|s| s.longest_us),
        quiet_writes_per_s: middle(|s| s.quiet_writes_per_s),
        writes_per_s: middle(|s| s.writes_per_s),
        save_ms: middle(|s| s.save_ms),
        quiet_turn_us: known(|s| s.quiet_turn_us),
        begin_turn_us: known(|s| s.begin_turn_us),
        turn_us: known(|s| s.turn_us),
    }
}

/// The results as a table.
pub fn table(keys: u64, results: &[SaveResult]) -> String {
    let title = format!("save {keys} keys");
    let head = [
        &title,
        "server",
        "GET p99.9 us",
        "saving",
        "ratio",
        "max us",
        "SET k/s",
        "saving",
        "save ms",
        "turn us",
        "beginning",
        "saving",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(results.iter().map(|result| {
        let median = &result.median;
        let turn = |us: Option<f64>| us.map_or_else(dash, |us| format!("{us:.0}"));
        vec![
            String::new(),
            result.name.clone(),
            format!("{:.0}", median.quiet_us),
            format!("{:.0}", median.saving_us),
            two_digits(result.ratio),
            format!("{:.0}", median.longest_us),
            format!("{:.1}", median.quiet_writes_per_s / 1000.0),
            format!("{:.1}", median.writes_per_s / 1000.0),
            format!("{:.0}", median.save_ms),
            turn(median.quiet_turn_us),
            turn(median.begin_turn_us),
            turn(median.turn_us),
        ]
    }));
    aligned(&rows, 2)
}

/// Where a turn of kevy is too long while a snapshot begins.
pub fn findings(results: &[SaveResult], most_us: Option<f64>) -> Vec<String> {
    let Some(most) = most_us else {
        return Vec::new();
    };
    let kevy = results.iter().filter(|result| result.is_kevy);
    kevy.filter_map(|result| match result.median.begin_turn_us {
        Some(turn) if turn <= most => None,
        Some(turn) => Some(format!(
            "a turn of {} takes {turn:.0} us while a snapshot begins, above {most} us",
            result.name
        )),
        None => Some(format!("{} does not tell its longest turn", result.name)),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::targets;
    use super::*;

    fn sample(saving_us: f64, turn: Option<f64>) -> SaveSample {
        SaveSample {
            quiet_us: 100.0,
            saving_us,
            begin_turn_us: turn,
            ..SaveSample::default()
        }
    }

    fn measured() -> Vec<SaveResult> {
        let redis = vec![sample(1000.0, None), sample(4000.0, None)];
        let kevy = vec![sample(500.0, Some(800.0)), sample(2000.0, Some(900.0))];
        results(&targets(), &[redis, kevy], "redis")
    }

    #[test]
    fn ratios_are_paired_and_turns_known_only_of_kevy() {
        let results = measured();
        assert_eq!(results[1].ratio, Some(0.5));
        assert_eq!(results[0].median.begin_turn_us, None);
        assert_eq!(results[1].median.begin_turn_us, Some(850.0));
        let text = table(7, &results);
        assert!(text.lines().nth(1).unwrap().ends_with('-'), "{text}");
    }

    #[test]
    fn only_kevy_is_held_to_the_longest_turn() {
        let mut results = measured();
        assert!(findings(&results, Some(1000.0)).is_empty());
        assert!(findings(&results, None).is_empty());
        assert_eq!(findings(&results, Some(800.0)).len(), 1);
        results[1].median.begin_turn_us = None;
        assert_eq!(findings(&results, Some(1000.0)).len(), 1);
    }
}
