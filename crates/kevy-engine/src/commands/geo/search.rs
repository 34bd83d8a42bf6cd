//! Searches around a place: `GEOSEARCH GEOSEARCHSTORE` and the older `GEORADIUS` family.

use super::sphere::{Point, Region, Shape};
use super::{circle, point, put_distance, put_point, rectangle};
use crate::commands::is_option;
use crate::commands::sorted_set::store;
use crate::number::integer;
use crate::value::SortedSet;
use crate::value::sorted_set::Accumulator;
use crate::{Command, Context};
use alloc::format;
use alloc::vec::Vec;
use core::cmp::Ordering;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row, TWO_KEYS};
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "geosearch",
        arity: -7,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "6.2.0",
        complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape",
        summary: "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle",
        run: geosearch,
        subcommands: &[],
    },
    Row {
        name: "geosearchstore",
        arity: -8,
        flags: Flags::WRITE.with(Flags::DENYOOM),
        keys: TWO_KEYS,
        placement: Placement::Together,
        group: "geo",
        since: "6.2.0",
        complexity: "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape",
        summary: "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle, and store the result in another key",
        run: geosearchstore,
        subcommands: &[],
    },
    Row {
        name: "georadius",
        arity: -6,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::WithOption {
            first: 1,
            option: "store|storedist",
        },
        placement: Placement::Together,
        group: "geo",
        since: "3.2.0",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        summary: "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a point",
        run: georadius,
        subcommands: &[],
    },
    Row {
        name: "georadius_ro",
        arity: -6,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "3.2.10",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        summary: "A read-only variant for GEORADIUS",
        run: georadius_ro,
        subcommands: &[],
    },
    Row {
        name: "georadiusbymember",
        arity: -5,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::WithOption {
            first: 1,
            option: "store|storedist",
        },
        placement: Placement::Together,
        group: "geo",
        since: "3.2.0",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        summary: "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a member",
        run: georadiusbymember,
        subcommands: &[],
    },
    Row {
        name: "georadiusbymember_ro",
        arity: -5,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "geo",
        since: "3.2.10",
        complexity: "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.",
        summary: "A read-only variant for GEORADIUSBYMEMBER",
        run: georadiusbymember_ro,
        subcommands: &[],
    },
];

/// Which command of the family it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `key longitude latitude radius unit ...`
    Radius { may_store: bool },
    /// `key member radius unit ...`
    RadiusByMember { may_store: bool },
    /// `key ...`
    Search,
    /// `destination key ...`
    SearchStore,
}

fn georadius(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    search(cx, args, Form::Radius { may_store: true })
}

fn georadius_ro(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    search(cx, args, Form::Radius { may_store: false })
}

fn georadiusbymember(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    search(cx, args, Form::RadiusByMember { may_store: true })
}

fn georadiusbymember_ro(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    search(cx, args, Form::RadiusByMember { may_store: false })
}

fn geosearch(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    search(cx, args, Form::Search)
}

fn geosearchstore(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    search(cx, args, Form::SearchStore)
}

impl Form {
    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(
            self,
            Self::Radius { may_store: true } | Self::RadiusByMember { may_store: true }
        )
    }

    /// Position of the key that is searched.
    fn source(self) -> usize {
        if self == Self::SearchStore { 2 } else { 1 }
    }
}

/// A search as it was asked for.
#[derive(Default)]
struct Request<'a> {
    center: Option<Point>,
    /// Shape and metres of its unit.
    shape: Option<(Shape, f64)>,
    /// A member of a key that is missing was named for the center.
    has_member: bool,
    shown: Shown,
    order: Option<Order>,
    /// 0 for all.
    count: usize,
    any: bool,
    destination: Option<&'a [u8]>,
    store_distances: bool,
}

/// What is replied of each place besides its name.
#[derive(Clone, Copy, Default)]
struct Shown {
    distance: bool,
    hash: bool,
    coordinates: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    NearestFirst,
    FarthestFirst,
}

/// A place that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    point: Point,
    /// Metres from the center.
    distance_m: f64,
}

