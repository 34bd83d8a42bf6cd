//! One node as one turmoil host: its shards are tasks of that host, and each gets a [`ShardHost`].
//!
//! Nothing here decides anything by itself: every choice (where bytes are cut, how long a message stays in the mesh, which
//! shard accepts, when a shard stands still) is drawn from generators that the seed started.

mod clock;
mod connection;
mod disk;
mod listen;
mod mesh;
mod shard_host;

pub use clock::{NodeClock, SeededEntropy, UNIX_START_MILLIS, simulated_time};
pub use disk::{Crash, DiskFaults, SimulatedDisk};
pub use listen::{MAIN_PORT, shard_port};
pub use mesh::{Sabotage, kind};
pub use shard_host::ShardHost;

use crate::marks::Marks;
use crate::swarm::Options;
use crate::trace::Trace;
use connection::Inbox;
use kevy_node::host::Clock;
use kevy_node::log::{JournalConfig, Opener, open_directory};
use kevy_proto::ids::ShardId;
use kevy_proto::rng::Rng;
use mesh::Queues;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use tokio::task::{AbortHandle, JoinSet};

/// What a shard gets to run with.
pub struct Seat {
    /// Which shard it is.
    pub shard: ShardId,
    /// Its host.
    pub host: ShardHost,
    /// Its dice.
    pub entropy: SeededEntropy,
    /// What the seed decided.
    pub options: Rc<Options>,
    /// Its files, if the node has a disk.
    pub journal: Option<JournalConfig>,
}

/// A shard at work: ready once it has shut down.
pub type Running = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// Makes a shard. Called once a shard, on the node's host.
pub type MakeShard = Rc<dyn Fn(Seat) -> Running>;

/// What the shards of one node share.
pub(crate) struct Process {
    options: Rc<Options>,
    trace: Rc<Trace>,
    marks: Rc<Marks>,
    clock: NodeClock,
    queues: Queues,
    inboxes: Vec<Rc<Inbox>>,
    disk: Option<SimulatedDisk>,
    connected: Cell<usize>,
    acceptors: RefCell<Vec<AbortHandle>>,
}

/// A node to be: give it to `turmoil::Sim::host` and let it [`run`](Self::run).
#[derive(Clone)]
pub struct Node {
    /// What the seed decided.
    pub options: Rc<Options>,
    /// Where its events go.
    pub trace: Rc<Trace>,
    /// Where the situations it met are counted.
    pub marks: Rc<Marks>,
    /// What the mesh does wrong, to show that checks bite.
    pub sabotage: Option<Sabotage>,
    /// Asks the node to stop when it is notified.
    pub stop: Rc<tokio::sync::Notify>,
    /// Its disk, if it has one.
    pub disk: Option<SimulatedDisk>,
    /// How many times it was started.
    pub starts: Rc<Cell<u64>>,
    /// Makes its shards.
    pub make_shard: MakeShard,
}

impl Node {
    /// Runs all shards until each has shut down.
    ///
    /// # Errors
    /// The first error of a shard, or its panic as an error.
    pub async fn run(self) -> io::Result<()> {
        let process = Rc::new(self.process());
        let mut journals = self.open_data(&process.clock).await?.into_iter();
        listen::open(&process).await?;
        let mut shards = JoinSet::new();
        for index in 0..self.options.shards {
            let shard = ShardId(index);
            let seed = self.seed_for(0x5ea7 + u64::from(index));
            let seat = Seat {
                shard,
                host: ShardHost::new(Rc::clone(&process), shard, Rng::from_seed(seed)),
                entropy: SeededEntropy::from_seed(seed ^ 0xd1ce),
                options: Rc::clone(&self.options),
                journal: journals.next(),
            };
            shards.spawn_local((self.make_shard)(seat));
        }
        let stopper = tokio::task::spawn_local(ask_to_stop(self.stop, Rc::clone(&process)));
        while let Some(ended) = shards.join_next().await {
            ended.map_err(|error| io::Error::other(format!("a shard died: {error}")))??;
        }
        stopper.abort();
        process.stop_accepting();
        Ok(())
    }

    /// Makes the node's files ready for its shards.
    async fn open_data(&self, clock: &NodeClock) -> io::Result<Vec<JournalConfig>> {
        let Some(disk) = &self.disk else {
            return Ok(Vec::new());
        };
        self.starts.set(self.starts.get() + 1);
        let seed = self.seed_for(0xd15c + self.starts.get());
        let opener = Opener {
            shards: self.options.shards,
            run: seed,
            seed,
            now: clock.now(),
        };
        let journals = open_directory(&mut disk.reliable(), &opener).await;
        journals.map_err(io::Error::other)
    }

    fn process(&self) -> Process {
        let options = Rc::clone(&self.options);
        let queues = Queues::new(&options, self.sabotage, self.seed_for(0x3e54));
        let inboxes = (0..options.shards).map(|_| Rc::default()).collect();
        Process {
            clock: NodeClock::new(options.drift_ppm, options.unix_offset_millis),
            trace: Rc::clone(&self.trace),
            marks: Rc::clone(&self.marks),
            queues,
            inboxes,
            options,
            disk: self.disk.clone(),
            connected: Cell::new(0),
            acceptors: RefCell::default(),
        }
    }

    fn seed_for(&self, purpose: u64) -> u64 {
        Rng::from_seed(self.options.seed ^ purpose << 32).next_u64()
    }
}

impl Process {
    fn stop_accepting(&self) {
        for acceptor in self.acceptors.borrow_mut().drain(..) {
            acceptor.abort();
        }
    }
}

async fn ask_to_stop(stop: Rc<tokio::sync::Notify>, process: Rc<Process>) {
    stop.notified().await;
    for inbox in &process.inboxes {
        inbox.request_shutdown();
    }
}
