//! The sweep: which cells, and which servers in each.
//!
//! `--accept-shards auto` depends on the cell's connections, so each cell has servers of its own:
//! all others first, then kevy once per number of accepting shards.

use std::str::FromStr;

use crate::error::Error;
use crate::launch::{KevyArgs, Launch, Target};
use crate::options::Options;
use crate::workload::Cell;

/// Connections per accepting shard around which `auto` looks: the ends and middle of the plateau
/// that upstream measured.
const CONNECTIONS_PER_SHARD: [usize; 3] = [25, 20, 15];
/// Kevy's name in tables, without its number of accepting shards.
pub const KEVY: &str = "kevy";

/// One entry of `--accept-shards`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Those around c/20, and unset
    Auto,
    /// Without the flag: every shard accepts
    Unset,
    /// This many
    Shards(usize),
}

impl FromStr for Accept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Auto),
            ("unset", _) => Ok(Self::Unset),
            (_, Ok(count)) if count > 0 => Ok(Self::Shards(count)),
            _ => Err("expected auto, unset or a number of at least 1".to_owned()),
        }
    }
}

/// A cell and the servers measured in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCell {
    /// The load.
    pub cell: Cell,
    /// The servers, in the order of the tables.
    pub targets: Vec<Target>,
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are measured.
    pub cells: Vec<PlannedCell>,
    /// The server all ratios are against.
    pub baseline: String,
}

