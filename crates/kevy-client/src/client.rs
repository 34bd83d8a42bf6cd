//! One blocking connection to one server.

use std::path::Path;

use kevy_proto::resp::Reply;

use crate::link::Link;
use crate::protocol::Conversation;
use crate::stream::Stream;
use crate::transaction::Transaction;
use crate::verbs::prelude::*;
use crate::verbs::{blocking_verbs, for_each_verb, for_each_verb_of_many_keys, with_keys};
use crate::{FromReply, KevyResult, Options, Pipeline, pipeline};

/// A blocking client with one connection, to any port of any server.
///
/// After a timeout it can be used on: the late reply is dropped. After an error of the connection every call gives
/// [`crate::KevyError::Closed`]: connect anew.
///
/// ```no_run
/// use kevy_client::Client;
///
/// let mut client = Client::connect("127.0.0.1", 6004)?;
/// client.set(b"user:42", b"alice")?;
/// assert_eq!(client.get(b"user:42")?, Some(b"alice".to_vec()));
/// client.hset(b"h", &[(b"field", b"value")])?;
/// let replies = client.pipeline(|p| {
///     p.cmd(&["INCR", "n"]).cmd(&["INCR", "n"]);
/// })?;
/// assert_eq!(replies.len(), 2);
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    link: Link,
}

impl Client {
    /// Connects over TCP with the usual [`Options`].
    ///
    /// # Errors
    ///
    /// When nobody answers at any address of `host`.
    pub fn connect(host: &str, port: u16) -> KevyResult<Self> {
        Self::connect_with(host, port, &Options::default())
    }

    /// Connects over TCP.
    ///
    /// # Errors
    ///
    /// When nobody answers at any address of `host`, or the server does not know `HELLO 3` that the options want.
    pub fn connect_with(host: &str, port: u16, options: &Options) -> KevyResult<Self> {
        let link = Link::tcp(host, port, options)?;
        Ok(Self { link })
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    ///
    /// As [`connect_with`](Self::connect_with).
    pub fn connect_unix(path: impl AsRef<Path>, options: &Options) -> KevyResult<Self> {
        let stream = Stream::unix(path.as_ref(), options)?;
        let link = Link::open(stream, Conversation::new(), options)?;
        Ok(Self { link })
    }

    /// Carries out a command and converts its reply.
    ///
    /// # Errors
    ///
    /// When the connection fails or nothing comes in time, when the server refuses, when the reply has another type.
    pub fn call<T: FromReply>(&mut self, call: &Call) -> KevyResult<T> {
        T::from_reply(self.send(call)?)
    }

    /// Carries out a command given as its words; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When the connection fails or nothing comes in time.
    pub fn request<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        self.send(&Call::from_args(words)?)
    }

    pub(crate) fn send(&mut self, call: &Call) -> KevyResult<Reply> {
        self.link.exchange(call).map_err(|failure| failure.error)
    }

    /// Sends commands without waiting between them, and gives their replies in order; error replies are [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When the connection fails or nothing comes in time; what was carried out is unknown then.
    pub fn pipeline(&mut self, fill: impl FnOnce(&mut Pipeline)) -> KevyResult<Vec<Reply>> {
        pipeline::run(&mut self.link, &Pipeline::filled(fill)?)
    }

    /// Watches keys: the next transaction is carried out only if none of them changes before.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn watch(&mut self, keys: &[&[u8]]) -> KevyResult<()> {
        self.call(&Call::write("WATCH").keys(keys))
    }

    /// Watches no key any more.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn unwatch(&mut self) -> KevyResult<()> {
        self.call(&Call::write("UNWATCH"))
    }

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn multi(&mut self) -> KevyResult<Transaction<'_>> {
        self.call::<()>(&Call::write("MULTI"))?;
        Ok(Transaction::new(self))
    }

    /// Speaks RESP3 from here on.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn hello3(&mut self) -> KevyResult<()> {
        self.link.hello3()
    }

    /// The oldest out-of-band message of RESP3 that arrived with replies, its kind first. At most
    /// [`crate::MAX_KEPT_PUSHES`] are kept.
    pub fn take_push(&mut self) -> Option<Vec<Reply>> {
        self.link.take_push()
    }

    /// Whether the connection has failed.
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The verbs.
impl Client {
    for_each_verb!(blocking_verbs);
    for_each_verb_of_many_keys!(blocking_verbs);
}
