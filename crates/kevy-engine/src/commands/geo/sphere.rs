//! Distances and areas on the sphere that Redis takes for the earth.

use super::cell::{Area, Cell, Interval, LATITUDES, LONGITUDES, MAX_STEP, interleave};
use alloc::vec::Vec;
use core::f64::consts::PI;

/// The earth's radius, metres.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half the width of the Mercator map, metres.
const MERCATOR_MAX: f64 = 20_037_726.37;
/// The alphabet of geohashes as people write them.
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Characters of a geohash as people write it.
const GEOHASH_LENGTH: u32 = 11;

/// A place, in degrees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

impl Point {
    /// The middle of the cell that a score names.
    pub(super) fn of_score(score: f64) -> Self {
        Cell::of_score(score).middle()
    }

    /// Whether the index has a cell for it.
    pub(super) fn is_indexable(self) -> bool {
        LONGITUDES.contains(self.longitude) && LATITUDES.contains(self.latitude)
    }

    /// The way along a great circle, metres (haversine formula).
    pub(super) fn distance(self, other: Self) -> f64 {
        let (from, to) = (radians(self.longitude), radians(other.longitude));
        let v = libm::sin((to - from) / 2.0);
        if v == 0.0 {
            return meridian_distance(self.latitude, other.latitude);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let u = libm::sin((to - from) / 2.0);
        let a = u * u + libm::cos(from) * libm::cos(to) * v * v;
        2.0 * EARTH_RADIUS * libm::asin(libm::sqrt(a))
    }

    /// The geohash as people write it: 11 characters over latitudes from pole to pole, of which the last carries no bits.
    pub(super) fn standard_geohash(self) -> Vec<u8> {
        const ALL_LATITUDES: Interval = Interval {
            min: -90.0,
            max: 90.0,
        };
        let x = LONGITUDES.part_of(self.longitude, MAX_STEP);
        let y = ALL_LATITUDES.part_of(self.latitude, MAX_STEP);
        let bits = interleave(x, y);
        let character = |at: u32| {
            let index = (2 * MAX_STEP)
                .checked_sub(5 * (at + 1))
                .map_or(0, |shift| bits >> shift & 31);
            ALPHABET[index as usize]
        };
        (0..GEOHASH_LENGTH).map(character).collect()
    }
}

/// The way along a meridian, metres.
fn meridian_distance(from: f64, to: f64) -> f64 {
    EARTH_RADIUS * (radians(to) - radians(from)).abs()
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// Where is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) center: Point,
    pub(super) shape: Shape,
    /// Metres of the unit in which the shape is given.
    pub(super) unit_metres: f64,
}

/// A form around a center.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

impl Region {
    /// How far `point` is from the center, metres; `None` if it is outside.
    pub(super) fn distance_within(&self, point: Point) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => {
                let distance = self.center.distance(point);
                (distance <= radius * self.unit_metres).then_some(distance)
            }
            Shape::Box { width, height } => {
                let (width, height) = (width * self.unit_metres, height * self.unit_metres);
                let same_latitude = Point {
                    latitude: point.latitude,
                    ..self.center
                };
                let is_within = meridian_distance(point.latitude, self.center.latitude)
                    <= height / 2.0
                    && point.distance(same_latitude) <= width / 2.0;
                is_within.then(|| self.center.distance(point))
            }
        }
    }

    /// The cells that cover the region: the one around the center, then its neighbours where they are needed, in the
    /// order in which they are searched.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut center = Cell::around(self.center, step);
        if step > 1 && !is_covered(center, bounds) {
            step -= 1;
            center = Cell::around(self.center, step);
        }
        let (area, mut cells) = (center.area(), alloc::vec![center]);
        for (east, north) in DIRECTIONS {
            let is_beyond = |by: i8, area: Interval, bounds: Interval| match by {
                1.. => area.max > bounds.max,
                0 => false,
                ..0 => area.min < bounds.min,
            };
            let is_useless = step >= 2
                && (is_beyond(east, area.longitude, bounds.longitude)
                    || is_beyond(north, area.latitude, bounds.latitude));
            if !is_useless {
                cells.push(center.neighbour(east, north));
            }
        }
        without_repetitions(cells)
    }

    /// Degrees from edge to edge, with the wider of the northern and the southern edge.
    fn bounds(&self) -> Area {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let (width, height) = (self.unit_metres * width, self.unit_metres * height);
        let Point {
            longitude,
            latitude,
        } = self.center;
        let high = degrees(height / EARTH_RADIUS);
        let edge = if latitude < 0.0 {
            latitude - high
        } else {
            latitude + high
        };
        let wide = degrees(width / EARTH_RADIUS / libm::cos(radians(edge)));
        Area {
            longitude: Interval {
                min: longitude - wide,
                max: longitude + wide,
            },
            latitude: Interval {
                min: latitude - high,
                max: latitude + high,
            },
        }
    }

    /// The step whose cells are about as large as the region.
    fn step(&self) -> u32 {
        let radius = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                libm::sqrt((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0))
            }
        };
        let mut range = radius * self.unit_metres;
        if range == 0.0 {
            return MAX_STEP;
        }
        let mut step = 1;
        while range < MERCATOR_MAX {
            range *= 2.0;
            step += 1;
        }
        // Two larger cells, so that the neighbours cover the region in most cases; more towards the poles.
        let latitude = self.center.latitude.abs();
        step -= 2 + i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, MAX_STEP as i32) as u32
    }
}

/// Columns east and rows north of the neighbours, in the order in which they are searched.
const DIRECTIONS: [(i8, i8); 8] = [
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

/// Whether a cell and its neighbours reach to all bounds.
fn is_covered(center: Cell, bounds: Area) -> bool {
    center.neighbour(0, 1).area().latitude.max >= bounds.latitude.max
        && center.neighbour(0, -1).area().latitude.min <= bounds.latitude.min
        && center.neighbour(1, 0).area().longitude.max >= bounds.longitude.max
        && center.neighbour(-1, 0).area().longitude.min <= bounds.longitude.min
}

/// Where few cells cover the earth neighbours are the same: each is searched once.
fn without_repetitions(cells: Vec<Cell>) -> Vec<Cell> {
    let mut different: Vec<Cell> = Vec::with_capacity(cells.len());
    for cell in cells {
        if !different.contains(&cell) {
            different.push(cell);
        }
    }
    different
}
