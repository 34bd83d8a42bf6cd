//! One measurement: a fresh server, its data, a warm-up, and a window between two marks.
//!
//! Work is counted where it is done: the server's own `total_commands_processed` and its CPU time,
//! both over the window. The generator's count must agree with it, or the sample is at fault.

use std::net::SocketAddr;
use std::process::{Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::control::{Control, Value};
use crate::cores::Cores;
use crate::error::Error;
use crate::launch::{self, Running, Target};
use crate::load::{Load, Tally};
use crate::loader;
use crate::process::Process;
use crate::procfs;
use crate::reply::Reply;
use crate::workload::{Cell, Command, KeySpace, key};
use crate::{control, interrupt};

/// How far the server's count may be beyond the generator's bounds, as a part of it.
const COUNT_TOLERANCE: f64 = 0.01;
/// Requests of a `redis-benchmark` that is ended before it is through.
const ENDLESS: &str = "1000000000";

/// Who makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generator {
    /// perfgate's own: checks every reply and measures latencies
    Builtin,
    /// redis-benchmark, for comparison: throughput and CPU only
    RedisBenchmark,
}

/// Whose count of commands gives the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountAt {
    /// INFO's `total_commands_processed`
    Server,
    /// replies at the generator, for servers without that field
    Client,
}

/// What all measurements of a run share.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Cores of the servers; none: not pinned.
    pub server_cores: Option<Cores>,
    /// Cores of the generator, one thread each; none: one thread, not pinned.
    pub load_cores: Option<Cores>,
    /// Who makes the load.
    pub generator: Generator,
    /// Whose count is the throughput.
    pub count_at: CountAt,
    /// Size of the key space.
    pub keys: usize,
    /// From the first request to the window.
    pub warm_up: Duration,
    /// Length of the window.
    pub window: Duration,
}

/// What one window gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Commands per second.
    pub ops_per_s: f64,
    /// CPU time of the server per command, user and system, in microseconds.
    pub cpu_us_per_op: f64,
    /// Latencies in microseconds; none with `redis-benchmark`.
    pub latency: Option<Latency>,
    /// Resident memory of the server at the end of the window, in bytes.
    pub resident_bytes: u64,
    /// Share of its threads' time that the generator used; near 1 it is the limit itself.
    pub generator_load: f64,
    /// Wrong replies, warm-up included.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
}

impl Sample {
    /// CPU time of the server per time passed: 1 is one core in full use.
    pub fn server_load(&self) -> f64 {
        self.cpu_us_per_op * self.ops_per_s / 1e6
    }
}

/// Latencies of a window, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Measures one cell on a fresh instance of the target.
///
/// # Errors
/// When the server cannot be started, breaks a connection or cannot be asked; wrong replies are
/// faults in the sample instead.
pub fn measure(target: &Target, cell: &Cell, setup: &Setup, seed: u64) -> Result<Sample, Error> {
    let mut running = launch::start(target, setup.server_cores.as_ref())?;
    let outcome = measure_running(target, &running, cell, setup, seed);
    outcome.map_err(|error| match (&error, running.death()) {
        (Error::Interrupted, _) | (_, None) => error.of_server(&target.name),
        (_, Some(why)) => Error::Server {
            name: target.name.clone(),
            why: format!("{error}; {why}"),
        },
    })
}

fn measure_running(
    target: &Target,
    running: &Running,
    cell: &Cell,
    setup: &Setup,
    seed: u64,
) -> Result<Sample, Error> {
    let mut control = Control::connect(running.addr)?;
    let keys = key_space(target, cell, setup.keys, &mut control)?;
    if cell.command != Command::Ping {
        preload(running.addr, &keys, cell.value_bytes)?;
    }
    let work = Work::start(running, cell, setup, &keys, seed)?;
    interrupt::pause(setup.warm_up)?;
    work.begin_window();
    let begin = Mark::take(&mut control, running, &work, setup)?;
    interrupt::pause(setup.window)?;
    let end = Mark::take(&mut control, running, &work, setup)?;
    let resident_bytes = procfs::resident_bytes(running.pid())?;
    let threads = work.thread_count();
    let tally = work.finish()?;
    let span = Span::between(&begin, &end, threads);
    Ok(sample(&span, tally, resident_bytes, cell))
}

/// Keys parted by slot for a hopping cell of kevy, even otherwise.
fn key_space(
    target: &Target,
    cell: &Cell,
    keys: usize,
    control: &mut Control,
) -> Result<KeySpace, Error> {
    let (Some(percent), Some(_)) = (cell.hop_percent, target.kevy()) else {
        return Ok(KeySpace::even(keys, cell.value_bytes));
    };
    let slots = control.call(&["CLUSTER", "SLOTS"])?;
    let own = first_shard(&slots)
        .ok_or_else(|| Error::Reply(format!("CLUSTER SLOTS answered {slots:?}")))?;
    let is_own = |slot: u16| own.iter().any(|(from, to)| (*from..=*to).contains(&slot));
    KeySpace::parted(keys, cell.value_bytes, percent, is_own).map_err(Error::Reply)
}

