//! The host in production: one glommio executor per shard, on Linux.
//!
//! * [`network`]: client connections; [`listener`]: where they come from;
//! * [`mesh`]: messages between shards; [`park`]: how none is missed by a shard that sleeps;
//! * [`spin`]: how long to poll before sleeping; [`contention`]: when not to; [`executor`]: getting along with glommio;
//! * [`disk`], [`clock`], [`entropy`]: the rest of the machine; [`probe`]: what it must be able to do.
//!
//! [`GlommioHost`] joins them for one shard, and decides how to wait.

pub(crate) mod clock;
pub(crate) mod contention;
pub(crate) mod disk;
pub(crate) mod entropy;
pub(crate) mod executor;
pub(crate) mod listener;
pub(crate) mod mesh;
pub(crate) mod network;
pub(crate) mod park;
pub(crate) mod probe;
pub(crate) mod spin;

use clock::HostClock;
use contention::Contention;
use disk::GlommioDisk;
use executor::Outstanding;
use futures_lite::future::or;
use kevy_node::host::{Clock, Event, Mesh, Patience, Received, Sent, Slot, Storage, Transport};
use kevy_node::log::DiskOperation;
use kevy_node::message::Message;
use kevy_proto::ids::ShardId;
use kevy_proto::time::Now;
use listener::Listener;
use mesh::MeshPort;
use mio::Poll;
use network::{ConnectionCount, Network};
use spin::Spin;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest sleep. Doorbells make it needless; it bounds what a fault in them could cost.
pub(crate) const LONGEST_PARK: Duration = Duration::from_millis(100);
/// How often the mesh is looked at for each look at the poller, which is a system call.
const MESH_LOOKS_PER_SPIN: u32 = 8;

/// What a shard's host is made of before it is on its executor. It can go to another thread; the host cannot.
pub(crate) struct HostParts {
    /// The poller that the shard's doorbell rings.
    pub(crate) poll: Poll,
    /// The sockets this shard accepts from.
    pub(crate) listeners: Vec<Listener>,
    /// The connections of the process.
    pub(crate) count: ConnectionCount,
    /// The shard's end of the mesh.
    pub(crate) mesh: MeshPort<Message>,
    /// The process's clock.
    pub(crate) clock: HostClock,
    /// Whether there are enough cores to poll at all.
    pub(crate) may_spin: bool,
    /// The data directory, if there is one.
    pub(crate) directory: Option<PathBuf>,
}

/// One shard's host.
pub(crate) struct GlommioHost {
    network: Network,
    mesh: MeshPort<Message>,
    clock: HostClock,
    outstanding: Outstanding,
    disk: Option<GlommioDisk>,
    /// What was learned of waiting for clients.
    client_spin: Spin,
    /// What was learned of waiting for other shards' answers.
    answer_spin: Spin,
    contention: Contention,
    has_reported_stop: bool,
}

