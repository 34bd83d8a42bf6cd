//! What clients asked and what they were told: the only evidence that checks look at.
//!
//! A simulation runs in one thread, so the moments of asking and of being told have one true order: they are numbered.

use crate::reply::{Reply, Request};
use std::cell::RefCell;
use std::time::Duration;

/// One request and what is known of its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The client.
    pub client: u32,
    /// Which of its connections, counted over all clients.
    pub session: u32,
    /// What it asked.
    pub request: Request,
    /// Its place in the order of all moments.
    pub invoked: u64,
    /// When it asked, in simulated time.
    pub invoked_at: Duration,
    /// What it was told; none if it never learned that.
    pub outcome: Option<Outcome>,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The reply.
    pub reply: Reply,
    /// Its place in the order of all moments.
    pub returned: u64,
    /// When it came, in simulated time.
    pub returned_at: Duration,
}

impl Operation {
    /// The command's name as it was sent.
    pub fn name(&self) -> &str {
        self.text(0)
    }

    /// An argument as text; empty if there is none.
    pub fn text(&self, index: usize) -> &str {
        let arg = self.request.get(index).map(Vec::as_slice);
        std::str::from_utf8(arg.unwrap_or_default()).unwrap_or_default()
    }

    /// The reply, if it is known.
    pub fn reply(&self) -> Option<&Reply> {
        self.outcome.as_ref().map(|outcome| &outcome.reply)
    }

    /// Request and reply on one line.
    pub fn describe(&self) -> String {
        let args: Vec<_> = self.request.iter().map(|a| a.escape_ascii()).collect();
        let asked = args.iter().map(ToString::to_string).collect::<Vec<_>>();
        let who = format!("client {} session {}", self.client, self.session);
        let told = self
            .reply()
            .map_or("?".to_owned(), |reply| format!("{reply:?}"));
        let returned = self.outcome.as_ref().map_or(u64::MAX, |o| o.returned);
        format!(
            "{who} [{}, {returned}] {} -> {told}",
            self.invoked,
            asked.join(" ")
        )
    }
}

/// All requests of a simulation, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct History {
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    operations: Vec<Operation>,
    moments: u64,
    sessions: u32,
}

impl History {
    /// Numbers a new connection.
    pub fn open_session(&self) -> u32 {
        let mut inner = self.inner.borrow_mut();
        inner.sessions += 1;
        inner.sessions
    }

    /// Records that `client` asks; the number names the operation in [`complete`](Self::complete).
    pub fn invoke(&self, client: u32, session: u32, request: Request, at: Duration) -> usize {
        let mut inner = self.inner.borrow_mut();
        inner.moments += 1;
        let invoked = inner.moments;
        inner.operations.push(Operation {
            client,
            session,
            request,
            invoked,
            invoked_at: at,
            outcome: None,
        });
        inner.operations.len() - 1
    }

    /// Records the reply to an operation.
    pub fn complete(&self, operation: usize, reply: Reply, at: Duration) {
        let mut inner = self.inner.borrow_mut();
        inner.moments += 1;
        let returned = inner.moments;
        if let Some(operation) = inner.operations.get_mut(operation) {
            operation.outcome = Some(Outcome {
                reply,
                returned,
                returned_at: at,
            });
        }
    }

    /// How many requests were sent.
    pub fn len(&self) -> usize {
        self.inner.borrow().operations.len()
    }

    /// Whether no request was sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All operations so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.inner.borrow().operations.clone()
    }
}
