//! A run from options to findings: interleaved rounds, tables, files, gates.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{Doing, Error};
use crate::measure::{Sample, Setup, measure};
use crate::options::Options;
use crate::plan::{Plan, PlannedCell};
use crate::report::{CellResult, Report};
use crate::{gate, idle, interrupt, memory, persistence, plot, process, table};

/// Runs what the options ask for; the findings, if any, are why the gate is shut.
///
/// # Errors
/// When the options contradict each other or a server cannot be measured.
pub fn run(options: &Options) -> Result<Vec<String>, Error> {
    options.check()?;
    let plan = Plan::new(options)?;
    let setup = options.setup()?;
    let stored = options.gate.as_deref().map(Report::read).transpose()?;
    interrupt::install()?;
    process::end_children_on_panic();
    if options.idle {
        return run_idle(options, &plan, &setup);
    }
    if options.memory {
        return run_memory(options, &plan, &setup);
    }
    describe(&plan, &setup, options);
    let mut report = sweep(&plan, &setup, options)?;
    if options.persistence.is_on {
        let result = persistence::measure(&plan, &setup, &options.persistence)?;
        report.persistence = Some(result);
    }
    present(&report, options)?;
    Ok(findings(&report, stored.as_ref(), options))
}

fn describe(plan: &Plan, setup: &Setup, options: &Options) {
    let name = |cores: &Option<crate::cores::Cores>| match cores {
        Some(cores) => format!("cores {cores}"),
        None => "no cores of their own".to_owned(),
    };
    eprintln!(
        "{} cells, {} rounds, window {:?}; servers: {}; generator: {}; ratios to {}",
        plan.cells.len(),
        options.rounds(),
        setup.window,
        name(&setup.server_cores),
        name(&setup.load_cores),
        plan.baseline
    );
    if cfg!(debug_assertions) {
        eprintln!("note: perfgate was built without --release; its own speed may be the limit");
    }
}

fn sweep(plan: &Plan, setup: &Setup, options: &Options) -> Result<Report, Error> {
    let mut report = Report::new(options, setup, &plan.baseline)?;
    let mut progress = Progress::new(plan.measurements() * options.rounds());
    for (number, planned) in plan.cells.iter().enumerate() {
        let mut samples = vec![Vec::new(); planned.targets.len()];
        for round in 0..options.rounds() {
            for at in rotation(planned.targets.len(), round) {
                let seed = (number * options.rounds() + round) as u64;
                let sample = measure(&planned.targets[at], &planned.cell, setup, seed)?;
                progress.tell(planned, at, round, &sample);
                samples[at].push(sample);
            }
        }
        let result = CellResult::new(planned.cell, &planned.targets, &samples, &plan.baseline);
        report.cells.push(result);
    }
    Ok(report)
}

/// The order of `count` servers in this round: each begins equally often.
pub(crate) fn rotation(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |at| (at + round) % count)
}

struct Progress {
    begun: Instant,
    done: usize,
    whole: usize,
}

impl Progress {
    fn new(whole: usize) -> Self {
        Self {
            begun: Instant::now(),
            done: 0,
            whole,
        }
    }

    fn tell(&mut self, planned: &PlannedCell, at: usize, round: usize, sample: &Sample) {
        self.done += 1;
        let each = self.begun.elapsed() / self.done as u32;
        let left = each * (self.whole - self.done) as u32;
        eprintln!(
            "[{}/{}] {} round {} {}: {:.1} kops/s{}; {} left",
            self.done,
            self.whole,
            planned.cell,
            round + 1,
            planned.targets[at].name,
            sample.ops_per_s / 1000.0,
            if sample.faults > 0 { ", FAULTS" } else { "" },
            clock(left)
        );
    }
}

fn clock(length: Duration) -> String {
    let seconds = length.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn present(report: &Report, options: &Options) -> Result<(), Error> {
    println!("{}", table::results(report));
    for text in [
        table::choices(report, options.p99_budget_us),
        table::hops(report),
        report
            .persistence
            .as_ref()
            .map_or_else(String::new, persistence::tables),
    ] {
        if !text.is_empty() {
            println!("{text}");
        }
    }
    if let Some(note) = table::starved(report) {
        eprintln!("{note}");
    }
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    if let Some(path) = &options.svg {
        plot::write(report, path)?;
    }
    Ok(())
}

fn findings(report: &Report, stored: Option<&Report>, options: &Options) -> Vec<String> {
    let mut findings = gate::faults(report);
    findings.extend(gate::below_floors(report, &options.floor));
    findings.extend(gate::below_hop_floors(report, &options.hop_floor));
    if let Some(result) = &report.persistence {
        findings.extend(persistence::findings(result, &options.persistence));
    }
    if let Some(stored) = stored {
        let worse = gate::against_stored(report, stored, &options.gate_on, options.tolerance);
        findings.extend(worse);
    }
    findings
}

fn run_idle(options: &Options, plan: &Plan, setup: &Setup) -> Result<Vec<String>, Error> {
    let results = idle::watch(&plan.cells[0].targets, setup.server_cores.as_ref(), options)?;
    println!("{}", idle::table(&results));
    write_json(options.json.as_deref(), &results)?;
    Ok(idle::findings(&results, options))
}

fn run_memory(options: &Options, plan: &Plan, setup: &Setup) -> Result<Vec<String>, Error> {
    let targets = &plan.cells[0].targets;
    let cores = setup.server_cores.as_ref();
    let results = memory::weigh(targets, &plan.baseline, cores, options)?;
    println!("{}", memory::table(&results));
    write_json(options.json.as_deref(), &results)?;
    Ok(memory::findings(&results, options.max_memory_ratio))
}

fn write_json(path: Option<&Path>, results: &impl Serialize) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let what = || format!("write {}", path.display());
    let text = serde_json::to_string_pretty(results).doing(what)?;
    std::fs::write(path, text + "\n").doing(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_begins_in_turn() {
        let order = |round| rotation(3, round).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(5), [2, 0, 1]);
    }

    #[test]
    fn remaining_time_is_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_secs(125)), "2:05");
    }
}
