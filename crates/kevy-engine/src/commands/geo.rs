//! Places on earth, as sorted sets whose scores are geohashes: `GEOADD GEODIST GEOHASH GEOPOS`, and searches in [`search`].

mod cell;
pub(super) mod search;
mod sphere;

use super::sorted_set::add;
use crate::commands::is_option;
use crate::value::SortedSet;
use crate::{Command, Context, double};
use alloc::format;
use alloc::vec::Vec;
use cell::Cell;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RespVersion};
use sphere::{Point, Shape};

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "geoadd",
        arity: -5,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "3.2.0",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        summary: "Add one or more geospatial items in the geospatial index represented using a sorted set",
        run: geoadd,
        subcommands: &[],
    },
    Row {
        name: "geodist",
        arity: -4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "3.2.0",
        complexity: "O(log(N))",
        summary: "Returns the distance between two members of a geospatial index",
        run: geodist,
        subcommands: &[],
    },
    Row {
        name: "geohash",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "3.2.0",
        complexity: "O(log(N)) for each member requested, where N is the number of elements in the sorted set.",
        summary: "Returns members of a geospatial index as standard geohash strings",
        run: geohash,
        subcommands: &[],
    },
    Row {
        name: "geopos",
        arity: -2,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "3.2.0",
        complexity: "O(N) where N is the number of members requested.",
        summary: "Returns longitude and latitude of members of a geospatial index",
        run: geopos,
        subcommands: &[],
    },
];

const UNKNOWN_UNIT: ErrorReply =
    ErrorReply::text("ERR unsupported unit provided. please use M, KM, FT, MI");

/// Metres of a unit of length.
fn unit(text: &[u8]) -> Result<f64, ErrorReply> {
    const UNITS: [(&[u8], f64); 4] = [
        (b"m", 1.0),
        (b"km", 1000.0),
        (b"ft", 0.3048),
        (b"mi", 1609.34),
    ];
    let mut units = UNITS.into_iter();
    let found = units.find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|(_, metres)| metres).ok_or(UNKNOWN_UNIT)
}

/// Reads a longitude and a latitude.
fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, ErrorReply> {
    let point = Point {
        longitude: double::parse(longitude).ok_or(ErrorReply::NotFloat)?,
        latitude: double::parse(latitude).ok_or(ErrorReply::NotFloat)?,
    };
    if point.is_indexable() {
        return Ok(point);
    }
    let text = format!(
        "ERR invalid longitude,latitude pair {:.6},{:.6}",
        point.longitude, point.latitude
    );
    Err(ErrorReply::Other(text.into()))
}

/// `key [NX|XX] [CH] longitude latitude member ...`
fn geoadd(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let is_any = |&at: &usize| {
        ["nx", "xx", "ch"]
            .into_iter()
            .any(|name| is_option(args, at, name))
    };
    let first = 2 + (2..args.len()).take_while(is_any).count();
    let (options, _) = add::Options::parse(args, add::Options::default());
    let places = args.skip(first);
    if !places.len().is_multiple_of(3) || options.is_contradictory() {
        return Err(ErrorReply::Syntax);
    }
    let scores: Result<Vec<f64>, ErrorReply> = (0..places.len())
        .step_by(3)
        .map(|at| Ok(Cell::of(point(places.at(at), places.at(at + 1))?).score()))
        .collect();
    let scores = scores?;
    if scores.is_empty() {
        return Err(ErrorReply::Syntax);
    }
    let members = places.iter().skip(2).step_by(3);
    add::add(cx, args.at(1), options, members.zip(scores))
}

/// `key member member [unit]`
fn geodist(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    if args.len() > 5 {
        return Err(ErrorReply::Syntax);
    }
    let metres = args.get(4).map_or(Ok(1.0), unit)?;
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let Some(set) = set else {
        cx.reply.null();
        return Ok(());
    };
    let place = |at| set.score(args.at(at)).map(Point::of_score);
    match (place(2), place(3)) {
        (Some(from), Some(to)) => put_distance(&mut cx.reply, from.distance(to) / metres),
        (Some(_) | None, _) => cx.reply.null(),
    }
    Ok(())
}

fn geohash(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    cx.reply.array(args.len() - 2);
    for member in args.skip(2).iter() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => cx.reply.bulk(&Point::of_score(score).standard_geohash()),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn geopos(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    cx.reply.array(args.len() - 2);
    for member in args.skip(2).iter() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => put_point(&mut cx.reply, Point::of_score(score)),
            None => cx.reply.null_array(),
        }
    }
    Ok(())
}

/// A distance with four digits after the point, a string in RESP3 too.
/// `radius unit`
fn circle(args: Args<'_>, at: usize) -> Result<(Shape, f64), ErrorReply> {
    let radius = length(args.at(at), "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(ErrorReply::text("ERR radius cannot be negative"));
    }
    Ok((Shape::Circle { radius }, unit(args.at(at + 1))?))
}

/// `width height unit`
fn rectangle(args: Args<'_>, at: usize) -> Result<(Shape, f64), ErrorReply> {
    let width = length(args.at(at), "ERR need numeric width")?;
    let height = length(args.at(at + 1), "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(ErrorReply::text("ERR height or width cannot be negative"));
    }
    Ok((Shape::Box { width, height }, unit(args.at(at + 2))?))
}

fn length(text: &[u8], error: &'static str) -> Result<f64, ErrorReply> {
    double::parse(text).ok_or(ErrorReply::text(error))
}

fn put_distance(reply: &mut Encoder<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

fn put_point(reply: &mut Encoder<'_>, point: Point) {
    reply.array(2);
    put_coordinate(reply, point.longitude);
    put_coordinate(reply, point.latitude);
}

/// A coordinate as `%.17Lf` writes it, without zeros at the end.
fn put_coordinate(reply: &mut Encoder<'_>, coordinate: f64) {
    let text = format!("{coordinate:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.').as_bytes();
    match reply.version() {
        RespVersion::V2 => reply.bulk(text),
        RespVersion::V3 => [b",", text, b"\r\n"].into_iter().for_each(|t| reply.raw(t)),
    }
}
