//! A pipeline to `.await`.

use kevy_proto::resp::Reply;

use super::{AsyncClient, AsyncClusterClient};
use crate::{Call, KevyResult, Pipeline};

/// Commands that are sent without waiting for each other's replies: the twin of [`Pipeline`] on tokio.
///
/// ```no_run
/// # async fn example(mut client: kevy_client::AsyncClusterClient) -> kevy_client::KevyResult<()> {
/// let replies = client.pipeline().cmd(&["SET", "a", "1"]).cmd(&["INCR", "a"]).execute().await?;
/// assert_eq!(replies.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it does nothing until it is executed"]
pub struct AsyncPipeline<'a> {
    target: Target<'a>,
    pipeline: Pipeline,
}

#[derive(Debug)]
enum Target<'a> {
    Client(&'a mut AsyncClient),
    Cluster(&'a mut AsyncClusterClient),
}

impl<'a> AsyncPipeline<'a> {
    pub(super) fn of_client(client: &'a mut AsyncClient) -> Self {
        Self::new(Target::Client(client))
    }

    pub(super) fn of_cluster(client: &'a mut AsyncClusterClient) -> Self {
        Self::new(Target::Cluster(client))
    }

    fn new(target: Target<'a>) -> Self {
        Self {
            target,
            pipeline: Pipeline::new(),
        }
    }

    /// Adds a command, its name first. A cluster's client takes the first argument for its key.
    pub fn cmd<A: AsRef<[u8]>>(mut self, words: &[A]) -> Self {
        self.pipeline.cmd(words);
        self
    }

    /// Adds a command that says which of its arguments is the key.
    pub fn call(mut self, call: Call) -> Self {
        self.pipeline.call(call);
        self
    }

    /// Sends the commands, and gives their replies in order; error replies are [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When the connection fails or nothing comes in time; what was carried out is unknown then.
    pub async fn execute(self) -> KevyResult<Vec<Reply>> {
        let calls = self.pipeline.into_calls()?;
        match self.target {
            Target::Client(client) => client.run(&calls).await,
            Target::Cluster(client) => client.run(&calls).await,
        }
    }
}
