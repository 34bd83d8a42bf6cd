//! `MULTI` and `EXEC` with types.

use std::collections::VecDeque;

use kevy_proto::resp::Reply;

use crate::from_reply::{elements, is_null, no_error};
use crate::verbs::with_keys;
use crate::{Call, Client, FromReply, KevyError, KevyResult, pipeline};

/// A transaction that is being written. Commands wait here until `exec`, which sends them all at once.
///
/// Dropping it sends `DISCARD`.
///
/// ```no_run
/// # let mut client = kevy_client::Client::connect("127.0.0.1", 6004)?;
/// client.watch(&[b"stock"])?;
/// let stock = client.get(b"stock")?;
/// let mut transaction = client.multi()?;
/// transaction.incr_by(b"stock", -1).get(b"stock");
/// match transaction.exec_watched_typed()? {
///     Some(mut replies) => println!("{stock:?} then {}", replies.next_int()?),
///     None => println!("somebody else was quicker"),
/// }
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
pub struct Transaction<'a> {
    client: &'a mut Client,
    calls: Vec<Call>,
    ended: bool,
}

impl<'a> Transaction<'a> {
    /// `MULTI` has been answered.
    pub(crate) fn new(client: &'a mut Client) -> Self {
        Self {
            client,
            calls: Vec::new(),
            ended: false,
        }
    }

    /// Queues a command.
    pub fn queue(&mut self, call: Call) -> &mut Self {
        self.calls.push(call);
        self
    }

    /// Queues a command given as its words.
    ///
    /// # Errors
    ///
    /// [`KevyError::InvalidInput`] without words.
    pub fn cmd<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<&mut Self> {
        Ok(self.queue(Call::from_args(words)?))
    }

    /// Queues `SET`; replies with [`TransactionReplies::next_ok`].
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.queue(Call::write("SET").key(key).arg(value))
    }

    /// Queues `GET`; replies with [`TransactionReplies::next_bulk`].
    pub fn get(&mut self, key: &[u8]) -> &mut Self {
        self.queue(Call::read("GET").key(key))
    }

    /// Queues `DEL`; replies with [`TransactionReplies::next_int`].
    pub fn del(&mut self, keys: &[&[u8]]) -> &mut Self {
        self.queue(Call::write("DEL").keys(keys))
    }

    /// Queues `EXISTS`; replies with [`TransactionReplies::next_int`].
    pub fn exists(&mut self, keys: &[&[u8]]) -> &mut Self {
        self.queue(Call::read("EXISTS").keys(keys))
    }

    /// Queues `INCR`; replies with [`TransactionReplies::next_int`].
    pub fn incr(&mut self, key: &[u8]) -> &mut Self {
        self.queue(Call::write("INCR").key(key))
    }

    /// Queues `INCRBY`; replies with [`TransactionReplies::next_int`].
    pub fn incr_by(&mut self, key: &[u8], by: i64) -> &mut Self {
        self.queue(Call::write("INCRBY").key(key).number(by))
    }

    /// Queues `MGET`; replies with [`TransactionReplies::next_array_of_bulks`].
    pub fn mget(&mut self, keys: &[&[u8]]) -> &mut Self {
        self.queue(Call::read("MGET").keys(keys))
    }

    /// Queues `MSET`; replies with [`TransactionReplies::next_ok`].
    pub fn mset(&mut self, pairs: &[(&[u8], &[u8])]) -> &mut Self {
        self.queue(with_keys(Call::write("MSET"), pairs))
    }

    /// Carries out the commands, all or none, and gives their replies.
    ///
    /// # Errors
    ///
    /// The server's refusal of a command that cannot be queued (none is carried out then);
    /// [`KevyError::Protocol`] when a watched key has changed; when the connection fails.
    pub fn exec(self) -> KevyResult<Vec<Reply>> {
        self.exec_watched()?
            .ok_or_else(|| KevyError::Protocol("a watched key has changed".to_owned()))
    }

    /// As [`exec`](Self::exec), for replies with types.
    ///
    /// # Errors
    ///
    /// As [`exec`](Self::exec).
    pub fn exec_typed(self) -> KevyResult<TransactionReplies> {
        self.exec().map(TransactionReplies::new)
    }

    /// Carries out the commands, all or none, unless a watched key has changed: `None` then.
    ///
    /// # Errors
    ///
    /// As [`exec`](Self::exec).
    pub fn exec_watched(mut self) -> KevyResult<Option<Vec<Reply>>> {
        self.calls.iter().try_for_each(Call::check)?;
        self.ended = true;
        self.calls.push(Call::write("EXEC"));
        outcome(pipeline::run(self.client.link(), &self.calls)?)
    }

    /// As [`exec_watched`](Self::exec_watched), for replies with types.
    ///
    /// # Errors
    ///
    /// As [`exec`](Self::exec).
    pub fn exec_watched_typed(self) -> KevyResult<Option<TransactionReplies>> {
        Ok(self.exec_watched()?.map(TransactionReplies::new))
    }

    /// Drops the commands, and watches no key any more.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub fn discard(mut self) -> KevyResult<()> {
        self.ended = true;
        self.client.call(&Call::write("DISCARD"))
    }
}

