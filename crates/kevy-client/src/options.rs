//! How patient a connection is, and which RESP it speaks.

use std::time::Duration;

/// What a connection is opened with.
///
/// ```
/// use kevy_client::Options;
/// use std::time::Duration;
///
/// let options = Options::default().with_timeout(Some(Duration::from_secs(1))).with_resp3();
/// assert!(options.resp3);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long connecting may take, for each address that the host's name has. 5 s.
    pub connect_timeout: Duration,
    /// How long to wait for the server, each time that nothing comes from it or nothing goes to it; `None` for ever.
    /// 30 s. A blocking pop may take its own time limit longer.
    pub timeout: Option<Duration>,
    /// Whether to speak RESP3 (`HELLO 3` after connecting).
    pub resp3: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            timeout: Some(Duration::from_secs(30)),
            resp3: false,
        }
    }
}

impl Options {
    /// Changes how long to wait for the server; `None` for ever.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Changes how long connecting may take.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Speaks RESP3.
    #[must_use]
    pub fn with_resp3(mut self) -> Self {
        self.resp3 = true;
        self
    }
}
