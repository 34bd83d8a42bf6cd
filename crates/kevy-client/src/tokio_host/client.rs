//! One connection to one server, on tokio.

use kevy_proto::resp::Reply;

use super::AsyncPipeline;
use super::link::Link;
use crate::call::Wait;
use crate::link::Failure;
use crate::pipeline::window;
use crate::protocol::Conversation;
use crate::transaction::outcome;
use crate::verbs::prelude::*;
use crate::verbs::{async_verbs, for_each_verb, for_each_verb_of_many_keys, with_keys};
use crate::{FromReply, KevyResult, Options, Pipeline, TransactionReplies};

/// The twin of [`crate::Client`] on tokio.
///
/// ```no_run
/// # async fn example() -> kevy_client::KevyResult<()> {
/// use kevy_client::AsyncClient;
///
/// let mut client = AsyncClient::connect("127.0.0.1", 6004).await?;
/// client.set(b"k", b"v").await?;
/// let replies = client.pipeline().cmd(&["INCR", "n"]).cmd(&["GET", "k"]).execute().await?;
/// assert_eq!(replies.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncClient {
    link: Link,
}

impl AsyncClient {
    /// Connects over TCP with the usual [`Options`].
    ///
    /// # Errors
    ///
    /// When nobody answers at any address of `host`.
    pub async fn connect(host: &str, port: u16) -> KevyResult<Self> {
        Self::connect_with(host, port, &Options::default()).await
    }

    /// Connects over TCP.
    ///
    /// # Errors
    ///
    /// When nobody answers at any address of `host`, or the server does not know `HELLO 3` that the options want.
    pub async fn connect_with(host: &str, port: u16, options: &Options) -> KevyResult<Self> {
        let link = Link::open(host, port, Conversation::new(), options).await?;
        Ok(Self { link })
    }

    /// Carries out a command and converts its reply.
    ///
    /// # Errors
    ///
    /// When the connection fails or nothing comes in time, when the server refuses, when the reply has another type.
    pub async fn call<T: FromReply>(&mut self, call: &Call) -> KevyResult<T> {
        T::from_reply(self.send(call).await?)
    }

    /// Carries out a command given as its words; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When the connection fails or nothing comes in time.
    pub async fn request<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        self.send(&Call::from_args(words)?).await
    }

    /// Commands to send without waiting between them.
    pub fn pipeline(&mut self) -> AsyncPipeline<'_> {
        AsyncPipeline::of_client(self)
    }

    /// Carries out commands between `MULTI` and `EXEC`, all or none; `None` if a watched key has changed.
    ///
    /// # Errors
    ///
    /// The server's refusal of a command that cannot be queued; when the connection fails or nothing comes in time.
    pub async fn transaction(
        &mut self,
        fill: impl FnOnce(&mut Pipeline),
    ) -> KevyResult<Option<TransactionReplies>> {
        let mut calls = vec![Call::write("MULTI")];
        calls.extend(Pipeline::filled(fill)?);
        calls.push(Call::write("EXEC"));
        let replies = outcome(self.run(&calls).await?)?;
        Ok(replies.map(TransactionReplies::new))
    }

    /// Watches keys: the next transaction is carried out only if none of them changes before.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn watch(&mut self, keys: &[&[u8]]) -> KevyResult<()> {
        self.call(&Call::write("WATCH").keys(keys)).await
    }

    /// Watches no key any more.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn unwatch(&mut self) -> KevyResult<()> {
        self.call(&Call::write("UNWATCH")).await
    }

    /// Whether the connection has failed.
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    pub(super) async fn send(&mut self, call: &Call) -> KevyResult<Reply> {
        let outcome = self.exchange(call).await;
        outcome.map_err(|failure| failure.error)
    }

    pub(super) async fn exchange(&mut self, call: &Call) -> Result<Reply, Failure> {
        self.link.exchange(call).await
    }

    pub(super) async fn run(&mut self, calls: &[Call]) -> KevyResult<Vec<Reply>> {
        self.link.fresh()?;
        let mut replies = Vec::with_capacity(calls.len());
        let mut rest = calls;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(window(rest));
            now.iter().for_each(|call| self.link.queue(call));
            self.link.flush().await?;
            for _ in now {
                replies.push(self.link.receive(Wait::Usual).await?);
            }
            rest = later;
        }
        Ok(replies)
    }

    pub(super) fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The verbs.
impl AsyncClient {
    for_each_verb!(async_verbs);
    for_each_verb_of_many_keys!(async_verbs);
}
