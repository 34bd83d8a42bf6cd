//! One simulation from beginning to end: prepare, let the clients play, audit what is left, stop the node, check the history.

use crate::checks::Violation;
use crate::client::{Client, Context, Failure, NODE, Player};
use crate::history::{History, Operation};
use crate::marks::{Mark, Marks};
use crate::reply::{Reply, request};
use crate::swarm::Options;
use crate::trace::{Event, Trace};
use crate::turmoil_host::{
    Crash, MakeShard, Node, NodeClock, Sabotage, Seat, SimulatedDisk, UNIX_START_MILLIS,
};
use crate::workloads::Workload;
use kevy_node::host::{Clock, Entropy};
use kevy_node::settings::Settings;
use kevy_node::shard::{Process, Shard, ShardConfig};
use kevy_proto::rng::Rng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio::time::sleep;

/// Simulated time after which a run that is not over has failed.
const DURATION_MAX: Duration = Duration::from_mins(10);
/// Simulated time within which what clients left behind must be gone.
const TIDY_WITHIN: Duration = Duration::from_secs(10);
/// Simulated time within which a node that was asked to stop has stopped.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// How often the audit looks again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What came of a simulation.
#[derive(Debug)]
pub struct Report {
    /// The first broken promise, if there is one.
    pub violation: Option<Violation>,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events that was.
    pub events: u64,
    /// How much time went by in the simulation.
    pub simulated: Duration,
    /// How many requests clients sent.
    pub requests: usize,
    /// The situations that were met.
    pub marks: Marks,
    /// The dump of the trace, if it was asked for.
    pub text: Option<String>,
}

/// How a simulation is run, beside its options.
#[derive(Clone, Default)]
pub struct Run {
    /// Whether the trace is kept as text.
    pub keep_text: bool,
    /// What the mesh does wrong on purpose.
    pub sabotage: Option<Sabotage>,
}

/// Runs one simulation of kevy's own shards.
pub fn simulate(options: Options, run: &Run) -> Report {
    simulate_with(options, run, Rc::new(kevy_shard))
}

/// Runs one simulation of shards that `make_shard` makes.
pub fn simulate_with(options: Options, run: &Run, make_shard: MakeShard) -> Report {
    let stage = Stage::new(options, run, make_shard);
    let mut sim = stage.sim();
    let ended = stage.run(&mut sim);
    let stopped = stage.stop(&mut sim);
    let simulated = sim.elapsed();
    let violation = ended
        .err()
        .map(|error| Violation::new("node", error.to_string()))
        .or_else(|| stage.violations.borrow().first().cloned())
        .or(stopped)
        .or_else(|| stage.check().err());
    drop(sim);
    let context = &stage.context;
    Report {
        violation,
        hash: context.trace.hash(),
        events: context.trace.events(),
        simulated,
        requests: context.history.len(),
        marks: (*context.marks).clone(),
        text: context.trace.take_text(),
    }
}

/// One of kevy's shards, as it runs in production but for its host.
fn kevy_shard(mut seat: Seat) -> crate::turmoil_host::Running {
    let mut settings = Settings::default();
    settings.server.threads = seat.options.shards;
    settings.persistence.aof = seat.journal.is_some();
    if let Some(disk) = &seat.options.disk {
        settings.persistence.appendfsync = disk.appendfsync;
        settings.persistence.auto_aof_rewrite_min_size = disk.rewrite_bytes;
    }
    let shard = Shard::new(ShardConfig {
        id: seat.shard,
        settings: Arc::new(settings),
        seed: seat.entropy.next_u64(),
        process: Process::default(),
        now: seat.host.now(),
        journal: seat.journal.take(),
    });
    Box::pin(kevy_node::drive::drive(shard, seat.host, || {}))
}

/// Everything that takes part in one simulation.
struct Stage {
    context: Context,
    node: Node,
    violations: Rc<RefCell<Vec<Violation>>>,
    cues: Rc<Cues>,
}

/// Who waits for whom.
#[derive(Default)]
struct Cues {
    /// Clients may begin.
    prepared: Cell<bool>,
    /// Clients that have finished.
    finished: Cell<u32>,
}

