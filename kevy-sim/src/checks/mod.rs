//! Checks over what clients were told. Each names what the node promises, and each has tests that show it a history which
//! breaks the promise.

pub mod expiry;
pub mod linearizable;
pub mod moves;
pub mod order;
pub mod queues;
pub mod register;
pub mod scan;
pub mod transfers;

use std::fmt;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check that found it.
    pub check: &'static str,
    /// What it found.
    pub what: String,
}

impl Violation {
    /// A broken promise.
    pub fn new(check: &'static str, what: impl Into<String>) -> Self {
        Self {
            check,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

#[cfg(test)]
pub(crate) mod examples {
    //! Histories written by hand.

    use crate::history::{Operation, Outcome};
    use crate::reply::{Reply, bulk, request};
    use std::time::Duration;

    /// An operation of `session` with its place among all moments; simulated time in milliseconds is the same number.
    pub(crate) fn operation(
        session: u32,
        (invoked, returned): (u64, u64),
        text: &str,
        reply: Reply,
    ) -> Operation {
        let outcome = Some(Outcome {
            reply,
            returned,
            returned_at: Duration::from_millis(returned),
        });
        Operation {
            outcome,
            ..unknown(session, invoked, text)
        }
    }

    /// An operation whose outcome was never learned.
    pub(crate) fn unknown(session: u32, invoked: u64, text: &str) -> Operation {
        Operation {
            client: session,
            session,
            request: request(text.split(' ')),
            invoked,
            invoked_at: Duration::from_millis(invoked),
            outcome: None,
        }
    }

    /// An array of strings.
    pub(crate) fn strings(texts: &[&str]) -> Reply {
        Reply::Array(texts.iter().map(bulk).collect())
    }
}
