//! What a run found: medians and ratios by cell and server; this is the JSON file, too.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error};
use crate::launch::Target;
use crate::measure::{Latency, Sample, Setup};
use crate::options::Options;
use crate::persistence::PersistenceResult;
use crate::procfs;
use crate::stats::{median, paired_ratio};
use crate::workload::Cell;

/// Version of the file's shape; a gate refuses another.
pub const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`]
    pub format: u32,
    /// Where it ran.
    pub machine: Machine,
    /// How it was measured.
    pub method: Method,
    /// The server all ratios are against.
    pub baseline: String,
    /// The cells in the order of the sweep.
    pub cells: Vec<CellResult>,
    /// Loading and saving, with `--persistence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<PersistenceResult>,
}

/// Where a run took place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores this process may use.
    pub usable_cores: usize,
    /// Kernel release.
    pub kernel: String,
}

/// How a run measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// Rounds over all servers for each cell.
    pub rounds: usize,
    /// Load before each window, in milliseconds.
    pub warm_up_ms: u64,
    /// Length of a window, in milliseconds.
    pub window_ms: u64,
    /// Keys in the key space.
    pub keys: usize,
    /// kevy's threads.
    pub kevy_threads: usize,
    /// Cores of the servers, when pinned.
    pub server_cores: Option<Vec<usize>>,
    /// Cores of the generator, when pinned.
    pub load_cores: Option<Vec<usize>>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The load.
    pub cell: Cell,
    /// The servers in the order of the table.
    pub servers: Vec<ServerResult>,
}

/// One server in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerResult {
    /// Its name.
    pub name: String,
    /// Whether it is the kevy under test.
    pub is_kevy: bool,
    /// kevy's accepting shards, when set.
    pub accept_shards: Option<usize>,
    /// Medians over the rounds; faults are added up.
    pub median: Sample,
    /// Against the baseline in the same rounds.
    pub ratios: Ratios,
    /// Every round.
    pub rounds: Vec<Sample>,
}

/// Medians of the ratios to the baseline of the same round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Commands per second: more is better.
    pub throughput: Option<f64>,
    /// CPU per command: less is better.
    pub cpu: Option<f64>,
    /// 99 % latency: less is better.
    pub p99: Option<f64>,
}

impl Report {
    /// An empty report of a run with these settings.
    ///
    /// # Errors
    /// [`Error::Io`] when the machine cannot be described.
    pub fn new(options: &Options, setup: &Setup, baseline: &str) -> Result<Self, Error> {
        let cores = |cores: &Option<crate::cores::Cores>| cores.as_ref().map(|c| c.list().to_vec());
        Ok(Self {
            format: FORMAT,
            machine: Machine {
                cpu: procfs::cpu_model(),
                usable_cores: crate::cores::usable()?.len(),
                kernel: procfs::kernel_release(),
            },
            method: Method {
                rounds: options.rounds(),
                warm_up_ms: setup.warm_up.as_millis() as u64,
                window_ms: setup.window.as_millis() as u64,
                keys: setup.keys,
                kevy_threads: options.kevy_threads(),
                server_cores: cores(&setup.server_cores),
                load_cores: cores(&setup.load_cores),
            },
            baseline: baseline.to_owned(),
            cells: Vec::new(),
            persistence: None,
        })
    }

    /// Every server of every cell.
    pub fn rows(&self) -> impl Iterator<Item = (&Cell, &ServerResult)> {
        self.cells
            .iter()
            .flat_map(|cell| cell.servers.iter().map(move |server| (&cell.cell, server)))
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let what = || format!("write {}", path.display());
        let mut text = serde_json::to_string_pretty(self).doing(what)?;
        text.push('\n');
        fs::write(path, text).doing(what)
    }

    /// Reads a stored one.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is none, or it is of another format.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refuse = |why: String| Error::Usage(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let report: Self =
            serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
        if report.format != FORMAT {
            return Err(refuse(format!("format {}, not {FORMAT}", report.format)));
        }
        Ok(report)
    }
}

impl CellResult {
    /// Medians and ratios of a cell's samples: one list per target, each with one sample per round.
    pub fn new(cell: Cell, targets: &[Target], samples: &[Vec<Sample>], baseline: &str) -> Self {
        let base = targets
            .iter()
            .position(|target| target.name == baseline)
            .map_or(&[][..], |at| &samples[at]);
        let servers = targets
            .iter()
            .zip(samples)
            .map(|(target, rounds)| ServerResult {
                name: target.name.clone(),
                is_kevy: target.kevy().is_some(),
                accept_shards: target.kevy().and_then(|kevy| kevy.accept_shards),
                median: median_sample(rounds),
                ratios: ratios(rounds, base),
                rounds: rounds.clone(),
            })
            .collect();
        Self { cell, servers }
    }

    /// kevy's variant with the most throughput whose p99 is within the budget, if any is.
    pub fn best_kevy(&self, p99_budget_us: Option<f64>) -> Option<&ServerResult> {
        let within = |server: &&ServerResult| {
            p99_budget_us.is_none_or(|budget| {
                let latency = server.median.latency;
                latency.is_some_and(|latency| latency.p99_us <= budget)
            })
        };
        self.servers
            .iter()
            .filter(|server| server.is_kevy)
            .filter(within)
            .max_by(|a, b| a.median.ops_per_s.total_cmp(&b.median.ops_per_s))
    }
}

