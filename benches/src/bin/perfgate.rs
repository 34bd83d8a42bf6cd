//! `perfgate`: the end-to-end performance gate. Everything is in the library; see `docs/PERFGATE.md`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    kevy_benches::main_with(std::env::args_os())
}
