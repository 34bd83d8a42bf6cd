//! Sorted sets step by step: `ZSCAN`.

use crate::commands::is_option;
use crate::commands::keys::parse_cursor;
use crate::number::integer;
use crate::value::SortedSet;
use crate::value::sorted_set::Cursor;
use crate::{Command, Context, glob};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, DoubleBuffer, ErrorReply};

/// How many members a step looks at unless told otherwise (Redis's default).
const COUNT: usize = 10;

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "zscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "sorted-set",
        since: "2.8.0",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..",
        summary: "Incrementally iterate sorted sets elements and associated scores",
        run: zscan,
        subcommands: &[],
    },
];

fn zscan(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let cursor = parse_cursor(args.at(2)).ok_or(ErrorReply::text("ERR invalid cursor"))?;
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let mut found: Vec<(Vec<u8>, f64)> = Vec::new();
    let mut next = None;
    if let Some(set) = set {
        let (pattern, count) = options(args)?;
        let accepts = |member: &[u8]| pattern == b"*" || glob::matches(pattern, member);
        if let Some(from) = Cursor::from_external(cursor) {
            next = set.scan(from, count, |member, score| {
                if accepts(member) {
                    found.push((member.to_vec(), score));
                }
            });
        }
    }
    cx.reply.array(2);
    cx.reply
        .bulk_integer(next.map_or(0, Cursor::external) as i64);
    cx.reply.array(2 * found.len());
    for (member, score) in &found {
        // Strings in RESP3 too.
        let mut text = DoubleBuffer::new();
        cx.reply.bulk(member);
        cx.reply.bulk(text.format(*score).as_bytes());
    }
    Ok(())
}

/// Reads `[MATCH pattern] [COUNT count]`.
fn options(args: Args<'_>) -> Result<(&[u8], usize), ErrorReply> {
    let (mut pattern, mut count) = (&b"*"[..], COUNT);
    for at in (3..args.len()).step_by(2) {
        let value = args.get(at + 1).ok_or(ErrorReply::Syntax)?;
        if is_option(args, at, "count") {
            let given = usize::try_from(integer(value)?).ok();
            count = given.filter(|&count| count > 0).ok_or(ErrorReply::Syntax)?;
        } else if is_option(args, at, "match") {
            pattern = value;
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok((pattern, count))
}