impl GlommioHost {
    /// Builds the host on its executor.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub(crate) fn new(parts: HostParts) -> io::Result<Self> {
        let outstanding = Outstanding::default();
        let directory = parts.directory.as_deref();
        Ok(Self {
            disk: directory.map(|directory| GlommioDisk::new(directory, outstanding.clone())),
            network: Network::new(parts.poll, parts.listeners, parts.count)?,
            mesh: parts.mesh,
            clock: parts.clock,
            outstanding,
            client_spin: Spin::new(parts.may_spin),
            answer_spin: Spin::new(parts.may_spin),
            contention: Contention::of_this_thread(),
            has_reported_stop: false,
        })
    }

    /// Collects what there is, waiting for the poller at most `timeout`; whether there is something to do.
    fn collect(&mut self, timeout: Duration, events: &mut Vec<Event>) -> io::Result<bool> {
        self.network.collect(timeout, events)?;
        if let Some(disk) = &self.disk {
            disk.collect(events);
        }
        if !self.has_reported_stop && self.mesh.doorbell().stop_requested() {
            self.has_reported_stop = true;
            events.push(Event::ShutdownRequested);
        }
        Ok(!events.is_empty() || self.mesh.has_messages())
    }

    fn spin_for(&mut self, patience: Patience) -> &mut Spin {
        if patience.expects_messages {
            &mut self.answer_spin
        } else {
            &mut self.client_spin
        }
    }

    /// Polls for as long as that has been paying lately; whether there is something to do now, and how long it took.
    fn spin(
        &mut self,
        patience: Patience,
        events: &mut Vec<Event>,
    ) -> io::Result<(bool, Duration)> {
        let begin = self.clock.monotonic();
        let budget = self.spin_for(patience).begin();
        // The ends of operations on files are seen only by giving way to glommio.
        if self.outstanding.any() {
            return Ok((false, Duration::ZERO));
        }
        if budget.is_zero() || self.contention.is_contended(begin.nanos) {
            return Ok((false, Duration::ZERO));
        }
        let mut now = begin;
        while now - begin < budget {
            if self.mesh_speaks() || self.collect(Duration::ZERO, events)? {
                self.spin_for(patience).found();
                return Ok((true, now - begin));
            }
            now = self.clock.monotonic();
        }
        Ok((false, now - begin))
    }

    fn mesh_speaks(&self) -> bool {
        (0..MESH_LOOKS_PER_SPIN).any(|_| {
            std::hint::spin_loop();
            self.mesh.has_messages()
        })
    }

    /// Sleeps once, until something happens or `timeout` is over; whether there is something to do.
    async fn park(&mut self, timeout: Duration, events: &mut Vec<Event>) -> io::Result<bool> {
        let timeout = timeout.min(LONGEST_PARK);
        self.mesh.doorbell().flag().announce();
        let woken = if self.mesh.has_messages() {
            Ok(true)
        } else if self.outstanding.any() {
            self.park_in_glommio(timeout, events).await
        } else {
            self.collect(timeout, events)
        };
        self.mesh.doorbell().flag().withdraw();
        woken
    }

    async fn park_in_glommio(
        &mut self,
        timeout: Duration,
        events: &mut Vec<Event>,
    ) -> io::Result<bool> {
        let readiness = self.network.readiness()?;
        let sleep = executor::sleep_until_readable(readiness, timeout);
        match &self.disk {
            Some(disk) => or(disk.ended(), sleep).await,
            None => sleep.await,
        }
        self.collect(Duration::ZERO, events)
    }
}

impl Transport for GlommioHost {
    async fn wait(&mut self, patience: Patience, events: &mut Vec<Event>) -> io::Result<()> {
        self.network.begin_turn();
        if self.outstanding.any() {
            executor::give_way().await;
        }
        if self.collect(Duration::ZERO, events)? || patience.none {
            return Ok(());
        }
        let begin = Instant::now();
        let (found, spun) = self.spin(patience, events)?;
        if found {
            return Ok(());
        }
        loop {
            let left = patience.deadline - self.clock.monotonic();
            if left.is_zero() || self.park(left, events).await? {
                break;
            }
        }
        let waited = begin.elapsed();
        self.spin_for(patience).slept(spun, waited);
        Ok(())
    }

    fn receive_bytes(&mut self, slot: Slot, buffer: &mut [u8]) -> Received {
        self.network.receive(slot, buffer)
    }

    fn send_bytes(&mut self, slot: Slot, bytes: &[u8]) -> Sent {
        self.network.send(slot, bytes)
    }

    fn close(&mut self, slot: Slot) {
        self.network.close(slot);
    }

    fn stop_accepting(&mut self) {
        self.network.stop_accepting();
    }
}

impl Mesh for GlommioHost {
    fn send_message(&mut self, to: ShardId, message: Message) -> Result<(), Message> {
        self.mesh.send(to, message)
    }

    fn receive_message(&mut self) -> Option<(ShardId, Message)> {
        self.mesh.receive()
    }
}

impl Storage for GlommioHost {
    fn start(&mut self, operation: DiskOperation) {
        match &self.disk {
            Some(disk) => disk.start(operation),
            None => debug_assert!(false, "a shard without files asks for {operation:?}"),
        }
    }
}

impl Clock for GlommioHost {
    fn now(&self) -> Now {
        self.clock.now()
    }
}

#[cfg(test)]
mod tests;
