//! The plot: throughput by pipelining, one line per server, one panel per load.
//!
//! Where only one pipeline depth was measured, the panel shows the servers side by side instead:
//! that is the picture of an accept-shards sweep.

use std::fs;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, DrawingArea, IntoDrawingArea, IntoFont, LineSeries,
    PathElement, RGBColor, SVGBackend, SeriesLabelPosition, Text, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::{Doing, Error};
use crate::report::Report;
use crate::workload::Cell;

/// Width and height of one panel, in pixels.
const PANEL: (u32, u32) = (640, 400);
/// Panels side by side.
const PANELS_ACROSS: usize = 2;
/// Room above the highest point for the legend, as a part of its height.
const HEADROOM: f64 = 1.35;
/// Colours that remain apart for the colour-blind (Okabe and Ito's set), used in turn.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// One chart: categories along x, a line per series with (category, kops/s) points.
#[derive(Clone, Debug, PartialEq)]
struct Panel {
    title: String,
    x_name: &'static str,
    categories: Vec<String>,
    lines: Vec<(String, Vec<(usize, f64)>)>,
}

/// Writes the plot of a report as SVG.
///
/// # Errors
/// [`Error::Io`] when it cannot be drawn or written.
pub fn write(report: &Report, path: &Path) -> Result<(), Error> {
    let text = svg(report).doing(|| "draw the plot".to_owned())?;
    fs::write(path, text).doing(|| format!("write {}", path.display()))
}

/// The plot of a report as SVG text.
///
/// # Errors
/// When a panel cannot be drawn.
pub fn svg(report: &Report) -> Result<String, std::io::Error> {
    let panels = panels(report);
    let rows = panels.len().div_ceil(PANELS_ACROSS).max(1);
    let columns = panels.len().clamp(1, PANELS_ACROSS);
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(std::io::Error::other)?;
        for (area, panel) in root.split_evenly((rows, columns)).iter().zip(&panels) {
            draw(area, panel).map_err(|error| std::io::Error::other(error.to_string()))?;
        }
        root.present().map_err(std::io::Error::other)?;
    }
    Ok(text)
}

fn panels(report: &Report) -> Vec<Panel> {
    let mut loads: Vec<Cell> = Vec::new();
    for cell in &report.cells {
        let load = Cell {
            pipeline: 0,
            ..cell.cell
        };
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads.into_iter().map(|load| panel(report, load)).collect()
}

fn panel(report: &Report, load: Cell) -> Panel {
    let rows: Vec<(usize, &str, f64)> = report
        .rows()
        .filter(|(cell, _)| {
            let same = Cell {
                pipeline: 0,
                ..**cell
            };
            same == load
        })
        .map(|(cell, server)| {
            let kops = server.median.ops_per_s / 1000.0;
            (cell.pipeline, server.name.as_str(), kops)
        })
        .collect();
    let mut depths: Vec<usize> = rows.iter().map(|row| row.0).collect();
    depths.sort_unstable();
    depths.dedup();
    let hop = load
        .hop_percent
        .map_or_else(String::new, |hop| format!(", {hop} % hops"));
    let log = load
        .fsync
        .map_or_else(String::new, |fsync| format!(", logged {fsync}"));
    let title = format!(
        "{} of {} bytes, {} connections{hop}{log}",
        load.command.to_string().to_uppercase(),
        load.value_bytes,
        load.connections
    );
    match depths[..] {
        [depth] => by_server(format!("{title}, pipelining {depth}"), &rows),
        _ => by_depth(title, &depths, &rows),
    }
}

fn by_server(title: String, rows: &[(usize, &str, f64)]) -> Panel {
    let points = rows.iter().enumerate().map(|(at, row)| (at, row.2));
    Panel {
        title,
        x_name: "server",
        categories: rows.iter().map(|row| row.1.to_owned()).collect(),
        lines: vec![("throughput".to_owned(), points.collect())],
    }
}

fn by_depth(title: String, depths: &[usize], rows: &[(usize, &str, f64)]) -> Panel {
    let mut lines: Vec<(String, Vec<(usize, f64)>)> = Vec::new();
    for (depth, name, kops) in rows {
        let at = depths.partition_point(|other| other < depth);
        match lines.iter_mut().find(|line| line.0 == *name) {
            Some(line) => line.1.push((at, *kops)),
            None => lines.push(((*name).to_owned(), vec![(at, *kops)])),
        }
    }
    for line in &mut lines {
        line.1.sort_by_key(|point| point.0);
    }
    Panel {
        title,
        x_name: "pipelining",
        categories: depths.iter().map(ToString::to_string).collect(),
        lines,
    }
}

/// An axis of places 0, 1, 2 ... with a label at each and half a place of room at both ends.
struct Places(usize);

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value + 0.5) / self.0.max(1) as f64;
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.0).map(|at| at as f64).collect()
    }

    fn range(&self) -> Range<f64> {
        -0.5..self.0 as f64 - 0.5
    }
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Drawn {
    let points = panel.lines.iter().flat_map(|line| &line.1);
    let top = points.map(|point| point.1).fold(1.0, f64::max) * HEADROOM;
    let x_axis = Places(panel.categories.len());
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(96)
        .build_cartesian_2d(x_axis, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .x_desc(panel.x_name)
        .y_desc("thousand commands per second")
        .x_labels(panel.categories.len())
        .x_label_formatter(&|at| category(panel, *at))
        .y_label_formatter(&|thousands| format!("{thousands:.0}"))
        .label_style(("sans-serif", 16))
        .axis_desc_style(("sans-serif", 17))
        .draw()?;
    for (number, (name, points)) in panel.lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let at = |point: &(usize, f64)| (point.0 as f64, point.1);
        chart
            .draw_series(LineSeries::new(
                points.iter().map(at),
                colour.stroke_width(2),
            ))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(
            points
                .iter()
                .map(|p| Circle::new(at(p), 4, colour.filled())),
        )?;
    }
    let style = ("sans-serif", 14).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
    chart.draw_series(highest(panel).map(|(at, kops)| {
        let place = (at as f64, kops + top / 50.0);
        Text::new(format!("{kops:.0}"), place, style.clone())
    }))?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 16))
        .draw()?;
    Ok(())
}

