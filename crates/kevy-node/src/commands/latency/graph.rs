//! `LATENCY GRAPH`: the samples of an event as columns of characters, each with its age below.

use crate::latency::{Event, Series};
use std::cmp::Ordering;

const WIDTH: usize = 80;
const ROWS: u64 = 4;
/// What the topmost cell of a column looks like that is filled by one, two or three thirds.
const LEVELS: [char; 3] = ['_', 'o', '#'];

/// The drawing, `now` in Unix seconds.
pub(super) fn draw(event: Event, series: &Series, now: i64) -> String {
    let millis = || series.samples.iter().map(|sample| sample.millis);
    let (low, high) = (millis().min().unwrap_or(0), millis().max().unwrap_or(0));
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.name(),
        series.max_millis,
        "-".repeat(WIDTH),
    );
    let shown = series.samples.len().saturating_sub(WIDTH);
    let columns: Vec<_> = series.samples.iter().skip(shown).collect();
    let thirds = LEVELS.len() as u64;
    for row in (0..ROWS).rev() {
        let cell = |millis: u64| {
            let height = ((millis - low) * (ROWS * thirds - 1)).checked_div(high - low);
            let height = height.unwrap_or(0);
            match row.cmp(&(height / thirds)) {
                Ordering::Less => '|',
                Ordering::Equal => LEVELS[(height % thirds) as usize],
                Ordering::Greater => ' ',
            }
        };
        text.extend(columns.iter().map(|sample| cell(sample.millis)));
        text.push('\n');
    }
    let ages: Vec<String> = columns.iter().map(|sample| age(now - sample.at)).collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    text.push_str(&" ".repeat(ages.len()));
    text.push('\n');
    for row in 0..longest {
        text.extend(ages.iter().map(|age| age.chars().nth(row).unwrap_or(' ')));
        text.push('\n');
    }
    text
}

/// `15s`, `3m`, `2h`, `9d`.
fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{Latencies, Sample};

    #[test]
    fn the_highest_sample_reaches_the_top_and_the_lowest_the_bottom() {
        let mut latencies = Latencies::default();
        for (at, millis) in [(85, 20), (100, 30)] {
            latencies.add(Event::Command, Sample { at, millis });
        }
        let (event, series) = latencies.named(b"command").unwrap();
        let text = draw(event, series, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "command - high 30 ms, low 20 ms (all time high 30 ms)"
        );
        assert_eq!(lines[2..6], [" #", " |", " |", "_|"]);
        assert_eq!(lines[7..], ["10", "5s", "s "]);
    }
}
