//! The cluster client on tokio: carries commands to where the router says.

use std::collections::HashMap;

use kevy_proto::resp::Reply;

use super::{AsyncClient, AsyncPipeline, AsyncSubscriber};
use crate::call::Wait;
use crate::cluster::redirect::is_cross_slot;
use crate::cluster::router::{Journey, Outcomes, Router, by_target, note_failure, topology_call};
use crate::link::Failure;
use crate::pipeline::window;
use crate::verbs::prelude::*;
use crate::verbs::{async_verbs, for_each_verb, with_keys};
use crate::{Address, ClusterOptions, FromReply, KevyError, KevyResult};

/// The twin of [`crate::ClusterClient`] on tokio.
///
/// ```no_run
/// # async fn example() -> kevy_client::KevyResult<()> {
/// use kevy_client::AsyncClusterClient;
///
/// let mut cc = AsyncClusterClient::connect("127.0.0.1", 6005).await?;
/// cc.set(b"user:42", b"alice").await?;
/// let removed = cc.del(&[b"a", b"b", b"c"]).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncClusterClient {
    router: Router,
    clients: HashMap<Address, AsyncClient>,
}

impl AsyncClusterClient {
    /// Connects to any port of the cluster, learns who owns which slots, and connects to every shard.
    ///
    /// # Errors
    ///
    /// When the node or a shard cannot be reached, or the server is not in cluster mode.
    pub async fn connect(host: &str, port: u16) -> KevyResult<Self> {
        Self::connect_with(host, port, ClusterOptions::default()).await
    }

    /// Connects with other options.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(host: &str, port: u16, options: ClusterOptions) -> KevyResult<Self> {
        let seed = Address::new(host, port);
        let mut client = Self {
            router: Router::new(seed.clone(), options),
            clients: HashMap::new(),
        };
        client.learn_from(&seed).await?;
        for node in client.router.nodes().to_vec() {
            client.client(&node).await?;
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
    pub async fn shard_of(&mut self, key: &[u8]) -> KevyResult<&mut AsyncClient> {
        let call = Call::read("GET").key(key);
        let target = self.router.depart(&call).target().clone();
        self.client(&target).await
    }

    /// A new connection that subscribes: whichever shard it is at, it is told everything.
    ///
    /// # Errors
    ///
    /// When no shard can be reached.
    pub async fn subscriber(&self) -> KevyResult<AsyncSubscriber> {
        let options = &self.router.options().connection;
        let mut last = KevyError::Closed;
        for node in self.router.informants() {
            match AsyncSubscriber::connect_tcp(node.host(), node.port(), options).await {
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
    pub async fn call<T: FromReply>(&mut self, call: &Call) -> KevyResult<T> {
        T::from_reply(self.send(call).await?)
    }

    /// Carries out a command, given as its words, at the shard that owns `key`; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When every way to carry it out failed.
    pub async fn request_keyed<A: AsRef<[u8]>>(
        &mut self,
        key: &[u8],
        words: &[A],
    ) -> KevyResult<Reply> {
        self.send(&Call::from_args(words)?.routed_by(key)).await
    }

    /// Carries out a command, given as its words, at any shard; an error reply is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// When every way to carry it out failed.
    pub async fn request_unkeyed<A: AsRef<[u8]>>(&mut self, words: &[A]) -> KevyResult<Reply> {
        self.send(&Call::from_args(words)?.unrouted()).await
    }

    /// Commands to send to their shards without waiting between them. What is redirected is sent again by itself, after
    /// the others.
    pub fn pipeline(&mut self) -> AsyncPipeline<'_> {
        AsyncPipeline::of_cluster(self)
    }

    /// Removes keys, each at its shard; gives how many there were.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); some keys may be gone then.
    pub async fn del(&mut self, keys: &[&[u8]]) -> KevyResult<usize> {
        self.sum(keys, || Call::write("DEL")).await
    }

    /// How many of the keys exist, each asked for at its shard; one that is named twice counts twice.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn exists(&mut self, keys: &[&[u8]]) -> KevyResult<usize> {
        self.sum(keys, || Call::read("EXISTS")).await
    }

    async fn sum(&mut self, keys: &[&[u8]], command: impl Fn() -> Call) -> KevyResult<usize> {
        let calls: Vec<_> = keys.iter().map(|key| command().key(key)).collect();
        let replies = self.run(&calls).await?.into_iter();
        replies.map(usize::from_reply).sum()
    }

    /// The strings at keys, in their order; `None` for what is no string. All at once on kevy; a server that refuses keys
    /// of several slots is asked for each.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn mget(&mut self, keys: &[&[u8]]) -> KevyResult<Vec<Option<Vec<u8>>>> {
        let reply = self.send(&Call::read("MGET").keys(keys)).await?;
        if !is_cross_slot(&reply) {
            return Vec::from_reply(reply);
        }
        let calls: Vec<_> = keys.iter().map(|key| Call::read("MGET").key(key)).collect();
        let replies = self.run(&calls).await?.into_iter();
        let values = replies.map(Vec::<Option<Vec<u8>>>::from_reply);
        Ok(values.collect::<KevyResult<Vec<_>>>()?.concat())
    }

    /// Sets strings, all at once on kevy; on a server that refuses keys of several slots one after the other.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn mset(&mut self, pairs: &[(&[u8], &[u8])]) -> KevyResult<()> {
        let reply = self.send(&with_keys(Call::write("MSET"), pairs)).await?;
        if !is_cross_slot(&reply) {
            return <()>::from_reply(reply);
        }
        let pairs = pairs.iter();
        let calls: Vec<_> = pairs
            .map(|(key, value)| Call::write("SET").key(key).arg(value))
            .collect();
        self.run(&calls)
            .await?
            .into_iter()
            .try_for_each(<()>::from_reply)
    }

