//! Logs on standard error.

use kevy_node::settings::{LogFormat, LogLevel};
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes the level of the running log.
static SET_LEVEL: OnceLock<Box<dyn Fn(EnvFilter) + Send + Sync>> = OnceLock::new();

/// Sends events of `level` and above to standard error, as text (coloured on a terminal) or as JSON, one line each.
/// Does nothing if logging was started before.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .with_filter_reloading();
    // The only error of these calls is that there is a subscriber already.
    match format {
        LogFormat::Text => {
            let handle = builder.reload_handle();
            let _ = SET_LEVEL.set(Box::new(move |level| drop(handle.reload(level))));
            let _ = builder.finish().try_init();
        }
        LogFormat::Json => {
            let builder = builder.json();
            let handle = builder.reload_handle();
            let _ = SET_LEVEL.set(Box::new(move |level| drop(handle.reload(level))));
            let _ = builder.finish().try_init();
        }
    }
}

/// Logs events of `level` and above from now on (`CONFIG SET loglevel`).
pub(crate) fn set_level(level: LogLevel) {
    if let Some(set) = SET_LEVEL.get() {
        set(filter(level));
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(level.as_tracing().as_str())
}
