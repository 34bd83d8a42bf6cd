//! What the hop between shards costs: GETs through the main port, and straight to the shards that own the keys.
//!
//! ```sh
//! cargo run -p kevy-client --release --example cluster_bench -- --server-threads 2
//! ```
//!
//! Without `--port` it starts a kevy of the same build itself, and stops it at the end. Client and server share the
//! machine: on few cores most of what is measured is the scheduler, and the difference drowns in it.

use std::error::Error;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use hdrhistogram::Histogram;
use kevy_client::{Client, ClusterClient, KevyError, KevyResult};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Measures GETs with and without the hop between shards.
#[derive(Parser, Clone)]
struct Arguments {
    /// Host of a running kevy in cluster mode.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Main port of a running kevy in cluster mode; without it, one is started.
    #[arg(long)]
    port: Option<u16>,
    /// Shards of the kevy that is started.
    #[arg(long, default_value_t = 2)]
    server_threads: u16,
    /// Connections to the main port, and clients with a connection to each shard; one thread each.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Seconds to measure for in each row.
    #[arg(long, default_value_t = 5.0)]
    duration: f64,
    /// Parts that this time is cut into; the rows take turns, so that both suffer the same noise.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Keys to read from.
    #[arg(long, default_value_t = 10_000)]
    keys: usize,
    /// Length of a value in bytes.
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    let server = match arguments.port {
        Some(_) => None,
        None => Some(Server::start(arguments.server_threads)?),
    };
    let port = arguments.port.or(server.as_ref().map(|server| server.port));
    let bench = Bench {
        port: port.unwrap_or_default(),
        arguments,
    };
    let shards = bench.fill()?;
    let (mut hop, mut straight) = (Row::new()?, Row::new()?);
    for _ in 0..bench.arguments.rounds {
        hop.add(&bench.round(|| bench.through_the_main_port())?)?;
        straight.add(&bench.round(|| bench.straight_to_the_shards())?)?;
    }
    println!(
        "GET, {} shards, concurrency {}, {} s a row in {} turns",
        shards, bench.arguments.concurrency, bench.arguments.duration, bench.arguments.rounds
    );
    println!(
        "{:<22}{:>12}{:>12}{:>12}{:>12}",
        "", "ops/s", "p50 us", "p99 us", "p99.9 us"
    );
    hop.print("main port (hop)");
    straight.print("shard ports (no hop)");
    println!(
        "ratio: {:.2} x the throughput, {:.2} x the p99",
        straight.rate() / hop.rate(),
        straight.micros(0.99) / hop.micros(0.99)
    );
    Ok(())
}

struct Bench {
    port: u16,
    arguments: Arguments,
}

/// Something that gets a key.
type Get = Box<dyn FnMut(&[u8]) -> KevyResult<Option<Vec<u8>>> + Send>;

impl Bench {
    /// Writes every key; gives the number of shards.
    fn fill(&self) -> Outcome<usize> {
        let mut client = ClusterClient::connect(&self.arguments.host, self.port)?;
        let value = "v".repeat(self.arguments.value_bytes);
        client.pipeline(|p| {
            for n in 0..self.arguments.keys {
                p.cmd(&["SET", &key(n), &value]);
            }
        })?;
        Ok(client.shard_count())
    }

    fn through_the_main_port(&self) -> KevyResult<Get> {
        let mut client = Client::connect(&self.arguments.host, self.port)?;
        Ok(Box::new(move |key| client.get(key)))
    }

    fn straight_to_the_shards(&self) -> KevyResult<Get> {
        let mut client = ClusterClient::connect(&self.arguments.host, self.port)?;
        Ok(Box::new(move |key| client.get(key)))
    }

