//! Elements taken from an end of a list: `LPOP RPOP LMPOP`.

use super::end_at;
use crate::commands::is_option;
use crate::number::parse_i64;
use crate::value::{End, List};
use crate::{Command, Context, Effects, EventClasses, Keyspace};
use alloc::string::String;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::Now;

/// The commands of this family.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "lpop",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned",
        summary: "Removes and returns the first elements of a list.",
        run: |cx, args| pop_one_or_count(cx, args, "lpop", End::Left),
        subcommands: &[],
    },
    Row {
        name: "rpop",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "list",
        since: "1.0.0",
        complexity: "O(N) where N is the number of elements returned",
        summary: "Removes and returns the last elements of a list.",
        run: |cx, args| pop_one_or_count(cx, args, "rpop", End::Right),
        subcommands: &[],
    },
    Row {
        name: "lmpop",
        arity: -4,
        flags: Flags::WRITE.with(Flags::MOVABLEKEYS),
        keys: Keys::Counted {
            count_at: 1,
            extra_first: 0,
        },
        placement: Placement::Together,
        group: "list",
        since: "7.0.0",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        summary: "Removes and returns elements of the first list that has any.",
        run: lmpop,
        subcommands: &[],
    },
];

fn pop_one_or_count(
    cx: &mut Context<'_>,
    args: Args<'_>,
    name: &str,
    end: End,
) -> Result<(), ErrorReply> {
    if args.len() > 3 {
        return Err(ErrorReply::WrongArity(String::from(name)));
    }
    let count = args.get(2).map(pop_count).transpose()?;
    let reply = &mut cx.reply;
    let popped = take(
        cx.keyspace,
        cx.now,
        cx.effects,
        (args.at(1), end, count.unwrap_or(1)),
        |length, elements| {
            if count.is_some() {
                reply.array(length);
            }
            elements.for_each(|element| reply.bulk(element));
        },
    )?;
    match (popped, count) {
        (Some(_), _) => {}
        (None, Some(_)) => cx.reply.null_array(),
        (None, None) => cx.reply.null(),
    }
    Ok(())
}

fn pop_count(text: &[u8]) -> Result<usize, ErrorReply> {
    parse_i64(text)
        .and_then(|count| usize::try_from(count).ok())
        .ok_or(ErrorReply::text(
            "ERR value is out of range, must be positive",
        ))
}

fn lmpop(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    if !BatchPop::read(args, 1)?.pop(cx)? {
        cx.reply.null_array();
    }
    Ok(())
}

/// The arguments of `LMPOP` and `BLMPOP`: `numkeys key [key ...] LEFT|RIGHT [COUNT count]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchPop<'a> {
    args: Args<'a>,
    first_key: usize,
    key_count: usize,
    end: End,
    /// The most elements to pop.
    count: usize,
}

impl<'a> BatchPop<'a> {
    /// Reads the arguments from `numkeys`, at `position`, on.
    ///
    /// # Errors
    /// What Redis says about arguments that do not fit.
    pub(super) fn read(args: Args<'a>, position: usize) -> Result<Self, ErrorReply> {
        let positive = |position: usize, otherwise: &'static str| {
            let number = parse_i64(args.at(position)).and_then(|n| usize::try_from(n).ok());
            number
                .filter(|&number| number > 0)
                .ok_or(ErrorReply::text(otherwise))
        };
        let key_count = positive(position, "ERR numkeys should be greater than 0")?;
        let first_key = position + 1;
        let end_position = first_key
            .checked_add(key_count)
            .filter(|&at| at < args.len())
            .ok_or(ErrorReply::Syntax)?;
        let end = end_at(args, end_position)?;
        let count = match args.len() - end_position {
            1 => 1,
            2 => return Err(ErrorReply::Syntax),
            _ if !is_option(args, end_position + 1, "count") => return Err(ErrorReply::Syntax),
            length => {
                let count = positive(end_position + 2, "ERR count should be greater than 0")?;
                if length > 3 {
                    return Err(ErrorReply::Syntax);
                }
                count
            }
        };
        Ok(Self {
            args,
            first_key,
            key_count,
            end,
            count,
        })
    }

    /// The keys, in the order in which they are tried.
    pub(super) fn keys(self) -> impl Iterator<Item = &'a [u8]> {
        self.args.skip(self.first_key).iter().take(self.key_count)
    }

    /// Pops from the first of the lists that is there, and replies its key and the elements. Says whether there was one;
    /// if not, nothing is replied.
    pub(super) fn pop(self, cx: &mut Context<'_>) -> Result<bool, ErrorReply> {
        for key in self.keys() {
            let reply = &mut cx.reply;
            let popped = take(
                cx.keyspace,
                cx.now,
                cx.effects,
                (key, self.end, self.count),
                |length, elements| {
                    reply.array(2);
                    reply.bulk(key);
                    reply.array(length);
                    elements.for_each(|element| reply.bulk(element));
                },
            )?;
            if popped.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Removes up to `most` elements from an end of the list at `key`, after `meet` saw how many and which. `None` if there is
/// no list.
pub(super) fn take(
    keyspace: &mut Keyspace,
    now: Now,
    effects: &mut Effects,
    (key, end, most): (&[u8], End, usize),
    meet: impl FnOnce(usize, &mut dyn Iterator<Item = &[u8]>),
) -> Result<Option<usize>, ErrorReply> {
    let popped = keyspace.edit(key, now, effects, |list: &mut List, limits| {
        let count = most.min(list.len());
        meet(count, &mut list.iter_from(end).take(count));
        list.pop(end, count, limits);
        count
    })?;
    emit_pop(effects, key, end, popped.unwrap_or(0));
    if popped.is_some_and(|popped| popped > 0) {
        keyspace.note_event(EventClasses::LIST, pop_event(end), key);
    }
    Ok(popped)
}

/// What popping from `end` is called.
pub(super) fn pop_event(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// Tells the log that `count` elements were popped.
pub(super) fn emit_pop(effects: &mut Effects, key: &[u8], end: End, count: usize) {
    let name: &[u8] = match end {
        End::Left => b"LPOP",
        End::Right => b"RPOP",
    };
    match count {
        0 => {}
        1 => effects.emit(&[name, key]),
        _ => {
            let mut digits = itoa::Buffer::new();
            effects.emit(&[name, key, digits.format(count).as_bytes()]);
        }
    }
}
