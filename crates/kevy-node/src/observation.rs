//! What the control plane asks shards about how they fare, and what they answer: slow log, latencies, and what `DEBUG` has them
//! do.

use crate::histogram::Histograms;
use crate::latency::{Event, Latencies};
use crate::shard::Shard;
use crate::slow_log::SlowRequest;
use kevy_engine::keyspace::Expiry;
use kevy_proto::slot::slot_of;
use std::time::Duration;

/// A question about how a shard fares, or something that `DEBUG` has it do.
#[derive(Clone, Debug)]
pub enum Observation {
    /// So many of the newest entries of the slow log. Only the shard that keeps it has any.
    SlowRequests(usize),
    /// How many entries the slow log has.
    SlowLogLength,
    /// Forget the slow log.
    ResetSlowLog,
    /// Its latency events.
    Latencies,
    /// Forget the latency events of these names (none: all).
    ResetLatencies(Vec<Vec<u8>>),
    /// Its histograms of commands.
    Histograms,
    /// Serve nobody for a while.
    Sleep(Duration),
    /// Create those of the keys `<prefix>:0` to `<prefix>:<count - 1>` that it owns and has not.
    Populate {
        /// How many in the whole process.
        count: u64,
        /// What they begin with.
        prefix: Vec<u8>,
        /// How long their values are; `None`: as long as need be.
        value_bytes: Option<usize>,
    },
}

/// A shard's answer.
#[derive(Debug)]
pub enum Observed {
    /// Entries of the slow log, newest first.
    SlowRequests(Vec<SlowRequest>),
    /// How many.
    Count(usize),
    /// Its latency events.
    Latencies(Latencies),
    /// Names of latency events that it forgot.
    Forgotten(Vec<&'static str>),
    /// Its histograms.
    Histograms(Histograms),
    /// It was done.
    Done,
}

impl Shard {
    /// Answers, or does what was asked.
    pub(crate) fn observe(&mut self, observation: Observation) -> Observed {
        match observation {
            Observation::SlowRequests(count) => Observed::SlowRequests(self.slow_log.newest(count)),
            Observation::SlowLogLength => Observed::Count(self.slow_log.len()),
            Observation::ResetSlowLog => {
                self.slow_log.clear();
                Observed::Done
            }
            Observation::Latencies => Observed::Latencies(self.latencies.clone()),
            Observation::ResetLatencies(names) => {
                let events = self.latencies.reset(&names);
                Observed::Forgotten(events.into_iter().map(Event::name).collect())
            }
            Observation::Histograms => Observed::Histograms(self.histograms.clone()),
            Observation::Sleep(duration) => {
                if let Some(sleep) = self.config.process.sleep {
                    sleep(duration);
                }
                Observed::Done
            }
            Observation::Populate {
                count,
                prefix,
                value_bytes,
            } => {
                self.populate(count, &prefix, value_bytes);
                Observed::Done
            }
        }
    }

    fn populate(&mut self, count: u64, prefix: &[u8], value_bytes: Option<usize>) {
        for number in 0..count {
            let key = [prefix, format!(":{number}").as_bytes()].concat();
            if self.map.owner(slot_of(&key)) != self.id || self.keyspace.held(&key).is_some() {
                continue;
            }
            let mut value = format!("value:{number}").into_bytes();
            if let Some(length) = value_bytes {
                value.resize(length, 0);
            }
            let (now, effects) = (self.now, &mut self.effects);
            self.keyspace
                .set_string(&key, &value, Expiry::Never, now, effects);
        }
    }
}
