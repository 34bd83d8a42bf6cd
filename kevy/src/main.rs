//! The kevy server as a program: what the user asked for becomes settings, settings become a running server.

mod cli;
mod server;

use cli::Task;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::task() {
        Task::Serve(settings) => server::run(*settings),
        Task::Leave(code) => code,
    }
}
