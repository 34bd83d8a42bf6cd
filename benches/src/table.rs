//! Tables as text: columns as wide as they must be, names to the left, figures to the right.

use crate::gate::hop_ratios;
use crate::measure::Sample;
use crate::report::{CellResult, Report, ServerResult};
use crate::workload::Cell;

/// With so many requests in flight one side or the other has work all the time.
const ENOUGH_IN_FLIGHT: usize = 16;
/// A side that has work all the time and gets less than this of a core is kept from it.
const STARVED_LOAD: f64 = 0.6;

/// Lines of equal columns; the first row is the head, the first `left` columns are names.
pub fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(at, (cell, width))| {
                if at < left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        out.push_str(line.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// All cells with their servers, medians and ratios to the baseline.
pub fn results(report: &Report) -> String {
    let head = [
        "cell",
        "server",
        "kops/s",
        "ratio",
        "CPU us",
        "ratio",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "ratio p99",
        "RSS MB",
        "server %",
        "load %",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in &report.cells {
        for (number, server) in cell.servers.iter().enumerate() {
            let name = if number == 0 {
                cell.cell.to_string()
            } else {
                String::new()
            };
            rows.push(result_row(name, server));
        }
    }
    aligned(&rows, 2)
}

fn result_row(cell: String, server: &ServerResult) -> Vec<String> {
    let median = &server.median;
    let mut row = vec![
        cell,
        server.name.clone(),
        format!("{:.1}", median.ops_per_s / 1000.0),
        two_digits(server.ratios.throughput),
        format!("{:.2}", median.cpu_us_per_op),
        two_digits(server.ratios.cpu),
    ];
    let latency = median.latency;
    row.extend(
        [
            latency.map(|l| l.p50_us),
            latency.map(|l| l.p99_us),
            latency.map(|l| l.p999_us),
            latency.map(|l| l.max_us),
        ]
        .map(|figure| figure.map_or_else(dash, |us| format!("{us:.0}"))),
    );
    row.push(two_digits(server.ratios.p99));
    row.push(format!("{:.1}", median.resident_bytes as f64 / 1e6));
    row.push(format!("{:.0}", 100.0 * median.server_load()));
    row.push(format!("{:.0}", 100.0 * median.generator_load));
    row
}

pub(crate) fn two_digits(figure: Option<f64>) -> String {
    figure.map_or_else(dash, |ratio| format!("{ratio:.2}"))
}

pub(crate) fn dash() -> String {
    "-".to_owned()
}

/// A warning when neither side could use its cores in many cells: someone else ran there.
pub fn starved(report: &Report) -> Option<String> {
    let loaded = |cell: &Cell| cell.connections * cell.pipeline >= ENOUGH_IN_FLIGHT;
    let rows: Vec<&Sample> = report
        .rows()
        .filter(|(cell, _)| loaded(cell))
        .map(|(_, server)| &server.median)
        .collect();
    let idle = |sample: &&&Sample| sample.server_load().max(sample.generator_load) < STARVED_LOAD;
    let count = rows.iter().filter(idle).count();
    (2 * count > rows.len()).then(|| {
        format!(
            "note: in {count} of {} rows neither server nor generator got {:.0} % of a core: \
             the machine is busy with something else, and only CPU per command means anything",
            rows.len(),
            100.0 * STARVED_LOAD
        )
    })
}

/// For each cell with several numbers of accepting shards: the one to choose.
pub fn choices(report: &Report, p99_budget_us: Option<f64>) -> String {
    let several = |cell: &&CellResult| cell.servers.iter().filter(|s| s.is_kevy).count() > 1;
    let cells = report.cells.iter().filter(several);
    cells.map(|cell| choice(cell, p99_budget_us)).collect()
}

fn choice(cell: &CellResult, p99_budget_us: Option<f64>) -> String {
    let budget = p99_budget_us.map_or_else(
        || "without a p99 budget".to_owned(),
        |us| format!("with p99 within {us} us"),
    );
    let Some(best) = cell.best_kevy(p99_budget_us) else {
        return format!("{}: no accept-shards {budget}\n", cell.cell);
    };
    let name = best
        .accept_shards
        .map_or_else(|| "unset".to_owned(), |count| count.to_string());
    format!(
        "{}: best accept-shards {budget}: {name} ({:.1} kops/s, p99 {} us{})\n",
        cell.cell,
        best.median.ops_per_s / 1000.0,
        best.median
            .latency
            .map_or_else(dash, |l| format!("{:.0}", l.p99_us)),
        against_unset(cell, best)
    )
}

/// What the choice gains over the default, where that was measured too and is not the choice itself.
fn against_unset(cell: &CellResult, best: &ServerResult) -> String {
    let unset = |server: &&ServerResult| server.is_kevy && server.accept_shards.is_none();
    match cell.servers.iter().find(unset) {
        Some(unset) if unset.name != best.name && unset.median.ops_per_s > 0.0 => {
            let gain = best.median.ops_per_s / unset.median.ops_per_s - 1.0;
            format!(", {:+.1} % to unset", 100.0 * gain)
        }
        _ => String::new(),
    }
}

/// What hopping costs, where hopping and never hopping were both measured; else nothing.
pub fn hops(report: &Report) -> String {
    let ratios = hop_ratios(report);
    if ratios.is_empty() {
        return String::new();
    }
    let head = ["cell", "server", "throughput to hop=0"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(ratios.into_iter().map(|(cell, server, ratio)| {
        vec![cell.to_string(), server.name.clone(), format!("{ratio:.2}")]
    }));
    aligned(&rows, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let rows = [row(["name", "n"]), row(["a", "100"])];
        assert_eq!(aligned(&rows, 1), "name    n\na     100\n");
    }

    #[test]
    fn every_server_of_every_cell_has_a_line() {
        let text = results(&report(&[1, 16]));
        assert_eq!(text.lines().count(), 1 + 2 * 3);
        assert!(text.contains("set c=50 P=16 d=64"));
        let kevy = text.lines().nth(2).unwrap();
        assert!(kevy.contains("kevy") && kevy.contains("1.50"), "{kevy}");
    }

    #[test]
    fn the_choice_names_the_shards_and_the_gain() {
        let text = choices(&report(&[1]), None);
        assert!(text.contains("without a p99 budget: 2 ("), "{text}");
        assert!(text.contains("+33.3 % to unset"), "{text}");
        let within = choices(&report(&[1]), Some(20.0));
        assert!(within.contains("within 20 us: unset ("), "{within}");
        assert!(choices(&report(&[1]), Some(1.0)).contains("no accept-shards"));
    }

    #[test]
    fn a_busy_machine_is_told() {
        let mut report = report(&[1, 16]);
        assert!(starved(&report).is_some());
        for server in report.cells.iter_mut().flat_map(|cell| &mut cell.servers) {
            server.median.generator_load = 0.9;
        }
        assert_eq!(starved(&report), None);
    }

    #[test]
    fn without_hops_there_is_no_table_of_them() {
        assert_eq!(hops(&report(&[1])), "");
    }
}