impl Plan {
    /// The cartesian product of all lists.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no server, two have one name, the baseline is none of them, or
    /// more shards should accept than there are.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let kevy = options.kevy_args()?;
        let others = options.other_servers();
        let accepts = accepts(options);
        let cells = cells(options)
            .into_iter()
            .map(|cell| {
                let mut targets = others.clone();
                if let Some(kevy) = &kevy {
                    targets.extend(variants(kevy, &accepts, cell.connections)?);
                }
                if let Some(fsync) = cell.fsync {
                    targets = targets.iter().map(|target| target.logging(fsync)).collect();
                }
                Ok(PlannedCell { cell, targets })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let baseline = baseline(options, &cells)?;
        Ok(Self { cells, baseline })
    }

    /// Measurements in one round over everything.
    pub fn measurements(&self) -> usize {
        self.cells.iter().map(|planned| planned.targets.len()).sum()
    }
}

/// What `--accept-shards` says, or what the other options make of its absence.
fn accepts(options: &Options) -> Vec<Accept> {
    match (&options.accept_shards[..], options.hop.is_empty()) {
        ([], true) => vec![Accept::Unset],
        ([], false) => vec![Accept::Shards(1)],
        (given, _) => given.to_vec(),
    }
}

fn cells(options: &Options) -> Vec<Cell> {
    let hops: Vec<Option<u8>> = match &options.hop[..] {
        [] => vec![None],
        given => given.iter().copied().map(Some).collect(),
    };
    let mut cells = Vec::new();
    let fsyncs = options.fsyncs();
    for command in &options.commands() {
        for connections in &options.connections {
            for value_bytes in &options.value_sizes {
                for hop_percent in &hops {
                    for fsync in &fsyncs {
                        cells.extend(options.pipelines().into_iter().map(|pipeline| Cell {
                            command: *command,
                            connections: *connections,
                            pipeline,
                            value_bytes: *value_bytes,
                            hop_percent: *hop_percent,
                            fsync: *fsync,
                        }));
                    }
                }
            }
        }
    }
    cells
}

/// Kevy once per distinct number of accepting shards, unset first.
fn variants(kevy: &KevyArgs, accepts: &[Accept], connections: usize) -> Result<Vec<Target>, Error> {
    let mut counts: Vec<Option<usize>> = Vec::new();
    for accept in accepts {
        match accept {
            Accept::Unset => counts.push(None),
            Accept::Shards(count) if *count <= kevy.threads => counts.push(Some(*count)),
            Accept::Shards(count) => {
                return Err(Error::Usage(format!(
                    "--accept-shards {count} is above --threads {}",
                    kevy.threads
                )));
            }
            Accept::Auto => {
                counts.push(None);
                counts.extend(auto_counts(connections, kevy.threads).map(Some));
            }
        }
    }
    counts.sort_unstable();
    counts.dedup();
    Ok(counts
        .into_iter()
        .map(|count| variant(kevy, count))
        .collect())
}

/// {ceil(c/25), ceil(c/20), ceil(c/15)}, each at most `threads`.
fn auto_counts(connections: usize, threads: usize) -> impl Iterator<Item = usize> {
    CONNECTIONS_PER_SHARD
        .into_iter()
        .map(move |per_shard| connections.div_ceil(per_shard).clamp(1, threads))
}

fn variant(kevy: &KevyArgs, accept_shards: Option<usize>) -> Target {
    let name = accept_shards.map_or_else(|| KEVY.to_owned(), |count| format!("{KEVY}/n={count}"));
    Target {
        name,
        launch: Launch::Kevy(KevyArgs {
            accept_shards,
            ..kevy.clone()
        }),
        fsync: None,
    }
}

fn baseline(options: &Options, cells: &[PlannedCell]) -> Result<String, Error> {
    for planned in cells {
        let names: Vec<&str> = planned.targets.iter().map(|t| t.name.as_str()).collect();
        let twice = |at: &usize| names[..*at].contains(&names[*at]);
        if let Some(at) = (0..names.len()).find(twice) {
            return Err(Error::Usage(format!("two servers named `{}`", names[at])));
        }
        if let Some(name) = &options.baseline
            && !names.contains(&name.as_str())
        {
            return Err(Error::Usage(format!(
                "--baseline {name} is not measured in every cell; these are: {names:?}"
            )));
        }
    }
    let first = cells.first().and_then(|planned| planned.targets.first());
    let first = first.ok_or_else(|| Error::Usage("no server to measure".into()))?;
    Ok(options
        .baseline
        .clone()
        .unwrap_or_else(|| first.name.clone()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn plan(line: &str) -> Result<Plan, Error> {
        // This file's own binary stands for kevy: it only has to be there.
        let own = std::env::current_exe().unwrap();
        let mut words = vec!["perfgate".to_owned()];
        if !line.contains("--no-kevy") {
            words.extend(["--kevy".to_owned(), own.display().to_string()]);
        }
        words.extend(["--server".into(), "redis=redis-server --port {port}".into()]);
        words.extend(shlex::split(line).unwrap());
        Plan::new(&Options::try_parse_from(words).unwrap())
    }

    fn names(planned: &PlannedCell) -> Vec<&str> {
        planned.targets.iter().map(|t| t.name.as_str()).collect()
    }

    #[test]
    fn the_product_of_all_lists() {
        let plan = plan("--commands set,get -c 1,50 -P 1,16,64 -d 64,1024").unwrap();
        assert_eq!(plan.cells.len(), 2 * 2 * 3 * 2);
        assert_eq!(plan.measurements(), 48);
        assert_eq!(plan.baseline, "redis");
        assert_eq!(names(&plan.cells[0]), ["redis", "kevy"]);
        assert_eq!(plan.cells[1].cell.to_string(), "set c=1 P=16 d=64");
    }

    #[test]
    fn auto_looks_around_a_twentieth_of_the_connections() {
        let plan = plan("--threads 10 --accept-shards auto -c 50,100,1000 -P 1").unwrap();
        assert_eq!(
            names(&plan.cells[0]),
            ["redis", "kevy", "kevy/n=2", "kevy/n=3", "kevy/n=4"]
        );
        assert_eq!(
            names(&plan.cells[1]),
            ["redis", "kevy", "kevy/n=4", "kevy/n=5", "kevy/n=7"]
        );
        assert_eq!(names(&plan.cells[2]), ["redis", "kevy", "kevy/n=10"]);
    }

    #[test]
    fn hopping_cells_have_one_accepting_shard_in_cluster_mode() {
        let plan = plan("--hop 0,100 --commands get -P 1").unwrap();
        assert_eq!(plan.cells.len(), 2);
        let kevy = plan.cells[0].targets[1].kevy().unwrap();
        assert_eq!(
            (kevy.threads, kevy.accept_shards, kevy.cluster),
            (2, Some(1), true)
        );
    }

    #[test]
    fn with_persistence_every_server_of_a_cell_logs_alike() {
        let plan = plan("--persistence").unwrap();
        let cells: Vec<String> = plan.cells.iter().map(|p| p.cell.to_string()).collect();
        assert_eq!(
            cells,
            [
                "set c=50 P=1 d=64 everysec",
                "set c=50 P=16 d=64 everysec",
                "set c=50 P=1 d=64 always",
                "set c=50 P=16 d=64 always"
            ]
        );
        for planned in &plan.cells {
            assert!(
                planned
                    .targets
                    .iter()
                    .all(|t| t.fsync == planned.cell.fsync)
            );
        }
    }

    #[test]
    fn impossible_plans_are_usage_faults() {
        for bad in [
            "--threads 2 --accept-shards 3",
            "--baseline valkey",
            "--server 'redis=x {port}'",
            "--threads 4 --accept-shards 2 --baseline kevy",
        ] {
            assert_eq!(plan(bad).unwrap_err().exit_code(), 2, "{bad}");
        }
        assert_eq!(plan("--baseline kevy").unwrap().baseline, "kevy");
        assert_eq!(plan("--no-kevy").unwrap().measurements(), 6);
    }
}
