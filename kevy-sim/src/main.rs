//! Runs simulations: one seed, or many. Exit code 1 and the command that replays it if a promise was broken.

#![forbid(unsafe_code)]

use clap::Parser;
use kevy_sim::marks::{Mark, Marks};
use kevy_sim::simulation::{Report, Run, simulate};
use kevy_sim::swarm::{Options, replay_command};
use kevy_sim::turmoil_host::Sabotage;
use kevy_sim::workloads::Workload;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many seeds pass between two lines of progress.
const PROGRESS_SEEDS: u64 = 50;
/// A run over fewer seeds need not meet every mark.
const SEEDS_FOR_MARKS: u64 = 200;

/// Simulates kevy nodes and checks what their clients were told.
#[derive(Debug, Parser)]
#[command(name = "kevy-sim")]
struct Arguments {
    /// Run this seed alone, with its options and its trace hash.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run this many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of many seeds.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Only this workload: strings, pairs, transfers, moves, registers, expiry, scan or vanish.
    #[arg(long, value_parser = workload)]
    workload: Option<Workload>,
    /// Give the node a disk and let it crash.
    #[arg(long)]
    disk: bool,
    /// Write the trace of a single seed to this file.
    #[arg(long, requires = "seed")]
    trace: Option<PathBuf>,
    /// Break the mesh on purpose (unordered, lost-releases, lost-replies, forged-grants or lost-entries): then a violation is what should come.
    #[arg(long, value_parser = sabotage)]
    sabotage: Option<Sabotage>,
}

impl Arguments {
    fn options(&self, seed: u64) -> Options {
        let options = Options::from_seed(seed, self.workload);
        if self.disk {
            options.with_disk()
        } else {
            options
        }
    }

    /// The situations that many seeds must have met.
    fn marks(&self) -> &'static [Mark] {
        if self.disk {
            Mark::ON_DISK
        } else {
            Mark::IN_MEMORY
        }
    }
}

fn workload(name: &str) -> Result<Workload, String> {
    Workload::from_name(name).ok_or_else(|| format!("there is no workload {name}"))
}

fn sabotage(name: &str) -> Result<Sabotage, String> {
    Sabotage::from_name(name).ok_or_else(|| format!("there is no sabotage {name}"))
}

thread_local! {
    /// The simulation at work, for the report of a panic: release builds abort.
    static REPLAY: RefCell<String> = const { RefCell::new(String::new()) };
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let standard = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        standard(panic);
        REPLAY.with_borrow(|replay| eprintln!("replay: {replay}"));
    }));
    match arguments.seed {
        Some(seed) => run_one(&arguments, seed),
        None => run_many(&arguments),
    }
}

fn run_one(arguments: &Arguments, seed: u64) -> ExitCode {
    let options = arguments.options(seed);
    println!("{options}");
    let run = Run {
        keep_text: arguments.trace.is_some(),
        sabotage: arguments.sabotage,
    };
    let started = Instant::now();
    let report = announced(&options, &run);
    if let (Some(path), Some(text)) = (&arguments.trace, &report.text)
        && let Err(error) = std::fs::write(path, text)
    {
        eprintln!("cannot write the trace: {error}");
        return ExitCode::FAILURE;
    }
    println!("hash {:016x}", report.hash);
    let mut total = Total::default();
    total.add(&report);
    total.print(started.elapsed());
    verdict(&options, &report)
}

fn run_many(arguments: &Arguments) -> ExitCode {
    let run = Run {
        keep_text: false,
        sabotage: arguments.sabotage,
    };
    let (first, end) = (arguments.start, arguments.start + arguments.seeds);
    println!("seeds {first}..{end}");
    let started = Instant::now();
    let mut total = Total::default();
    for seed in first..end {
        let options = arguments.options(seed);
        let report = announced(&options, &run);
        total.add(&report);
        if report.violation.is_some() {
            println!("{options}");
            return verdict(&options, &report);
        }
        if (seed + 1 - first).is_multiple_of(PROGRESS_SEEDS) {
            print!("{:>8} seeds, ", seed + 1 - first);
            total.print(started.elapsed());
        }
    }
    total.print(started.elapsed());
    total.print_marks();
    let missing = total.marks.missing(arguments.marks());
    if arguments.seeds >= SEEDS_FOR_MARKS && arguments.workload.is_none() && !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|mark| mark.name()).collect();
        eprintln!("never met: {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn announced(options: &Options, run: &Run) -> Report {
    REPLAY.set(replay_command(options));
    simulate(options.clone(), run)
}

fn verdict(options: &Options, report: &Report) -> ExitCode {
    let Some(violation) = &report.violation else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{violation}");
    eprintln!("replay: {}", replay_command(options));
    ExitCode::FAILURE
}

/// Sums over all seeds of a run.
#[derive(Default)]
struct Total {
    simulated: Duration,
    events: u64,
    requests: usize,
    marks: Marks,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.simulated += report.simulated;
        self.events += report.events;
        self.requests += report.requests;
        self.marks.add(&report.marks);
    }

    fn print(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        println!(
            "{:.1} simulated s in {seconds:.1} s, {} events ({:.0}/s), {} requests",
            self.simulated.as_secs_f64(),
            self.events,
            self.events as f64 / seconds,
            self.requests,
        );
    }

    fn print_marks(&self) {
        for mark in Mark::ALL {
            println!("{:>24} {}", mark.name(), self.marks.count(mark));
        }
    }
}
