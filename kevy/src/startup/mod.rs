//! What happens around a running server: sockets are bound, cores chosen, logs opened, signals and the service manager heard.
//!
//! Everything that can fail does so here, before a shard runs, with one message that says what to do.

pub(crate) mod config_file;
pub(crate) mod cores;
pub(crate) mod data_directory;
pub(crate) mod logging;
pub(crate) mod ports;
pub(crate) mod service_manager;
pub(crate) mod signals;
pub(crate) mod std_disk;
pub(crate) mod usage;

use crate::glommio_host::probe::Unfit;
use std::io;
use std::path::PathBuf;

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The machine lacks something.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A TCP port is taken or not ours to use.
    #[error("cannot listen on {address}: {error}; {advice}")]
    Listen {
        /// Address and port.
        address: String,
        /// What the system says.
        error: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The same for the Unix socket.
    #[error("cannot listen on the Unix socket {}: {error}", path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process answers on the Unix socket.
    #[error("the Unix socket {} is in use by another process", .0.display())]
    UnixSocketInUse(PathBuf),
    /// In cluster mode, shards whose port would be above 65535.
    #[error("cluster ports {first} to {last} do not all exist: lower port_base or threads")]
    ClusterPorts {
        /// The first shard's.
        first: u32,
        /// The last shard's.
        last: u32,
    },
    /// Another kevy has the data directory.
    #[error("data directory {} is used by another kevy (pid {pid})", path.display())]
    DirectoryLocked {
        /// The directory.
        path: PathBuf,
        /// Who has it.
        pid: String,
    },
    /// The data directory cannot be made or written.
    #[error("data directory {}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What is in the data directory cannot be used.
    #[error("data directory {}: {error}", directory.display())]
    Data {
        /// The directory.
        directory: PathBuf,
        /// Which file, where in it, and what to do.
        error: String,
    },
    /// A call failed that does not fail on a healthy machine.
    #[error("cannot {doing}: {error}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// glommio could not start or lost an executor.
    #[error("shard {shard}: {error}")]
    Executor {
        /// Which one.
        shard: u16,
        /// What glommio says.
        error: String,
    },
}

impl StartError {
    /// For `map_err`: what was being done when a call failed.
    pub(crate) fn while_doing(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { doing, error }
    }
}
