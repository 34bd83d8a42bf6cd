//! What the machine must be able to do, found out before glommio panics over it.

use io_uring::{IoUring, Probe, opcode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// What glommio locks per executor and refuses to run without.
pub(crate) const MEMLOCK_NEEDED_BYTES: u64 = 512 * 1024;
/// Descriptors that the process needs beside clients: log, lock, listeners, standard streams.
const DESCRIPTORS_OF_PROCESS: u64 = 32;
/// Descriptors that one shard needs: glommio's rings and eventfds, the poller, the doorbell, files.
const DESCRIPTORS_OF_SHARD: u64 = 24;

/// Why kevy cannot run here, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    /// No io_uring.
    #[error(
        "io_uring is not available ({0}): kevy needs Linux 5.8 or newer with io_uring allowed; see \
         /proc/sys/kernel/io_uring_disabled and, in a container, its seccomp profile"
    )]
    NoUring(io::Error),
    /// An io_uring that lacks operations.
    #[error("io_uring is too old on this kernel: kevy needs Linux 5.8 or newer")]
    OldUring,
    /// Too little memory may be locked.
    #[error(
        "only {0} bytes of memory may be locked, io_uring needs {MEMLOCK_NEEDED_BYTES}: raise RLIMIT_MEMLOCK \
         (`ulimit -l 8192`, or LimitMEMLOCK=8M in the systemd unit)"
    )]
    Memlock(u64),
    /// Not even the server itself fits into the limit on open files.
    #[error(
        "only {allowed} files may be open, the server itself needs {needed}: raise RLIMIT_NOFILE \
         (`ulimit -n`, or LimitNOFILE in the systemd unit)"
    )]
    Descriptors {
        /// The limit.
        allowed: u64,
        /// What is needed before the first client.
        needed: u64,
    },
}

/// Checks that glommio will run.
///
/// # Errors
/// What is missing.
pub(crate) fn check_uring() -> Result<(), Unfit> {
    if let Some(limit) = getrlimit(Resource::Memlock).current
        && limit < MEMLOCK_NEEDED_BYTES
    {
        return Err(Unfit::Memlock(limit));
    }
    let ring = IoUring::new(2).map_err(Unfit::NoUring)?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|_| Unfit::OldUring)?;
    // Those of glommio's operations that came last, in Linux 5.6.
    let is_recent = [opcode::OpenAt::CODE, opcode::Read::CODE, opcode::Recv::CODE]
        .iter()
        .all(|&code| probe.is_supported(code));
    if is_recent {
        Ok(())
    } else {
        Err(Unfit::OldUring)
    }
}

/// Raises the limit on open files so that `maxclients` clients fit, and says how many do.
///
/// # Errors
/// [`Unfit::Descriptors`] if not one does.
pub(crate) fn fit_clients(maxclients: u32, shards: u16) -> Result<u32, Unfit> {
    let reserved = DESCRIPTORS_OF_PROCESS + DESCRIPTORS_OF_SHARD * u64::from(shards);
    let wanted = reserved + u64::from(maxclients);
    let limit = getrlimit(Resource::Nofile);
    let allowed = raise(limit, wanted);
    if allowed <= reserved {
        return Err(Unfit::Descriptors {
            allowed,
            needed: reserved + 1,
        });
    }
    Ok(u32::try_from(allowed - reserved).map_or(maxclients, |fitting| fitting.min(maxclients)))
}

/// Raises the limit to `wanted`, or as far as is allowed; says where it ends up.
fn raise(limit: Rlimit, wanted: u64) -> u64 {
    let Some(current) = limit.current else {
        return u64::MAX;
    };
    if current >= wanted {
        return current;
    }
    let (soft, hard) = match limit.maximum {
        // Only a privileged process may go above the hard limit: try, then do with what is allowed.
        Some(hard) if hard < wanted => {
            let raised = Rlimit {
                current: Some(wanted),
                maximum: Some(wanted),
            };
            if setrlimit(Resource::Nofile, raised).is_ok() {
                return wanted;
            }
            (hard, Some(hard))
        }
        hard => (wanted, hard),
    };
    let raised = Rlimit {
        current: Some(soft),
        maximum: hard,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => soft,
        Err(_) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_works_where_the_tests_run() {
        check_uring().unwrap();
    }

    #[test]
    fn clients_that_fit_are_all_allowed() {
        assert_eq!(fit_clients(100, 2).unwrap(), 100);
    }

    #[test]
    fn faults_say_what_to_do() {
        assert!(Unfit::Memlock(65536).to_string().contains("ulimit -l"));
        let error = io::Error::from_raw_os_error(1);
        assert!(
            Unfit::NoUring(error)
                .to_string()
                .contains("io_uring_disabled")
        );
    }
}
