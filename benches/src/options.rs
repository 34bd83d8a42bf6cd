//! The command line, and what it means once defaults are in and contradictions are out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use crate::cores::{self, Cores};
use crate::error::{Doing, Error};
use crate::gate::{Floor, Metric};
use crate::launch::{KevyArgs, Launch, Target};
use crate::measure::{CountAt, Generator, Setup};
use crate::memory::Shape;
use crate::persistence::PersistenceOptions;
use crate::plan::Accept;
use crate::workload::{Command, Fsync};

/// End-to-end performance gate of kevy: side by side with other servers, in interleaved rounds.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "perfgate",
    version,
    after_help = "docs/PERFGATE.md has the acceptance commands."
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each bool is a flag of the command line, not a state"
)]
pub struct Options {
    /// The kevy binary [default: `kevy` next to perfgate]
    #[arg(long, value_name = "PATH", conflicts_with = "no_kevy")]
    pub kevy: Option<PathBuf>,
    /// Measure only the servers given by --server
    #[arg(long)]
    pub no_kevy: bool,
    /// kevy's --threads [default: the number of --server-cores, else 1; 2 with --idle]
    #[arg(long, value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// kevy's --accept-shards values to sweep: numbers, `unset`, or `auto` for those around c/20
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub accept_shards: Vec<Accept>,
    /// Start kevy with --cluster
    #[arg(long)]
    pub cluster: bool,
    /// Another server: NAME=COMMAND with {port} in it; repeatable [default: redis-server 7, if installed]
    #[arg(long = "server", value_name = "NAME=COMMAND", value_parser = Target::parse)]
    pub servers: Vec<Target>,
    /// The server all ratios are against [default: the first --server]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Cores of the servers, as 0,2-3 [default: the first ones]
    #[arg(long, value_name = "CORES")]
    pub server_cores: Option<Cores>,
    /// Cores of the load generator, one thread each [default: those left]
    #[arg(long, value_name = "CORES")]
    pub load_cores: Option<Cores>,
    /// Do not pin anything
    #[arg(long, conflicts_with_all = ["server_cores", "load_cores"])]
    pub no_pin: bool,
    /// Who makes the load
    #[arg(long, value_enum, default_value = "builtin")]
    pub generator: Generator,
    /// Whose count of commands is the throughput
    #[arg(long, value_enum, default_value = "server")]
    pub count_at: CountAt,

