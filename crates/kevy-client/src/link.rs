//! A socket with its conversation: the blocking host of the machine.

use std::collections::VecDeque;
use std::time::Duration;

use kevy_proto::resp::Reply;

use crate::call::Wait;
use crate::from_reply::no_error;
use crate::protocol::{Conversation, Event};
use crate::stream::Stream;
use crate::{Call, KevyError, KevyResult, Options};

/// Bytes read from a socket at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Pushes that are kept until somebody asks for them; the oldest are dropped beyond it.
pub const MAX_KEPT_PUSHES: usize = 1024;

/// A request that failed, and whether the server may have seen it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: KevyError,
    pub(crate) sent: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    conversation: Conversation,
    chunk: Box<[u8]>,
    timeout: Option<Duration>,
    /// What the socket's read timeout is now.
    read_timeout: Option<Duration>,
    closed: bool,
    pushes: VecDeque<Vec<Reply>>,
}

impl Link {
    pub(crate) fn tcp(host: &str, port: u16, options: &Options) -> KevyResult<Self> {
        let stream = Stream::tcp(host, port, options)?;
        Self::open(stream, Conversation::new(), options)
    }

    /// Takes over a fresh socket, and says `HELLO 3` on it if the options want RESP3.
    pub(crate) fn open(
        stream: Stream,
        conversation: Conversation,
        options: &Options,
    ) -> KevyResult<Self> {
        stream.set_read_timeout(options.timeout)?;
        let mut link = Self {
            stream,
            conversation,
            chunk: vec![0; READ_BYTES].into(),
            timeout: options.timeout,
            read_timeout: options.timeout,
            closed: false,
            pushes: VecDeque::new(),
        };
        if options.resp3 {
            link.hello3()?;
        }
        Ok(link)
    }

    pub(crate) fn hello3(&mut self) -> KevyResult<()> {
        let hello = Call::read("HELLO").arg("3");
        no_error(self.exchange(&hello).map_err(|failure| failure.error)?)?;
        Ok(())
    }

    /// Sends one command and waits for its reply.
    pub(crate) fn exchange(&mut self, call: &Call) -> Result<Reply, Failure> {
        self.begin(call).map_err(unsent)?;
        let outcome = self.flush().and_then(|()| self.receive());
        outcome.map_err(|error| Failure { error, sent: true })
    }

    /// Lets go of earlier requests that nobody waits for any more, and adds one.
    fn begin(&mut self, call: &Call) -> KevyResult<()> {
        call.check()?;
        if self.closed {
            return Err(KevyError::Closed);
        }
        self.conversation.abandon();
        self.set_wait(call.wait())?;
        self.conversation.request(call.words().iter());
        Ok(())
    }

    /// Adds a request to those of a pipeline. [`fresh`](Self::fresh) comes before the first.
    pub(crate) fn queue(&mut self, call: &Call) {
        self.conversation.request(call.words().iter());
    }

    /// Makes ready for a pipeline: replies to what was asked before are not of interest.
    pub(crate) fn fresh(&mut self) -> KevyResult<()> {
        if self.closed {
            return Err(KevyError::Closed);
        }
        self.conversation.abandon();
        self.set_wait(Wait::Usual)
    }

    pub(crate) fn set_wait(&mut self, wait: Wait) -> KevyResult<()> {
        let timeout = match wait {
            Wait::Usual => self.timeout,
            Wait::Longer(more) => self.timeout.map(|usual| usual.saturating_add(more)),
            Wait::Forever => None,
        };
        self.set_read_timeout(timeout)
    }

    pub(crate) fn set_read_timeout(&mut self, timeout: Option<Duration>) -> KevyResult<()> {
        if timeout != self.read_timeout {
            self.stream.set_read_timeout(timeout)?;
            self.read_timeout = timeout;
        }
        Ok(())
    }

    /// Transmits what waits for it.
    pub(crate) fn flush(&mut self) -> KevyResult<()> {
        while !self.conversation.transmit().is_empty() {
            let written = self.stream.write(self.conversation.transmit());
            let count = written.map_err(|error| self.failed(error.into()))?;
            if count == 0 {
                return Err(self.failed(KevyError::Closed));
            }
            self.conversation.transmitted(count);
        }
        Ok(())
    }

    /// Waits for the reply to the oldest unanswered request.
    pub(crate) fn receive(&mut self) -> KevyResult<Reply> {
        loop {
            match self.event()? {
                Event::Reply(reply) => return Ok(reply),
                Event::Push(items) => self.keep(items),
            }
        }
    }

    /// Waits for whatever comes next.
    pub(crate) fn event(&mut self) -> KevyResult<Event> {
        loop {
            let polled = self.conversation.poll_event();
            if let Some(event) = polled.map_err(|error| self.failed(error))? {
                return Ok(event);
            }
            let read = self.stream.read(&mut self.chunk);
            let count = read.map_err(|error| self.failed(error.into()))?;
            if count == 0 {
                return Err(self.failed(KevyError::Closed));
            }
            self.conversation.handle_bytes(&self.chunk[..count]);
        }
    }

    fn keep(&mut self, push: Vec<Reply>) {
        if self.pushes.len() == MAX_KEPT_PUSHES {
            self.pushes.pop_front();
        }
        self.pushes.push_back(push);
    }

    pub(crate) fn take_push(&mut self) -> Option<Vec<Reply>> {
        self.pushes.pop_front()
    }

    /// Marks the connection as closed if the error ends it. A timeout does not: the late reply is dropped when it comes.
    fn failed(&mut self, error: KevyError) -> KevyError {
        self.closed |= error.ends_connection();
        error
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}

fn unsent(error: KevyError) -> Failure {
    Failure { error, sent: false }
}
