//! Logs on standard error.

use kevy_node::settings::{LogFormat, LogLevel};
use std::io::{self, IsTerminal};

/// Sends events of `level` and above to standard error, as text (coloured on a terminal) or as JSON, one line each.
/// Does nothing if logging was started before.
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(level.as_tracing())
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    // The only error is that there is a subscriber already.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
