//! Other people's clients: where they are, and what to run when they are not there.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::binary::repository;
use crate::process::Process;

/// The command that installs every client these tests use.
pub const INSTALL: &str = "tests/clients/install";

/// The path of a program of Debian's `redis-server` or `redis-tools`.
///
/// # Panics
/// When it is not installed; the message says how to.
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: run {INSTALL}"))
}

/// A command that runs `tests/clients/<script>` with the Python clients.
pub fn python(script: &str) -> Command {
    let python = installed(".venv/bin/python", "redis-py");
    let mut command = Command::new(python);
    command
        .arg(directory().join(script))
        .current_dir(directory());
    command
}

/// A command that runs `tests/clients/<script>` with the Node clients.
pub fn node(script: &str) -> Command {
    installed("node_modules/ioredis", "ioredis");
    let mut command = Command::new(tool("node"));
    command
        .arg(directory().join(script))
        .current_dir(directory());
    command
}

/// Runs a client to its end and gives its standard output.
///
/// # Panics
/// When it fails or does not end in time; its words are in the message.
pub fn succeed(command: Command) -> String {
    let shown = format!("{command:?}");
    let directory = TempDir::new().expect("a temporary directory");
    let mut process = Process::spawn("client", command, directory.path());
    let status = process.wait();
    assert!(status.success(), "{shown}\n{status}\n{}", process.words());
    process.stdout()
}

fn installed(path: &str, client: &str) -> PathBuf {
    let path = directory().join(path);
    assert!(path.exists(), "{client} is not installed: run {INSTALL}");
    path
}

fn directory() -> PathBuf {
    Path::join(repository(), "tests/clients")
}
