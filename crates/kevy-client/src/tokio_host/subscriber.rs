//! A connection that subscribes, on tokio.

use super::link::Link;
use crate::protocol::Conversation;
use crate::subscription::{PubsubEvent, Subscription};
use crate::url::{Place, parse};
use crate::{Call, KevyError, KevyResult, Options};

/// The twin of [`crate::Subscriber`] on tokio. [`recv`](Self::recv) waits for ever; put a timeout around it if need be: it
/// loses nothing when it is dropped.
///
/// ```no_run
/// # async fn example() -> kevy_client::KevyResult<()> {
/// use kevy_client::AsyncSubscriber;
///
/// let mut subscriber = AsyncSubscriber::connect("kevy://127.0.0.1:6004").await?;
/// subscriber.subscribe(&[b"news"]).await?;
/// println!("{:?}", subscriber.recv_message().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncSubscriber {
    link: Link,
    subscription: Subscription,
}

impl AsyncSubscriber {
    /// Connects to `kevy://host:port`; Unix sockets are not served here.
    ///
    /// # Errors
    ///
    /// As [`crate::Connection::connect`].
    pub async fn connect(url: &str) -> KevyResult<Self> {
        Self::connect_with(url, &Options::default()).await
    }

    /// Connects with other [`Options`]. Their timeout holds for acknowledgements, not for messages.
    ///
    /// # Errors
    ///
    /// As [`crate::Connection::connect`].
    pub async fn connect_with(url: &str, options: &Options) -> KevyResult<Self> {
        match parse(url)?.place {
            Place::Tcp { host, port } => Self::connect_tcp(&host, port, options).await,
            Place::Unix(_) => Err(KevyError::Unsupported(
                "Unix sockets on tokio; use the blocking client".to_owned(),
            )),
        }
    }

    pub(super) async fn connect_tcp(host: &str, port: u16, options: &Options) -> KevyResult<Self> {
        Ok(Self {
            link: Link::open(host, port, Conversation::listening(), options).await?,
            subscription: Subscription::new(),
        })
    }

    /// Connects and subscribes to channels.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect) and [`subscribe`](Self::subscribe).
    pub async fn connect_channels(url: &str, channels: &[&[u8]]) -> KevyResult<Self> {
        let mut subscriber = Self::connect(url).await?;
        subscriber.subscribe(channels).await?;
        Ok(subscriber)
    }

    /// Subscribes to channels; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// When the connection fails, the server refuses, or an acknowledgement does not come in time.
    pub async fn subscribe(&mut self, channels: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.subscribe(channels);
        self.acknowledged(&call).await
    }

    /// Subscribes to patterns; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub async fn psubscribe(&mut self, patterns: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.psubscribe(patterns);
        self.acknowledged(&call).await
    }

    /// Ends subscriptions to channels, to all of them if none is named; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub async fn unsubscribe(&mut self, channels: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.unsubscribe(channels);
        self.acknowledged(&call).await
    }

    /// Ends subscriptions to patterns, to all of them if none is named; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub async fn punsubscribe(&mut self, patterns: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.punsubscribe(patterns);
        self.acknowledged(&call).await
    }

    async fn acknowledged(&mut self, call: &Call) -> KevyResult<()> {
        self.link.fresh()?;
        self.link.queue(call);
        self.link.flush().await?;
        let limit = self.link.timeout();
        while !self.subscription.is_acknowledged() {
            let event = self.link.event(limit).await?;
            self.subscription.handle(event)?;
        }
        Ok(())
    }

    /// Waits for the next event, acknowledgements too.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub async fn recv(&mut self) -> KevyResult<PubsubEvent> {
        loop {
            if let Some(event) = self.subscription.poll_event() {
                return Ok(event);
            }
            let event = self.link.event(None).await?;
            self.subscription.handle(event)?;
        }
    }

    /// Waits for the next message, and passes over acknowledgements.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub async fn recv_message(&mut self) -> KevyResult<PubsubEvent> {
        loop {
            let event = self.recv().await?;
            if event.is_message() {
                return Ok(event);
            }
        }
    }
}