/// The slot ranges of the node that owns slot 0. With one accepting shard that is shard 0, where all
/// connections to the main port live.
fn first_shard(slots: &Value) -> Option<Vec<(u16, u16)>> {
    let Value::Array(rows) = slots else {
        return None;
    };
    let rows: Vec<(u16, u16, i64)> = rows.iter().map(slot_row).collect::<Option<_>>()?;
    let port = rows.iter().find(|row| row.0 == 0)?.2;
    let own = rows.iter().filter(|row| row.2 == port);
    Some(own.map(|row| (row.0, row.1)).collect())
}

/// First slot, last slot and port of one row of CLUSTER SLOTS.
fn slot_row(row: &Value) -> Option<(u16, u16, i64)> {
    let Value::Array(columns) = row else {
        return None;
    };
    let [
        Value::Integer(from),
        Value::Integer(to),
        Value::Array(node),
        ..,
    ] = &columns[..]
    else {
        return None;
    };
    let Some(Value::Integer(port)) = node.get(1) else {
        return None;
    };
    Some((u16::try_from(*from).ok()?, u16::try_from(*to).ok()?, *port))
}

fn preload(addr: SocketAddr, keys: &KeySpace, value_bytes: usize) -> Result<(), Error> {
    let value = vec![b'x'; value_bytes];
    let write = |id, out: &mut Vec<u8>| {
        out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
        control::push_bulk(out, &key(id));
        control::push_bulk(out, &value);
    };
    loader::fill(addr, keys.ids(), write, |reply| {
        reply == Reply::Status(b"OK")
    })
}

/// A load at work.
enum Work {
    Builtin(Load),
    RedisBenchmark(Process),
}

impl Work {
    fn start(
        running: &Running,
        cell: &Cell,
        setup: &Setup,
        keys: &KeySpace,
        seed: u64,
    ) -> Result<Self, Error> {
        let cores = setup.load_cores.as_ref();
        match setup.generator {
            Generator::Builtin => {
                let tape = Arc::new(keys.tape(seed));
                Load::start(running.addr, cell, &tape, cores, seed).map(Self::Builtin)
            }
            Generator::RedisBenchmark => {
                let mut program = redis_benchmark(running.addr.port(), cell, keys.ids().count());
                Process::spawn(&mut program, cores).map(Self::RedisBenchmark)
            }
        }
    }

    fn begin_window(&self) {
        if let Self::Builtin(load) = self {
            load.begin_window();
        }
    }

    fn thread_count(&self) -> usize {
        match self {
            Self::Builtin(load) => load.thread_count(),
            Self::RedisBenchmark(_) => 1,
        }
    }

    /// Replies so far, where they are counted.
    fn replies(&self) -> Option<u64> {
        match self {
            Self::Builtin(load) => Some(load.replies()),
            Self::RedisBenchmark(_) => None,
        }
    }

    /// Whose CPU time the generator's is.
    fn pid(&self) -> u32 {
        match self {
            Self::Builtin(_) => std::process::id(),
            Self::RedisBenchmark(process) => process.pid(),
        }
    }

    fn finish(self) -> Result<Option<Tally>, Error> {
        match self {
            Self::Builtin(load) => load.finish().map(Some),
            Self::RedisBenchmark(mut process) => match process.ended() {
                Some(status) => Err(Error::Reply(format!("redis-benchmark ended: {status}"))),
                None => Ok(None),
            },
        }
    }
}