fn search(cx: &mut Context<'_>, args: Args<'_>, form: Form) -> Result<(), ErrorReply> {
    let key = args.at(form.source());
    let set: Option<&SortedSet> = cx.keyspace.collection(key, cx.now, cx.effects)?;
    let mut request = Request::default();
    let first = request.parse_fixed(args, form, set)?;
    request.parse_options(args, first, form, set)?;
    request.check(args, form)?;
    let (found, unit_metres) = match (set, request.center, request.shape) {
        (Some(set), Some(center), Some((shape, unit_metres))) => {
            let region = Region {
                center,
                shape,
                unit_metres,
            };
            (request.find(set, &region), unit_metres)
        }
        (None | Some(_), _, _) => (Vec::new(), 1.0),
    };
    match request.destination {
        Some(key) => store_found(
            cx,
            (
                key,
                if form.is_search() {
                    "geosearchstore"
                } else {
                    "georadiusstore"
                },
            ),
            &found,
            request.store_distances.then_some(unit_metres),
        ),
        None => reply_found(&mut cx.reply, &found, request.shown, unit_metres),
    }
    Ok(())
}

impl<'a> Request<'a> {
    /// Reads what the older commands have at fixed positions; gives the position of the first option.
    fn parse_fixed(
        &mut self,
        args: Args<'a>,
        form: Form,
        set: Option<&SortedSet>,
    ) -> Result<usize, ErrorReply> {
        match form {
            Form::Radius { .. } => {
                self.center = Some(point(args.at(2), args.at(3))?);
                self.shape = Some(circle(args, 4)?);
                Ok(6)
            }
            Form::RadiusByMember { .. } => {
                if let Some(set) = set {
                    self.center = Some(place_of(set, args.at(2))?);
                    self.shape = Some(circle(args, 3)?);
                }
                Ok(5)
            }
            Form::Search => Ok(2),
            Form::SearchStore => {
                self.destination = args.get(1);
                Ok(3)
            }
        }
    }

    fn parse_options(
        &mut self,
        args: Args<'a>,
        first: usize,
        form: Form,
        set: Option<&SortedSet>,
    ) -> Result<(), ErrorReply> {
        let mut at = first;
        while at < args.len() {
            let taken = match self.parse_common(args, at)? {
                0 if form.is_search() => self.parse_region(args, at, form, set)?,
                0 if form.may_store() => self.parse_destination(args, at),
                taken => taken,
            };
            if taken == 0 {
                return Err(ErrorReply::Syntax);
            }
            at += taken;
        }
        Ok(())
    }

    /// Reads an option that all commands have; gives the number of arguments taken.
    fn parse_common(&mut self, args: Args<'_>, at: usize) -> Result<usize, ErrorReply> {
        let is = |name| is_option(args, at, name);
        if is("withdist") {
            self.shown.distance = true;
        } else if is("withhash") {
            self.shown.hash = true;
        } else if is("withcoord") {
            self.shown.coordinates = true;
        } else if is("any") {
            self.any = true;
        } else if is("asc") {
            self.order = Some(Order::NearestFirst);
        } else if is("desc") {
            self.order = Some(Order::FarthestFirst);
        } else if is("count") && at + 1 < args.len() {
            let count = usize::try_from(integer(args.at(at + 1))?).ok();
            let count = count.filter(|&count| count > 0);
            self.count = count.ok_or(ErrorReply::text("ERR COUNT must be > 0"))?;
            return Ok(2);
        } else {
            return Ok(0);
        }
        Ok(1)
    }

    /// `STORE key` or `STOREDIST key`.
    fn parse_destination(&mut self, args: Args<'a>, at: usize) -> usize {
        let distances = is_option(args, at, "storedist");
        if at + 1 >= args.len() || !(distances || is_option(args, at, "store")) {
            return 0;
        }
        self.destination = args.get(at + 1);
        self.store_distances = distances;
        2
    }

    /// Reads an option of the newer commands.
    fn parse_region(
        &mut self,
        args: Args<'_>,
        at: usize,
        form: Form,
        set: Option<&SortedSet>,
    ) -> Result<usize, ErrorReply> {
        let (is, left) = (|name| is_option(args, at, name), args.len() - at - 1);
        let is_circle = matches!(self.shape, Some((Shape::Circle { .. }, _)));
        let is_box = matches!(self.shape, Some((Shape::Box { .. }, _)));
        let has_place = self.center.is_some() && !self.has_member;
        if is("frommember") && left >= 1 && !has_place {
            if let Some(set) = set {
                self.center = Some(place_of(set, args.at(at + 1))?);
            }
            self.has_member = true;
            Ok(2)
        } else if is("fromlonlat") && left >= 2 && !self.has_member {
            self.center = Some(point(args.at(at + 1), args.at(at + 2))?);
            Ok(3)
        } else if is("byradius") && left >= 2 && !is_box {
            self.shape = Some(circle(args, at + 1)?);
            Ok(3)
        } else if is("bybox") && left >= 3 && !is_circle {
            self.shape = Some(rectangle(args, at + 1)?);
            Ok(4)
        } else if form == Form::SearchStore && is("storedist") {
            self.store_distances = true;
            Ok(1)
        } else {
            Ok(0)
        }
    }

