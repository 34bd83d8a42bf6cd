//! Geohash cells: rectangles of longitude and latitude, named by interleaved bits.
//!
//! A cell of `step` n is one of 2^n columns and 2^n rows. Its name interleaves the column's bits (at odd positions) with
//! the row's (at even ones). A score is the name of a cell of [`MAX_STEP`]; the scores within a larger cell are neighbours.

use super::sphere::Point;
use core::ops::Range;

/// Cells of this step are the finest.
pub(super) const MAX_STEP: u32 = 26;
/// Longitudes that are indexed.
pub(super) const LONGITUDES: Interval = Interval {
    min: -180.0,
    max: 180.0,
};
/// Latitudes that are indexed: those of the square Mercator map.
pub(super) const LATITUDES: Interval = Interval {
    min: -85.051_128_78,
    max: 85.051_128_78,
};
/// Bits of the columns.
const X_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;
/// Bits of the rows.
const Y_BITS: u64 = 0x5555_5555_5555_5555;

/// Degrees from `min` to `max`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Interval {
    pub(super) fn contains(self, degrees: f64) -> bool {
        degrees >= self.min && degrees <= self.max
    }

    /// In which of 2^step parts `degrees` lie.
    pub(super) fn part_of(self, degrees: f64, step: u32) -> u32 {
        let share = (degrees - self.min) / (self.max - self.min);
        (share * parts(step)) as u32
    }

    /// The part of this number; beyond the interval if the number is too high.
    fn part(self, number: u32, step: u32) -> Self {
        let scale = self.max - self.min;
        let edge = |number: f64| self.min + number / parts(step) * scale;
        Self {
            min: edge(f64::from(number)),
            max: edge(f64::from(number) + 1.0),
        }
    }

    /// The middle of an interval, moved into this one.
    fn middle(self, part: Self) -> f64 {
        f64::midpoint(part.min, part.max).clamp(self.min, self.max)
    }
}

fn parts(step: u32) -> f64 {
    (1_u64 << step) as f64
}

/// A geohash cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    bits: u64,
    step: u32,
}

/// The rectangle of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) longitude: Interval,
    pub(super) latitude: Interval,
}

impl Cell {
    /// The finest cell around a point.
    pub(super) fn of(point: Point) -> Self {
        Self::around(point, MAX_STEP)
    }

    /// The cell of this step around a point.
    pub(super) fn around(point: Point, step: u32) -> Self {
        let x = LONGITUDES.part_of(point.longitude, step);
        let y = LATITUDES.part_of(point.latitude, step);
        Self {
            bits: interleave(x, y),
            step,
        }
    }

    /// The cell that a score names. Scores that are none of a place give some cell, those that Redis takes.
    pub(super) fn of_score(score: f64) -> Self {
        Self {
            bits: score as i64 as u64,
            step: MAX_STEP,
        }
    }

    /// The score that names this cell.
    pub(super) fn score(self) -> f64 {
        self.bits as f64
    }

    /// The scores of the finest cells in this one.
    pub(super) fn scores(self) -> Range<f64> {
        let shift = 2 * (MAX_STEP - self.step);
        (self.bits << shift) as f64..((self.bits + 1) << shift) as f64
    }

    /// Its rectangle.
    pub(super) fn area(self) -> Area {
        Area {
            longitude: LONGITUDES.part(compact(self.bits >> 1), self.step),
            latitude: LATITUDES.part(compact(self.bits), self.step),
        }
    }

    /// Its middle.
    pub(super) fn middle(self) -> Point {
        let area = self.area();
        Point {
            longitude: LONGITUDES.middle(area.longitude),
            latitude: LATITUDES.middle(area.latitude),
        }
    }

    /// The cell so many columns east and rows north, -1 to 1; beyond the edge it goes on at the other side.
    pub(super) fn neighbour(self, east: i8, north: i8) -> Self {
        let unused = 64 - 2 * self.step;
        let x = moved(self.bits & X_BITS, east, X_BITS >> unused, Y_BITS >> unused);
        let y = moved(
            self.bits & Y_BITS,
            north,
            Y_BITS >> unused,
            X_BITS >> unused,
        );
        Self {
            bits: x | y,
            step: self.step,
        }
    }
}

/// Adds -1 to 1 to a number that is spread over the bits `used`; `gaps` are the bits between, through which carries go.
fn moved(spread: u64, by: i8, used: u64, gaps: u64) -> u64 {
    match by {
        1.. => spread.wrapping_add(gaps + 1) & used,
        // On the outermost edge (180 degrees) there is one more bit, which stays as long as nothing moves.
        0 => spread,
        ..0 => (spread | gaps).wrapping_sub(gaps + 1) & used,
    }
}

/// The bits of `x` at odd positions, those of `y` at even ones.
pub(super) fn interleave(x: u32, y: u32) -> u64 {
    spread(x) << 1 | spread(y)
}

/// The shifts and masks that spread 32 bits to every other of 64, coarsest first.
const SPREADING: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, Y_BITS),
];

fn spread(number: u32) -> u64 {
    let start = u64::from(number);
    let steps = SPREADING.iter();
    steps.fold(start, |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// The even bits, together.
fn compact(bits: u64) -> u32 {
    let mut bits = bits & Y_BITS;
    for (at, (shift, _)) in SPREADING.iter().enumerate().rev() {
        let mask = at.checked_sub(1).map_or(0xffff_ffff, |at| SPREADING[at].1);
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_interleaved_and_back(x: u32, y: u32) {
            let bits = interleave(x, y);
            prop_assert_eq!((compact(bits >> 1), compact(bits)), (x, y));
        }

        #[test]
        fn neighbours_lie_beside(x in 0..1 << 10, y in 0..1 << 10, east in -1..=1_i8, north in -1..=1_i8) {
            let cell = Cell { bits: interleave(x as u32, y as u32), step: 10 };
            let (x, y) = (x + i32::from(east), y + i32::from(north));
            let bits = interleave(x as u32 & 1023, y as u32 & 1023);
            prop_assert_eq!(cell.neighbour(east, north), Cell { bits, step: 10 });
        }

        #[test]
        fn a_point_lies_in_its_cells(
            longitude in -180.0..180.0,
            latitude in -85.05..85.05,
            step in 1..=MAX_STEP,
        ) {
            let point = Point { longitude, latitude };
            let cell = Cell::around(point, step);
            let area = cell.area();
            prop_assert!(area.longitude.contains(longitude) && area.latitude.contains(latitude));
            prop_assert!(cell.scores().contains(&Cell::of(point).score()));
        }
    }
}
