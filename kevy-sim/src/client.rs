//! A client of a simulated node: it sends pipelines in pieces, reads replies with a time limit, and may vanish.

use crate::history::History;
use crate::marks::{Mark, Marks};
use crate::reply::{Reply, Request, encode, request};
use crate::swarm::Options;
use crate::trace::{Event, Trace};
use crate::turmoil_host::{MAIN_PORT, NodeClock, simulated_time};
use kevy_proto::resp::ReplyDecoder;
use kevy_proto::rng::Rng;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{sleep, timeout};
use turmoil::net::TcpStream;
use turmoil::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The node's name in the simulated network.
pub const NODE: &str = "node";

/// In simulated time: a request that is not answered within this is a failure of the node.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// What all clients of a simulation share.
#[derive(Clone)]
pub struct Context {
    /// What the seed decided.
    pub options: Rc<Options>,
    /// The trace.
    pub trace: Rc<Trace>,
    /// The marks.
    pub marks: Rc<Marks>,
    /// What clients asked and were told.
    pub history: Rc<History>,
    /// The node's clocks, which clients know.
    pub clock: NodeClock,
}

/// Why a client could not go on. None of these may happen in a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The node refused the connection.
    Refused,
    /// The node closed the connection, or reset it, while replies were missing.
    Closed {
        /// How many replies were missing.
        unanswered: usize,
    },
    /// A reply did not come in time.
    Unanswered {
        /// The request.
        request: String,
    },
    /// What came is no reply.
    Malformed(String),
}

/// One connection of a client.
pub struct Client {
    context: Context,
    number: u32,
    session: u32,
    /// Operations that wait for their reply, in order.
    pending: VecDeque<usize>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    writer: AbortHandle,
    incoming: OwnedReadHalf,
    decoder: ReplyDecoder,
    /// Bytes that have come and are no whole reply yet.
    unread: Vec<u8>,
}

impl Client {
    /// Connects to the node's main port. `number` is the client's in traces and histories.
    ///
    /// # Errors
    /// [`Failure::Refused`]
    pub async fn connect(context: Context, number: u32, rng: &mut Rng) -> Result<Self, Failure> {
        let connecting = timeout(ANSWER_WITHIN, TcpStream::connect((NODE, MAIN_PORT)));
        let stream = connecting
            .await
            .map_err(|_| Failure::Refused)?
            .map_err(|_| Failure::Refused)?;
        let (incoming, write_half) = stream.into_split();
        let (outgoing, pieces) = mpsc::unbounded_channel();
        let rng = Rng::from_seed(rng.next_u64());
        let writer = spawn_local(write(write_half, pieces, rng)).abort_handle();
        let session = context.history.open_session();
        Ok(Self {
            context,
            number,
            session,
            pending: VecDeque::new(),
            outgoing,
            writer,
            incoming,
            decoder: ReplyDecoder::new(),
            unread: Vec::new(),
        })
    }

