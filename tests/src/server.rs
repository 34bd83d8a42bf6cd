//! Servers under test: kevy, and the Redis that says what is right.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use crate::binary;
use crate::connection::Connection;
use crate::ports::{self, PortRange};
use crate::process::{self, Process, Signal};
use crate::reply::Reply;

const START_TRIES: usize = 5;

/// Whether Redis stands in for kevy (`KEVY_TEST_SERVER=redis`), to try tests on the server they imitate.
pub fn redis_stands_in() -> bool {
    std::env::var_os("KEVY_TEST_SERVER").is_some_and(|server| server == "redis")
}

/// How to start a kevy. Without more words: one shard, no log, an empty directory of its own.
#[derive(Debug, Clone)]
pub struct Spec {
    threads: u16,
    is_durable: bool,
    arguments: Vec<OsString>,
}

impl Spec {
    /// A server of `threads` shards.
    pub fn threads(threads: u16) -> Self {
        Self {
            threads,
            is_durable: false,
            arguments: Vec::new(),
        }
    }

    /// Lets only the first `count` shards accept connections.
    #[must_use]
    pub fn accept_shards(self, count: u16) -> Self {
        self.arg("--accept-shards").arg(count.to_string())
    }

    /// Lets it keep a log.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Gives every shard a port of its own.
    #[must_use]
    pub fn cluster(self) -> Self {
        self.arg("--cluster")
    }

    /// Adds a word to the command line.
    #[must_use]
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.arguments.push(word.into());
        self
    }

    /// Starts the server in an empty directory and waits until it answers PING.
    pub fn start(self) -> Server {
        self.start_in(TempDir::new().expect("a temporary directory"))
    }

    /// Starts the server in `directory` and waits until it answers PING.
    ///
    /// # Panics
    /// When it does not answer; its log is in the message.
    pub fn start_in(self, directory: TempDir) -> Server {
        for _ in 0..START_TRIES {
            let ports = ports::free_ports(1 + self.threads);
            let mut process = self.spawn(&ports, directory.path());
            match wait_for_pong(&mut process, ports.first()) {
                Ok(()) => {
                    return Server {
                        process,
                        ports,
                        directory,
                        spec: self,
                    };
                }
                // Somebody outside these tests was quicker to take the port: try another.
                Err(words) if words.to_lowercase().contains("in use") => {}
                Err(words) => panic!("the server did not start: {words}"),
            }
        }
        panic!("every port that was free a moment ago is taken")
    }

    /// Starts the server in `directory` and kills it after a while, wherever it is then.
    pub fn start_and_kill(self, directory: TempDir, after: Duration) -> TempDir {
        let ports = ports::free_ports(1 + self.threads);
        let mut process = self.spawn(&ports, directory.path());
        std::thread::sleep(after);
        process.signal(Signal::KILL);
        process.wait();
        directory
    }

    /// Starts a server in `directory` that is to end by itself, because it cannot start, and waits for its end.
    pub fn end_in(&self, directory: &Path) -> Ended {
        let mut process = self.spawn(&ports::free_ports(1 + self.threads), directory);
        Ended::of(&mut process)
    }

    fn spawn(&self, ports: &PortRange, directory: &Path) -> Process {
        let command = if redis_stands_in() {
            redis_command(ports.first(), directory)
        } else {
            self.kevy_command(ports.first(), directory)
        };
        Process::spawn("server", command, directory)
    }

    fn kevy_command(&self, port: u16, directory: &Path) -> Command {
        let mut command = bare_kevy();
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--threads", &self.threads.to_string()])
            .args((!self.is_durable).then_some("--no-aof"))
            .arg("--dir")
            .arg(directory)
            .args(&self.arguments)
            .current_dir(directory);
        command
    }
}

/// A running kevy.
#[derive(Debug)]
pub struct Server {
    process: Process,
    ports: PortRange,
    directory: TempDir,
    spec: Spec,
}

impl Server {
    /// The main port.
    pub fn port(&self) -> u16 {
        self.ports.first()
    }

    /// The port of shard `index` in cluster mode.
    pub fn shard_port(&self, index: u16) -> u16 {
        self.ports.at(1 + index)
    }