    /// One turn of a row: every client in a thread of its own, all at once.
    fn round(
        &self,
        connect: impl Fn() -> KevyResult<Get>,
    ) -> Outcome<Vec<(Duration, Histogram<u64>)>> {
        let count = self.arguments.concurrency;
        let clients = (0..count)
            .map(|_| connect())
            .collect::<KevyResult<Vec<_>>>()?;
        let start = Barrier::new(count);
        let length = Duration::from_secs_f64(self.arguments.duration)
            .div_f64(f64::from(self.arguments.rounds));
        thread::scope(|scope| {
            let threads: Vec<_> = (1..)
                .zip(clients)
                .map(|(seed, get)| {
                    let start = &start;
                    scope.spawn(move || self.drive(get, seed, length, start))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err("a thread panicked".into()))
                })
                .collect()
        })
    }

    fn drive(
        &self,
        mut get: Get,
        seed: u64,
        length: Duration,
        start: &Barrier,
    ) -> Outcome<(Duration, Histogram<u64>)> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut latencies = Histogram::new(3)?;
        start.wait();
        let begun = Instant::now();
        let mut now = begun;
        while now - begun < length {
            let value = get(key(rng.usize(..self.arguments.keys)).as_bytes())?;
            value.ok_or(KevyError::NotFound)?;
            let then = std::mem::replace(&mut now, Instant::now());
            latencies.record((now - then).as_nanos() as u64)?;
        }
        Ok((now - begun, latencies))
    }
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// What was measured for one way of asking.
struct Row {
    latencies: Histogram<u64>,
    elapsed: Duration,
}

impl Row {
    fn new() -> Outcome<Self> {
        Ok(Self {
            latencies: Histogram::new(3)?,
            elapsed: Duration::ZERO,
        })
    }

    fn add(&mut self, round: &[(Duration, Histogram<u64>)]) -> Outcome<()> {
        for (_, latencies) in round {
            self.latencies.add(latencies)?;
        }
        let longest = round.iter().map(|(elapsed, _)| *elapsed).max();
        self.elapsed += longest.unwrap_or_default();
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn micros(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1000.0
    }

    fn print(&self, name: &str) {
        println!(
            "{name:<22}{:>12.0}{:>12.1}{:>12.1}{:>12.1}",
            self.rate(),
            self.micros(0.5),
            self.micros(0.99),
            self.micros(0.999)
        );
    }
}

/// A kevy that lives as long as this value.
struct Server {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Server {
    /// Starts one, on other ports if somebody was quicker to take the first ones.
    fn start(threads: u16) -> Outcome<Self> {
        let binary = binary()?;
        for _ in 0..5 {
            let port = free_ports(1 + threads)?;
            let directory = tempfile::tempdir()?;
            let log = fs::File::create(directory.path().join("log"))?;
            let process = Command::new(&binary)
                .args(["--bind", "127.0.0.1", "--cluster", "--no-aof"])
                .args([
                    "--port",
                    &port.to_string(),
                    "--threads",
                    &threads.to_string(),
                ])
                .arg("--dir")
                .arg(directory.path())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()?;
            let mut server = Self {
                process,
                port,
                directory,
            };
            if server.answers()? {
                return Ok(server);
            }
            eprintln!(
                "{}",
                fs::read_to_string(server.directory.path().join("log"))?
            );
        }
        Err("kevy does not start".into())
    }

    /// Waits until it answers or ends.
    fn answers(&mut self) -> Outcome<bool> {
        while self.process.try_wait()?.is_none() {
            let connected = ClusterClient::connect("127.0.0.1", self.port);
            if connected.and_then(|mut client| client.ping()).is_ok() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _: std::io::Result<()> = self.process.kill();
        let _: std::io::Result<_> = self.process.wait();
    }
}

/// The `kevy` beside this example; cargo builds it if it is not there.
fn binary() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let profile = own
        .ancestors()
        .nth(2)
        .ok_or("this example lies in no target directory")?;
    let binary = profile.join("kevy");
    if !binary.is_file() {
        build(profile)?;
    }
    Ok(binary)
}

fn build(profile: &Path) -> Outcome<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "-p", "kevy", "--profile"]);
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => cargo.arg("dev"),
        Some(name) => cargo.arg(name),
    };
    if let Some(target) = profile.parent() {
        cargo.arg("--target-dir").arg(target);
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    if built.success() {
        Ok(())
    } else {
        Err("kevy cannot be built".into())
    }
}

/// The first of `count` ports in a row that were free a moment ago.
fn free_ports(count: u16) -> Outcome<u16> {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let rest = (0..count).map(|index| first.checked_add(index));
        if rest.into_iter().all(|port| port.is_some_and(is_free)) {
            return Ok(first);
        }
    }
    Err("no free ports in a row".into())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
