//! Commands that are sent without waiting for each other's replies.
//!
//! They go in windows: as many as fit [`WINDOW_BYTES`], then their replies are read, then the next window. So neither side
//! ever waits with full buffers for the other one to read, however long the pipeline is.

use kevy_proto::resp::Reply;

use crate::link::Link;
use crate::{Call, KevyResult};

/// Bytes of requests that are in flight at once in a pipeline (or one request, if it is larger).
pub const WINDOW_BYTES: usize = 64 * 1024;

/// Commands to be sent together, in order.
///
/// ```
/// use kevy_client::Pipeline;
///
/// let mut pipeline = Pipeline::new();
/// pipeline.cmd(&["SET", "a", "1"]).cmd(&["INCR", "a"]);
/// assert_eq!(pipeline.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Pipeline {
    calls: Vec<Call>,
    /// The first mistake.
    mistake: Option<crate::KevyError>,
}

impl Pipeline {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a command, its name first. A cluster's client takes the first argument for its key.
    pub fn cmd<A: AsRef<[u8]>>(&mut self, words: &[A]) -> &mut Self {
        match Call::from_args(words) {
            Ok(call) => self.calls.push(call),
            Err(error) => self.mistake = self.mistake.take().or(Some(error)),
        }
        self
    }

    /// Adds a command that says which of its arguments is the key.
    pub fn call(&mut self, call: Call) -> &mut Self {
        self.calls.push(call);
        self
    }

    /// How many commands it holds.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// What `fill` puts in.
    pub(crate) fn filled(fill: impl FnOnce(&mut Self)) -> KevyResult<Vec<Call>> {
        let mut pipeline = Self::new();
        fill(&mut pipeline);
        pipeline.into_calls()
    }

    /// The commands, unless one of them may not be sent.
    pub(crate) fn into_calls(self) -> KevyResult<Vec<Call>> {
        match self.mistake {
            Some(error) => Err(error),
            None => self
                .calls
                .iter()
                .try_for_each(Call::check)
                .map(|()| self.calls),
        }
    }
}

/// How many of `calls` make the next window: at least one, if there is one.
pub(crate) fn window<C: std::borrow::Borrow<Call>>(calls: &[C]) -> usize {
    let mut bytes = 0;
    let fitting = calls.iter().take_while(|call| {
        bytes += (*call).borrow().len_bytes();
        bytes <= WINDOW_BYTES
    });
    fitting.count().max(1).min(calls.len())
}

/// Carries out `calls` on one connection.
pub(crate) fn run(link: &mut Link, calls: &[Call]) -> KevyResult<Vec<Reply>> {
    link.fresh()?;
    let mut replies = Vec::with_capacity(calls.len());
    let mut rest = calls;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(window(rest));
        now.iter().for_each(|call| link.queue(call));
        link.flush()?;
        for _ in now {
            replies.push(link.receive()?);
        }
        rest = later;
    }
    Ok(replies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_what_fits_and_never_nothing() {
        let small = Call::write("SET").key(b"k").arg("v");
        let large = Call::write("SET").key(b"k").arg("v".repeat(WINDOW_BYTES));
        assert_eq!(window::<Call>(&[]), 0);
        assert_eq!(window(std::slice::from_ref(&large)), 1);
        assert_eq!(window(&[small.clone(), small.clone(), large]), 2);
        let many = vec![small.clone(); WINDOW_BYTES];
        assert!((1..=WINDOW_BYTES / small.len_bytes()).contains(&window(&many)));
    }

    #[test]
    fn a_command_without_words_fails_the_pipeline() {
        let filled = Pipeline::filled(|p| {
            p.cmd::<&str>(&[]).cmd(&["PING"]);
        });
        assert!(filled.is_err());
    }
}
