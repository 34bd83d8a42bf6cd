//! The gate itself: ratios against a stored run, floors, and what hopping may cost.
//!
//! Only ratios are compared: they survive a change of machine and most of its noise. Each finding
//! is a sentence; a run with any finding ends with exit code 1.

use std::str::FromStr;

use clap::ValueEnum;

use crate::report::{Ratios, Report, ServerResult};
use crate::stats::ratio;
use crate::workload::Cell;

/// A ratio that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// Commands per second: more is better
    Throughput,
    /// CPU time of the server per command: less is better
    Cpu,
    /// 99 % latency: less is better
    P99,
}

impl Metric {
    fn of(self, ratios: &Ratios) -> Option<f64> {
        match self {
            Self::Throughput => ratios.throughput,
            Self::Cpu => ratios.cpu,
            Self::P99 => ratios.p99,
        }
    }

    fn is_worse(self, now: f64, stored: f64, tolerance: f64) -> bool {
        match self {
            Self::Throughput => now < stored * (1.0 - tolerance),
            Self::Cpu | Self::P99 => now > stored * (1.0 + tolerance),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Cpu => "CPU per command",
            Self::P99 => "p99",
        }
    }
}

/// The least ratio at one pipeline depth, as `16:1.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Requests in flight per connection.
    pub pipeline: usize,
    /// The ratio.
    pub ratio: f64,
}

impl FromStr for Floor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not PIPELINE:RATIO, such as 16:1.5");
        let (pipeline, ratio) = text.split_once(':').ok_or_else(bad)?;
        let ratio: f64 = ratio.parse().map_err(|_| bad())?;
        if !(ratio > 0.0 && ratio.is_finite()) {
            return Err(bad());
        }
        Ok(Self {
            pipeline: pipeline.parse().map_err(|_| bad())?,
            ratio,
        })
    }
}

/// Replies that were wrong: whatever was measured is worth nothing then.
pub fn faults(report: &Report) -> Vec<String> {
    report
        .rows()
        .filter(|(_, server)| server.median.faults > 0)
        .map(|(cell, server)| {
            format!(
                "{} in {cell}: {} faults, the first: {}",
                server.name,
                server.median.faults,
                server.median.first_fault.as_deref().unwrap_or("unknown")
            )
        })
        .collect()
}

/// kevy's ratios that are worse than in a stored run by more than `tolerance`; a gate that compares
/// nothing is a finding, too.
pub fn against_stored(
    now: &Report,
    stored: &Report,
    metrics: &[Metric],
    tolerance: f64,
) -> Vec<String> {
    if now.baseline != stored.baseline {
        return vec![format!(
            "the stored ratios are against {}, these against {}",
            stored.baseline, now.baseline
        )];
    }
    let mut compared = 0;
    let mut findings = Vec::new();
    for (cell, server) in kevy_rows(now) {
        let Some(before) = find(stored, cell, &server.name) else {
            continue;
        };
        for metric in metrics {
            let pair = metric.of(&server.ratios).zip(metric.of(&before.ratios));
            let Some((ratio, was)) = pair else { continue };
            compared += 1;
            if metric.is_worse(ratio, was, tolerance) {
                findings.push(format!(
                    "{} in {cell}: {} ratio {ratio:.2}, stored {was:.2}, tolerance {tolerance}",
                    server.name,
                    metric.name()
                ));
            }
        }
    }
    if compared == 0 {
        findings.push("nothing to compare with the stored run: no cell of kevy is in both".into());
    }
    findings
}

/// kevy's throughput ratios below the floors; a floor at a pipeline that was not measured is a finding.
pub fn below_floors(report: &Report, floors: &[Floor]) -> Vec<String> {
    let rows: Vec<_> = kevy_rows(report)
        .map(|(cell, server)| (cell, server, server.ratios.throughput))
        .collect();
    below(
        &rows,
        floors,
        &format!("throughput against {}", report.baseline),
    )
}

/// Hopping cells below the floors, against the same cell with `--hop 0`.
pub fn below_hop_floors(report: &Report, floors: &[Floor]) -> Vec<String> {
    let rows = hop_ratios(report);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(c, s, ratio)| (c, s, Some(ratio)))
        .collect();
    below(&rows, floors, "throughput against hop=0")
}

/// Throughput of each hopping cell of kevy against the same cell without a hop.
pub fn hop_ratios(report: &Report) -> Vec<(&Cell, &ServerResult, f64)> {
    kevy_rows(report)
        .filter(|(cell, _)| cell.hop_percent.is_some_and(|percent| percent > 0))
        .filter_map(|(cell, server)| {
            let never = Cell {
                hop_percent: Some(0),
                ..*cell
            };
            let base = find(report, &never, &server.name)?;
            let ratio = ratio(server.median.ops_per_s, base.median.ops_per_s)?;
            Some((cell, server, ratio))
        })
        .collect()
}