fn redis_benchmark(port: u16, cell: &Cell, keys: usize) -> Program {
    let mut program = Program::new("redis-benchmark");
    let numbers = [
        ("-p", usize::from(port)),
        ("-c", cell.connections),
        ("-P", cell.pipeline),
        ("-d", cell.value_bytes),
        ("-r", keys),
    ];
    for (flag, number) in numbers {
        program.arg(flag).arg(number.to_string());
    }
    program
        .args(["-h", "127.0.0.1", "-n", ENDLESS, "-q", "-t"])
        .arg(cell.command.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    program
}

/// One end of the window.
struct Mark {
    at: Instant,
    commands: u64,
    /// Replies at the generator before and after the server was asked.
    replies: Option<(u64, u64)>,
    server_cpu_s: f64,
    generator_cpu_s: f64,
}

impl Mark {
    fn take(
        control: &mut Control,
        running: &Running,
        work: &Work,
        setup: &Setup,
    ) -> Result<Self, Error> {
        let before = work.replies();
        let commands = match setup.count_at {
            CountAt::Server => control.commands_processed()?,
            CountAt::Client => before.unwrap_or_default(),
        };
        Ok(Self {
            at: Instant::now(),
            commands,
            replies: before.zip(work.replies()),
            server_cpu_s: procfs::cpu_seconds(running.pid())?,
            generator_cpu_s: procfs::cpu_seconds(work.pid())?,
        })
    }
}

/// What passed between two marks.
struct Span {
    seconds: f64,
    commands: f64,
    /// Least and most replies that the generator can have had meanwhile.
    replies: Option<(f64, f64)>,
    server_cpu_s: f64,
    generator_load: f64,
}

impl Span {
    fn between(begin: &Mark, end: &Mark, threads: usize) -> Self {
        let seconds = (end.at - begin.at).as_secs_f64();
        let generator_cpu_s = end.generator_cpu_s - begin.generator_cpu_s;
        Self {
            seconds,
            commands: end.commands.saturating_sub(begin.commands) as f64,
            replies: begin.replies.zip(end.replies).map(|(begin, end)| {
                let least = end.0.saturating_sub(begin.1);
                let most = end.1.saturating_sub(begin.0);
                (least as f64, most as f64)
            }),
            server_cpu_s: end.server_cpu_s - begin.server_cpu_s,
            generator_load: generator_cpu_s / (seconds * threads as f64),
        }
    }
}

fn sample(span: &Span, tally: Option<Tally>, resident_bytes: u64, cell: &Cell) -> Sample {
    let commands = span.commands;
    let latency = tally.as_ref().map(latency);
    let mut faults = tally.map(|tally| tally.faults).unwrap_or_default();
    if commands == 0.0 {
        faults.add(|| "no command was processed in the window".into());
    } else if let Some((least, most)) = span.replies
        && !counts_agree(commands, least, most, cell)
    {
        faults.add(|| {
            format!("the server counted {commands} commands, the client {least} to {most}")
        });
    }
    Sample {
        ops_per_s: commands / span.seconds,
        cpu_us_per_op: 1e6 * span.server_cpu_s / commands.max(1.0),
        latency,
        resident_bytes,
        generator_load: span.generator_load,
        faults: faults.count,
        first_fault: faults.first,
    }
}

/// Within the bounds, but for what may be in flight, or received and not yet added up, at either end.
fn counts_agree(server: f64, least: f64, most: f64, cell: &Cell) -> bool {
    let in_flight = 4.0 * (cell.connections * cell.pipeline) as f64;
    let slack = in_flight + COUNT_TOLERANCE * server;
    server >= least - slack && server <= most + slack
}

fn latency(tally: &Tally) -> Latency {
    let at = |quantile| tally.latency_ns.value_at_quantile(quantile) as f64 / 1000.0;
    Latency {
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: tally.latency_ns.max() as f64 / 1000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(from: i64, to: i64, port: i64) -> Value {
        let node = vec![Value::Text(b"127.0.0.1".into()), Value::Integer(port)];
        Value::Array(vec![
            Value::Integer(from),
            Value::Integer(to),
            Value::Array(node),
        ])
    }

    #[test]
    fn the_first_shard_is_the_one_with_slot_zero() {
        let slots = Value::Array(vec![row(8192, 16383, 2), row(0, 99, 1), row(200, 300, 1)]);
        assert_eq!(first_shard(&slots), Some(vec![(0, 99), (200, 300)]));
        assert_eq!(first_shard(&Value::Error("ERR no".into())), None);
        assert_eq!(first_shard(&Value::Array(vec![row(1, 2, 1)])), None);
        assert_eq!(first_shard(&Value::Array(vec![row(0, 99_999, 1)])), None);
    }

    const CELL: Cell = Cell {
        command: Command::Set,
        connections: 2,
        pipeline: 5,
        value_bytes: 64,
        hop_percent: None,
        fsync: None,
    };

    #[test]
    fn counts_may_differ_by_what_is_in_flight() {
        assert!(counts_agree(40.0, 0.0, 0.0, &CELL));
        assert!(counts_agree(1000.0, 900.0, 1100.0, &CELL));
        assert!(!counts_agree(1000.0, 500.0, 900.0, &CELL));
        assert!(!counts_agree(1000.0, 1100.0, 1200.0, &CELL));
    }

    #[test]
    fn a_sample_is_work_over_time() {
        let mut span = Span {
            seconds: 2.0,
            commands: 1000.0,
            replies: Some((990.0, 1010.0)),
            server_cpu_s: 0.5,
            generator_load: 0.25,
        };
        let mut tally = Tally::new().unwrap();
        tally.latency_ns.record_n(50_000, 1001).unwrap();
        let good = sample(&span, Some(tally.clone()), 7, &CELL);
        assert!((good.ops_per_s - 500.0).abs() < 1e-9);
        assert!((good.cpu_us_per_op - 500.0).abs() < 1e-9);
        assert!((good.latency.unwrap().p99_us - 50.0).abs() < 0.1);
        assert_eq!(good.faults, 0);
        span.replies = Some((0.0, 1.0));
        assert_eq!(sample(&span, Some(tally), 7, &CELL).faults, 1);
        span.commands = 0.0;
        assert_eq!(sample(&span, None, 7, &CELL).faults, 1);
    }
}
