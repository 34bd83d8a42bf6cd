//! A connection named by a URL.

use kevy_proto::resp::Reply;

use crate::url::{Place, Target};
use crate::verbs::prelude::*;
use crate::verbs::{blocking_verbs, for_each_verb, for_each_verb_of_many_keys, with_keys};
use crate::{Client, FromReply, KevyResult, Options, Pipeline, Transaction, url};

/// A store that a URL names: so far always a server.
///
/// | URL | opens |
/// | --- | --- |
/// | `kevy://host[:port][/db]`, `redis://..` | TCP, port 6379 unless given; `/db` is selected |
/// | `tcp://host[:port]` | TCP, and nothing is said on it |
/// | `unix:///path` | a Unix socket |
/// | `mem://`, `file://` | refused: a store inside this process is another crate's work |
/// | `rediss://`, `user:password@` | refused: kevy has no TLS and no users |
///
/// ```
/// use kevy_client::{Connection, KevyError};
///
/// let refused = Connection::connect("rediss://127.0.0.1:6004");
/// assert!(matches!(refused, Err(KevyError::Unsupported(_))));
/// ```
///
/// ```no_run
/// use kevy_client::Connection;
///
/// let mut connection = Connection::connect("kevy://127.0.0.1:6004")?;
/// connection.set(b"k", b"v")?;
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Connection {
    /// A server.
    Remote(Client),
}

impl Connection {
    /// Opens what `url` names, with the usual [`Options`].
    ///
    /// # Errors
    ///
    /// [`crate::KevyError::InvalidInput`] for what is no URL, [`crate::KevyError::Unsupported`] for one that this client
    /// does not open, and as [`Client::connect`].
    pub fn connect(url: &str) -> KevyResult<Self> {
        Self::connect_with(url, &Options::default())
    }

    /// Opens what `url` names.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with(url: &str, options: &Options) -> KevyResult<Self> {
        let Target { place, database } = url::parse(url)?;
        let mut client = match place {
            Place::Tcp { host, port } => Client::connect_with(&host, port, options)?,
            Place::Unix(path) => Client::connect_unix(path, options)?,
        };
        if let Some(database) = database {
            client.call::<()>(&Call::read("SELECT").arg(database.to_string()))?;
        }
        Ok(Self::Remote(client))
    }

    fn client(&mut self) -> &mut Client {
        match self {
            Self::Remote(client) => client,
        }
    }

    /// Carries out a command and converts its reply.
    ///
    /// # Errors
    ///
    /// As [`Client::call`].
    pub fn call<T: FromReply>(&mut self, call: &Call) -> KevyResult<T> {
        self.client().call(call)
    }

    /// Carries out a command given as its words; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// As [`Client::request`].
    pub fn request<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        self.client().request(words)
    }

    /// Sends commands without waiting between them, and gives their replies in order.
    ///
    /// # Errors
    ///
    /// As [`Client::pipeline`].
    pub fn pipeline(&mut self, fill: impl FnOnce(&mut Pipeline)) -> KevyResult<Vec<Reply>> {
        self.client().pipeline(fill)
    }

    /// Watches keys: the next transaction is carried out only if none of them changes before.
    ///
    /// # Errors
    ///
    /// As [`Client::call`].
    pub fn watch(&mut self, keys: &[&[u8]]) -> KevyResult<()> {
        self.client().watch(keys)
    }

    /// Watches no key any more.
    ///
    /// # Errors
    ///
    /// As [`Client::call`].
    pub fn unwatch(&mut self) -> KevyResult<()> {
        self.client().unwatch()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// As [`Client::call`].
    pub fn multi(&mut self) -> KevyResult<Transaction<'_>> {
        self.client().multi()
    }
}

/// The verbs.
impl Connection {
    for_each_verb!(blocking_verbs);
    for_each_verb_of_many_keys!(blocking_verbs);
}
