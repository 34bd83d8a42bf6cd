//! `kevy check <dir> [--repair]`: what a data directory holds, and whether it is whole, without starting a server.
//!
//! Exit code 0 if a server starts with everything that was durable (a torn tail is fine: the next start keeps it aside and
//! cuts it), 1 if something is damaged or cannot be read. Without `--repair` nothing is changed.

mod report;

use crate::glommio_host::clock::HostClock;
use crate::glommio_host::entropy::HostEntropy;
use crate::startup::std_disk::StdDisk;
use crate::startup::{StartError, data_directory};
use futures_lite::future::block_on;
use kevy_node::host::{Clock, Entropy};
use kevy_node::log::{
    Cut, DirectoryFault, Files, Inspection, LAYOUT_FILE, Remedy, cut_log, inspect_directory, remedy,
};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often progress is told.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Why a directory cannot be looked at, or not be repaired.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0} is no data directory: it has no {LAYOUT_FILE}, nor any other file of kevy's")]
    NoData(String),
    #[error("{0}")]
    Directory(#[from] DirectoryFault),
}

/// What to check.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Check {
    /// The data directory; no server may be using it
    dir: PathBuf,
    /// Cut damaged logs before the damage, so that a server starts; what is cut is kept aside
    #[arg(long)]
    repair: bool,
}

impl Check {
    /// Runs the check.
    pub(crate) fn run(&self) -> ExitCode {
        let (text, code) = match check(&self.dir, self.repair) {
            Ok((text, true)) => (text, ExitCode::SUCCESS),
            Ok((text, false)) => (text, ExitCode::FAILURE),
            Err(error) => {
                eprintln!("kevy: {error}");
                return ExitCode::FAILURE;
            }
        };
        match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => code,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => code,
            Err(_) => ExitCode::FAILURE,
        }
    }
}

/// What there is to tell, and whether a server starts with all of it.
fn check(directory: &Path, wants_repair: bool) -> Result<(String, bool), CheckError> {
    // A lock makes the directory it is in.
    if !has_data(directory) {
        return Err(CheckError::NoData(directory.display().to_string()));
    }
    let _lock = data_directory::lock(directory)?;
    let mut disk = StdDisk::new(directory);
    let inspection = inspect(&mut disk)?;
    let mut text = report::describe(&inspection);
    if inspection.is_whole() || !wants_repair {
        text.push_str(report::verdict(&inspection, wants_repair));
        return Ok((text, inspection.is_whole()));
    }
    repair(&mut disk, &inspection, &mut text)?;
    let again = inspect(&mut disk)?;
    text.push_str(report::verdict(&again, wants_repair));
    Ok((text, again.is_whole()))
}

fn inspect(disk: &mut StdDisk) -> Result<Inspection, CheckError> {
    let mut told = Instant::now();
    let mut progress = |bytes: u64| {
        if told.elapsed() >= REPORT_INTERVAL {
            told = Instant::now();
            // Progress is for whoever watches.
            let _ = writeln!(io::stderr(), "{} MB read", bytes >> 20);
        }
    };
    Ok(block_on(inspect_directory(disk, &mut progress))?)
}

/// Whether there are files of kevy's.
fn has_data(directory: &Path) -> bool {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .any(|name| name == LAYOUT_FILE || Files::generation_of(&name).is_some())
}

/// Cuts what can be cut, and says what is lost and what cannot be mended.
fn repair(
    disk: &mut StdDisk,
    inspection: &Inspection,
    text: &mut String,
) -> Result<(), CheckError> {
    let unix_ms = HostClock::start().now().unix.0;
    for shard in &inspection.shards {
        match remedy(shard, unix_ms) {
            Remedy::Whole => {}
            Remedy::Beyond(reason) => {
                // Writing to a string does not fail.
                let _ = writeln!(text, "not repaired: shard {}: {reason}", shard.shard);
            }
            Remedy::Cut(cut) => {
                cut_shard(disk, inspection, &cut)?;
                text.push_str(&report::describe_cut(&cut));
            }
        }
    }
    Ok(())
}

fn cut_shard(disk: &mut StdDisk, inspection: &Inspection, cut: &Cut) -> Result<(), CheckError> {
    block_on(cut_log(disk, inspection, cut, HostEntropy.next_u64()))?;
    Ok(())
}