    async fn send(&mut self, call: &Call) -> KevyResult<Reply> {
        let journey = self.router.depart(call);
        self.carry(journey).await
    }

    /// Carries a command until it arrives.
    async fn carry(&mut self, mut journey: Journey<'_>) -> KevyResult<Reply> {
        loop {
            if let Some(pause) = journey.take_pause() {
                tokio::time::sleep(pause).await;
            }
            if journey.take_refresh() {
                self.refresh().await;
            }
            self.router.reroute(&mut journey);
            let outcome = self.attempt(&journey).await;
            if let Some(end) = self.router.arrive(&mut journey, outcome) {
                return end;
            }
        }
    }

    async fn attempt(&mut self, journey: &Journey<'_>) -> Result<Reply, Failure> {
        let target = journey.target();
        let client = self.client(target).await.map_err(unsent)?;
        if journey.is_asking() {
            client.exchange(&Call::read("ASKING")).await?;
        }
        client.exchange(journey.call()).await
    }

    async fn client(&mut self, address: &Address) -> KevyResult<&mut AsyncClient> {
        if self.clients.get(address).is_none_or(AsyncClient::is_closed) {
            let options = &self.router.options().connection;
            let client = AsyncClient::connect_with(address.host(), address.port(), options).await?;
            self.clients.insert(address.clone(), client);
        }
        self.clients.get_mut(address).ok_or(KevyError::Closed)
    }

    /// Asks one node after the other who owns which slots, until one knows. If none does, all stays as it was.
    async fn refresh(&mut self) {
        for node in self.router.informants() {
            if self.learn_from(&node).await.is_ok() {
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

    async fn learn_from(&mut self, node: &Address) -> KevyResult<()> {
        let outcome = self.client(node).await?.send(&topology_call()).await;
        self.router.learn(outcome?, node)
    }

    /// Carries out a pipeline: window by window at all shards, then what has to be sent again one by one, in order.
    pub(super) async fn run(&mut self, calls: &[Call]) -> KevyResult<Vec<Reply>> {
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
                let begun = self.transmit(target, &waiting[..now.len()]).await;
                windows.push((now, begun));
            }
            for (index, (now, begun)) in windows.into_iter().enumerate() {
                let target = &groups[index].0;
                let collected = self.collect(target, now, begun, &mut outcomes).await;
                if let Err((at, failure)) = collected {
                    note_failure(&journeys, &now[at..], failure, &mut outcomes);
                    // What comes later must not overtake what failed.
                    rest[index] = &[];
                }
            }
        }
        let mut replies = Vec::with_capacity(calls.len());
        for (journey, outcome) in journeys.into_iter().zip(outcomes) {
            replies.push(self.finish(journey, outcome).await?);
        }
        Ok(replies)
    }

    /// Sends a window of a pipeline to one shard.
    async fn transmit(&mut self, target: &Address, calls: &[&Call]) -> Result<(), Failure> {
        if calls.is_empty() {
            return Ok(());
        }
        let link = self.client(target).await.map_err(unsent)?.link();
        link.fresh().map_err(unsent)?;
        calls.iter().for_each(|call| link.queue(call));
        link.flush().await.map_err(sent)
    }

    /// Reads the replies of a window from one shard; gives the failure and how many were read before it.
    async fn collect(
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
            let received = match self.clients.get_mut(target) {
                Some(client) => client.link().receive(Wait::Usual).await,
                None => Err(KevyError::Closed),
            };
            outcomes[*at] = Some(Ok(received.map_err(|error| (count, sent(error)))?));
        }
        Ok(())
    }

    async fn finish(
        &mut self,
        mut journey: Journey<'_>,
        outcome: Option<Result<Reply, Failure>>,
    ) -> KevyResult<Reply> {
        let end = outcome.and_then(|outcome| self.router.arrive(&mut journey, outcome));
        match end {
            Some(end) => end,
            None => self.carry(journey).await,
        }
    }
}

fn sent(error: KevyError) -> Failure {
    Failure { error, sent: true }
}

fn unsent(error: KevyError) -> Failure {
    Failure { error, sent: false }
}

/// The verbs.
impl AsyncClusterClient {
    for_each_verb!(async_verbs);
}
