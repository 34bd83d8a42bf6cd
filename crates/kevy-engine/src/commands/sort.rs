//! `SORT` and `SORT_RO`: the elements of a list, a set or a sorted set in another order, or what other keys say about them.
//!
//! Elements are loaded ([`elements`]), ordered by themselves or by what a pattern leads to ([`order`], [`pattern`]), and
//! replied or stored. Patterns lead to keys of this keyspace; who spreads keys over several brings them together first
//! ([`reach`]).

mod elements;
mod order;
mod pattern;
mod reach;

pub use reach::{sort_follows_patterns, sort_reach};

use super::is_option;
use crate::number::integer;
use crate::value::{Collection, End, List};
use crate::{Command, Context, EventClasses};
use alloc::vec::Vec;
use core::ops::Range;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    Row {
        name: "sort",
        arity: -2,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
        keys: Keys::WithOption {
            first: 1,
            option: "store",
        },
        placement: Placement::Together,
        group: "generic",
        since: "1.0.0",
        complexity: COMPLEXITY,
        summary: "Sorts the elements of a list, a set or a sorted set, optionally storing the result.",
        run: |cx, args| sort(cx, args, true),
        subcommands: &[],
    },
    Row {
        name: "sort_ro",
        arity: -2,
        flags: Flags::READONLY.with(Flags::MOVABLEKEYS),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "generic",
        since: "7.0.0",
        complexity: COMPLEXITY,
        summary: "Returns the sorted elements of a list, a set or a sorted set.",
        run: |cx, args| sort(cx, args, false),
        subcommands: &[],
    },
];

const COMPLEXITY: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).";

fn sort(cx: &mut Context<'_>, args: Args<'_>, may_store: bool) -> Result<(), ErrorReply> {
    let options = Options::read(args, may_store)?;
    let (elements, options) = elements::load(cx, args.at(1), options)?;
    let chosen = match options.order {
        Order::AsTheyAre => elements,
        Order::By { .. } => order::ordered(cx, elements, &options)?,
    };
    let found = answers(cx, chosen, &options.gets);
    if let Some(destination) = options.destination {
        store(cx, destination, &found);
        return Ok(());
    }
    cx.reply.array(found.len());
    for value in &found {
        cx.reply.bulk_or_null(value.as_deref());
    }
    Ok(())
}

/// For each element what each of `gets` leads to, or the elements themselves if there are none.
fn answers(cx: &mut Context<'_>, elements: Vec<Vec<u8>>, gets: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    if gets.is_empty() {
        return elements.into_iter().map(Some).collect();
    }
    let mut found = Vec::new();
    for element in elements {
        for get in gets {
            found.push(pattern::lookup(cx, get, &element));
        }
    }
    found
}

/// Makes `destination` a list of the values found, empty strings for those missing; no list if there are none.
fn store(cx: &mut Context<'_>, destination: &[u8], found: &[Option<Vec<u8>>]) {
    let values = found
        .iter()
        .map(|value| value.as_deref().unwrap_or_default());
    let mut list = List::default();
    for value in values {
        list.push(
            End::Right,
            core::iter::once(value),
            &cx.keyspace.encoding_limits(),
        );
    }
    let before = cx.keyspace.remove(destination, cx.now, cx.effects);
    if before {
        cx.effects.emit(&[b"DEL", destination]);
    }
    list.emit_rebuild(destination, cx.effects);
    cx.reply.length(list.len());
    let now = cx
        .keyspace
        .set_collection(destination, list, cx.now, cx.effects);
    let event = (EventClasses::LIST, "sortstore");
    cx.keyspace.note_stored(event, destination, (before, now));
}

/// In which order elements come.
#[derive(Clone, Copy)]
enum Order<'a> {
    /// As the collection has them (`BY` without `*`).
    AsTheyAre,
    /// By themselves or by what a pattern leads to.
    By {
        pattern: Option<&'a [u8]>,
        /// As text, not as numbers.
        alphabetic: bool,
    },
}

/// `[BY pattern] [LIMIT offset count] [GET pattern ...] [ASC|DESC] [ALPHA] [STORE destination]`.
struct Options<'a> {
    order: Order<'a>,
    descending: bool,
    offset: i64,
    /// Negative for all.
    count: i64,
    gets: Vec<&'a [u8]>,
    destination: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(args: Args<'a>, may_store: bool) -> Result<Self, ErrorReply> {
        let mut options = Self {
            order: Order::AsTheyAre,
            descending: false,
            offset: 0,
            count: -1,
            gets: Vec::new(),
            destination: None,
        };
        let (mut pattern, mut alphabetic, mut unsorted) = (None, false, false);
        let mut at = 2;
        while at < args.len() {
            let left = args.len() - at - 1;
            let is = |name| is_option(args, at, name);
            if is("asc") || is("desc") {
                options.descending = is("desc");
                at += 1;
            } else if is("alpha") {
                alphabetic = true;
                at += 1;
            } else if is("limit") && left >= 2 {
                options.offset = integer(args.at(at + 1))?;
                options.count = integer(args.at(at + 2))?;
                at += 3;
            } else if may_store && is("store") && left >= 1 {
                options.destination = args.get(at + 1);
                at += 2;
            } else if is("by") && left >= 1 {
                pattern = args.get(at + 1);
                unsorted |= !args.at(at + 1).contains(&b'*');
                at += 2;
            } else if is("get") && left >= 1 {
                options.gets.push(args.at(at + 1));
                at += 2;
            } else {
                return Err(ErrorReply::Syntax);
            }
        }
        if !unsorted {
            options.order = Order::By {
                pattern,
                alphabetic,
            };
        }
        Ok(options)
    }

    /// The part of `length` ordered elements that is wanted.
    fn range(&self, length: usize) -> Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(0).min(length);
        let end = match usize::try_from(self.count) {
            Ok(count) => start.saturating_add(count).min(length),
            Err(_) => length,
        };
        start..end
    }
}
