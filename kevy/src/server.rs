//! A running server: one glommio executor with one shard per core, from the first check to the last exit code.

use crate::glommio_host::clock::HostClock;
use crate::glommio_host::entropy::HostEntropy;
use crate::glommio_host::mesh::{Doorbell, mesh};
use crate::glommio_host::network::{ConnectionCount, DOORBELL};
use crate::glommio_host::{GlommioHost, HostParts, probe};
use crate::startup::cores::Plan;
use crate::startup::ports::{self, ListenersByShard};
use crate::startup::service_manager::{State, notify};
use crate::startup::std_disk::StdDisk;
use crate::startup::{StartError, config_file, data_directory, logging, signals, usage};
use futures_lite::future::block_on;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder};
use kevy_node::drive::drive;
use kevy_node::host::{Clock, Entropy};
use kevy_node::log::{JournalConfig, Opener, open_directory};
use kevy_node::message::Message;
use kevy_node::settings::Settings;
use kevy_node::shard::{Process, Shard, ShardConfig};
use kevy_proto::ids::ShardId;
use mio::{Poll, Waker};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Small objects by the million: the system's allocator needs more memory and more time for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Memory that each executor locks for direct I/O, which kevy does not use: glommio's least.
const IO_MEMORY_BYTES: usize = 64 * 1024;