/// The replies of a transaction's commands, from those that its commands and then `EXEC` were answered with; `None` if a
/// watched key has changed.
pub(crate) fn outcome(mut replies: Vec<Reply>) -> KevyResult<Option<Vec<Reply>>> {
    let executed = replies.pop().ok_or(KevyError::Closed)?;
    // What was wrong with a command says more than EXECABORT.
    for reply in replies {
        no_error(reply)?;
    }
    // The replies in it may be errors, and are the caller's to judge.
    let executed = no_error(executed)?;
    if is_null(&executed) {
        return Ok(None);
    }
    elements(executed).map(Some)
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.ended && !self.client.is_closed() {
            // Nobody is left to tell: a connection that fails here says so at its next use.
            let _: KevyResult<()> = self.client.call(&Call::write("DISCARD"));
        }
    }
}

/// The replies of a transaction, taken one by one in the order of its commands.
///
/// ```
/// use kevy_client::{Reply, TransactionReplies};
///
/// let mut replies = TransactionReplies::new(vec![Reply::OK, Reply::Integer(2), Reply::Null]);
/// replies.next_ok()?;
/// assert_eq!(replies.next_int()?, 2);
/// assert_eq!(replies.next_bulk()?, None);
/// replies.expect_empty()?;
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
pub struct TransactionReplies {
    replies: VecDeque<Reply>,
}

impl TransactionReplies {
    /// Takes the replies of [`Transaction::exec`].
    pub fn new(replies: Vec<Reply>) -> Self {
        Self {
            replies: replies.into(),
        }
    }

    /// How many replies are left.
    pub fn remaining(&self) -> usize {
        self.replies.len()
    }

    /// The next reply as a value of type `T`.
    ///
    /// # Errors
    ///
    /// [`KevyError::NotFound`] when none is left; else as [`FromReply::from_reply`]. So for all that follow.
    pub fn next_as<T: FromReply>(&mut self) -> KevyResult<T> {
        T::from_reply(self.raw()?)
    }

    /// The next reply, which is `OK`.
    ///
    /// # Errors
    ///
    /// As [`next_as`](Self::next_as).
    pub fn next_ok(&mut self) -> KevyResult<()> {
        self.next_as()
    }

    /// The next reply: whether it is `OK` and not nil (`SET .. NX`).
    ///
    /// # Errors
    ///
    /// As [`next_as`](Self::next_as).
    pub fn next_ok_or_nil(&mut self) -> KevyResult<bool> {
        Ok(self.next_as::<Option<()>>()?.is_some())
    }

    /// The next reply, an integer.
    ///
    /// # Errors
    ///
    /// As [`next_as`](Self::next_as).
    pub fn next_int(&mut self) -> KevyResult<i64> {
        self.next_as()
    }

    /// The next reply, a string or nil.
    ///
    /// # Errors
    ///
    /// As [`next_as`](Self::next_as).
    pub fn next_bulk(&mut self) -> KevyResult<Option<Vec<u8>>> {
        self.next_as()
    }

    /// The next reply, an array of strings or nils.
    ///
    /// # Errors
    ///
    /// As [`next_as`](Self::next_as).
    pub fn next_array_of_bulks(&mut self) -> KevyResult<Vec<Option<Vec<u8>>>> {
        self.next_as()
    }

    /// The next reply, a line of text.
    ///
    /// # Errors
    ///
    /// As [`next_as`](Self::next_as).
    pub fn next_simple(&mut self) -> KevyResult<String> {
        self.next_as()
    }

    /// The next reply as it is, errors too.
    ///
    /// # Errors
    ///
    /// [`KevyError::NotFound`] when none is left.
    pub fn raw(&mut self) -> KevyResult<Reply> {
        self.replies.pop_front().ok_or(KevyError::NotFound)
    }

    /// Checks that every reply has been taken.
    ///
    /// # Errors
    ///
    /// [`KevyError::Protocol`] when some are left.
    pub fn expect_empty(&self) -> KevyResult<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(KevyError::Protocol(format!(
                "{left} replies were not taken"
            ))),
        }
    }
}