    /// The main port, and in cluster mode those of the shards after it.
    pub fn every_port(&self) -> Vec<u16> {
        let cluster = self.spec.arguments.iter().any(|word| word == "--cluster");
        let shards = if cluster { self.spec.threads } else { 0 };
        (0..=shards).map(|index| self.ports.at(index)).collect()
    }

    /// A new connection to the main port.
    pub fn connect(&self) -> Connection {
        connect(self.port())
    }

    /// A new connection to the port of shard `index`.
    pub fn connect_shard(&self, index: u16) -> Connection {
        connect(self.shard_port(index))
    }

    /// The directory that holds the server's data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Waits for the end of a server that was told to stop.
    pub fn ended(mut self) -> (ExitStatus, TempDir) {
        (self.process.wait(), self.directory)
    }

    /// Sends `signal` and waits for the end of the server.
    pub fn stop(mut self, signal: Signal) -> (ExitStatus, TempDir) {
        self.process.signal(signal);
        (self.process.wait(), self.directory)
    }
}

/// Debian's redis-server: the oracle.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    ports: PortRange,
    directory: TempDir,
}

impl Redis {
    /// Starts an empty one with a single database and no persistence.
    pub fn start() -> Self {
        Self::start_in(TempDir::new().expect("a temporary directory"), &[])
    }

    /// Starts one on the files in `directory`; `arguments` are added to its command line.
    pub fn start_in(directory: TempDir, arguments: &[&str]) -> Self {
        let ports = ports::free_ports(1);
        let mut command = redis_command(ports.first(), directory.path());
        command.args(arguments);
        let mut process = Process::spawn("redis", command, directory.path());
        if let Err(words) = wait_for_pong(&mut process, ports.first()) {
            panic!("redis-server did not start: {words}");
        }
        Self {
            process,
            ports,
            directory,
        }
    }

    /// Stops it and waits for its end; its files stay.
    pub fn stop(mut self) -> TempDir {
        self.process.signal(Signal::TERM);
        let status = self.process.wait();
        assert!(status.success(), "{status}: {}", self.process.words());
        self.directory
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        connect(self.ports.first())
    }
}

fn redis_command(port: u16, directory: &Path) -> Command {
    let mut command = Command::new(crate::clients::tool("redis-server"));
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--databases", "1"])
        .current_dir(directory);
    command
}

fn connect(port: u16) -> Connection {
    Connection::connect(port)
        .unwrap_or_else(|error| panic!("cannot connect to port {port}: {error}"))
}

/// Waits for a reply, not for the socket: a bound socket may not be served yet.
fn wait_for_pong(process: &mut Process, port: u16) -> Result<(), String> {
    let outcome = process::poll(|| {
        if let Some(status) = process.exited() {
            return Some(Err(format!("it ended with {status}: {}", process.words())));
        }
        let pong = Connection::connect(port).and_then(|mut c| {
            c.send(b"PING\r\n")?;
            c.read()
        });
        matches!(pong, Ok(Reply::Simple(text)) if text == "PONG").then_some(Ok(()))
    });
    outcome.unwrap_or_else(|| Err(format!("no PONG in time: {}", process.words())))
}

/// kevy without the settings that this process's environment would give it: those are the tests' own.
fn bare_kevy() -> Command {
    let mut command = Command::new(binary::kevy());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KEVY_") {
            command.env_remove(name);
        }
    }
    command
}

/// How a run of kevy ended that was to end by itself.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

/// Runs kevy with `arguments` in an empty directory holding `files`, and waits for its end.
pub fn run_kevy<A: AsRef<std::ffi::OsStr>>(arguments: &[A], files: &[(&str, &str)]) -> Ended {
    let directory = TempDir::new().expect("a temporary directory");
    for (name, content) in files {
        let path: PathBuf = directory.path().join(name);
        std::fs::write(path, content).expect("the test's directory is writable");
    }
    let mut command = bare_kevy();
    command.args(arguments).current_dir(directory.path());
    let mut process = Process::spawn("kevy", command, directory.path());
    Ended::of(&mut process)
}

impl Ended {
    /// Waits for the end of a process.
    fn of(process: &mut Process) -> Self {
        let status = process.wait();
        Self {
            code: status.code(),
            stdout: process.stdout(),
            stderr: process.stderr(),
        }
    }
}
