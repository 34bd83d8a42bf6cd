//! Servers under test: started on a free loopback port, waited for, and always stopped by pid.
//!
//! A server lives as long as its [`Running`]; see [`crate::process`] for how it ends. It works in a scratch
//! directory, which outlives it when it is stopped to be started again on its data.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::control::{Control, Value};
use crate::cores::Cores;
use crate::error::{Doing, Error};
use crate::interrupt;
use crate::process::Process;
use crate::workload::Fsync;

/// How long a server may take to its first PONG, with all that it loads before.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a server may take to end cleanly, with all that it still writes.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);
/// Between two attempts to connect to a starting server.
const CONNECT_PAUSE: Duration = Duration::from_micros(500);
/// Another process may take the chosen port first: so often a start is tried.
const START_ATTEMPTS: usize = 3;
/// How often a run of free ports is looked for.
const PORT_ATTEMPTS: usize = 64;
/// How much of a dead server's log is shown, in bytes.
const LOG_TAIL_BYTES: usize = 2000;

/// kevy's configuration file when it logs, in the scratch directory; `appendfsync` has no flag.
const KEVY_CONFIG: &str = "perfgate.toml";
/// In a command that has it this stands for the policy; else [`LOGGING_WORDS`] follow the command.
const FSYNC_PLACE: &str = "{fsync}";
/// Makes redis-server log its writes, and load nothing but that log: no rewrite turns it into a snapshot.
const LOGGING_WORDS: [&str; 8] = [
    "--appendonly",
    "yes",
    "--aof-use-rdb-preamble",
    "no",
    "--auto-aof-rewrite-percentage",
    "0",
    "--appendfsync",
    FSYNC_PLACE,
];

/// How kevy is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KevyArgs {
    /// The binary.
    pub path: PathBuf,
    /// `--threads`
    pub threads: usize,
    /// `--accept-shards`, when set.
    pub accept_shards: Option<usize>,
    /// `--cluster`
    pub cluster: bool,
}

/// What a server is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// The server this gate guards.
    Kevy(KevyArgs),
    /// Words of a command; `{port}` stands for the port.
    Command(Vec<String>),
}

/// A server to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name in tables, plots and JSON.
    pub name: String,
    /// How it is started.
    pub launch: Launch,
    /// It logs its writes with this policy; none: as its command says, and kevy not at all.
    pub fsync: Option<Fsync>,
}

impl Target {
    /// A target from `NAME=COMMAND`, as given to `--server`.
    ///
    /// # Errors
    /// A text saying what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
        if name.is_empty() || name.contains(['/', ' ']) {
            return Err(format!("`{name}` is no name: no spaces, no `/`, not empty"));
        }
        let words = shlex::split(command).ok_or("unbalanced quotes")?;
        if !words.iter().any(|word| word.contains("{port}")) {
            return Err("the command must contain {port}".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            launch: Launch::Command(words),
            fsync: None,
        })
    }

    /// The same server, logging with this policy.
    #[must_use]
    pub fn logging(&self, fsync: Fsync) -> Self {
        Self {
            fsync: Some(fsync),
            ..self.clone()
        }
    }

    /// Kevy's settings, when this is kevy.
    pub fn kevy(&self) -> Option<&KevyArgs> {
        match &self.launch {
            Launch::Kevy(args) => Some(args),
            Launch::Command(_) => None,
        }
    }

    /// Consecutive ports it binds.
    fn port_count(&self) -> u16 {
        self.kevy()
            .filter(|args| args.cluster)
            .map_or(1, |args| 1 + args.threads as u16)
    }

    /// The words of its command line for this port.
    pub fn words(&self, port: u16) -> Vec<OsString> {
        match &self.launch {
            Launch::Command(words) => command_words(words, port, self.fsync),
            Launch::Kevy(args) => kevy_words(args, port, self.fsync),
        }
    }

    /// Puts into the directory what the command line refers to.
    fn prepare(&self, directory: &Path) -> Result<(), Error> {
        let (Launch::Kevy(_), Some(fsync)) = (&self.launch, self.fsync) else {
            return Ok(());
        };
        fs::write(Path::join(directory, KEVY_CONFIG), kevy_config(fsync))
            .doing(|| format!("write {KEVY_CONFIG}"))
    }

    fn failure(&self, why: impl Into<String>) -> Error {
        Error::Server {
            name: self.name.clone(),
            why: why.into(),
        }
    }
}

fn command_words(words: &[String], port: u16, fsync: Option<Fsync>) -> Vec<OsString> {
    let has_place = words.iter().any(|word| word.contains(FSYNC_PLACE));
    let more = LOGGING_WORDS
        .iter()
        .filter(|_| fsync.is_some() && !has_place);
    let policy = fsync.map_or_else(|| "no".to_owned(), |fsync| fsync.to_string());
    words
        .iter()
        .map(String::as_str)
        .chain(more.copied())
        .map(|word| word.replace("{port}", &port.to_string()))
        .map(|word| word.replace(FSYNC_PLACE, &policy).into())
        .collect()
}

