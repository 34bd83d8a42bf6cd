//! A seed decides everything: how many shards and clients, how slow the network and the mesh, where bytes are cut, which faults
//! come. Every third seed has no fault at all, so that what fails there needs none.

use crate::turmoil_host::DiskFaults;
use crate::workloads::Workload;
use kevy_node::settings::AppendFsync;
use kevy_proto::rng::Rng;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Everything about one simulation that its seed decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed: with the workload, all that a replay needs.
    pub seed: u64,
    /// What the clients do.
    pub workload: Workload,
    /// Shards of the node.
    pub shards: u16,
    /// Shards that accept connections on the main port: the first ones.
    pub accept_shards: u16,
    /// Clients that run at once.
    pub clients: u32,
    /// How many batches each client sends.
    pub batches: u32,
    /// How many requests a batch holds at most.
    pub pipeline: u32,
    /// How many keys (or groups of keys) clients share.
    pub keys: u32,
    /// Shortest and longest way of a segment between a client and the node.
    pub latency: RangeInclusive<Duration>,
    /// Longest stay of a message in the mesh.
    pub mesh_delay_max: Duration,
    /// How many messages fit between an ordered pair of shards.
    pub mesh_capacity: usize,
    /// Most bytes the node gets in one read, and most it gets rid of in one write.
    pub chunk_bytes: usize,
    /// Bytes that have arrived and wait for the node, at most; and as many that the node has sent and wait for the network.
    pub socket_bytes: usize,
    /// How many times other tasks get a chance before a shard's turn, at most.
    pub yields: u64,
    /// How fast the node's clocks run, in millionths off the true rate.
    pub drift_ppm: i64,
    /// How far the node's wall clock is off.
    pub unix_offset_millis: i64,
    /// What goes wrong.
    pub faults: Faults,
    /// The node's disk and what happens to it; none: everything is in memory only.
    pub disk: Option<DiskOptions>,
}

/// A node with a disk, that crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// When the log is synced.
    pub appendfsync: AppendFsync,
    /// From which size on the log is replaced by a snapshot, in bytes.
    pub rewrite_bytes: u64,
    /// What goes wrong with the disk.
    pub faults: DiskFaults,
    /// How many times the node crashes.
    pub crashes: u32,
    /// The longest time between two crashes.
    pub crash_after_max: Duration,
    /// Of 1,000 crashes, how many are losses of power; else only the process dies.
    pub power_permille: u64,
}

impl DiskOptions {
    fn draw(rng: &mut Rng, workload: Workload) -> Self {
        let policies = if matches!(workload, Workload::Transfers | Workload::Moves) {
            &[AppendFsync::Always, AppendFsync::Everysec, AppendFsync::No][..]
        } else {
            // Only then everything that a client was told must be there afterwards.
            &[AppendFsync::Always][..]
        };
        Self {
            appendfsync: policies[rng.below(policies.len() as u64) as usize],
            rewrite_bytes: pick(rng, &[300, 2_000, 64 << 20]),
            faults: DiskFaults {
                latency_max: Duration::from_millis(pick(rng, &[0, 2, 10])),
                error_permille: pick(rng, &[0, 0, 5, 30]),
                ..DiskFaults::default()
            },
            crashes: 1 + rng.below(4) as u32,
            crash_after_max: Duration::from_millis(pick(rng, &[20, 100, 400])),
            power_permille: pick(rng, &[0, 500, 1000]),
        }
    }
}

/// What goes wrong in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of 1,000 batches, after how many the client vanishes without reading all replies.
    pub vanish_permille: u64,
    /// Of 1,000 turns, before how many the shard stands still.
    pub pause_permille: u64,
    /// How long it then stands still at most.
    pub pause_max: Duration,
}

impl Options {
    /// What `seed` decides, with the workload that belongs to it unless another is given.
    pub fn from_seed(seed: u64, workload: Option<Workload>) -> Self {
        let mut rng = Rng::from_seed(seed);
        let drawn = pick(&mut rng, &Workload::ALL);
        let shards = 1 + rng.below(4) as u16;
        let latency_min = pick(&mut rng, &[0, 0, 1, 2]);
        let latency_max = latency_min + pick(&mut rng, &[0, 1, 4, 12]);
        let faulty = !seed.is_multiple_of(3);
        let workload = workload.unwrap_or(drawn);
        Self {
            seed,
            workload,
            shards,
            accept_shards: 1 + rng.below(u64::from(shards)) as u16,
            clients: 2 + rng.below(5) as u32,
            batches: 6 + rng.below(24) as u32,
            pipeline: pick(&mut rng, &[1, 2, 4, 16]),
            keys: pick(&mut rng, &[1, 2, 3, 6]),
            latency: Duration::from_millis(latency_min)..=Duration::from_millis(latency_max),
            mesh_delay_max: Duration::from_millis(pick(&mut rng, &[0, 1, 3, 9])),
            mesh_capacity: pick(&mut rng, &[1, 2, 8, 256]),
            chunk_bytes: pick(&mut rng, &[1, 7, 50, 1 << 16]),
            socket_bytes: pick(&mut rng, &[64, 1 << 10, 1 << 16]),
            yields: pick(&mut rng, &[0, 1, 4]),
            drift_ppm: drift_ppm(&mut rng, faulty),
            unix_offset_millis: rng.below(2_000_000) as i64 - 1_000_000,
            faults: Faults::draw(&mut rng, faulty, workload),
            disk: None,
        }
    }

