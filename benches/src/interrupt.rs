//! SIGINT and SIGTERM: a flag that every wait looks at, so that servers are always stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Doing, Error};

static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// How often a wait looks at the flag.
const GLANCE: Duration = Duration::from_millis(20);

/// From now on SIGINT and SIGTERM set the flag instead of ending the process.
///
/// # Errors
/// [`Error::Io`] when a handler cannot be installed.
pub fn install() -> Result<(), Error> {
    for number in [SIGINT, SIGTERM] {
        signal_hook::flag::register(number, Arc::clone(&FLAG))
            .doing(|| format!("handle signal {number}"))?;
    }
    Ok(())
}

/// # Errors
/// [`Error::Interrupted`] when a signal has come.
pub fn check() -> Result<(), Error> {
    if FLAG.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(())
}

/// Sleeps for this long, unless interrupted.
///
/// # Errors
/// [`Error::Interrupted`] when a signal comes meanwhile.
pub fn pause(length: Duration) -> Result<(), Error> {
    let end = Instant::now() + length;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(GLANCE));
    }
}