    /// Commands to sweep: set, get, ping, mixed, mixed:PERCENT-OF-GETS [default: set,get; with --persistence set]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub commands: Vec<Command>,
    /// Numbers of connections to sweep
    #[arg(long, short = 'c', value_delimiter = ',', default_value = "50", value_parser = at_least_one, value_name = "LIST")]
    pub connections: Vec<usize>,
    /// Pipeline depths to sweep [default: 1,16,64; with --quick or --persistence 1,16]
    #[arg(long, short = 'P', value_delimiter = ',', value_parser = at_least_one, value_name = "LIST")]
    pub pipeline: Vec<usize>,
    /// Value sizes to sweep, in bytes
    #[arg(
        long,
        short = 'd',
        value_delimiter = ',',
        default_value = "64",
        value_name = "LIST"
    )]
    pub value_sizes: Vec<usize>,
    /// Percentages of keys that another shard owns; implies --cluster --accept-shards 1
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..=100), value_name = "LIST")]
    pub hop: Vec<u8>,
    /// Sweep with servers that log their writes, by these policies [default: none; with --persistence both]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub fsync: Vec<Fsync>,
    /// Keys in the key space
    #[arg(long, default_value = "100000", value_parser = at_least_one)]
    pub keys: usize,
    /// Rounds over all servers for each cell [default: 5; with --quick 3]
    #[arg(long, value_parser = at_least_one)]
    pub rounds: Option<usize>,
    /// Load before the window, in milliseconds [default: 300; with --quick 150]
    #[arg(long, value_name = "MS")]
    pub warm_up_ms: Option<u64>,
    /// Length of the measured window, in milliseconds [default: 1000; with --quick 400]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub window_ms: Option<u64>,
    /// A shorter run: fewer rounds, shorter windows, pipelines 1 and 16
    #[arg(long)]
    pub quick: bool,

    /// Name the accept-shards with the most throughput whose p99 stays within this, in microseconds
    #[arg(long, value_name = "US")]
    pub p99_budget_us: Option<f64>,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Compare the ratios with those of this --json file; exit 1 when worse
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,
    /// How much worse a ratio may be than the stored one, as a part of it
    #[arg(long, default_value = "0.1", value_parser = part)]
    pub tolerance: f64,
    /// Ratios the gate compares
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "throughput,cpu",
        value_name = "LIST"
    )]
    pub gate_on: Vec<Metric>,
    /// Least throughput ratio of kevy to the baseline by pipeline, as 1:1.0,16:1.5; exit 1 below it
    #[arg(long, value_delimiter = ',', value_name = "P:RATIO")]
    pub floor: Vec<Floor>,
    /// Least throughput of a hopping cell against the one with --hop 0, as 1:0.6,16:0.8
    #[arg(long, value_delimiter = ',', value_name = "P:RATIO")]
    pub hop_floor: Vec<Floor>,

    /// Measure instead: CPU time while idle, and time to the first PONG
    #[arg(long, conflicts_with = "memory")]
    pub idle: bool,
    /// How long --idle watches, in seconds
    #[arg(long, default_value = "10", value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: u64,
    /// Starts whose median --idle reports
    #[arg(long, default_value = "7", value_parser = at_least_one)]
    pub starts: usize,
    /// Exit 1 when kevy's median start takes longer, in milliseconds
    #[arg(long, value_name = "MS")]
    pub max_start_ms: Option<f64>,
    /// Exit 1 when kevy uses more CPU while idle, in seconds
    #[arg(long, value_name = "S")]
    pub max_idle_cpu_s: Option<f64>,
    /// Measure instead: resident memory per key
    #[arg(long)]
    pub memory: bool,
    /// Kinds of value for --memory
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "string",
        value_name = "LIST"
    )]
    pub shapes: Vec<Shape>,
    /// Keys for --memory
    #[arg(long, default_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_keys: u64,
    /// Exit 1 when kevy's memory per key is above this ratio to the baseline's
    #[arg(long, value_name = "RATIO")]
    pub max_memory_ratio: Option<f64>,
    // An ordinary comment: clap would take the documentation of a flattened part for its own.
    #[allow(missing_docs, reason = "its type is documented")]
    #[command(flatten)]
    pub persistence: PersistenceOptions,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn part(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|part| (0.0..1.0).contains(part))
        .ok_or_else(|| "expected a part such as 0.1".to_owned())
}

