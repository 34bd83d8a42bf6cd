//! How often commands took how long: counts in buckets whose width is less than a hundredth of their value, as in the
//! histograms behind Redis's `INFO latencystats` and `LATENCY HISTOGRAM`.

/// Durations above this count as this, as in Redis: one second.
const MAX_NANOS: u64 = 1_000_000_000;
/// Buckets of one width; the next as many are twice as wide.
const BUCKETS_PER_WIDTH: u64 = 128;
/// Up to here each nanosecond has a bucket of its own.
const EXACT_NANOS: u64 = 2 * BUCKETS_PER_WIDTH;
/// The first bound that `LATENCY HISTOGRAM` shows; each further one is twice as large.
const FIRST_BOUND_NANOS: u64 = 1024;

/// A histogram of durations. 24 KiB once something was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts `times` durations of `nanos` nanoseconds each.
    pub fn record(&mut self, nanos: u64, times: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; bucket_of(MAX_NANOS) + 1];
        }
        self.counts[bucket_of(nanos.min(MAX_NANOS))] += times;
        self.total += times;
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            for (own, more) in self.counts.iter_mut().zip(&other.counts) {
                *own += more;
            }
        }
        self.total += other.total;
    }

    /// How many durations were recorded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The duration, in nanoseconds, that `percentile` percent of all did not exceed: the end of its bucket. 0 if nothing
    /// was recorded.
    pub fn percentile_nanos(&self, percentile: f64) -> u64 {
        let wanted = ((percentile / 100.0 * self.total as f64) + 0.5) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return end_of(bucket);
            }
        }
        0
    }

    /// For bounds that double, in microseconds, how many durations did not exceed them. Bounds that add nothing are left
    /// out.
    pub fn doubling_bounds(&self) -> Vec<(u64, u64)> {
        let mut shown: Vec<(u64, u64)> = Vec::new();
        let mut counts = self.counts.iter().enumerate().peekable();
        let (mut seen, mut bound) = (0, FIRST_BOUND_NANOS);
        while seen < self.total {
            let last = bucket_of(bound.min(MAX_NANOS));
            while let Some((_, count)) = counts.next_if(|(bucket, _)| *bucket <= last) {
                seen += count;
            }
            if shown.last().map_or(0, |(_, before)| *before) < seen {
                shown.push((end_of(bucket_of(bound)) / 1000, seen));
            }
            bound *= 2;
        }
        shown
    }
}

/// A histogram for each command, by its number in the command table.
#[derive(Clone, Debug, Default)]
pub struct Histograms(Vec<Histogram>);

impl Histograms {
    /// Counts durations of a command.
    pub fn record(&mut self, index: usize, nanos: u64, times: u64) {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, Histogram::default);
        }
        self.0[index].record(nanos, times);
    }

    /// Adds what others have counted.
    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize_with(other.0.len(), Histogram::default);
        }
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            own.merge(more);
        }
    }

    /// The histogram of a command, if it was ever measured.
    pub fn of(&self, index: usize) -> Option<&Histogram> {
        self.0.get(index).filter(|histogram| histogram.total() > 0)
    }
}

/// The bucket of a duration.
fn bucket_of(nanos: u64) -> usize {
    if nanos < EXACT_NANOS {
        return nanos as usize;
    }
    let shift = u64::from(nanos.ilog2()) - u64::from(BUCKETS_PER_WIDTH.ilog2());
    (shift * BUCKETS_PER_WIDTH + (nanos >> shift)) as usize
}

/// The longest duration of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT_NANOS {
        return bucket;
    }
    let shift = bucket / BUCKETS_PER_WIDTH - 1;
    let first = (bucket - shift * BUCKETS_PER_WIDTH) << shift;
    first + (1 << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_its_bucket() {
        let mut before = None;
        for nanos in (0..5000).chain((0..30).flat_map(|bit| [(1 << bit) - 1, 1 << bit])) {
            let end = end_of(bucket_of(nanos));
            assert!(
                nanos <= end && end <= nanos + nanos / 100,
                "{nanos} in a bucket that ends at {end}"
            );
            if nanos > 0 && nanos < 5000 {
                assert!(before <= Some(bucket_of(nanos)), "{nanos}");
            }
            before = Some(bucket_of(nanos));
        }
    }

    /// Bounds and percentiles as redis-server 7.0.15 shows them for commands of 4, 11, 15 and 114 microseconds.
    #[test]
    fn bounds_and_percentiles_are_those_of_redis() {
        let of = |micros: &[u64]| {
            let mut histogram = Histogram::default();
            for micros in micros {
                histogram.record(micros * 1000, 1);
            }
            histogram
        };
        assert_eq!(of(&[4]).doubling_bounds(), [(4, 1)]);
        assert_eq!(of(&[11]).doubling_bounds(), [(16, 1)]);
        assert_eq!(of(&[114]).doubling_bounds(), [(132, 1)]);
        assert_eq!(of(&[8, 15]).doubling_bounds(), [(8, 1), (16, 2)]);
        for (micros, nanos) in [
            (22, 22_015),
            (9, 9_023),
            (14, 14_015),
            (11, 11_007),
            (177, 177_151),
        ] {
            assert_eq!(of(&[micros]).percentile_nanos(50.0), nanos);
        }
        assert_eq!(of(&[1, 2, 3, 100]).percentile_nanos(50.0) / 1000, 2);
        assert_eq!(of(&[]).percentile_nanos(99.0), 0);
    }

    #[test]
    fn histograms_add_up() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        other.record(5_000_000_000, 2);
        one.merge(&other);
        one.record(1000, 1);
        one.merge(&other);
        assert_eq!(one.total(), 5);
        assert_eq!(
            one.doubling_bounds().last().map(|(_, count)| *count),
            Some(5)
        );
    }
}