    /// The same with a disk that the seed decides, for a workload that can tell what was lost.
    #[must_use]
    pub fn with_disk(mut self) -> Self {
        // Generators of their own: with the workload given, the same disk is drawn.
        let mut rng = Rng::from_seed(self.seed ^ 0xd15c);
        if !Workload::DURABLE.contains(&self.workload) {
            let mut choice = Rng::from_seed(self.seed ^ 0x3017);
            self.workload = pick(&mut choice, &Workload::DURABLE);
        }
        // Each crash leaves as many outcomes unknown as requests were under way: too many give too many orders to search.
        self.pipeline = self.pipeline.min(2);
        self.clients = self.clients.min(4);
        self.faults.vanish_permille = 0;
        self.disk = Some(DiskOptions::draw(&mut rng, self.workload));
        self
    }
}

impl Faults {
    fn draw(rng: &mut Rng, faulty: bool, workload: Workload) -> Self {
        let mut drawn = Self {
            vanish_permille: pick(rng, &[0, 20, 100, 250]),
            pause_permille: pick(rng, &[0, 1, 10]),
            pause_max: Duration::from_millis(pick(rng, &[5, 50, 300])),
        };
        if workload == Workload::Vanish {
            drawn.vanish_permille = 400;
        }
        if faulty { drawn } else { Self::default() }
    }

    /// Whether anything goes wrong.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

fn drift_ppm(rng: &mut Rng, faulty: bool) -> i64 {
    let drawn = pick(rng, &[0, 200, -200, 50_000]);
    if faulty { drawn } else { 0 }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} workload {}", self.seed, self.workload.name())?;
        write!(f, " shards {} accept {}", self.shards, self.accept_shards)?;
        write!(f, " clients {} batches {}", self.clients, self.batches)?;
        write!(f, " pipeline {} keys {}", self.pipeline, self.keys)?;
        let (min, max) = (self.latency.start(), self.latency.end());
        write!(f, " latency {}-{} ms", min.as_millis(), max.as_millis())?;
        write!(f, " mesh 0-{} ms", self.mesh_delay_max.as_millis())?;
        write!(f, " x {}", self.mesh_capacity)?;
        write!(f, " chunk {} B", self.chunk_bytes)?;
        write!(f, " socket {} B", self.socket_bytes)?;
        write!(f, " yields {}", self.yields)?;
        write!(f, " drift {} ppm", self.drift_ppm)?;
        if let Some(disk) = &self.disk {
            write!(f, " appendfsync {}", disk.appendfsync.name())?;
            write!(f, " rewrite {} B", disk.rewrite_bytes)?;
            let latency = disk.faults.latency_max.as_millis();
            write!(
                f,
                " disk 0-{latency} ms {}/1000 errors",
                disk.faults.error_permille
            )?;
            let (crashes, after) = (disk.crashes, disk.crash_after_max.as_millis());
            write!(
                f,
                " crashes {crashes} within {after} ms, power {}/1000",
                disk.power_permille
            )?;
        }
        if !self.faults.any() {
            return write!(f, " no faults");
        }
        write!(f, " vanish {}/1000", self.faults.vanish_permille)?;
        let pause = self.faults.pause_max.as_millis();
        write!(f, " pause {}/1000 {pause} ms", self.faults.pause_permille)
    }
}

/// The command that runs a simulation again.
pub fn replay_command(options: &Options) -> String {
    let (seed, workload) = (options.seed, options.workload.name());
    let disk = if options.disk.is_some() {
        " --disk"
    } else {
        ""
    };
    format!("cargo run -p kevy-sim --release -- --seed {seed} --workload {workload}{disk}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_decides_the_same() {
        for seed in 0..50 {
            assert_eq!(
                Options::from_seed(seed, None),
                Options::from_seed(seed, None)
            );
        }
    }

    #[test]
    fn a_given_workload_changes_nothing_else_but_how_often_clients_vanish() {
        for seed in 0..50 {
            let mut drawn = Options::from_seed(seed, None);
            if drawn.workload == Workload::Vanish {
                continue;
            }
            drawn.workload = Workload::Pairs;
            assert_eq!(Options::from_seed(seed, Some(Workload::Pairs)), drawn);
        }
    }

    #[test]
    fn every_third_seed_has_no_faults_and_others_have() {
        let all: Vec<_> = (0..300).map(|s| Options::from_seed(s, None)).collect();
        assert!(all.iter().step_by(3).all(|o| !o.faults.any()));
        assert!(all.iter().filter(|o| o.faults.vanish_permille > 0).count() > 100);
        assert!(all.iter().filter(|o| o.faults.pause_permille > 0).count() > 80);
    }

    #[test]
    fn accepting_shards_are_among_the_shards() {
        for seed in 0..300 {
            let options = Options::from_seed(seed, None);
            assert!((1..=4).contains(&options.shards));
            assert!((1..=options.shards).contains(&options.accept_shards));
        }
    }
}
