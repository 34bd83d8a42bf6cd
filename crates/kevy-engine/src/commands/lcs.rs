//! `LCS`: what two strings have in common.

mod subsequence;

use crate::{Command, Context, number};
use kevy_proto::command::{Flags, Placement, Row, TWO_KEYS};
use kevy_proto::resp::{Args, ErrorReply};
use subsequence::Run;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Row {
    name: "lcs",
    arity: -3,
    flags: Flags::READONLY,
    keys: TWO_KEYS,
    placement: Placement::Together,
    group: "string",
    since: "7.0.0",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    summary: "Find longest common substring",
    run: lcs,
    subcommands: &[],
}];

#[derive(Clone, Copy, Default)]
struct Options {
    length_only: bool,
    positions: bool,
    with_match_length: bool,
    /// Runs shorter than this are not shown.
    min_match_length: usize,
}

fn lcs(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    const NOT_STRINGS: ErrorReply =
        ErrorReply::text("ERR The specified keys must contain string values");
    let mut string = |position| {
        let value = ctx.keyspace.string(args.at(position), ctx.now, ctx.effects);
        let value = value.map_err(|_| NOT_STRINGS)?;
        Ok(value.unwrap_or_default().to_vec())
    };
    let (first, second) = (string(1), string(2));
    let (first, second) = (first?, second?);
    let options = parse(args)?;
    check_size(&first, &second, ctx.keyspace.longest_string_bytes())?;
    if options.length_only {
        ctx.reply.length(subsequence::length(&first, &second));
        return Ok(());
    }
    let runs = subsequence::runs(&first, &second);
    if options.positions {
        reply_positions(ctx, &runs, options);
    } else {
        ctx.reply.bulk(&subsequence::collect(&first, &runs));
    }
    Ok(())
}

fn parse(args: Args<'_>) -> Result<Options, ErrorReply> {
    let mut options = Options::default();
    let mut rest = args.skip(3).iter();
    while let Some(arg) = rest.next() {
        if arg.eq_ignore_ascii_case(b"IDX") {
            options.positions = true;
        } else if arg.eq_ignore_ascii_case(b"LEN") {
            options.length_only = true;
        } else if arg.eq_ignore_ascii_case(b"WITHMATCHLEN") {
            options.with_match_length = true;
        } else if arg.eq_ignore_ascii_case(b"MINMATCHLEN") {
            let length = number::integer(rest.next().ok_or(ErrorReply::Syntax)?)?;
            options.min_match_length = usize::try_from(length).unwrap_or(0);
        } else {
            return Err(ErrorReply::Syntax);
        }
    }
    if options.length_only && options.positions {
        return Err(ErrorReply::text(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    Ok(options)
}

/// Refuses strings for which Redis would build a table of more than `max_table_bytes` (its `proto-max-bulk-len`). That
/// bounds the time a call takes; our own table is smaller.
fn check_size(first: &[u8], second: &[u8], max_table_bytes: usize) -> Result<(), ErrorReply> {
    let cells = (first.len() as u128 + 1) * (second.len() as u128 + 1);
    if cells * size_of::<u32>() as u128 > max_table_bytes as u128 {
        return Err(ErrorReply::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    Ok(())
}

fn reply_positions(ctx: &mut Context<'_>, runs: &[Run], options: Options) {
    let shown = runs
        .iter()
        .filter(|run| run.length() >= options.min_match_length);
    ctx.reply.map(2);
    ctx.reply.bulk(b"matches");
    ctx.reply.array(shown.clone().count());
    for run in shown {
        ctx.reply.array(2 + usize::from(options.with_match_length));
        for range in [&run.first, &run.second] {
            ctx.reply.array(2);
            ctx.reply.length(*range.start());
            ctx.reply.length(*range.end());
        }
        if options.with_match_length {
            ctx.reply.length(run.length());
        }
    }
    ctx.reply.bulk(b"len");
    ctx.reply.length(runs.iter().map(Run::length).sum());
}
