//! The blocking cluster client: carries commands to where the router says.

use std::collections::HashMap;
use std::thread;

use kevy_proto::resp::Reply;

use super::redirect::is_cross_slot;
use super::router::{Journey, Outcomes, Router, by_target, note_failure, topology_call};
use super::{Address, ClusterOptions};
use crate::link::Failure;
use crate::pipeline::window;
use crate::verbs::prelude::*;
use crate::verbs::{blocking_verbs, for_each_verb, with_keys};
use crate::{Client, FromReply, KevyError, KevyResult, Pipeline, Subscriber};

/// A blocking client with one connection to each shard, opened when first needed after the start.
///
/// Each command goes to the shard that owns its first key, so that no shard has to forward it. The client follows `MOVED`,
/// `ASK` and `MISDIRECTED` (and remembers who writes a prefix), waits when it is told `QUIESCED`, `TRYAGAIN`, `LOADING` or
/// `CLUSTERDOWN`, and connects anew when a connection fails. A write that may have been carried out is not sent again: its
/// error is the caller's. All of that is bounded by [`ClusterOptions`].
///
/// ```no_run
/// use kevy_client::ClusterClient;
///
/// let mut cc = ClusterClient::connect("127.0.0.1", 6005)?;
/// cc.set(b"user:42", b"alice")?;
/// let v = cc.get(b"user:42")?;
/// let n = cc.incr(b"counter")?;
/// let removed = cc.del(&[b"a", b"b", b"c"])?;
/// let reply = cc.request_keyed(b"mykey", &[b"STRLEN".to_vec(), b"mykey".to_vec()])?;
/// let reply = cc.request_unkeyed(&[b"PING".to_vec()])?;
/// # Ok::<(), kevy_client::KevyError>(())
/// ```
#[derive(Debug)]
pub struct ClusterClient {
    router: Router,
    clients: HashMap<Address, Client>,
}

impl ClusterClient {
    /// Connects to any port of the cluster, learns who owns which slots, and connects to every shard.
    ///
    /// # Errors
    ///
    /// When the node or a shard cannot be reached, or the server is not in cluster mode.
    pub fn connect(host: &str, port: u16) -> KevyResult<Self> {
        Self::connect_with(host, port, ClusterOptions::default())
    }

