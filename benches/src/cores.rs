//! Which cores serve and which load: lists like `0,2-3`, and pinning the calling thread.
//!
//! A child process inherits the affinity of the thread that starts it, so a server is pinned by
//! pinning the starter for the moment of the start: every thread it ever makes is covered.

use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Doing, Error};

/// A non-empty list of core numbers, as given by `--server-cores 0,2-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// The cores in the order given.
    pub fn list(&self) -> &[usize] {
        &self.0
    }

    /// From numbers; `None` when there are none.
    pub fn new(cores: Vec<usize>) -> Option<Self> {
        (!cores.is_empty()).then_some(Self(cores))
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first = core_number(first)?;
            let last = core_number(last)?;
            if first > last {
                return Err(format!("`{part}` runs backwards"));
            }
            cores.extend(first..=last);
        }
        Ok(Self(cores))
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

fn core_number(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(core) if core < CpuSet::MAX_CPU => Ok(core),
        Ok(core) => Err(format!(
            "core {core} is above the limit of {}",
            CpuSet::MAX_CPU - 1
        )),
        Err(_) => Err(format!("`{text}` is not a core number")),
    }
}

/// The cores this process may use, ascending.
///
/// # Errors
/// [`Error::Io`] when the kernel does not say.
pub fn usable() -> Result<Vec<usize>, Error> {
    let set = sched_getaffinity(None).doing(|| "sched_getaffinity".to_owned())?;
    Ok((0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect())
}

/// Pins the calling thread to the given cores.
///
/// # Errors
/// [`Error::Io`] when none of them exists or is allowed.
pub fn pin(cores: &[usize]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    sched_setaffinity(None, &set).doing(|| format!("pin to cores {cores:?}"))
}

/// Runs `action` with the calling thread pinned to `cores` (if any), then restores its affinity.
///
/// # Errors
/// [`Error::Io`] when pinning fails, or the action's own error.
pub fn pinned<T>(
    cores: Option<&Cores>,
    action: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(cores) = cores else { return action() };
    let before = sched_getaffinity(None).doing(|| "sched_getaffinity".to_owned())?;
    pin(cores.list())?;
    let outcome = action();
    sched_setaffinity(None, &before).doing(|| "restore affinity".to_owned())?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!("0".parse(), Ok(Cores(vec![0])));
        assert_eq!("0,2-4".parse(), Ok(Cores(vec![0, 2, 3, 4])));
        for bad in ["", "a", "3-1", "1,,2", "-1", "999999"] {
            assert!(bad.parse::<Cores>().is_err(), "{bad}");
        }
    }

    #[test]
    fn pinning_is_undone() {
        let before = usable().unwrap();
        let one = Cores::new(vec![before[0]]).unwrap();
        let inside = pinned(Some(&one), usable).unwrap();
        assert_eq!(inside, vec![before[0]]);
        assert_eq!(usable().unwrap(), before);
    }
}