impl Stage {
    fn new(options: Options, run: &Run, make_shard: MakeShard) -> Self {
        let clock = NodeClock::new(options.drift_ppm, options.unix_offset_millis);
        let context = Context {
            options: Rc::new(options),
            trace: Rc::new(Trace::new(run.keep_text)),
            marks: Rc::default(),
            history: Rc::new(History::default()),
            clock,
        };
        let node = Node {
            options: Rc::clone(&context.options),
            trace: Rc::clone(&context.trace),
            marks: Rc::clone(&context.marks),
            sabotage: run.sabotage,
            stop: Rc::new(Notify::new()),
            disk: context
                .options
                .disk
                .map(|disk| SimulatedDisk::new(context.options.seed ^ 0xf11e, disk.faults)),
            starts: Rc::default(),
            make_shard,
        };
        Self {
            context,
            node,
            violations: Rc::default(),
            cues: Rc::default(),
        }
    }

    fn sim(&self) -> turmoil::Sim<'static> {
        let options = &self.context.options;
        let epoch = Duration::from_millis(UNIX_START_MILLIS as u64);
        let mut sim = turmoil::Builder::new()
            .rng_seed(options.seed)
            .epoch(SystemTime::UNIX_EPOCH + epoch)
            .min_message_latency(*options.latency.start())
            .max_message_latency(*options.latency.end())
            .simulation_duration(DURATION_MAX)
            .tcp_capacity(256)
            .enable_random_order()
            .build();
        let node = self.node.clone();
        sim.host(NODE, move || {
            let node = node.clone();
            async move { Ok(node.run().await?) }
        });
        for number in 0..options.clients {
            let player = Player::new(self.context.clone(), number);
            let (cues, violations) = (Rc::clone(&self.cues), Rc::clone(&self.violations));
            sim.client(format!("client{number}"), async move {
                play(player, &cues, &violations).await;
                Ok(())
            });
        }
        let auditor = Auditor {
            context: self.context.clone(),
            cues: Rc::clone(&self.cues),
            rng: Rng::from_seed(options.seed ^ 0xa0d1),
        };
        let violations = Rc::clone(&self.violations);
        sim.client("auditor", async move {
            auditor.work(&violations).await;
            Ok(())
        });
        sim
    }

    /// Runs until all clients have finished, and lets the node crash meanwhile.
    fn run(&self, sim: &mut turmoil::Sim<'_>) -> turmoil::Result {
        let (Some(disk), Some(options)) = (&self.node.disk, self.context.options.disk) else {
            return sim.run();
        };
        let mut rng = Rng::from_seed(self.context.options.seed ^ 0xc4a5);
        let pause = |rng: &mut Rng| {
            let longest = options.crash_after_max.as_millis() as u64;
            Duration::from_millis(1 + rng.below(longest))
        };
        let mut left = options.crashes;
        let mut next = None;
        let are_at_work =
            || self.cues.prepared.get() && self.cues.finished.get() < self.context.options.clients;
        while !sim.step()? {
            if left == 0 || !are_at_work() {
                continue;
            }
            let at = *next.get_or_insert_with(|| sim.elapsed() + pause(&mut rng));
            if sim.elapsed() < at {
                continue;
            }
            left -= 1;
            next = None;
            sim.crash(NODE);
            self.context.trace.record(sim.elapsed(), Event::Crashed);
            self.context.marks.meet(Mark::Crashed);
            disk.crash(if rng.below(1000) < options.power_permille {
                Crash::Power
            } else {
                Crash::Process
            });
            let back_at = sim.elapsed() + Duration::from_millis(1 + rng.below(20));
            while sim.elapsed() < back_at {
                sim.step()?;
            }
            sim.bounce(NODE);
        }
        Ok(())
    }

    /// Asks the node to stop and waits until it has.
    fn stop(&self, sim: &mut turmoil::Sim<'_>) -> Option<Violation> {
        self.node.stop.notify_one();
        let until = sim.elapsed() + STOPPED_WITHIN;
        while sim.is_host_running(NODE) {
            if let Err(error) = sim.step() {
                return Some(Violation::new("shutdown", error.to_string()));
            }
            if sim.elapsed() > until {
                let what = format!("still running after {STOPPED_WITHIN:?}");
                return Some(Violation::new("shutdown", what));
            }
        }
        None
    }

    fn check(&self) -> Result<(), Violation> {
        let operations = self.context.history.operations();
        let auditor = self.context.options.clients;
        let workload = self.context.options.workload;
        let is_workloads = |name: &str| name != "INFO" && name != "FLUSHALL";
        // The audit's own questions are no part of the workload; its preparation is. What a node with a disk refused (it is
        // loading, or cannot write) was not done.
        let has_disk = self.context.options.disk.is_some();
        let was_refused = |o: &Operation| matches!(o.reply(), Some(Reply::Error(_)));
        let is_beside =
            |o: &Operation| has_disk && (matches!(o.name(), "PING" | "SAVE") || was_refused(o));
        let operations: Vec<_> = operations
            .into_iter()
            .filter(|o| o.client != auditor || is_workloads(o.name()))
            .filter(|o| !is_beside(o))
            .collect();
        workload.check(&operations, &self.context.clock)
    }
}

