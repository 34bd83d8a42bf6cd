//! Lists that are read: `LLEN LINDEX LRANGE LPOS`.

use super::{position_of, range_of};
use crate::commands::is_option;
use crate::number::{integer, parse_i64};
use crate::value::{End, List};
use crate::{Command, Context};
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "llen",
        arity: 2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the length of a list.",
        run: llen,
        subcommands: &[],
    },
    Row {
        name: "lindex",
        arity: 3,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).",
        summary: "Returns an element of a list by its index.",
        run: lindex,
        subcommands: &[],
    },
    Row {
        name: "lrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
        summary: "Returns a range of elements of a list.",
        run: lrange,
        subcommands: &[],
    },
    Row {
        name: "lpos",
        arity: -3,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "6.0.6",
        complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
        summary: "Returns the indices of equal elements of a list.",
        run: lpos,
        subcommands: &[],
    },
];

fn llen(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let list = cx
        .keyspace
        .collection::<List>(args.at(1), cx.now, cx.effects)?;
    cx.reply.length(list.map_or(0, List::len));
    Ok(())
}

fn lindex(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let list = cx
        .keyspace
        .collection::<List>(args.at(1), cx.now, cx.effects)?;
    let Some(list) = list else {
        cx.reply.null();
        return Ok(());
    };
    let position = position_of(integer(args.at(2))?, list.len());
    cx.reply.bulk_or_null(position.and_then(|at| list.get(at)));
    Ok(())
}

fn lrange(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let list = cx
        .keyspace
        .collection::<List>(args.at(1), cx.now, cx.effects)?;
    let Some(list) = list else {
        cx.reply.array(0);
        return Ok(());
    };
    let range = range_of(start, end, list.len());
    cx.reply.array(range.len());
    for element in list.range(range) {
        cx.reply.bulk(element);
    }
    Ok(())
}

fn lpos(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let search = Search::read(args)?;
    let list = cx
        .keyspace
        .collection::<List>(args.at(1), cx.now, cx.effects)?;
    let found = list.map_or_else(Vec::new, |list| search.run(list));
    if search.count.is_none() {
        match found.first() {
            Some(&index) => cx.reply.length(index),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    cx.reply.array(found.len());
    for index in found {
        cx.reply.length(index);
    }
    Ok(())
}

/// What `LPOS` looks for.
struct Search<'a> {
    element: &'a [u8],
    from: End,
    /// Matches to pass over first.
    skipped: u64,
    /// Matches wanted, 0 for all; `None` for one that is not in an array.
    count: Option<usize>,
    /// Elements to look at, 0 for all.
    most_looked_at: usize,
}

impl<'a> Search<'a> {
    /// Reads `element [RANK rank] [COUNT count] [MAXLEN length]`.
    fn read(args: Args<'a>) -> Result<Self, ErrorReply> {
        let mut search = Self {
            element: args.at(2),
            from: End::Left,
            skipped: 0,
            count: None,
            most_looked_at: 0,
        };
        for at in (3..args.len()).step_by(2) {
            let value = args.get(at + 1).ok_or(ErrorReply::Syntax)?;
            if is_option(args, at, "rank") {
                search.set_rank(value)?;
            } else if is_option(args, at, "count") {
                search.count = Some(not_negative(value, "ERR COUNT can't be negative")?);
            } else if is_option(args, at, "maxlen") {
                search.most_looked_at = not_negative(value, "ERR MAXLEN can't be negative")?;
            } else {
                return Err(ErrorReply::Syntax);
            }
        }
        Ok(search)
    }

    fn set_rank(&mut self, value: &[u8]) -> Result<(), ErrorReply> {
        let rank = integer(value)?;
        if rank == 0 {
            return Err(ErrorReply::text(RANK_IS_ZERO));
        }
        self.from = if rank < 0 { End::Right } else { End::Left };
        // The one rank that cannot be negated counts as -1, as in Redis 7.0.
        self.skipped = rank.checked_abs().map_or(0, |rank| rank as u64 - 1);
        Ok(())
    }

    fn run(&self, list: &List) -> Vec<usize> {
        let all_if_zero = |count: usize| if count == 0 { usize::MAX } else { count };
        let length = list.len();
        list.iter_from(self.from)
            .take(all_if_zero(self.most_looked_at))
            .enumerate()
            .filter(|&(_, element)| element == self.element)
            .skip(usize::try_from(self.skipped).unwrap_or(usize::MAX))
            .take(all_if_zero(self.count.unwrap_or(1)))
            .map(|(distance, _)| match self.from {
                End::Left => distance,
                End::Right => length - 1 - distance,
            })
            .collect()
    }
}

const RANK_IS_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";

fn not_negative(value: &[u8], otherwise: &'static str) -> Result<usize, ErrorReply> {
    parse_i64(value)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or(ErrorReply::text(otherwise))
}
