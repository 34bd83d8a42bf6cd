//! CPU time and resident memory of a process, as `/proc` tells them.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

use crate::error::{Doing, Error};

/// Index of `utime` among the fields that follow the command name in `/proc/<pid>/stat` (proc(5), field 14).
const UTIME_FIELD: usize = 11;

/// CPU time used by all threads of the process so far (utime + stime), in seconds.
///
/// # Errors
/// [`Error::Io`] when the process is gone or the file is not understood.
pub fn cpu_seconds(pid: u32) -> Result<f64, Error> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).doing(|| path.clone())?;
    let ticks = cpu_ticks(&text).ok_or_else(|| Error::Reply(format!("{path}: {text:?}")))?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

/// Resident set of the process, in bytes.
///
/// # Errors
/// [`Error::Io`] when the process is gone or the file is not understood.
pub fn resident_bytes(pid: u32) -> Result<u64, Error> {
    let path = format!("/proc/{pid}/statm");
    let text = fs::read_to_string(&path).doing(|| path.clone())?;
    let pages: u64 = text
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| Error::Reply(format!("{path}: {text:?}")))?;
    Ok(pages * page_size() as u64)
}

/// The model name of the first processor, or `unknown`.
pub fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

/// The running kernel's release, or `unknown`.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// utime + stime of a `/proc/<pid>/stat` line. The command name may hold anything, `)` included.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(UTIME_FIELD);
    let utime: u64 = fields.next()?.parse().ok()?;
    let stime: u64 = fields.next()?.parse().ok()?;
    Some(utime + stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_name_may_hold_parentheses() {
        let line = "7 (a) b) R 1 1 1 0 -1 4 5 6 7 8 30 12 0 0 20 0 1 0 99";
        assert_eq!(cpu_ticks(line), Some(42));
        assert_eq!(cpu_ticks("7 (a"), None);
    }

    #[test]
    fn this_process_is_resident() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 0);
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        assert!(cpu_seconds(0).is_err());
    }
}
