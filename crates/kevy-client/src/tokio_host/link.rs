//! A socket of tokio with its conversation.

use std::time::Duration;

use kevy_proto::resp::Reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::call::Wait;
use crate::from_reply::no_error;
use crate::link::{Failure, READ_BYTES};
use crate::protocol::{Conversation, Event};
use crate::{Call, KevyError, KevyResult, Options};

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    conversation: Conversation,
    chunk: Box<[u8]>,
    timeout: Option<Duration>,
    closed: bool,
}

impl Link {
    pub(super) async fn open(
        host: &str,
        port: u16,
        conversation: Conversation,
        options: &Options,
    ) -> KevyResult<Self> {
        let connecting = TcpStream::connect((host, port));
        let stream = within(Some(options.connect_timeout), async {
            Ok(connecting.await?)
        })
        .await?;
        stream.set_nodelay(true)?;
        let mut link = Self {
            stream,
            conversation,
            chunk: vec![0; READ_BYTES].into(),
            timeout: options.timeout,
            closed: false,
        };
        if options.resp3 {
            let hello = Call::read("HELLO").arg("3");
            let reply = link.exchange(&hello).await;
            no_error(reply.map_err(|failure| failure.error)?)?;
        }
        Ok(link)
    }

    /// Sends one command and waits for its reply.
    pub(super) async fn exchange(&mut self, call: &Call) -> Result<Reply, Failure> {
        let begun = call.check().and_then(|()| self.fresh());
        begun.map_err(|error| Failure { error, sent: false })?;
        self.queue(call);
        let outcome = match self.flush().await {
            Ok(()) => self.receive(call.wait()).await,
            Err(error) => Err(error),
        };
        outcome.map_err(|error| Failure { error, sent: true })
    }

    /// Lets go of earlier requests that nobody waits for any more.
    pub(super) fn fresh(&mut self) -> KevyResult<()> {
        if self.closed {
            return Err(KevyError::Closed);
        }
        self.conversation.abandon();
        Ok(())
    }

    /// Adds a request.
    pub(super) fn queue(&mut self, call: &Call) {
        self.conversation.request(call.words().iter());
    }

    /// Transmits what waits for it.
    pub(super) async fn flush(&mut self) -> KevyResult<()> {
        let limit = self.timeout;
        while !self.conversation.transmit().is_empty() {
            let (stream, bytes) = (&mut self.stream, self.conversation.transmit());
            let count = match within(limit, async { Ok(stream.write(bytes).await?) }).await {
                Ok(0) => return Err(self.failed(KevyError::Closed)),
                Ok(count) => count,
                Err(error) => return Err(self.failed(error)),
            };
            self.conversation.transmitted(count);
        }
        Ok(())
    }

    /// Waits for the reply to the oldest unanswered request.
    pub(super) async fn receive(&mut self, wait: Wait) -> KevyResult<Reply> {
        let limit = match wait {
            Wait::Usual => self.timeout,
            Wait::Longer(more) => self.timeout.map(|usual| usual.saturating_add(more)),
            Wait::Forever => None,
        };
        loop {
            // Nobody asked for pushes: this client tracks nothing.
            if let Event::Reply(reply) = self.event(limit).await? {
                return Ok(reply);
            }
        }
    }

    /// Waits for whatever comes next, at most `limit` for each part of it.
    pub(super) async fn event(&mut self, limit: Option<Duration>) -> KevyResult<Event> {
        loop {
            let polled = self.conversation.poll_event();
            if let Some(event) = polled.map_err(|error| self.failed(error))? {
                return Ok(event);
            }
            let (stream, chunk) = (&mut self.stream, &mut self.chunk);
            let count = match within(limit, async { Ok(stream.read(chunk).await?) }).await {
                Ok(0) => return Err(self.failed(KevyError::Closed)),
                Ok(count) => count,
                Err(error) => return Err(self.failed(error)),
            };
            self.conversation.handle_bytes(&self.chunk[..count]);
        }
    }

    /// How long to wait for the server, unless a command says otherwise.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn failed(&mut self, error: KevyError) -> KevyError {
        self.closed |= error.ends_connection();
        error
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// What `future` gives, unless it takes too long.
async fn within<T>(
    limit: Option<Duration>,
    future: impl Future<Output = KevyResult<T>>,
) -> KevyResult<T> {
    match limit {
        Some(limit) => timeout(limit, future)
            .await
            .unwrap_or(Err(KevyError::TimedOut)),
        None => future.await,
    }
}
