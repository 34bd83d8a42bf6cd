//! `perfgate`: the end-to-end performance gate of kevy, as a library with a thin binary.
//!
//! One measurement ([`measure`]) starts a fresh server ([`launch`]), fills it ([`loader`]), loads it
//! ([`load`]) and takes two marks at the server: commands processed and CPU used. A run ([`run`])
//! repeats that over a sweep ([`plan`]) in rounds that interleave all servers, because the noise of
//! a machine is only fair to those who are measured side by side. Ratios ([`report`]) are what is
//! kept, plotted ([`plot`]) and gated ([`gate`]).
#![forbid(unsafe_code)]

pub mod control;
pub mod cores;
pub mod error;
pub mod gate;
pub mod idle;
pub mod interrupt;
pub mod launch;
pub mod load;
pub mod loader;
pub mod measure;
pub mod memory;
pub mod options;
pub mod persistence;
pub mod plan;
pub mod plot;
pub mod process;
pub mod procfs;
pub mod reply;
pub mod report;
pub mod run;
pub mod stats;
pub mod table;
pub mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// Exit code of a shut gate and of a failed run.
const SHUT: u8 = 1;

/// Runs perfgate with these arguments: exit code 0 when all is well, 1 when a gate is shut or the
/// run failed, 2 for usage faults.
pub fn main_with(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = options::Options::parse_from(args);
    match run::run(&options) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in findings {
                eprintln!("perfgate: {finding}");
            }
            ExitCode::from(SHUT)
        }
        Err(error) => {
            eprintln!("perfgate: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