/// Runs the server until it is told to stop. Exit code 0 after a clean shutdown, 1 if it did not start or had to stop.
///
/// `config_file` is the file that `CONFIG REWRITE` replaces.
pub(crate) fn run(settings: Settings, config_file: Option<PathBuf>) -> ExitCode {
    logging::start(settings.server.loglevel, settings.server.logformat);
    abort_on_panic();
    match serve(settings, &describe_process(config_file)) {
        Ok(()) => {
            tracing::info!("kevy is now ready to exit, bye bye...");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A shard whose thread died would leave its keys unanswered for ever: the process stops instead.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

fn serve(mut settings: Settings, process: &Process) -> Result<(), StartError> {
    probe::check_uring()?;
    limit_clients(&mut settings)?;
    let _lock = if settings.persistence.aof {
        Some(data_directory::lock(Path::new(&settings.server.dir))?)
    } else {
        // Nothing is written, so servers without a log may share a directory.
        None
    };
    let listeners = ports::bind(&settings)?;
    warn_if_open(&settings);
    let journals = open_data(&settings)?;
    let settings = Arc::new(settings);
    let result = run_shards(&settings, process, listeners, journals);
    ports::remove_unix_socket(&settings);
    result
}

/// Makes the data directory ready: for each shard its files; none without a log.
fn open_data(settings: &Settings) -> Result<Vec<JournalConfig>, StartError> {
    if !settings.persistence.aof {
        return Ok(Vec::new());
    }
    let directory = Path::new(&settings.server.dir);
    let opener = Opener {
        shards: settings.server.threads,
        run: HostEntropy.next_u64(),
        seed: HostEntropy.next_u64(),
        now: HostClock::start().now(),
    };
    let mut disk = StdDisk::new(directory);
    let journals = block_on(open_directory(&mut disk, &opener));
    journals.map_err(|fault| StartError::Data {
        directory: directory.to_owned(),
        error: fault.to_string(),
    })
}

/// Lowers `maxclients` to what the limit on open files allows.
fn limit_clients(settings: &mut Settings) -> Result<(), StartError> {
    let wanted = settings.server.maxclients;
    let fitting = probe::fit_clients(wanted, settings.server.threads)?;
    if fitting < wanted {
        tracing::warn!(
            "maxclients {wanted} needs more open files than the limit allows: lowered to {fitting}. \
             To have more, raise RLIMIT_NOFILE (`ulimit -n`)"
        );
        settings.server.maxclients = fitting;
    }
    Ok(())
}

fn warn_if_open(settings: &Settings) {
    if settings.reachable_from_outside() {
        tracing::warn!(
            "Listening on an address that other machines can reach. kevy has no AUTH and no TLS by design: \
             let a firewall or a proxy decide who gets here"
        );
    }
}

/// Starts every shard, and waits until the last has ended.
fn run_shards(
    settings: &Arc<Settings>,
    process: &Process,
    listeners: ListenersByShard,
    journals: Vec<JournalConfig>,
) -> Result<(), StartError> {
    let addresses = addresses(&listeners);
    let plan = Plan::new(settings.server.threads, settings.server.port);
    if !plan.is_pinned() {
        tracing::info!("More shards than usable cores: shards are not pinned");
    }
    let (polls, doorbells) =
        doorbells(settings.server.threads).map_err(StartError::while_doing("create pollers"))?;
    signals::listen(Arc::clone(&doorbells))
        .map_err(StartError::while_doing("listen for signals"))?;
    let mut seats = seats(settings, process, &plan, polls, listeners, &doorbells);
    for (seat, journal) in seats.iter_mut().zip(journals) {
        seat.parts.directory = Some(PathBuf::from(&settings.server.dir));
        seat.config.journal = Some(journal);
    }
    let (ready, all_ready) = channel();
    let mut running = Vec::with_capacity(seats.len());
    let mut result = Ok(());
    for seat in seats {
        match seat.start(&plan, ready.clone()) {
            Ok(executor) => running.push(executor),
            Err(error) => result = result.and(Err(error)),
        }
    }
    drop(ready);
    if result.is_ok() && all_are_ready(&all_ready, running.len()) {
        tracing::info!("Ready to accept connections on {addresses}");
        notify(State::Ready);
    } else {
        signals::stop_all(&doorbells);
    }
    running
        .into_iter()
        .zip(0..)
        .fold(result, |result, (executor, shard)| {
            result.and(end(executor, shard))
        })
}

/// Waits until every shard accepts, or one has failed to.
fn all_are_ready(ready: &Receiver<()>, shards: usize) -> bool {
    ready.iter().take(shards).count() == shards
}

fn end(executor: ExecutorJoinHandle<io::Result<()>>, shard: u16) -> Result<(), StartError> {
    let fault = |error| StartError::Executor { shard, error };
    match executor.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(fault(error.to_string())),
        Err(error) => Err(fault(error.to_string())),
    }
}

/// Every address once, in order of the shards.
fn addresses(listeners: &ListenersByShard) -> String {
    let mut shown: Vec<String> = Vec::new();
    for listener in listeners.iter().flatten() {
        let address = listener.address().to_string();
        if !shown.contains(&address) {
            shown.push(address);
        }
    }
    shown.join(", ")
}

/// A poller for each shard, and the doorbell that wakes it.
fn doorbells(shards: u16) -> io::Result<(Vec<Poll>, Arc<[Doorbell]>)> {
    let polls = (0..shards)
        .map(|_| Poll::new())
        .collect::<io::Result<Vec<_>>>()?;
    let doorbells = polls
        .iter()
        .map(|poll| Ok(Doorbell::new(Waker::new(poll.registry(), DOORBELL)?)))
        .collect::<io::Result<Vec<_>>>()?;
    Ok((polls, doorbells.into()))
}

/// What a shard takes along to its executor.
struct Seat {
    parts: HostParts,
    config: ShardConfig,
    doorbells: Arc<[Doorbell]>,
}

fn seats(
    settings: &Arc<Settings>,
    process: &Process,
    plan: &Plan,
    polls: Vec<Poll>,
    listeners: ListenersByShard,
    doorbells: &Arc<[Doorbell]>,
) -> Vec<Seat> {
    let clock = HostClock::start();
    let count = ConnectionCount::default();
    let ports = mesh::<Message>(doorbells);
    let mut seats = Vec::with_capacity(ports.len());
    for (((id, mesh), poll), listeners) in (0..).zip(ports).zip(polls).zip(listeners) {
        seats.push(Seat {
            parts: HostParts {
                poll,
                listeners,
                count: count.clone(),
                mesh,
                clock,
                may_spin: plan.may_spin(),
                directory: None,
            },
            config: ShardConfig {
                id: ShardId(id),
                settings: Arc::clone(settings),
                seed: HostEntropy.next_u64(),
                process: process.clone(),
                now: clock.now(),
                journal: None,
            },
            doorbells: Arc::clone(doorbells),
        });
    }
    seats
}

impl Seat {
    /// Starts the shard's executor. The shard says `ready` once it serves.
    fn start(
        self,
        plan: &Plan,
        ready: Sender<()>,
    ) -> Result<ExecutorJoinHandle<io::Result<()>>, StartError> {
        let id = self.config.id;
        LocalExecutorBuilder::new(plan.placement(id.index()))
            .name(&format!("shard-{id}"))
            .io_memory(IO_MEMORY_BYTES)
            .spawn(move || self.run(ready))
            .map_err(|error| StartError::Executor {
                shard: id.0,
                error: error.to_string(),
            })
    }

    /// The shard's whole life. When it ends, for whatever reason, the others end too.
    async fn run(self, ready: Sender<()>) -> io::Result<()> {
        let shard = Shard::new(self.config);
        let result = match GlommioHost::new(self.parts) {
            Ok(host) => {
                let say_ready = move || {
                    // The receiver is gone only if another shard could not start.
                    let _ = ready.send(());
                };
                drive(shard, host, say_ready).await
            }
            Err(error) => Err(error),
        };
        signals::stop_all(&self.doorbells);
        result
    }
}

/// For `INFO server`.
fn describe_process(file: Option<PathBuf>) -> Process {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Process {
        id: std::process::id(),
        run_id: run_id(),
        os: format!("Linux {} {}", release.trim(), std::env::consts::ARCH),
        multiplexing_api: "epoll".into(),
        executable: std::env::current_exe()
            .map_or_else(|_| String::new(), |path| path.display().to_string()),
        config_file: file.map_or_else(String::new, |path| path.display().to_string()),
        fine_clock: Some(HostClock::read_now),
        sleep: Some(std::thread::sleep),
        usage: Some(usage::usage),
        startup_bytes: usage::usage().resident_bytes,
        rewrite_config: Some(config_file::rewrite),
        set_log_level: Some(logging::set_level),
    }
}

/// 40 random hex digits.
fn run_id() -> String {
    let mut digits = String::with_capacity(48);
    for _ in 0..3 {
        // Writing to a string does not fail.
        let _ = write!(digits, "{:016x}", HostEntropy.next_u64());
    }
    digits.truncate(40);
    digits
}