/// As [`LOGGING_WORDS`] does it for redis-server.
fn kevy_config(fsync: Fsync) -> String {
    format!("[persistence]\nappendfsync = \"{fsync}\"\nauto_aof_rewrite_percentage = 0\n")
}

fn kevy_words(args: &KevyArgs, port: u16, fsync: Option<Fsync>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![args.path.clone().into()];
    words.extend(["--port".into(), port.to_string().into()]);
    words.extend(["--threads".into(), args.threads.to_string().into()]);
    if let Some(count) = args.accept_shards {
        words.extend(["--accept-shards".into(), count.to_string().into()]);
    }
    if args.cluster {
        words.push("--cluster".into());
    }
    match fsync {
        Some(_) => words.extend(["--config", KEVY_CONFIG, "--dir", "data"].map(OsString::from)),
        None => words.push("--no-aof".into()),
    }
    words
}

/// A server that answers. Dropping it stops the process.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// Scratch directory: the server's working directory and its log.
    scratch: Arc<TempDir>,
    /// Where it listens.
    pub addr: SocketAddr,
    /// From the start of the process to its first PONG.
    pub start_time: Duration,
}

impl Running {
    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Says whether the process has ended, with the tail of its log.
    pub fn death(&mut self) -> Option<String> {
        let status = self.process.ended()?;
        Some(format!(
            "ended ({status}); its log ends:\n{}",
            self.log_tail()
        ))
    }

