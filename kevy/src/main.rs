//! The kevy server as a program: what the user asked for becomes settings, settings become a running server.

#![forbid(unsafe_code)]

mod cli;
mod export;
mod glommio_host;
mod import;
mod server;
mod startup;
mod transfer;

use cli::Task;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::task() {
        Task::Serve(settings, file) => server::run(*settings, file),
        Task::Import(import) => import.run(),
        Task::Export(export) => export.run(),
        Task::Leave(code) => code,
    }
}