    /// Whether the options fit together.
    fn check(&self, args: Args<'_>, form: Form) -> Result<(), ErrorReply> {
        let shown = self.shown;
        if self.destination.is_some() && (shown.distance || shown.hash || shown.coordinates) {
            return Err(ErrorReply::text(if form == Form::SearchStore {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            }));
        }
        let missing = if !form.is_search() {
            None
        } else if self.center.is_none() && !self.has_member {
            Some("exactly one of FROMMEMBER or FROMLONLAT can be specified for")
        } else if self.shape.is_none() {
            Some("exactly one of BYRADIUS and BYBOX can be specified for")
        } else {
            None
        };
        if let Some(text) = missing {
            let before = format!("ERR {text} ");
            return Err(ErrorReply::quoting(&before, args.at(0), ""));
        }
        if self.any && self.count == 0 {
            return Err(ErrorReply::text(
                "ERR the ANY argument requires COUNT argument",
            ));
        }
        Ok(())
    }

    /// The places of `set` in a region, as many and in the order as asked for.
    fn find(&self, set: &SortedSet, region: &Region) -> Vec<Found> {
        // Any so many may be taken as they come; else the nearest are sought among all.
        let enough = if self.any { self.count } else { 0 };
        let mut found = places_in(set, region, enough);
        let order = match self.order {
            None if self.count > 0 && !self.any => Some(Order::NearestFirst),
            order => order,
        };
        match order {
            Some(Order::NearestFirst) => found.sort_by(by_distance),
            Some(Order::FarthestFirst) => found.sort_by(|a, b| by_distance(b, a)),
            None => {}
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found
    }
}

fn by_distance(a: &Found, b: &Found) -> Ordering {
    let order = a.distance_m.partial_cmp(&b.distance_m);
    order.unwrap_or(Ordering::Equal)
}

/// The place of a member.
fn place_of(set: &SortedSet, member: &[u8]) -> Result<Point, ErrorReply> {
    let score = set.score(member).ok_or(ErrorReply::text(
        "ERR could not decode requested zset member",
    ))?;
    Ok(Point::of_score(score))
}

/// The places in a region, cell by cell; stops when there are `enough`, if that is not 0.
fn places_in(set: &SortedSet, region: &Region, enough: usize) -> Vec<Found> {
    let mut found = Vec::new();
    for cell in region.cells() {
        let scores = cell.scores();
        let start = set.position_by_score(|score| score < scores.start);
        let end = set.position_by_score(|score| score < scores.end);
        for (member, score) in set.range(start..end, false) {
            let point = Point::of_score(score);
            let Some(distance_m) = region.distance_within(point) else {
                continue;
            };
            found.push(Found {
                member: member.to_vec(),
                score,
                point,
                distance_m,
            });
            if found.len() == enough {
                return found;
            }
        }
    }
    found
}

/// Stores the places found; with their distances in units of so many metres for scores, if that is given.
fn store_found(
    cx: &mut Context<'_>,
    (key, event): (&[u8], &'static str),
    found: &[Found],
    unit_metres: Option<f64>,
) {
    let limits = cx.keyspace.encoding_limits();
    let mut result = Accumulator::new(&limits);
    for place in found {
        let score = unit_metres.map_or(place.score, |metres| place.distance_m / metres);
        result.add(&place.member, score, |_, new| new);
    }
    let count = store(cx, key, result.into_set(), event);
    cx.reply.length(count);
}

fn reply_found(reply: &mut Encoder<'_>, found: &[Found], shown: Shown, unit_metres: f64) {
    let options = [shown.distance, shown.hash, shown.coordinates];
    let extras = options.into_iter().filter(|&shown| shown).count();
    reply.array(found.len());
    for place in found {
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply.bulk(&place.member);
        if shown.distance {
            put_distance(reply, place.distance_m / unit_metres);
        }
        if shown.hash {
            reply.integer(place.score as i64);
        }
        if shown.coordinates {
            put_point(reply, place.point);
        }
    }
}
