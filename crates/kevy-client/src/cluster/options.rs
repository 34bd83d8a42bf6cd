//! How persistent a cluster's client is.

use std::time::Duration;

use crate::Options;

/// What a [`crate::ClusterClient`] is opened with. Every way of trying again has its bound.
///
/// ```
/// let options = kevy_client::ClusterOptions::default();
/// assert_eq!(options.max_redirects, 16);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// What its connections are opened with.
    pub connection: Options,
    /// How many times one command is sent elsewhere (`MOVED`, `ASK`, `MISDIRECTED`) before the client gives the error
    /// reply. 16.
    pub max_redirects: u32,
    /// How many times one command waits (`QUIESCED`, `TRYAGAIN`, `CLUSTERDOWN`, `LOADING`) before the client gives the
    /// error reply. 50.
    pub max_pauses: u32,
    /// How long each of these waits is, about: between a half and the whole of it, by chance. 200 ms.
    pub pause: Duration,
    /// How many times one command tries a connection that fails before the client gives the error. 8.
    pub max_failures: u32,
    /// How long to wait after the first failure, about; twice as long after each further one. 10 ms.
    pub min_backoff: Duration,
    /// The longest such wait. 1 s.
    pub max_backoff: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            connection: Options::default(),
            max_redirects: 16,
            max_pauses: 50,
            pause: Duration::from_millis(200),
            max_failures: 8,
            min_backoff: Duration::from_millis(10),
            max_backoff: Duration::from_secs(1),
        }
    }
}

impl ClusterOptions {
    /// Changes what connections are opened with.
    #[must_use]
    pub fn with_connection(mut self, options: Options) -> Self {
        self.connection = options;
        self
    }

    /// Changes how long one wait for a busy cluster is, and how many there may be.
    #[must_use]
    pub fn with_pauses(mut self, pause: Duration, max_pauses: u32) -> Self {
        self.pause = pause;
        self.max_pauses = max_pauses;
        self
    }

    /// Changes how long to wait after failures of a connection, and how many there may be.
    #[must_use]
    pub fn with_backoff(mut self, min: Duration, max: Duration, max_failures: u32) -> Self {
        self.min_backoff = min;
        self.max_backoff = max;
        self.max_failures = max_failures;
        self
    }
}
