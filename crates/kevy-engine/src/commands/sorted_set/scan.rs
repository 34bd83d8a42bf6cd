//! Sorted sets step by step: `ZSCAN`.

use crate::commands::element_scan::{ElementScan, cursor, reply_head, reply_missing};
use crate::keyspace::Encoding;
use crate::value::sorted_set::Cursor;
use crate::value::{Collection, SortedSet};
use crate::{Command, Context};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, DoubleBuffer, Encoder, ErrorReply};

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
    let cursor = cursor(args)?;
    let set: Option<&SortedSet> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let Some(set) = set else {
        reply_missing(&mut cx.reply);
        return Ok(());
    };
    let options = ElementScan::read(args, false)?;
    let mut found: Vec<(&[u8], f64)> = Vec::new();
    let next = Cursor::from_external(cursor).and_then(|from| {
        set.scan(from, options.count, |member, score| {
            if options.accepts(member) {
                found.push((member, score));
            }
        })
    });
    reply_head(&mut cx.reply, next.map(Cursor::external));
    cx.reply.array(2 * found.len());
    let is_compact = set.encoding() == Encoding::Listpack;
    for (member, score) in found {
        cx.reply.bulk(member);
        put_score(&mut cx.reply, score, is_compact);
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