/// The highest point of each category, which alone bears its figure: more would overlap.
fn highest(panel: &Panel) -> impl Iterator<Item = (usize, f64)> {
    (0..panel.categories.len()).filter_map(|at| {
        let points = panel.lines.iter().flat_map(|line| &line.1);
        points
            .filter(|point| point.0 == at)
            .map(|point| point.1)
            .max_by(f64::total_cmp)
            .map(|kops| (at, kops))
    })
}

/// The name at a place of the x axis, which lies on a whole number.
fn category(panel: &Panel, at: f64) -> String {
    let name = panel.categories.get(at.round() as usize);
    name.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    /// Whether tags are closed in order, attributes are quoted and nothing stands outside the root.
    fn is_well_formed(text: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        let mut roots = 0;
        for part in text.split('<').skip(1) {
            let Some((tag, content)) = part.split_once('>') else {
                return false;
            };
            if content.contains('&') && !content.contains(';') {
                return false;
            }
            if tag.starts_with(['?', '!']) {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return false;
                }
                continue;
            }
            if tag.matches('"').count() % 2 != 0 {
                return false;
            }
            roots += usize::from(open.is_empty());
            if !tag.ends_with('/') {
                open.push(tag.split_ascii_whitespace().next().unwrap_or_default());
            }
        }
        open.is_empty() && roots == 1
    }

    #[test]
    fn the_checker_knows_bad_from_good() {
        assert!(is_well_formed("<svg a=\"1\"><g/><t>x</t></svg>"));
        for bad in ["<svg>", "<a><b></a></b>", "<a b=\"/>", "<a/><b/>", ""] {
            assert!(!is_well_formed(bad), "{bad}");
        }
    }

    #[test]
    fn the_plot_is_well_formed_and_names_everything() {
        let text = svg(&report(&[1, 16, 64])).unwrap();
        assert!(is_well_formed(&text));
        for name in ["redis", "kevy", "kevy/n=2", "pipelining", "SET of 64 bytes"] {
            assert!(text.contains(name), "{name}");
        }
        assert_eq!(text.matches("<polyline").count() % 3, 0);
    }

    #[test]
    fn one_depth_puts_the_servers_side_by_side() {
        let panels = panels(&report(&[16]));
        assert_eq!(panels.len(), 1);
        assert_eq!(panels[0].categories, ["redis", "kevy", "kevy/n=2"]);
        assert!(is_well_formed(&svg(&report(&[16])).unwrap()));
    }

    #[test]
    fn depths_are_ordered_and_lines_are_by_server() {
        let panels = panels(&report(&[16, 1]));
        assert_eq!(panels[0].categories, ["1", "16"]);
        assert_eq!(panels[0].lines.len(), 3);
        assert!(panels[0].lines.iter().all(|line| line.1[0].0 == 0));
        let highest: Vec<(usize, f64)> = highest(&panels[0]).collect();
        assert_eq!(highest, [(0, 0.15), (1, 0.15)]);
    }

    #[test]
    fn nothing_measured_still_draws() {
        assert!(is_well_formed(&svg(&report(&[])).unwrap()));
    }
}
