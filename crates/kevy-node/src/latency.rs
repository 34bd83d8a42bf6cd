//! What `LATENCY` tells: when something took longer than `latency-monitor-threshold`, by event
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/latency-monitor/>).

use crate::shard::Shard;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Samples kept of each event, as in Redis.
pub const SAMPLES_PER_EVENT: usize = 160;

/// What took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A command.
    Command,
    /// A command that is said to take constant or logarithmic time.
    FastCommand,
    /// Removing expired keys.
    ExpireCycle,
    /// Removing keys for want of memory.
    EvictionCycle,
}

impl Event {
    /// Its name in Redis.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::FastCommand => "fast-command",
            Self::ExpireCycle => "expire-cycle",
            Self::EvictionCycle => "eviction-cycle",
        }
    }
}

/// One time that it took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// Unix seconds.
    pub at: i64,
    /// How long it took.
    pub millis: u64,
}

/// The latest samples of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Oldest first; of the samples of one second only the longest is kept.
    pub samples: VecDeque<Sample>,
    /// The longest ever, in milliseconds.
    pub max_millis: u64,
}

impl Series {
    fn add(&mut self, sample: Sample) {
        self.max_millis = self.max_millis.max(sample.millis);
        match self.samples.back_mut() {
            Some(last) if last.at == sample.at => last.millis = last.millis.max(sample.millis),
            Some(_) | None => self.samples.push_back(sample),
        }
        if self.samples.len() > SAMPLES_PER_EVENT {
            self.samples.pop_front();
        }
    }
}

/// The series of all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(BTreeMap<Event, Series>);

impl Latencies {
    /// Notes that something took long.
    pub fn add(&mut self, event: Event, sample: Sample) {
        self.0.entry(event).or_default().add(sample);
    }

    /// Forgets the events of these names, all without names; which of them there were.
    pub fn reset(&mut self, names: &[Vec<u8>]) -> Vec<Event> {
        let is_meant = |event: &Event| {
            let is_named = |name: &Vec<u8>| name.eq_ignore_ascii_case(event.name().as_bytes());
            names.is_empty() || names.iter().any(is_named)
        };
        let meant: Vec<Event> = self.0.keys().copied().filter(is_meant).collect();
        for event in &meant {
            self.0.remove(event);
        }
        meant
    }

    /// The series of all shards as one.
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Self {
        let mut samples: BTreeMap<Event, (Vec<Sample>, u64)> = BTreeMap::new();
        for (event, series) in all.into_iter().flat_map(|latencies| latencies.0) {
            let (gathered, max_millis) = samples.entry(event).or_default();
            gathered.extend(series.samples);
            *max_millis = (*max_millis).max(series.max_millis);
        }
        let series = |(mut samples, max_millis): (Vec<Sample>, u64)| {
            samples.sort_unstable();
            let mut series = Series::default();
            samples.into_iter().for_each(|sample| series.add(sample));
            series.max_millis = max_millis;
            series
        };
        let merged = samples
            .into_iter()
            .map(|(event, found)| (event, series(found)));
        Self(merged.collect())
    }

    /// The events with their series.
    pub fn iter(&self) -> impl Iterator<Item = (Event, &Series)> {
        self.0.iter().map(|(event, series)| (*event, series))
    }

    /// The series of the event `name`, in either case.
    pub fn named(&self, name: &[u8]) -> Option<(Event, &Series)> {
        self.iter()
            .find(|(event, _)| name.eq_ignore_ascii_case(event.name().as_bytes()))
    }
}

impl Shard {
    /// Notes that something took so long, if that is long enough for `latency-monitor-threshold`.
    pub(crate) fn note_latency(&mut self, event: Event, took: Duration) {
        let threshold = self.settings.monitoring.latency_monitor_threshold;
        let millis = took.as_millis() as u64;
        if threshold > 0 && millis >= threshold {
            let at = self.now.unix.0.div_euclid(1000);
            self.latencies.add(event, Sample { at, millis });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: i64, millis: u64) -> Sample {
        Sample { at, millis }
    }

    #[test]
    fn a_second_keeps_its_longest_sample_and_old_ones_go() {
        let mut latencies = Latencies::default();
        for (at, millis) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            latencies.add(Event::Command, sample(at, millis));
        }
        let (_, series) = latencies.named(b"COMMAND").unwrap();
        assert_eq!(series.samples, [sample(1, 9), sample(2, 3)]);
        for at in 3..1000 {
            latencies.add(Event::Command, sample(at, 1));
        }
        let (_, series) = latencies.named(b"command").unwrap();
        assert_eq!((series.samples.len(), series.max_millis), (160, 9));
    }

    #[test]
    fn shards_are_merged_by_time() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.add(Event::Command, sample(1, 5));
        one.add(Event::Command, sample(3, 5));
        other.add(Event::Command, sample(2, 4));
        other.add(Event::Command, sample(3, 6));
        other.add(Event::ExpireCycle, sample(3, 6));
        let mut merged = Latencies::merged([one, other]);
        let (_, series) = merged.named(b"command").unwrap();
        assert_eq!(series.samples, [sample(1, 5), sample(2, 4), sample(3, 6)]);
        assert_eq!(
            merged.reset(&[b"command".to_vec(), b"x".to_vec()]),
            [Event::Command]
        );
        assert_eq!(merged.reset(&[]), [Event::ExpireCycle]);
    }
}