impl Options {
    /// Rounds over all servers for each cell.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 })
    }

    /// Pipeline depths to sweep.
    pub fn pipelines(&self) -> Vec<usize> {
        match (&self.pipeline[..], self.quick || self.persistence.is_on) {
            ([], true) => vec![1, 16],
            ([], false) => vec![1, 16, 64],
            (given, _) => given.to_vec(),
        }
    }

    /// Commands to sweep.
    pub fn commands(&self) -> Vec<Command> {
        match (&self.commands[..], self.persistence.is_on) {
            ([], true) => vec![Command::Set],
            ([], false) => vec![Command::Set, Command::Get],
            (given, _) => given.to_vec(),
        }
    }

    /// What the servers of a cell do with their writes; none: they keep nothing.
    pub fn fsyncs(&self) -> Vec<Option<Fsync>> {
        match (&self.fsync[..], self.persistence.is_on) {
            ([], true) => vec![Some(Fsync::Everysec), Some(Fsync::Always)],
            ([], false) => vec![None],
            (given, _) => given.iter().copied().map(Some).collect(),
        }
    }

    /// Kevy's threads.
    pub fn kevy_threads(&self) -> usize {
        self.threads.unwrap_or_else(|| match &self.server_cores {
            _ if self.idle || !self.hop.is_empty() => 2,
            Some(cores) => cores.list().len(),
            None => 1,
        })
    }

    /// Kevy as the options describe it, if it is to be measured.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such binary.
    pub fn kevy_args(&self) -> Result<Option<KevyArgs>, Error> {
        if self.no_kevy {
            return Ok(None);
        }
        let path = match &self.kevy {
            Some(path) => path.clone(),
            None => beside_perfgate()?,
        };
        if !path.is_file() {
            return Err(Error::Usage(format!(
                "no kevy at {}: build it with `cargo build --release -p kevy`, or give --kevy PATH or --no-kevy",
                path.display()
            )));
        }
        Ok(Some(KevyArgs {
            path,
            threads: self.kevy_threads(),
            accept_shards: None,
            cluster: self.cluster || !self.hop.is_empty(),
        }))
    }

    /// The other servers; redis-server where none is given and it is installed.
    pub fn other_servers(&self) -> Vec<Target> {
        if !self.servers.is_empty() || !is_installed("redis-server") {
            return self.servers.clone();
        }
        let words = [
            "redis-server",
            "--port",
            "{port}",
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        vec![Target {
            name: "redis".into(),
            launch: Launch::Command(words.map(String::from).to_vec()),
            fsync: None,
        }]
    }

    /// What all measurements share.
    ///
    /// # Errors
    /// [`Error::Usage`] when cores are named that this process may not use.
    pub fn setup(&self) -> Result<Setup, Error> {
        let (server_cores, load_cores) = self.cores(&cores::usable()?)?;
        let or = |given: Option<u64>, quick, full| {
            Duration::from_millis(given.unwrap_or(if self.quick { quick } else { full }))
        };
        Ok(Setup {
            server_cores,
            load_cores,
            generator: self.generator,
            count_at: self.count_at,
            keys: self.keys,
            warm_up: or(self.warm_up_ms, 150, 300),
            window: or(self.window_ms, 400, 1000),
        })
    }

    /// Cores of servers and generator: the first ones serve as far as one is left to load.
    fn cores(&self, usable: &[usize]) -> Result<(Option<Cores>, Option<Cores>), Error> {
        let asked = [&self.server_cores, &self.load_cores];
        for core in asked.into_iter().flatten().flat_map(Cores::list) {
            if !usable.contains(core) {
                return Err(Error::Usage(format!(
                    "core {core} is not usable; these are: {usable:?}"
                )));
            }
        }
        if self.no_pin {
            return Ok((None, None));
        }
        let given = |cores: &Option<Cores>| cores.as_ref().map_or(&[][..], Cores::list).to_vec();
        let load = given(&self.load_cores);
        let free: Vec<usize> = usable
            .iter()
            .copied()
            .filter(|c| !load.contains(c))
            .collect();
        let least_load = usize::from(load.is_empty());
        let servers = self.server_cores.clone().or_else(|| {
            let fits = free.len() >= self.kevy_threads() + least_load;
            Cores::new(free.iter().copied().take(self.kevy_threads()).collect()).filter(|_| fits)
        });
        let taken = given(&servers);
        let left = free.into_iter().filter(|c| !taken.contains(c)).collect();
        let unpinned = servers.is_none() && load.is_empty();
        let loads = self
            .load_cores
            .clone()
            .or_else(|| Cores::new(left).filter(|_| !unpinned));
        Ok((servers, loads))
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// [`Error::Usage`] saying which.
    pub fn check(&self) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        if self.generator == Generator::RedisBenchmark {
            if self.count_at == CountAt::Client {
                return usage("redis-benchmark's replies are not counted: use --count-at server");
            }
            let foreign = |command: &Command| !matches!(command, Command::Set | Command::Get);
            if !self.hop.is_empty() || self.commands().iter().any(foreign) {
                return usage("redis-benchmark serves set and get without --hop only");
            }
            if self.p99_budget_us.is_some() {
                return usage("no latencies are known with redis-benchmark: no --p99-budget-us");
            }
        }
        if !self.hop.is_empty() {
            if !self.accept_shards.is_empty() {
                return usage("--hop implies --accept-shards 1: give only one of them");
            }
            if self.kevy_threads() < 2 {
                return usage("--hop needs --threads of at least 2");
            }
        }
        if !self.hop_floor.is_empty() && !self.hop.contains(&0) {
            return usage("--hop-floor compares with --hop 0: add it to the list");
        }
        Ok(())
    }
}