async fn play(player: Player, cues: &Cues, violations: &RefCell<Vec<Violation>>) {
    while !cues.prepared.get() {
        sleep(Duration::from_millis(1)).await;
    }
    let number = player.number;
    let workload = player.context.options.workload;
    if let Err(failure) = workload.play(player).await {
        violations
            .borrow_mut()
            .push(liveness(&format!("client {number}"), &failure));
    }
    cues.finished.set(cues.finished.get() + 1);
}

fn liveness(who: &str, failure: &Failure) -> Violation {
    Violation::new("liveness", format!("{who}: {failure:?}"))
}

/// Prepares the node, waits for the clients, and looks at what they left behind.
struct Auditor {
    context: Context,
    cues: Rc<Cues>,
    rng: Rng,
}

impl Auditor {
    async fn work(mut self, violations: &RefCell<Vec<Violation>>) {
        let outcome = self.prepare().await;
        self.cues.prepared.set(true);
        let outcome = match outcome {
            Ok(()) => {
                self.wait_for_clients().await;
                self.audit().await
            }
            Err(failure) => Err(liveness("preparation", &failure)),
        };
        if let Err(violation) = outcome {
            violations.borrow_mut().push(violation);
        }
    }

    async fn connect(&mut self) -> Result<Client, Failure> {
        let number = self.context.options.clients;
        let context = self.context.clone();
        if context.options.disk.is_some() {
            return Client::connect_when_serving(context, number, &mut self.rng).await;
        }
        Client::connect(context, number, &mut self.rng).await
    }

    async fn prepare(&mut self) -> Result<(), Failure> {
        // The node's doors open in its first moment, which may be after ours.
        sleep(Duration::from_millis(5)).await;
        let mut client = self.connect().await?;
        let has_disk = self.context.options.disk.is_some();
        self.context.options.workload.prepare(&mut client).await?;
        // What was prepared is there whatever the log's policy; a disk that fails may need several attempts.
        while has_disk && client.call(request(["SAVE"])).await? != Reply::OK {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn wait_for_clients(&self) {
        while self.cues.finished.get() < self.context.options.clients {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Nobody but us is connected, no key is locked, and expired keys go away by themselves.
    async fn audit(&mut self) -> Result<(), Violation> {
        let failed = |failure| liveness("audit", &failure);
        let mut client = self.connect().await.map_err(failed)?;
        wait_for(
            &mut client,
            &["INFO", "clients"],
            "leaked connections",
            |reply| {
                let text = reply.as_bytes().map(|bytes| String::from_utf8_lossy(bytes));
                text.is_some_and(|text| text.lines().any(|line| line == "connected_clients:1"))
            },
        )
        .await?;
        if self.context.options.workload == Workload::Expiry {
            let is_empty = |reply: &Reply| *reply == Reply::Integer(0);
            wait_for(&mut client, &["DBSIZE"], "expired keys that stay", is_empty).await?;
        }
        let workload = self.context.options.workload;
        workload.conclude(&mut client).await.map_err(failed)?;
        // Takes every lock there is. A disk that fails may need several attempts.
        let is_done = |reply: &Reply| *reply == Reply::OK;
        wait_for(&mut client, &["FLUSHALL"], "locks", is_done).await?;
        Ok(())
    }
}

async fn wait_for(
    client: &mut Client,
    question: &[&str],
    check: &'static str,
    is_fine: impl Fn(&Reply) -> bool,
) -> Result<(), Violation> {
    let mut waited = Duration::ZERO;
    loop {
        let answer = client.call(request(question)).await;
        let answer = answer.map_err(|failure| liveness("audit", &failure))?;
        if is_fine(&answer) {
            return Ok(());
        }
        if waited > TIDY_WITHIN {
            return Err(Violation::new(check, format!("{question:?}: {answer:?}")));
        }
        sleep(LOOK_AGAIN_AFTER).await;
        waited += LOOK_AGAIN_AFTER;
    }
}