    /// As [`Client::connect`], but waits until the node is there and serves.
    ///
    /// # Errors
    /// What failed last, after many attempts.
    pub async fn connect_when_serving(
        context: Context,
        number: u32,
        rng: &mut Rng,
    ) -> Result<Self, Failure> {
        let mut failure = Failure::Refused;
        for _ in 0..RECONNECTS_MAX {
            sleep(RECONNECT_AFTER).await;
            match Self::connect(context.clone(), number, rng).await {
                Ok(mut client) => match client.call(request(["PING"])).await {
                    Ok(Reply::Error(_)) => {}
                    Ok(_) => return Ok(client),
                    Err(error) => failure = error,
                },
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Sends requests without waiting for replies.
    pub fn send(&mut self, requests: Vec<Request>) {
        let mut bytes = Vec::new();
        for request in requests {
            encode(&request, &mut bytes);
            let at = simulated_time();
            let history = &self.context.history;
            let operation = history.invoke(self.number, self.session, request, at);
            self.pending.push_back(operation);
            self.record("sends", operation);
        }
        // It fails only if the writer ended because the connection did; then reading says so.
        let _ = self.outgoing.send(bytes);
    }

    /// Waits for the reply to the oldest request that has none.
    ///
    /// # Errors
    /// Any [`Failure`] but [`Failure::Refused`].
    pub async fn receive(&mut self) -> Result<Reply, Failure> {
        let Some(operation) = self.pending.front().copied() else {
            return Err(Failure::Malformed("no request waits".to_owned()));
        };
        let reply = match timeout(ANSWER_WITHIN, self.read_reply()).await {
            Ok(reply) => reply?,
            Err(_) => return Err(self.unanswered(operation)),
        };
        self.pending.pop_front();
        let history = &self.context.history;
        history.complete(operation, reply.clone(), simulated_time());
        self.record("receives", operation);
        Ok(reply)
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// Any [`Failure`] but [`Failure::Refused`].
    pub async fn call(&mut self, request: Request) -> Result<Reply, Failure> {
        self.send(vec![request]);
        self.receive().await
    }

    /// Sends a request until it is not refused: a node whose disk fails refuses writes for a while.
    ///
    /// # Errors
    /// Any [`Failure`] but [`Failure::Refused`].
    pub async fn insist(&mut self, request: Request) -> Result<Reply, Failure> {
        loop {
            let reply = self.call(request.clone()).await?;
            if !matches!(reply, Reply::Error(_)) {
                return Ok(reply);
            }
            sleep(RECONNECT_AFTER).await;
        }
    }

    /// Ends the connection at once, whatever is under way.
    pub fn vanish(self) {
        if !self.pending.is_empty() {
            self.context.marks.meet(Mark::VanishedMidPipeline);
        }
        self.record("vanishes after", self.pending.len());
        self.writer.abort();
    }

    async fn read_reply(&mut self) -> Result<Reply, Failure> {
        loop {
            let decoded = self.decoder.decode(&self.unread);
            let decoded = decoded.map_err(|error| Failure::Malformed(error.to_string()))?;
            if let Some((reply, length)) = decoded {
                self.unread.drain(..length);
                return Ok(reply);
            }
            let read = self.incoming.read_buf(&mut self.unread).await;
            if read.is_err() || read.is_ok_and(|count| count == 0) {
                let unanswered = self.pending.len();
                return Err(Failure::Closed { unanswered });
            }
        }
    }

    fn unanswered(&self, operation: usize) -> Failure {
        let operations = self.context.history.operations();
        let request = operations[operation].describe();
        Failure::Unanswered { request }
    }

    fn record(&self, what: &'static str, number: usize) {
        let event = Event::Client {
            client: self.number,
            what,
            number: number as u64,
        };
        self.context.trace.record(simulated_time(), event);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// Sends what it is given, cut into segments at seeded points.
async fn write(
    mut half: OwnedWriteHalf,
    mut pieces: mpsc::UnboundedReceiver<Vec<u8>>,
    mut rng: Rng,
) {
    while let Some(bytes) = pieces.recv().await {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let cut = rest.len().min(1 + rng.below(200) as usize);
            if half.write_all(&rest[..cut]).await.is_err() {
                return;
            }
            rest = &rest[cut..];
        }
    }
}

/// A client that reconnects after it vanished: one actor of a workload.
pub struct Player {
    /// What it shares with the others.
    pub context: Context,
    /// Its number.
    pub number: u32,
    /// Its dice.
    pub rng: Rng,
    client: Option<Client>,
    vanished: u32,
}

/// How often one player vanishes at most: unknown outcomes make histories hard to check.
const VANISHES_MAX: u32 = 2;
/// How many requests a player sends before it vanishes, at most.
const REQUESTS_BEFORE_VANISHING: usize = 2;
/// How often a player tries to reach a node that has crashed, at most, and after what time.
const RECONNECTS_MAX: u32 = 500;
const RECONNECT_AFTER: Duration = Duration::from_millis(5);
/// Longest pause between two batches of a player, in milliseconds.
const PAUSE_MAX_MILLIS: u64 = 4;

impl Player {
    /// Player `number` of a simulation.
    pub fn new(context: Context, number: u32) -> Self {
        let seed = context.options.seed ^ (u64::from(number) + 1) << 48;
        Self {
            context,
            number,
            rng: Rng::from_seed(Rng::from_seed(seed).next_u64()),
            client: None,
            vanished: 0,
        }
    }

    /// A number that names the player's current connection among all its connections.
    pub fn generation(&self) -> u32 {
        self.vanished
    }

    /// Sends a batch and reads all replies. Returns none if the player vanished instead, or the node crashed: then some
    /// outcomes are unknown.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn batch(&mut self, requests: Vec<Request>) -> Result<Option<Vec<Reply>>, Failure> {
        let crashes = self.context.options.disk.is_some();
        match self.try_batch(requests).await {
            Err(Failure::Refused | Failure::Closed { .. } | Failure::Unanswered { .. })
                if crashes =>
            {
                self.client = None;
                self.wait_for_node().await?;
                Ok(None)
            }
            outcome => outcome,
        }
    }

    /// Connects anew once the node serves.
    async fn wait_for_node(&mut self) -> Result<(), Failure> {
        let context = self.context.clone();
        self.client =
            Some(Client::connect_when_serving(context, self.number, &mut self.rng).await?);
        Ok(())
    }

    /// As [`Player::batch`], but that the node crashed is a failure.
    ///
    /// # Errors
    /// Any [`Failure`].
    async fn try_batch(
        &mut self,
        mut requests: Vec<Request>,
    ) -> Result<Option<Vec<Reply>>, Failure> {
        sleep(Duration::from_millis(self.rng.below(PAUSE_MAX_MILLIS + 1))).await;
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(self.context.clone(), self.number, &mut self.rng).await?,
        };
        let vanishes = self.rng.below(1000) < self.context.options.faults.vanish_permille
            && self.vanished < VANISHES_MAX;
        if vanishes {
            requests.truncate(REQUESTS_BEFORE_VANISHING);
        }
        let count = requests.len();
        client.send(requests);
        if vanishes {
            self.vanish(client, count).await?;
            return Ok(None);
        }
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            replies.push(client.receive().await?);
        }
        self.client = Some(client);
        Ok(Some(replies))
    }

    async fn vanish(&mut self, mut client: Client, sent: usize) -> Result<(), Failure> {
        self.vanished += 1;
        if self.rng.below(2) == 0 {
            // Some replies come first ...
            for _ in 0..self.rng.below(sent as u64) {
                client.receive().await?;
            }
        } else {
            // ... or just some time passes, so that the requests are somewhere on their way.
            sleep(Duration::from_millis(self.rng.below(30))).await;
        }
        client.vanish();
        Ok(())
    }
}
