//! A child process that never outlives its test, and whose words are shown when the test fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub use rustix::process::Signal;

/// How long any wait on a process may last before the test fails.
pub const LIMIT: Duration = Duration::from_mins(1);
const SHOWN_LINES: usize = 60;

/// A running process. Dropping it kills it by its id and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command` with its output going to files in `directory`.
    pub fn spawn(name: &str, mut command: Command, directory: &Path) -> Self {
        let stdout = directory.join(format!("{name}.stdout"));
        let stderr = directory.join(format!("{name}.stderr"));
        let file = |path: &Path| File::create(path).expect("the test's directory is writable");
        let child = command
            .stdin(Stdio::null())
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            stdout,
            stderr,
        }
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Sends `signal` to this process only.
    pub fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is still ours");
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// When it has not ended within [`LIMIT`].
    pub fn wait(&mut self) -> ExitStatus {
        let status = poll(|| self.exited());
        status.unwrap_or_else(|| panic!("{} did not end\n{}", self.name, self.words()))
    }

    /// What it wrote to its standard output.
    pub fn stdout(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// What it wrote to its standard error.
    pub fn stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// The last lines of both outputs.
    pub fn words(&self) -> String {
        let text = self.stdout() + &self.stderr();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "--- {} (pid {}) said:\n{}\n---",
                self.name,
                self.pid(),
                self.words()
            );
        }
    }
}

/// Asks `ready` until it answers, for at most [`LIMIT`].
pub fn poll<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
