//! Logs on standard error.

use kevy_node::settings::{LogFormat, LogLevel};
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

/// Changes the level of the running log.
static SET_LEVEL: OnceLock<Box<dyn Fn(EnvFilter) + Send + Sync>> = OnceLock::new();

/// Sends events of `level` and above to standard error, as text (coloured on a terminal) or as JSON, one line each.
/// Does nothing if logging was started before.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let (filter, handle) = reload::Layer::new(filter(level));
    let _ = SET_LEVEL.set(Box::new(move |filter| drop(handle.reload(filter))));
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    // The only error is that there is a subscriber already.
    let _ = match format {
        LogFormat::Text => tracing_subscriber::registry()
            .with(filter)
            .with(lines)
            .try_init(),
        LogFormat::Json => tracing_subscriber::registry()
            .with(filter)
            .with(lines.json())
            .try_init(),
    };
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
