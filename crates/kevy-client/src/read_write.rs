//! A primary and its replicas: writes go to the one, reads to the others.

use std::collections::HashSet;

use kevy_proto::resp::Reply;

use crate::cluster::Address;
use crate::from_reply::{elements, no_error};
use crate::link::Failure;
use crate::verbs::prelude::*;
use crate::verbs::{blocking_verbs, for_each_verb, for_each_verb_of_many_keys, with_keys};
use crate::{Access, Client, FromReply, KevyError, KevyResult, Options};

/// A blocking client of a primary and its replicas.
///
/// Verbs that write go to the primary; those that read go to the replicas in turn, so they may miss what was written a
/// moment ago: [`request_read`](Self::request_read) with `consistent` asks the primary. A replica that fails is passed
/// over, and connected to anew when its turn comes again; without any replica the primary answers.
///
/// ```no_run
/// use kevy_client::ReadWriteClient;
///
/// let mut client = ReadWriteClient::connect(("10.0.0.1", 6004), &[("10.0.0.2", 6004)])?;
/// client.set(b"k", b"v")?;
/// let perhaps_old = client.get(b"k")?;
/// let fresh = client.request_read(&["GET", "k"], true)?;
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
pub struct ReadWriteClient {
    primary: Node,
    replicas: Vec<Node>,
    /// The replica whose turn it is.
    turn: usize,
    /// Commands that change nothing, in lower case, as the primary's `COMMAND` says.
    reads: HashSet<Vec<u8>>,
    options: Options,
}

#[derive(Debug)]
struct Node {
    address: Address,
    client: Option<Client>,
}

impl Node {
    fn new((host, port): (&str, u16)) -> Self {
        Self {
            address: Address::new(host, port),
            client: None,
        }
    }

    fn exchange(&mut self, call: &Call, options: &Options) -> Result<Reply, Failure> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            let (host, port) = (self.address.host(), self.address.port());
            let connected = Client::connect_with(host, port, options);
            self.client = Some(connected.map_err(|error| Failure { error, sent: false })?);
        }
        match &mut self.client {
            Some(client) => client.link().exchange(call),
            None => Err(Failure {
                error: KevyError::Closed,
                sent: false,
            }),
        }
    }
}

impl ReadWriteClient {
    /// Connects to the primary at `(host, port)`, and learns from it which commands only read. Replicas are connected to
    /// when first asked.
    ///
    /// # Errors
    ///
    /// When the primary cannot be reached.
    pub fn connect(primary: (&str, u16), replicas: &[(&str, u16)]) -> KevyResult<Self> {
        Self::connect_with(primary, replicas, Options::default())
    }

    /// Connects with other [`Options`].
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with(
        primary: (&str, u16),
        replicas: &[(&str, u16)],
        options: Options,
    ) -> KevyResult<Self> {
        let mut client = Self {
            primary: Node::new(primary),
            replicas: replicas.iter().copied().map(Node::new).collect(),
            turn: 0,
            reads: HashSet::new(),
            options,
        };
        let commands = client.send_to_primary(&Call::read("COMMAND"))?;
        client.reads = reads(commands)?;
        Ok(client)
    }

    /// Carries out a command and converts its reply: at the primary if it writes, else at a replica.
    ///
    /// # Errors
    ///
    /// As [`Client::call`].
    pub fn call<T: FromReply>(&mut self, call: &Call) -> KevyResult<T> {
        let reply = match call.access() {
            Access::Write => self.send_to_primary(call),
            Access::Read => self.send_to_replica(call),
        };
        T::from_reply(reply?)
    }

    /// Carries out a command given as its words where it belongs: what the primary's `COMMAND` marks as read-only at a
    /// replica, anything else at the primary.
    ///
    /// # Errors
    ///
    /// As [`Client::request`].
    pub fn request<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        let name = words.first().map(|name| name.as_ref().to_ascii_lowercase());
        if name.is_some_and(|name| self.reads.contains(&name)) {
            self.request_read(words, false)
        } else {
            self.request_write(words)
        }
    }

    /// Carries out a command at the primary.
    ///
    /// # Errors
    ///
    /// As [`Client::request`].
    pub fn request_write<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        self.send_to_primary(&Call::from_args(words)?)
    }

    /// Carries out a command that only reads: at the primary if the answer must be `consistent` with every write that was
    /// acknowledged, else at a replica.
    ///
    /// # Errors
    ///
    /// As [`Client::request`].
    pub fn request_read<A: AsRef<[u8]>>(
        &mut self,
        words: &[A],
        consistent: bool,
    ) -> KevyResult<Reply> {
        let call = Call::from_args(words)?;
        if consistent {
            self.send_to_primary(&call)
        } else {
            self.send_to_replica(&call)
        }
    }

    /// Connects anew if the connection is closed. What may have arrived is not sent again.
    fn send_to_primary(&mut self, call: &Call) -> KevyResult<Reply> {
        let outcome = self.primary.exchange(call, &self.options);
        outcome.map_err(|failure| failure.error)
    }

    /// Asks one replica after the other, starting with the one whose turn it is, and then the primary.
    fn send_to_replica(&mut self, call: &Call) -> KevyResult<Reply> {
        for _ in 0..self.replicas.len() {
            self.turn = (self.turn + 1) % self.replicas.len();
            match self.replicas[self.turn].exchange(call, &self.options) {
                Ok(reply) if !is_unfit(&reply) => return Ok(reply),
                // Another one may do better: it is only a read.
                Ok(_) | Err(_) => {}
            }
        }
        self.send_to_primary(call)
    }
}

/// Whether a replica says that it cannot answer now.
fn is_unfit(reply: &Reply) -> bool {
    let Reply::Error(text) = reply else {
        return false;
    };
    text.starts_with(b"LOADING") || text.starts_with(b"MASTERDOWN")
}

/// The names of the commands that have the flag `readonly`.
fn reads(commands: Reply) -> KevyResult<HashSet<Vec<u8>>> {
    let mut reads = HashSet::new();
    for command in elements(no_error(commands)?)? {
        let mut columns = elements(command)?.into_iter();
        let (Some(name), Some(flags)) = (columns.next(), columns.nth(1)) else {
            return Err(KevyError::Protocol(
                "COMMAND: a row without flags".to_owned(),
            ));
        };
        let flags = Vec::<String>::from_reply(flags)?;
        if flags.iter().any(|flag| flag == "readonly") {
            reads.insert(Vec::from_reply(name)?);
        }
    }
    Ok(reads)
}

/// The verbs.
impl ReadWriteClient {
    for_each_verb!(blocking_verbs);
    for_each_verb_of_many_keys!(blocking_verbs);
}
