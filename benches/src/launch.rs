//! Servers under test: started on a free loopback port, waited for, and always stopped by pid.
//!
//! A server lives as long as its [`Running`]; see [`crate::process`] for how it ends.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::control::{Control, Value};
use crate::cores::Cores;
use crate::error::{Doing, Error};
use crate::interrupt;
use crate::process::Process;

/// How long a server may take to its first PONG.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two attempts to connect to a starting server.
const CONNECT_PAUSE: Duration = Duration::from_micros(500);
/// Another process may take the chosen port first: so often a start is tried.
const START_ATTEMPTS: usize = 3;
/// How often a run of free ports is looked for.
const PORT_ATTEMPTS: usize = 64;
/// How much of a dead server's log is shown, in bytes.
const LOG_TAIL_BYTES: usize = 2000;

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
        })
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
            Launch::Command(words) => words
                .iter()
                .map(|word| word.replace("{port}", &port.to_string()).into())
                .collect(),
            Launch::Kevy(args) => kevy_words(args, port),
        }
    }

    fn failure(&self, why: impl Into<String>) -> Error {
        Error::Server {
            name: self.name.clone(),
            why: why.into(),
        }
    }
}

fn kevy_words(args: &KevyArgs, port: u16) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![args.path.clone().into()];
    words.extend(["--port".into(), port.to_string().into()]);
    words.extend(["--threads".into(), args.threads.to_string().into()]);
    if let Some(count) = args.accept_shards {
        words.extend(["--accept-shards".into(), count.to_string().into()]);
    }
    if args.cluster {
        words.push("--cluster".into());
    }
    words.push("--no-aof".into());
    words
}

/// A server that answers. Dropping it stops the process.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// Scratch directory: the server's working directory and its log.
    scratch: TempDir,
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
    let mut attempt = 1;
    loop {
        match start_once(target, cores) {
            Err(Error::Server { .. }) if attempt < START_ATTEMPTS => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn start_once(target: &Target, cores: Option<&Cores>) -> Result<Running, Error> {
    let port = free_ports(target.port_count())?;
    let scratch = tempfile::tempdir().doing(|| "make a scratch directory".to_owned())?;
    let mut command = command(&target.words(port), &scratch)?;
    let begun = Instant::now();
    let mut running = Running {
        process: Process::spawn(&mut command, cores)?,
        scratch,
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
    loop {
        interrupt::check()?;
        if let Ok(mut control) = Control::connect(running.addr) {
            match control.call(&["PING"]) {
                Ok(Value::Text(text)) if text == b"PONG" => return Ok(control),
                Ok(Value::Error(_)) | Err(_) => {}
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
            kevy_words(&args, 9),
            ["/k", "--port", "9", "--threads", "4", "--no-aof"]
        );
        args.accept_shards = Some(2);
        args.cluster = true;
        let words = kevy_words(&args, 9);
        assert_eq!(
            words[5..],
            ["--accept-shards", "2", "--cluster", "--no-aof"]
        );
        let target = Target {
            name: "kevy".into(),
            launch: Launch::Kevy(args),
        };
        assert_eq!(target.port_count(), 5);
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