    /// Asks the server to end and waits until it has; hands back its directory to start it there again.
    ///
    /// # Errors
    /// [`Error::Reply`] with the log's tail when it does not end in time, or not cleanly.
    pub fn stop(mut self) -> Result<Arc<TempDir>, Error> {
        match self.process.end(STOP_TIMEOUT) {
            Some(status) if status.success() => Ok(Arc::clone(&self.scratch)),
            Some(status) => Err(Error::Reply(format!(
                "ended with {status}; its log ends:\n{}",
                self.log_tail()
            ))),
            None => Err(Error::Reply(format!(
                "did not end in {STOP_TIMEOUT:?}; its log ends:\n{}",
                self.log_tail()
            ))),
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read(log_path(&self.scratch)).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }
}

/// Starts the target and waits for its first PONG; retries when a port was lost to another process.
///
/// # Errors
/// [`Error::Server`] with the log's tail when it ends or does not answer in time.
pub fn start(target: &Target, cores: Option<&Cores>) -> Result<Running, Error> {
    let scratch = tempfile::tempdir().doing(|| "make a scratch directory".to_owned())?;
    start_in(target, cores, &Arc::new(scratch))
}

/// As [`start`], in a directory where the server may have worked before.
///
/// # Errors
/// As [`start`].
pub fn start_in(
    target: &Target,
    cores: Option<&Cores>,
    scratch: &Arc<TempDir>,
) -> Result<Running, Error> {
    target.prepare(scratch.path())?;
    let mut attempt = 1;
    loop {
        match start_once(target, cores, scratch) {
            Err(Error::Server { .. }) if attempt < START_ATTEMPTS => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn start_once(
    target: &Target,
    cores: Option<&Cores>,
    scratch: &Arc<TempDir>,
) -> Result<Running, Error> {
    let port = free_ports(target.port_count())?;
    let mut command = command(&target.words(port), scratch)?;
    let begun = Instant::now();
    let mut running = Running {
        process: Process::spawn(&mut command, cores)?,
        scratch: Arc::clone(scratch),
        addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        start_time: Duration::ZERO,
    };
    let mut control = wait_for_pong(target, &mut running, begun)?;
    running.start_time = begun.elapsed();
    check_identity(target, &running, &mut control)?;
    Ok(running)
}

/// Everything but the program's own path runs in the scratch directory, so that nothing is left behind.
fn command(words: &[OsString], scratch: &TempDir) -> Result<Command, Error> {
    let log = File::create(log_path(scratch)).doing(|| "create a log".to_owned())?;
    let also = log.try_clone().doing(|| "share a log".to_owned())?;
    let mut program = PathBuf::from(&words[0]);
    if program.components().count() > 1 {
        program = fs::canonicalize(&program).doing(|| program.display().to_string())?;
    }
    let mut command = Command::new(program);
    command
        .args(&words[1..])
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also);
    Ok(command)
}

fn log_path(scratch: &TempDir) -> PathBuf {
    Path::join(scratch.path(), "server.log")
}

fn wait_for_pong(target: &Target, running: &mut Running, begun: Instant) -> Result<Control, Error> {
    let mut asked = None;
    loop {
        interrupt::check()?;
        // A server that is loading says so: the connection is kept, for each new one would cost it time.
        if let Some(mut control) = asked.take().or_else(|| Control::connect(running.addr).ok()) {
            match control.call(&["PING"]) {
                Ok(Value::Text(text)) if text == b"PONG" => return Ok(control),
                Ok(Value::Error(_)) => asked = Some(control),
                Err(_) => {}
                Ok(other) => return Err(target.failure(format!("answered PING with {other:?}"))),
            }
        }
        if let Some(death) = running.death() {
            return Err(target.failure(death));
        }
        if begun.elapsed() > START_TIMEOUT {
            let log = running.log_tail();
            return Err(target.failure(format!(
                "no PONG in {START_TIMEOUT:?}; its log ends:\n{log}"
            )));
        }
        std::thread::sleep(CONNECT_PAUSE);
    }
}

/// The one who answers must be the process we started: else CPU and memory would be someone else's.
fn check_identity(target: &Target, running: &Running, control: &mut Control) -> Result<(), Error> {
    match control.info("server")?.get("process_id") {
        Some(pid) if *pid != running.pid().to_string() => Err(target.failure(format!(
            "process {pid} answers on {}, not {}: the command must exec the server itself",
            running.addr,
            running.pid()
        ))),
        _ => Ok(()),
    }
}

/// The first of `count` consecutive ports that nobody listens on now.
fn free_ports(count: u16) -> Result<u16, Error> {
    for _ in 0..PORT_ATTEMPTS {
        let first = bind(0)?;
        let port = first
            .local_addr()
            .doing(|| "read a port".to_owned())?
            .port();
        let Some(last) = port.checked_add(count - 1) else {
            continue;
        };
        if (port..=last).skip(1).all(|next| bind(next).is_ok()) {
            return Ok(port);
        }
    }
    Err(Error::Usage(format!("no {count} consecutive free ports")))
}

fn bind(port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).doing(|| format!("bind port {port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_name_and_a_command_with_a_port() {
        let target = Target::parse("redis=redis-server --port {port} --save ''").unwrap();
        assert_eq!(target.name, "redis");
        assert_eq!(
            target.words(7),
            ["redis-server", "--port", "7", "--save", ""]
        );
        for bad in ["redis", "=x {port}", "a/b=x {port}", "a=x", "a=x '{port}"] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kevy_gets_its_flags() {
        let mut args = KevyArgs {
            path: "/k".into(),
            threads: 4,
            accept_shards: None,
            cluster: false,
        };
        assert_eq!(
            kevy_words(&args, 9, None),
            ["/k", "--port", "9", "--threads", "4", "--no-aof"]
        );
        args.accept_shards = Some(2);
        args.cluster = true;
        let words = kevy_words(&args, 9, None);
        assert_eq!(
            words[5..],
            ["--accept-shards", "2", "--cluster", "--no-aof"]
        );
        let target = Target {
            name: "kevy".into(),
            launch: Launch::Kevy(args),
            fsync: None,
        };
        assert_eq!(target.port_count(), 5);
    }

    #[test]
    fn logging_is_a_file_for_kevy_and_words_for_others() {
        let args = KevyArgs {
            path: "/k".into(),
            threads: 1,
            accept_shards: None,
            cluster: false,
        };
        let words = kevy_words(&args, 9, Some(Fsync::Always));
        assert_eq!(words[5..], ["--config", KEVY_CONFIG, "--dir", "data"]);
        assert!(kevy_config(Fsync::Everysec).contains("appendfsync = \"everysec\"\n"));

        let redis = Target::parse("redis=redis-server --port {port}").unwrap();
        assert_eq!(redis.words(7).len(), 3);
        let logging = redis.logging(Fsync::Always).words(7);
        assert_eq!(logging[3..5], ["--appendonly", "yes"]);
        assert_eq!(logging[9..], ["--appendfsync", "always"]);
        let other = Target::parse("other=x {port} --sync={fsync}").unwrap();
        let logging = other.logging(Fsync::Everysec).words(7);
        assert_eq!(logging, ["x", "7", "--sync=everysec"]);
    }

    #[test]
    fn a_stopped_server_leaves_its_directory() {
        let redis = Target::parse("redis=redis-server --port {port} --save ''").unwrap();
        let running = start(&redis, None).unwrap();
        let pid = running.pid();
        let directory = running.stop().unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(log_path(&directory).is_file());
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_log() {
        let target = Target::parse("sad=ls /nowhere/{port}").unwrap();
        let Err(Error::Server { name, why }) = start(&target, None) else {
            panic!("ls is no server");
        };
        assert_eq!(name, "sad");
        assert!(why.contains("/nowhere/"), "{why}");
    }

    #[test]
    fn runs_of_ports_are_free() {
        let first = free_ports(3).unwrap();
        for port in first..first + 3 {
            assert!(bind(port).is_ok());
        }
    }
}
