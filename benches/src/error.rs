//! What can go wrong in a run, by whose fault it is: the caller's (exit code 2) or the run's (1).

use std::io;

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options make no sense together: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// A server could not be started or answered nonsense.
    #[error("{name}: {why}")]
    Server {
        /// The server's name in the tables.
        name: String,
        /// What happened, with the tail of its log where there is one.
        why: String,
    },
    /// A reply broke the protocol or was an error.
    #[error("unexpected reply: {0}")]
    Reply(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// SIGINT or SIGTERM arrived; the servers were stopped.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The same, naming the server whose reply it was.
    #[must_use]
    pub fn of_server(self, name: &str) -> Self {
        match self {
            Self::Reply(why) => Self::Server {
                name: name.to_owned(),
                why,
            },
            Self::Usage(_) | Self::Server { .. } | Self::Io { .. } | Self::Interrupted => self,
        }
    }

    /// The process exit code for this error: 2 for usage faults, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Server { .. } | Self::Reply(_) | Self::Io { .. } | Self::Interrupted => 1,
        }
    }
}

/// Attaches what was being done to an I/O error.
pub trait Doing<T> {
    /// Names the action that failed.
    ///
    /// # Errors
    /// [`Error::Io`] with that name, when the result is an error.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            what: what(),
            source: source.into(),
        })
    }
}