fn below(
    rows: &[(&Cell, &ServerResult, Option<f64>)],
    floors: &[Floor],
    what: &str,
) -> Vec<String> {
    let mut findings = Vec::new();
    for floor in floors {
        let mut measured = false;
        for (cell, server, ratio) in rows {
            let Some(ratio) = ratio.filter(|_| cell.pipeline == floor.pipeline) else {
                continue;
            };
            measured = true;
            if ratio < floor.ratio {
                findings.push(format!(
                    "{} in {cell}: {what} is {ratio:.2}, below the floor of {:.2}",
                    server.name, floor.ratio
                ));
            }
        }
        if !measured {
            findings.push(format!("{what}: nothing measured at P={}", floor.pipeline));
        }
    }
    findings
}

fn kevy_rows(report: &Report) -> impl Iterator<Item = (&Cell, &ServerResult)> {
    report.rows().filter(|(_, server)| server.is_kevy)
}

fn find<'a>(report: &'a Report, cell: &Cell, name: &str) -> Option<&'a ServerResult> {
    report
        .rows()
        .find(|(other, server)| *other == cell && server.name == name)
        .map(|(_, server)| server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CellResult;
    use crate::report::tests::{cell, report, sample, target};

    const BOTH: [Metric; 2] = [Metric::Throughput, Metric::Cpu];

    fn floors(text: &str) -> Vec<Floor> {
        text.split(',')
            .map(|floor| floor.parse().unwrap())
            .collect()
    }

    #[test]
    fn an_equal_run_passes_and_a_worse_one_does_not() {
        let stored = report(&[1, 16]);
        let mut now = stored.clone();
        assert!(against_stored(&now, &stored, &BOTH, 0.0).is_empty());
        now.cells[1].servers[1].ratios.throughput = Some(1.36);
        assert!(against_stored(&now, &stored, &BOTH, 0.1).is_empty());
        now.cells[1].servers[1].ratios.throughput = Some(1.34);
        let findings = against_stored(&now, &stored, &BOTH, 0.1);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("kevy in set c=50 P=16 d=64: throughput ratio 1.34"));
        assert!(against_stored(&now, &stored, &[Metric::Cpu], 0.1).is_empty());
    }

    #[test]
    fn more_cpu_or_latency_is_worse() {
        let stored = report(&[1]);
        let mut now = stored.clone();
        now.cells[0].servers[2].ratios.cpu = Some(1.2);
        now.cells[0].servers[2].ratios.p99 = Some(9.0);
        assert_eq!(against_stored(&now, &stored, &BOTH, 0.1).len(), 1);
        let all = [Metric::Throughput, Metric::Cpu, Metric::P99];
        assert_eq!(against_stored(&now, &stored, &all, 0.1).len(), 2);
        now.cells[0].servers[2].ratios.cpu = Some(0.5);
        assert!(against_stored(&now, &stored, &BOTH, 0.1).is_empty());
    }

    #[test]
    fn the_other_servers_are_not_judged() {
        let stored = report(&[1]);
        let mut now = stored.clone();
        now.cells[0].servers[0].ratios.throughput = Some(0.1);
        assert!(against_stored(&now, &stored, &BOTH, 0.1).is_empty());
    }

    #[test]
    fn a_gate_that_compares_nothing_fails() {
        assert_eq!(
            against_stored(&report(&[1]), &report(&[16]), &BOTH, 0.1).len(),
            1
        );
        let mut other = report(&[1]);
        other.baseline = "valkey".into();
        assert_eq!(against_stored(&report(&[1]), &other, &BOTH, 0.1).len(), 1);
    }

    #[test]
    fn floors_are_by_pipeline() {
        let report = report(&[1, 16]);
        assert!(below_floors(&report, &floors("1:1.5,16:1.4")).is_empty());
        assert_eq!(below_floors(&report, &floors("16:1.6")).len(), 1);
        assert_eq!(below_floors(&report, &floors("64:1.0")).len(), 1);
        for bad in ["", "1", "x:1", "1:0", "1:nan", "1:-2"] {
            assert!(bad.parse::<Floor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn faults_are_findings() {
        let mut report = report(&[1]);
        assert!(faults(&report).is_empty());
        report.cells[0].servers[0].median.faults = 3;
        assert_eq!(faults(&report).len(), 1);
    }

    #[test]
    fn hopping_is_compared_with_never_hopping() {
        let mut whole = report(&[]);
        for (hop, ops) in [(0, 100.0), (100, 70.0)] {
            let hopping = Cell {
                hop_percent: Some(hop),
                ..cell(1)
            };
            let targets = [target("kevy/n=1", Some(1))];
            let samples = [vec![sample(ops, 1.0)]];
            let result = CellResult::new(hopping, &targets, &samples, "redis");
            whole.cells.push(result);
        }
        let ratios = hop_ratios(&whole);
        assert_eq!(ratios.len(), 1);
        assert!((ratios[0].2 - 0.7).abs() < 1e-9);
        assert!(below_hop_floors(&whole, &floors("1:0.6")).is_empty());
        assert_eq!(below_hop_floors(&whole, &floors("1:0.8")).len(), 1);
    }
}
