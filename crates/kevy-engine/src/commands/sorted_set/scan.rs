//! Sorted sets step by step: `ZSCAN`.

use crate::commands::is_option;
use crate::commands::keys::parse_cursor;
use crate::keyspace::Encoding;
use crate::number::integer;
use crate::value::sorted_set::Cursor;
use crate::value::{Collection, SortedSet};
use crate::{Command, Context, glob};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, DoubleBuffer, Encoder, ErrorReply};

/// How many members a step looks at unless told otherwise (Redis's default).
const COUNT: usize = 10;

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[Row {
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
}];

fn zscan(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let cursor = parse_cursor(args.at(2)).ok_or(ErrorReply::text("ERR invalid cursor"))?;
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let mut found: Vec<(Vec<u8>, f64)> = Vec::new();
    let (mut next, mut is_compact) = (None, false);
    if let Some(set) = set {
        is_compact = set.encoding() == Encoding::Listpack;
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
        cx.reply.bulk(member);
        put_score(&mut cx.reply, *score, is_compact);
    }
    Ok(())
}

/// A score as a string, in RESP3 too. Redis's compact form holds integers as such, and this command shows them so.
fn put_score(reply: &mut Encoder<'_>, score: f64, is_compact: bool) {
    /// Redis's limit, 2^62.
    const INTEGERS: f64 = (1_u64 << 62) as f64;
    #[expect(clippy::float_cmp, reason = "asks whether the score is an integer")]
    let is_integer = score.abs() <= INTEGERS && score as i64 as f64 == score;
    if is_compact && is_integer {
        reply.bulk_integer(score as i64);
    } else {
        let mut text = DoubleBuffer::new();
        reply.bulk(text.format(score).as_bytes());
    }
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
