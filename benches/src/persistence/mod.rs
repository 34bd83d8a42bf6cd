//! `--persistence`: what keeping the data costs, kevy beside redis-server, both keeping it alike.
//!
//! Three things: the sweep of [`crate::run`] with the log on, once per policy; how long a start takes that
//! loads the log ([`loading`]); and how long a GET takes while a snapshot is written ([`saving`]). All in
//! rounds that interleave the servers, ratios paired by round.

pub mod loading;
mod paced;
pub mod saving;

use serde::{Deserialize, Serialize};

use crate::control;
use crate::error::Error;
use crate::launch::{Running, Target};
use crate::loader;
use crate::measure::Setup;
use crate::plan::Plan;
use crate::reply::Reply;
use crate::run::rotation;
use crate::workload::{Fsync, key};

/// Length of a value, in bytes.
pub(crate) const VALUE_BYTES: usize = 64;

/// The options of `--persistence`.
#[derive(Clone, Debug, clap::Args)]
pub struct PersistenceOptions {
    /// Measure with a log on disk: SET by policy, time to load, GET while a snapshot is written
    #[arg(id = "persistence", long = "persistence", conflicts_with_all = ["idle", "memory"])]
    pub is_on: bool,
    /// Keys to load and to save with --persistence
    #[arg(id = "persistence_keys", long = "persistence-keys", value_name = "N", default_value = "200000", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Rounds of loading and of saving with --persistence
    #[arg(
        id = "persistence_rounds",
        long = "persistence-rounds",
        value_name = "N",
        default_value = "3",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub rounds: u16,
    /// SETs per second while a snapshot is written; fewer where the server takes no more
    #[arg(id = "snapshot_writes", long = "snapshot-writes", value_name = "N", default_value = "50000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub writes_per_s: u32,
    /// Exit 1 when kevy takes longer to load than this ratio to the baseline
    #[arg(long, value_name = "RATIO")]
    pub max_load_ratio: Option<f64>,
    /// Exit 1 when a turn of kevy is longer while a snapshot begins, in microseconds
    #[arg(long, value_name = "US")]
    pub max_turn_us: Option<f64>,
}

/// Loading and saving, all servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersistenceResult {
    /// Keys loaded and saved.
    pub keys: u64,
    /// SETs per second that were asked for while snapshots were written.
    pub writes_asked_per_s: u32,
    /// Starts that load the log.
    pub loads: Vec<loading::LoadResult>,
    /// GETs while a snapshot is written.
    pub saves: Vec<saving::SaveResult>,
}

/// Measures loading and saving of every server in the plan.
///
/// # Errors
/// When a server cannot be started, stopped or asked, or answers a request wrongly.
pub fn measure(
    plan: &Plan,
    setup: &Setup,
    options: &PersistenceOptions,
) -> Result<PersistenceResult, Error> {
    let targets: Vec<Target> = plan.cells[0]
        .targets
        .iter()
        .map(|target| target.logging(Fsync::Everysec))
        .collect();
    let loads = interleaved(&targets, options.rounds, |target| {
        loading::measure(target, setup, options.keys)
    })?;
    let saves = interleaved(&targets, options.rounds, |target| {
        saving::measure(target, setup, options)
    })?;
    Ok(PersistenceResult {
        keys: options.keys,
        writes_asked_per_s: options.writes_per_s,
        loads: loading::results(&targets, &loads, &plan.baseline),
        saves: saving::results(&targets, &saves, &plan.baseline),
    })
}

/// One list per target, with one measurement per round; each target begins equally often.
fn interleaved<T>(
    targets: &[Target],
    rounds: u16,
    measure: impl Fn(&Target) -> Result<T, Error>,
) -> Result<Vec<Vec<T>>, Error> {
    let mut all: Vec<Vec<T>> = targets.iter().map(|_| Vec::new()).collect();
    for round in 0..usize::from(rounds) {
        for at in rotation(targets.len(), round) {
            let target = &targets[at];
            let measured = measure(target).map_err(|error| error.of_server(&target.name))?;
            all[at].push(measured);
        }
    }
    Ok(all)
}

/// Where the baseline's measurements are.
fn baseline_at(targets: &[Target], baseline: &str) -> Option<usize> {
    targets.iter().position(|target| target.name == baseline)
}

/// Sets the keys 0 to `keys` - 1 through the wire.
fn fill(running: &Running, keys: u64) -> Result<(), Error> {
    let value = [b'x'; VALUE_BYTES];
    let write = |id, out: &mut Vec<u8>| push_set(out, id, &value);
    loader::fill(running.addr, 0..keys, write, |reply| {
        reply == Reply::Status(b"OK")
    })
}

fn push_set(out: &mut Vec<u8>, id: u64, value: &[u8]) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    control::push_bulk(out, &key(id));
    control::push_bulk(out, value);
}

/// Both tables.
pub fn tables(result: &PersistenceResult) -> String {
    format!(
        "{}\n{}",
        loading::table(result.keys, &result.loads),
        saving::table(result.keys, &result.saves)
    )
}

/// Where kevy passes the limits given.
pub fn findings(result: &PersistenceResult, options: &PersistenceOptions) -> Vec<String> {
    let mut findings = loading::findings(&result.loads, options.max_load_ratio);
    findings.extend(saving::findings(&result.saves, options.max_turn_us));
    findings
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::launch::{KevyArgs, Launch};

    /// redis and kevy, neither of which is ever started.
    pub(crate) fn targets() -> [Target; 2] {
        let redis = Target::parse("redis=redis-server --port {port}").unwrap();
        let kevy = Target {
            name: "kevy".into(),
            launch: Launch::Kevy(KevyArgs {
                path: "/k".into(),
                threads: 1,
                accept_shards: None,
                cluster: false,
            }),
            fsync: None,
        };
        [redis, kevy]
    }

    #[test]
    fn rounds_interleave_and_faults_name_their_server() {
        let order = std::cell::RefCell::new(Vec::new());
        let all = interleaved(&targets(), 2, |target| {
            order.borrow_mut().push(target.name.clone());
            Ok(order.borrow().len())
        });
        assert_eq!(all.unwrap(), [[1, 4], [2, 3]]);
        assert_eq!(*order.borrow(), ["redis", "kevy", "kevy", "redis"]);
        let failing = interleaved(&targets(), 1, |_| -> Result<(), Error> {
            Err(Error::Reply("ERR no".into()))
        });
        assert_eq!(failing.unwrap_err().to_string(), "redis: ERR no");
    }

    #[test]
    fn a_set_is_one_request() {
        let mut out = Vec::new();
        push_set(&mut out, 7, b"ab");
        assert_eq!(
            out,
            b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$2\r\nab\r\n"
        );
    }
}
