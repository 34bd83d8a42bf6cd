//! SIGTERM and SIGINT: the first asks every shard to shut down, the second ends the process at once.

use super::service_manager::{State, notify};
use crate::glommio_host::mesh::Doorbell;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code after the second signal.
const EXIT_INTERRUPTED: i32 = 1;

/// Listens for signals in a thread of its own, for as long as the process lives.
///
/// # Errors
/// As the system says.
pub(crate) fn listen(doorbells: Arc<[Doorbell]>) -> io::Result<()> {
    let (mut signals, sender) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    // A write beyond RLIMIT_FSIZE is then an error of that write, and not the end of the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            // Each signal is one byte.
            let mut byte = [0];
            let mut is_first = true;
            while signals.read_exact(&mut byte).is_ok() {
                if !is_first {
                    tracing::warn!("Second signal: exiting at once");
                    std::process::exit(EXIT_INTERRUPTED);
                }
                is_first = false;
                tracing::info!("Signal received, shutting down");
                stop_all(&doorbells);
            }
        })?;
    Ok(())
}

/// Asks every shard to shut down.
pub(crate) fn stop_all(doorbells: &[Doorbell]) {
    notify(State::Stopping);
    for doorbell in doorbells {
        if let Err(error) = doorbell.request_stop() {
            tracing::warn!("Waking a shard: {error}");
        }
    }
}
