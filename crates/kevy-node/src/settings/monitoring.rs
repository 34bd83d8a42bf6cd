//! `[monitoring]`: slow commands, latencies, notifications.

use super::kind::Invalid;
use kevy_engine::EventClasses;

/// `[monitoring]`. Each field is documented by its row in the table of directives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the row of each field says what it means, and is what users read"
)]
pub struct Monitoring {
    /// In microseconds; negative: nothing is logged.
    pub slowlog_log_slower_than: i64,
    pub slowlog_max_len: u64,
    /// In milliseconds; 0: off.
    pub latency_monitor_threshold: u64,
    pub latency_tracking: bool,
    pub latency_tracking_info_percentiles: Vec<Percentile>,
    pub notify_keyspace_events: EventClasses,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self {
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            latency_monitor_threshold: 0,
            latency_tracking: true,
            latency_tracking_info_percentiles: [50.0, 99.0, 99.9].map(Percentile::new).into(),
            notify_keyspace_events: EventClasses::NONE,
        }
    }
}

/// A percentile from 0 to 100. Compares by its bits: it is no NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile(u64);

impl Percentile {
    fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    /// The number.
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Most percentiles; `INFO` shows each for each command.
const MAX_PERCENTILES: usize = 100;

/// Reads percentiles separated by spaces.
pub(super) fn parse_percentiles(text: &str) -> Result<Vec<Percentile>, Invalid> {
    const INVALID: Invalid =
        Invalid::Because("Invalid latency-tracking-info-percentiles parameters");
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.len() > MAX_PERCENTILES {
        return Err(INVALID);
    }
    let parse = |word: &&str| {
        let value = word.parse::<f64>().map_err(|_| INVALID)?;
        if value.is_nan() {
            return Err(INVALID);
        }
        if !(0.0..=100.0).contains(&value) {
            return Err(Invalid::Because(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ));
        }
        Ok(Percentile::new(value))
    };
    words.iter().map(parse).collect()
}

/// The percentiles as `CONFIG GET` shows them.
pub(super) fn percentiles_text(percentiles: &[Percentile]) -> String {
    let shown: Vec<String> = percentiles.iter().map(|p| p.value().to_string()).collect();
    shown.join(" ")
}
