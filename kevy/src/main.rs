//! The kevy server as a program: what the user asked for becomes settings, settings become a running server.

#![forbid(unsafe_code)]

mod check;
mod cli;
mod glommio_host;
mod server;
mod startup;

use cli::Task;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::task() {
        Task::Serve(settings, file) => server::run(*settings, file),
        Task::CheckData { directory, repair } => check::run(&directory, repair),
        Task::Leave(code) => code,
    }
}
