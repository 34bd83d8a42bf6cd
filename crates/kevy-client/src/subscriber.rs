//! A blocking connection that subscribes.

use std::time::Duration;

use crate::link::Link;
use crate::protocol::Conversation;
use crate::stream::Stream;
use crate::subscription::{PubsubEvent, Subscription};
use crate::url::{Place, parse};
use crate::{Call, KevyResult, Options};

/// A connection that is told what others publish. In a cluster any port tells everything.
///
/// [`subscribe`](Self::subscribe) and its like return when the server has acknowledged every name; what comes meanwhile is
/// queued, acknowledgements too. [`recv`](Self::recv) waits for ever unless
/// [`set_read_timeout`](Self::set_read_timeout) says otherwise.
///
/// ```no_run
/// use kevy_client::{PubsubEvent, Subscriber};
///
/// let mut subscriber = Subscriber::connect_channels("kevy://127.0.0.1:6004", &[b"news"])?;
/// for message in subscriber.messages() {
///     if let PubsubEvent::Message { channel, payload } = message? {
///         println!("{channel:?}: {payload:?}");
///     }
/// }
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
pub struct Subscriber {
    link: Link,
    subscription: Subscription,
    read_timeout: Option<Duration>,
}

impl Subscriber {
    /// Connects to `kevy://host:port`, or any other URL of [`crate::Connection`].
    ///
    /// # Errors
    ///
    /// As [`crate::Connection::connect`].
    pub fn connect(url: &str) -> KevyResult<Self> {
        Self::connect_with(url, &Options::default())
    }

    /// Connects with other [`Options`]. Their timeout holds for acknowledgements, not for messages.
    ///
    /// # Errors
    ///
    /// As [`crate::Connection::connect`].
    pub fn connect_with(url: &str, options: &Options) -> KevyResult<Self> {
        match parse(url)?.place {
            Place::Tcp { host, port } => Self::connect_tcp(&host, port, options),
            Place::Unix(path) => Self::open(Stream::unix(&path, options)?, options),
        }
    }

    pub(crate) fn connect_tcp(host: &str, port: u16, options: &Options) -> KevyResult<Self> {
        Self::open(Stream::tcp(host, port, options)?, options)
    }

    fn open(stream: Stream, options: &Options) -> KevyResult<Self> {
        Ok(Self {
            link: Link::open(stream, Conversation::listening(), options)?,
            subscription: Subscription::new(),
            read_timeout: None,
        })
    }

    /// Connects and subscribes to channels.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect) and [`subscribe`](Self::subscribe).
    pub fn connect_channels(url: &str, channels: &[&[u8]]) -> KevyResult<Self> {
        let mut subscriber = Self::connect(url)?;
        subscriber.subscribe(channels)?;
        Ok(subscriber)
    }

    /// Subscribes to channels; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// When the connection fails, the server refuses, or an acknowledgement does not come in time.
    pub fn subscribe(&mut self, channels: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.subscribe(channels);
        self.acknowledged(&call)
    }

    /// Subscribes to patterns; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn psubscribe(&mut self, patterns: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.psubscribe(patterns);
        self.acknowledged(&call)
    }

    /// Ends subscriptions to channels, to all of them if none is named; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn unsubscribe(&mut self, channels: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.unsubscribe(channels);
        self.acknowledged(&call)
    }

    /// Ends subscriptions to patterns, to all of them if none is named; returns when each is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn punsubscribe(&mut self, patterns: &[&[u8]]) -> KevyResult<()> {
        let call = self.subscription.punsubscribe(patterns);
        self.acknowledged(&call)
    }

    fn acknowledged(&mut self, call: &Call) -> KevyResult<()> {
        self.link.fresh()?;
        self.link.queue(call);
        self.link.flush()?;
        while !self.subscription.is_acknowledged() {
            self.take()?;
        }
        Ok(())
    }

    fn take(&mut self) -> KevyResult<()> {
        let event = self.link.event()?;
        self.subscription.handle(event)
    }

    /// Speaks RESP3 from here on.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn hello3(&mut self) -> KevyResult<()> {
        self.link.fresh()?;
        self.link.queue(&Call::read("HELLO").arg("3"));
        self.link.flush()?;
        while self.subscription.take_reply().is_none() {
            self.take()?;
        }
        Ok(())
    }

    /// Changes how long [`recv`](Self::recv) waits; `None` for ever.
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.read_timeout = timeout;
    }

    /// Waits for the next event, acknowledgements too.
    ///
    /// # Errors
    ///
    /// [`crate::KevyError::TimedOut`] when nothing came in time; one may call again. Else the connection failed.
    pub fn recv(&mut self) -> KevyResult<PubsubEvent> {
        loop {
            if let Some(event) = self.subscription.poll_event() {
                return Ok(event);
            }
            self.link.set_read_timeout(self.read_timeout)?;
            self.take()?;
        }
    }

    /// Waits for the next message, and passes over acknowledgements.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_message(&mut self) -> KevyResult<PubsubEvent> {
        loop {
            let event = self.recv()?;
            if event.is_message() {
                return Ok(event);
            }
        }
    }

    /// All events from here on; never ends, but errors come again and again when the connection has failed.
    pub fn events(&mut self) -> impl Iterator<Item = KevyResult<PubsubEvent>> {
        std::iter::from_fn(|| Some(self.recv()))
    }

    /// All messages from here on; as [`events`](Self::events).
    pub fn messages(&mut self) -> impl Iterator<Item = KevyResult<PubsubEvent>> {
        std::iter::from_fn(|| Some(self.recv_message()))
    }
}