    /// Connects with other options.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with(host: &str, port: u16, options: ClusterOptions) -> KevyResult<Self> {
        let seed = Address::new(host, port);
        let mut client = Self {
            router: Router::new(seed.clone(), options),
            clients: HashMap::new(),
        };
        client.learn_from(&seed)?;
        for node in client.router.nodes().to_vec() {
            client.client(&node)?;
        }
        client.drop_strangers();
        Ok(client)
    }

    /// How many shards own slots.
    pub fn shard_count(&self) -> usize {
        self.router.nodes().len()
    }

    /// Where the shards listen.
    pub fn nodes(&self) -> &[Address] {
        self.router.nodes()
    }

    /// The connection to the shard that owns `key`: for transactions, whose keys share a hash tag on a Redis Cluster (on
    /// kevy they need not). Nothing is followed on it.
    ///
    /// # Errors
    ///
    /// When the shard cannot be reached.
    pub fn shard_of(&mut self, key: &[u8]) -> KevyResult<&mut Client> {
        let call = Call::read("GET").key(key);
        let target = self.router.depart(&call).target().clone();
        self.client(&target)
    }

    /// A new connection that subscribes: whichever shard it is at, it is told everything.
    ///
    /// # Errors
    ///
    /// When no shard can be reached.
    pub fn subscriber(&self) -> KevyResult<Subscriber> {
        let options = &self.router.options().connection;
        let mut last = KevyError::Closed;
        for node in self.router.informants() {
            match Subscriber::connect_tcp(node.host(), node.port(), options) {
                Ok(subscriber) => return Ok(subscriber),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Carries out a command and converts its reply.
    ///
    /// # Errors
    ///
    /// When every way to carry it out failed, when the server refuses, when the reply has another type.
    pub fn call<T: FromReply>(&mut self, call: &Call) -> KevyResult<T> {
        T::from_reply(self.send(call)?)
    }

    /// Carries out a command, given as its words, at the shard that owns `key`; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When every way to carry it out failed.
    pub fn request_keyed<A: AsRef<[u8]>>(&mut self, key: &[u8], words: &[A]) -> KevyResult<Reply> {
        self.send(&Call::from_args(words)?.routed_by(key))
    }

    /// Carries out a command, given as its words, at any shard; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When every way to carry it out failed.
    pub fn request_unkeyed<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        self.send(&Call::from_args(words)?.unrouted())
    }

    /// Sends commands to their shards without waiting between them, and gives their replies in order. What is redirected
    /// is sent again by itself, after the others.
    ///
    /// # Errors
    ///
    /// When a command failed in every way it can be carried out; what the others did is unknown then.
    pub fn pipeline(&mut self, fill: impl FnOnce(&mut Pipeline)) -> KevyResult<Vec<Reply>> {
        self.run(&Pipeline::filled(fill)?)
    }

    /// Removes keys, each at its shard; gives how many there were.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); some keys may be gone then.
    pub fn del(&mut self, keys: &[&[u8]]) -> KevyResult<usize> {
        self.sum(keys, || Call::write("DEL"))
    }

    /// How many of the keys exist, each asked for at its shard; one that is named twice counts twice.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn exists(&mut self, keys: &[&[u8]]) -> KevyResult<usize> {
        self.sum(keys, || Call::read("EXISTS"))
    }

    fn sum(&mut self, keys: &[&[u8]], command: impl Fn() -> Call) -> KevyResult<usize> {
        let calls: Vec<_> = keys.iter().map(|key| command().key(key)).collect();
        let replies = self.run(&calls)?.into_iter();
        replies.map(usize::from_reply).sum()
    }

    /// The strings at keys, in their order; `None` for what is no string. All at once on kevy; a server that refuses keys
    /// of several slots is asked for each.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn mget(&mut self, keys: &[&[u8]]) -> KevyResult<Vec<Option<Vec<u8>>>> {
        let reply = self.send(&Call::read("MGET").keys(keys))?;
        if !is_cross_slot(&reply) {
            return Vec::from_reply(reply);
        }
        let calls: Vec<_> = keys.iter().map(|key| Call::read("MGET").key(key)).collect();
        let replies = self.run(&calls)?.into_iter();
        let values = replies.map(Vec::<Option<Vec<u8>>>::from_reply);
        Ok(values.collect::<KevyResult<Vec<_>>>()?.concat())
    }

    /// Sets strings, all at once on kevy; on a server that refuses keys of several slots one after the other.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn mset(&mut self, pairs: &[(&[u8], &[u8])]) -> KevyResult<()> {
        let reply = self.send(&with_keys(Call::write("MSET"), pairs))?;
        if !is_cross_slot(&reply) {
            return <()>::from_reply(reply);
        }
        let pairs = pairs.iter();
        let calls: Vec<_> = pairs
            .map(|(key, value)| Call::write("SET").key(key).arg(value))
            .collect();
        self.run(&calls)?.into_iter().try_for_each(<()>::from_reply)
    }

    fn send(&mut self, call: &Call) -> KevyResult<Reply> {
        let journey = self.router.depart(call);
        self.carry(journey)
    }

    /// Carries a command until it arrives.
    fn carry(&mut self, mut journey: Journey<'_>) -> KevyResult<Reply> {
        loop {
            if let Some(pause) = journey.take_pause() {
                thread::sleep(pause);
            }
            if journey.take_refresh() {
                self.refresh();
            }
            self.router.reroute(&mut journey);
            let outcome = self.attempt(&journey);
            if let Some(end) = self.router.arrive(&mut journey, outcome) {
                return end;
            }
        }
    }

    fn attempt(&mut self, journey: &Journey<'_>) -> Result<Reply, Failure> {
        let target = journey.target();
        let client = self.client(target).map_err(unsent)?;
        if journey.is_asking() {
            client.link().exchange(&Call::read("ASKING"))?;
        }
        client.link().exchange(journey.call())
    }

    fn client(&mut self, address: &Address) -> KevyResult<&mut Client> {
        if self.clients.get(address).is_none_or(Client::is_closed) {
            let options = &self.router.options().connection;
            let client = Client::connect_with(address.host(), address.port(), options)?;
            self.clients.insert(address.clone(), client);
        }
        self.clients.get_mut(address).ok_or(KevyError::Closed)
    }

    /// Asks one node after the other who owns which slots, until one knows. If none does, all stays as it was.
    fn refresh(&mut self) {
        for node in self.router.informants() {
            if self.learn_from(&node).is_ok() {
                break;
            }
        }
        self.drop_strangers();
    }

    /// Closes connections that no command will take any more.
    fn drop_strangers(&mut self) {
        let router = &self.router;
        self.clients.retain(|address, _| router.knows(address));
    }

    fn learn_from(&mut self, node: &Address) -> KevyResult<()> {
        let outcome = self.client(node)?.send(&topology_call());
        self.router.learn(outcome?, node)
    }

    /// Carries out a pipeline: window by window at all shards, then what has to be sent again one by one, in order.
    fn run(&mut self, calls: &[Call]) -> KevyResult<Vec<Reply>> {
        let journeys: Vec<_> = calls.iter().map(|call| self.router.depart(call)).collect();
        let mut outcomes: Outcomes = calls.iter().map(|_| None).collect();
        let groups = by_target(&journeys);
        let mut rest: Vec<&[usize]> = groups.iter().map(|(_, all)| &all[..]).collect();
        while rest.iter().any(|positions| !positions.is_empty()) {
            let mut windows = Vec::with_capacity(groups.len());
            for ((target, _), positions) in groups.iter().zip(&mut rest) {
                let waiting: Vec<_> = positions.iter().map(|at| &calls[*at]).collect();
                let (now, later) = positions.split_at(window(&waiting));
                *positions = later;
                windows.push((now, self.transmit(target, &waiting[..now.len()])));
            }
            for (index, (now, begun)) in windows.into_iter().enumerate() {
                let target = &groups[index].0;
                let collected = self.collect(target, now, begun, &mut outcomes);
                if let Err((at, failure)) = collected {
                    note_failure(&journeys, &now[at..], failure, &mut outcomes);
                    // What comes later must not overtake what failed.
                    rest[index] = &[];
                }
            }
        }
        let ends = journeys.into_iter().zip(outcomes);
        ends.map(|(journey, outcome)| self.finish(journey, outcome))
            .collect()
    }

    /// Sends a window of a pipeline to one shard.
    fn transmit(&mut self, target: &Address, calls: &[&Call]) -> Result<(), Failure> {
        if calls.is_empty() {
            return Ok(());
        }
        let link = self.client(target).map_err(unsent)?.link();
        link.fresh().map_err(unsent)?;
        calls.iter().for_each(|call| link.queue(call));
        link.flush().map_err(sent)
    }

    /// Reads the replies of a window from one shard; gives the failure and how many were read before it.
    fn collect(
        &mut self,
        target: &Address,
        positions: &[usize],
        begun: Result<(), Failure>,
        outcomes: &mut Outcomes,
    ) -> Result<(), (usize, Failure)> {
        if let Err(failure) = begun {
            return Err((0, failure));
        }
        for (count, at) in positions.iter().enumerate() {
            let client = self.clients.get_mut(target).ok_or(KevyError::Closed);
            let received = client.and_then(|client| client.link().receive());
            outcomes[*at] = Some(Ok(received.map_err(|error| (count, sent(error)))?));
        }
        Ok(())
    }

    fn finish(
        &mut self,
        mut journey: Journey<'_>,
        outcome: Option<Result<Reply, Failure>>,
    ) -> KevyResult<Reply> {
        let end = outcome.and_then(|outcome| self.router.arrive(&mut journey, outcome));
        end.unwrap_or_else(|| self.carry(journey))
    }
}

fn sent(error: KevyError) -> Failure {
    Failure { error, sent: true }
}

fn unsent(error: KevyError) -> Failure {
    Failure { error, sent: false }
}

/// The verbs.
impl ClusterClient {
    for_each_verb!(blocking_verbs);
}