fn beside_perfgate() -> Result<PathBuf, Error> {
    let own = std::env::current_exe().doing(|| "find perfgate's own path".to_owned())?;
    Ok(own.with_file_name("kevy"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| Path::join(&directory, program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Options {
        let words = shlex::split(line).unwrap();
        Options::try_parse_from(std::iter::once("perfgate".to_owned()).chain(words)).unwrap()
    }

    fn refused(line: &str) -> bool {
        let words = shlex::split(line).unwrap();
        Options::try_parse_from(std::iter::once("perfgate".to_owned()).chain(words)).is_err()
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn defaults_and_quick() {
        let full = parsed("");
        assert_eq!((full.rounds(), full.pipelines()), (5, vec![1, 16, 64]));
        assert_eq!(full.commands(), [Command::Set, Command::Get]);
        assert_eq!(full.fsyncs(), [None]);
        assert_eq!(full.setup().unwrap().window.as_millis(), 1000);
        let quick = parsed("--quick");
        assert_eq!((quick.rounds(), quick.pipelines()), (3, vec![1, 16]));
        assert_eq!(quick.setup().unwrap().window.as_millis(), 400);
        let both = parsed("--quick --rounds 9 -P 2,4 --window-ms 7");
        assert_eq!((both.rounds(), both.pipelines()), (9, vec![2, 4]));
        assert_eq!(both.setup().unwrap().window.as_millis(), 7);
    }

    #[test]
    fn lists_and_servers_are_parsed() {
        let options = parsed(
            "--commands set,mixed:30 -c 1,50 -d 64,65536 --accept-shards auto,2,unset --hop 0,100 \
             --server 'a=x --port {port}' --server 'b=y {port}' --floor 1:1.0,16:1.5",
        );
        assert_eq!(options.commands, [Command::Set, Command::Mixed(30)]);
        assert_eq!(options.connections, [1, 50]);
        assert_eq!(
            options.accept_shards,
            [Accept::Auto, Accept::Shards(2), Accept::Unset]
        );
        assert_eq!(options.servers.len(), 2);
        assert_eq!(options.floor.len(), 2);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "--persistence --idle",
            "--persistence-keys 0",
            "--fsync no",
            "--threads 0",
            "-c 0",
            "-P 1,0",
            "--hop 101",
            "--commands del",
            "--server redis",
            "--tolerance 1.5",
            "--accept-shards 0",
            "--floor 1",
            "--idle --memory",
            "--kevy x --no-kevy",
            "--window-ms 0",
            "--wat",
        ] {
            assert!(refused(bad), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_usage_faults() {
        for bad in [
            "--generator redis-benchmark --commands ping",
            "--generator redis-benchmark --count-at client",
            "--generator redis-benchmark --p99-budget-us 5",
            "--hop 0 --accept-shards 2",
            "--hop 0 --threads 1",
            "--hop 50 --hop-floor 1:0.6",
        ] {
            assert_eq!(parsed(bad).check().unwrap_err().exit_code(), 2, "{bad}");
        }
        assert!(parsed("--hop 0,100 --hop-floor 1:0.6").check().is_ok());
        let missing = parsed("--kevy /nowhere/kevy").kevy_args();
        assert_eq!(missing.unwrap_err().exit_code(), 2);
        assert!(parsed("--no-kevy").kevy_args().unwrap().is_none());
    }

    #[test]
    fn cores_are_shared_out_with_one_left_to_load() {
        let shares = |line: &str, usable: &[usize]| {
            let (servers, loads) = parsed(line).cores(usable).unwrap();
            let text = |cores: Option<Cores>| cores.map_or("-".to_owned(), |c| c.to_string());
            format!("{} {}", text(servers), text(loads))
        };
        assert_eq!(shares("", &[0, 1]), "0 1");
        assert_eq!(shares("", &[3]), "- -");
        assert_eq!(shares("--threads 2", &[0, 1]), "- -");
        assert_eq!(shares("--threads 2", &[0, 1, 2, 3]), "0,1 2,3");
        assert_eq!(shares("--no-pin", &[0, 1, 2]), "- -");
        assert_eq!(shares("--server-cores 1 --load-cores 0", &[0, 1]), "1 0");
        assert_eq!(
            shares("--server-cores 0,1 --load-cores 0,1", &[0, 1]),
            "0,1 0,1"
        );
        assert_eq!(shares("--load-cores 0", &[0, 1, 2]), "1 0");
        assert!(parsed("--server-cores 9").cores(&[0, 1]).is_err());
    }
}
