//! Child processes that never outlive perfgate: dropping a [`Process`] ends it, by its pid.
//!
//! After SIGINT the run unwinds on a flag, which drops them; should perfgate itself panic, which
//! aborts in a release build, a hook ends what is left.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cores::{self, Cores};
use crate::error::{Doing, Error};

/// How long a process may take to end after SIGTERM before SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks at an ending process.
const STOP_PAUSE: Duration = Duration::from_millis(1);

/// Processes started and not yet stopped, for the panic hook.
static ALIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A running child.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts the command on these cores, in a process group of its own: a terminal's Ctrl-C reaches
    /// perfgate alone, which then stops its children in order.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be started or pinned.
    pub fn spawn(command: &mut Command, cores: Option<&Cores>) -> Result<Self, Error> {
        command.process_group(0);
        let program = command.get_program().to_owned();
        let child = cores::pinned(cores, || {
            command
                .spawn()
                .doing(|| format!("start {}", program.display()))
        })?;
        alive().insert(child.id());
        Ok(Self { child })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end and waits so long for it; `None` when it has not ended by then.
    pub fn end(&mut self, timeout: Duration) -> Option<ExitStatus> {
        if self.ended().is_none() {
            signal(self.pid(), Signal::TERM);
        }
        let deadline = Instant::now() + timeout;
        loop {
            match self.ended() {
                None if Instant::now() <= deadline => std::thread::sleep(STOP_PAUSE),
                outcome => return outcome,
            }
        }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Forgotten before it is reaped: a pid may be reused after that.
        alive().remove(&self.pid());
        if self.end(STOP_TIMEOUT).is_none() {
            signal(self.pid(), Signal::KILL);
            let _reaped = self.child.wait();
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        // The process may be gone already: nothing to do then.
        let _gone = kill_process(pid, signal);
    }
}

fn alive() -> MutexGuard<'static, BTreeSet<u32>> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the children still alive if perfgate panics: with `panic = "abort"` nothing else would.
pub fn end_children_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        for pid in alive().iter() {
            signal(*pid, Signal::KILL);
        }
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_ends_and_reaps_the_child() {
        let process = Process::spawn(Command::new("sleep").arg("100"), None).unwrap();
        let pid = process.pid();
        assert!(alive().contains(&pid));
        drop(process);
        assert!(!alive().contains(&pid));
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