fn ratios(rounds: &[Sample], base: &[Sample]) -> Ratios {
    let of = |figure: fn(&Sample) -> f64| {
        let values: Vec<f64> = rounds.iter().map(figure).collect();
        let bases: Vec<f64> = base.iter().map(figure).collect();
        paired_ratio(&values, &bases)
    };
    let p99 = |sample: &Sample| sample.latency.map_or(f64::NAN, |latency| latency.p99_us);
    Ratios {
        throughput: of(|sample| sample.ops_per_s),
        cpu: of(|sample| sample.cpu_us_per_op),
        p99: of(p99),
    }
}

fn median_sample(rounds: &[Sample]) -> Sample {
    let of = |figure: &dyn Fn(&Sample) -> f64| {
        let values: Vec<f64> = rounds.iter().map(figure).collect();
        median(&values).unwrap_or_default()
    };
    let latencies: Vec<Latency> = rounds.iter().filter_map(|sample| sample.latency).collect();
    Sample {
        ops_per_s: of(&|sample| sample.ops_per_s),
        cpu_us_per_op: of(&|sample| sample.cpu_us_per_op),
        latency: median_latency(&latencies),
        resident_bytes: of(&|sample| sample.resident_bytes as f64) as u64,
        generator_load: of(&|sample| sample.generator_load),
        faults: rounds.iter().map(|sample| sample.faults).sum(),
        first_fault: rounds.iter().find_map(|sample| sample.first_fault.clone()),
    }
}

fn median_latency(rounds: &[Latency]) -> Option<Latency> {
    let of = |figure: fn(&Latency) -> f64| {
        let values: Vec<f64> = rounds.iter().map(figure).collect();
        median(&values)
    };
    Some(Latency {
        p50_us: of(|latency| latency.p50_us)?,
        p99_us: of(|latency| latency.p99_us)?,
        p999_us: of(|latency| latency.p999_us)?,
        max_us: of(|latency| latency.max_us)?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::launch::{KevyArgs, Launch};
    use crate::workload::Command;

    pub(crate) fn sample(ops_per_s: f64, p99_us: f64) -> Sample {
        Sample {
            ops_per_s,
            cpu_us_per_op: 4.0,
            latency: Some(Latency {
                p50_us: p99_us / 2.0,
                p99_us,
                p999_us: p99_us,
                max_us: p99_us,
            }),
            resident_bytes: 1 << 20,
            generator_load: 0.5,
            faults: 0,
            first_fault: None,
        }
    }

    pub(crate) fn target(name: &str, accept_shards: Option<usize>) -> Target {
        let launch = if name.starts_with("kevy") {
            Launch::Kevy(KevyArgs {
                path: "kevy".into(),
                threads: 4,
                accept_shards,
                cluster: false,
            })
        } else {
            Launch::Command(vec!["x".into(), "{port}".into()])
        };
        Target {
            name: name.into(),
            launch,
            fsync: None,
        }
    }

    pub(crate) fn cell(pipeline: usize) -> Cell {
        Cell {
            command: Command::Set,
            connections: 50,
            pipeline,
            value_bytes: 64,
            hop_percent: None,
            fsync: None,
        }
    }

    /// Cells at the given pipelines with redis, kevy and kevy/n=2 at 100, 150 and 200 commands/s.
    pub(crate) fn report(pipelines: &[usize]) -> Report {
        let targets = [
            target("redis", None),
            target("kevy", None),
            target("kevy/n=2", Some(2)),
        ];
        let samples = [
            vec![sample(100.0, 10.0), sample(50.0, 20.0)],
            vec![sample(150.0, 10.0), sample(75.0, 20.0)],
            vec![sample(200.0, 20.0), sample(100.0, 40.0)],
        ];
        let cells = pipelines
            .iter()
            .map(|p| CellResult::new(cell(*p), &targets, &samples, "redis"));
        Report {
            format: FORMAT,
            machine: Machine {
                cpu: "c".into(),
                usable_cores: 2,
                kernel: "k".into(),
            },
            method: Method {
                rounds: 2,
                warm_up_ms: 1,
                window_ms: 2,
                keys: 3,
                kevy_threads: 4,
                server_cores: Some(vec![0]),
                load_cores: None,
            },
            baseline: "redis".into(),
            cells: cells.collect(),
            persistence: None,
        }
    }

    #[test]
    fn ratios_are_paired_and_medians_are_taken() {
        let report = report(&[1]);
        let kevy = &report.cells[0].servers[1];
        assert_eq!(kevy.ratios.throughput, Some(1.5));
        assert_eq!(kevy.ratios.cpu, Some(1.0));
        assert_eq!(kevy.ratios.p99, Some(1.0));
        assert!((kevy.median.ops_per_s - 112.5).abs() < 1e-9);
    }

    #[test]
    fn the_best_is_the_fastest_within_the_budget() {
        let cell = &report(&[1]).cells[0];
        let best = |budget| cell.best_kevy(budget).map(|server| server.name.as_str());
        assert_eq!(best(None), Some("kevy/n=2"));
        assert_eq!(best(Some(20.0)), Some("kevy"));
        assert_eq!(best(Some(5.0)), None);
    }

    #[test]
    fn json_round_trips() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        let mut report = report(&[1, 16]);
        report.write(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap(), report);
        report.format += 1;
        report.write(&path).unwrap();
        assert_eq!(Report::read(&path).unwrap_err().exit_code(), 2);
        assert_eq!(
            Report::read(&directory.path().join("none"))
                .unwrap_err()
                .exit_code(),
            2
        );
    }
}
