//! Elements taken from an end of a list: `LPOP RPOP LMPOP`, and what serves `BLPOP BRPOP BLMPOP`.
//!
//! A client that waits gets its element by [`pop_elements`] when one is there. If it is gone before its reply could be sent,
//! [`put_back`] undoes that: the list is then as before.

use super::end_at;
use crate::commands::is_option;
use crate::number::parse_i64;
use crate::value::{End, List};
use crate::{Command, Context, Effects, EventClasses, Keyspace};
use alloc::string::String;
use alloc::vec::Vec;
use kevy_proto::command::{Flags, Keys, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, Encoder, ErrorReply};
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
    let request = BatchPop::read(args, 1)?;
    for key in request.keys() {
        let reply = &mut cx.reply;
        let popped = take(
            cx.keyspace,
            cx.now,
            cx.effects,
            (key, request.end, request.count),
            |length, elements| {
                reply.array(2);
                reply.bulk(key);
                reply.array(length);
                elements.for_each(|element| reply.bulk(element));
            },
        )?;
        if popped.is_some() {
            return Ok(());
        }
    }
    cx.reply.null_array();
    Ok(())
}

/// The arguments of `LMPOP` and `BLMPOP`: `numkeys key [key ...] LEFT|RIGHT [COUNT count]`.
#[derive(Clone, Copy, Debug)]
pub struct BatchPop<'a> {
    args: Args<'a>,
    first_key: usize,
    key_count: usize,
    /// The end to pop from.
    pub end: End,
    /// The most elements to pop.
    pub count: usize,
}

impl<'a> BatchPop<'a> {
    /// Reads the arguments from `numkeys`, at `position`, on.
    ///
    /// # Errors
    /// What Redis says about arguments that do not fit.
    pub fn read(args: Args<'a>, position: usize) -> Result<Self, ErrorReply> {
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
    pub fn keys(self) -> impl Iterator<Item = &'a [u8]> {
        self.args.skip(self.first_key).iter().take(self.key_count)
    }
}

/// Removes up to `most` elements from an end of the list at `key`, with their effect; none if there is no list. For
/// clients that wait.
///
/// # Errors
/// [`ErrorReply::WrongType`] if the key holds something else.
pub fn pop_elements(
    keyspace: &mut Keyspace,
    now: Now,
    effects: &mut Effects,
    key: &[u8],
    end: End,
    most: usize,
) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let mut popped = Vec::new();
    take(keyspace, now, effects, (key, end, most), |_, elements| {
        popped.extend(elements.map(<[u8]>::to_vec));
    })?;
    Ok(popped)
}

/// Undoes [`pop_elements`]: puts `elements` back to the end that they were taken from, with the effect of it. A list that had gone
/// comes back without its expiry.
///
/// # Errors
/// [`ErrorReply::WrongType`] if the key holds something else meanwhile.
pub fn put_back(
    keyspace: &mut Keyspace,
    now: Now,
    effects: &mut Effects,
    key: &[u8],
    end: End,
    elements: &[Vec<u8>],
) -> Result<(), ErrorReply> {
    if elements.is_empty() {
        return Ok(());
    }
    let last_first = || elements.iter().rev().map(Vec::as_slice);
    keyspace.edit_or_create(key, now, effects, |list: &mut List, limits| {
        list.push(end, last_first(), limits);
    })?;
    let name: &[u8] = match end {
        End::Left => b"LPUSH",
        End::Right => b"RPUSH",
    };
    let request: Vec<&[u8]> = [name, key].into_iter().chain(last_first()).collect();
    effects.emit(&request);
    Ok(())
}

/// The reply of `BLPOP` and `BRPOP`.
pub fn reply_pair(reply: &mut Encoder<'_>, key: &[u8], element: &[u8]) {
    reply.array(2);
    reply.bulk(key);
    reply.bulk(element);
}

/// The reply of `BLMPOP`.
pub fn reply_batch(reply: &mut Encoder<'_>, key: &[u8], elements: &[Vec<u8>]) {
    reply.array(2);
    reply.bulk(key);
    reply.array(elements.len());
    elements.iter().for_each(|element| reply.bulk(element));
}

/// Removes up to `most` elements from an end of the list at `key`, after `meet` saw how many and which. `None` if there is
/// no list.
fn take(
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

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::time::{Instant, UnixMillis};

    const NOW: Now = Now {
        monotonic: Instant { nanos: 0 },
        unix: UnixMillis(0),
    };

    #[test]
    fn what_is_put_back_is_as_before() {
        let mut keyspace = Keyspace::new(1);
        let mut effects = Effects::on();
        let elements = [&b"a"[..], b"b", b"c", b"d"];
        let before = |list: &List| list.iter().eq(elements);
        keyspace
            .edit_or_create(b"k", NOW, &mut effects, |list: &mut List, limits| {
                list.push(End::Right, elements.into_iter(), limits);
            })
            .unwrap();
        for end in [End::Left, End::Right] {
            for most in [1, 2, 4, 9] {
                let popped =
                    pop_elements(&mut keyspace, NOW, &mut effects, b"k", end, most).unwrap();
                assert_eq!(popped.len(), most.min(4));
                put_back(&mut keyspace, NOW, &mut effects, b"k", end, &popped).unwrap();
                let list = keyspace.collection::<List>(b"k", NOW, &mut effects);
                assert!(list.unwrap().is_some_and(before));
            }
        }
        assert_eq!(effects.len(), 16);
    }

    #[test]
    fn nothing_comes_from_where_no_list_is() {
        let mut keyspace = Keyspace::new(1);
        let mut effects = Effects::on();
        let popped = pop_elements(&mut keyspace, NOW, &mut effects, b"k", End::Left, 1);
        assert_eq!(popped, Ok(Vec::new()));
        put_back(&mut keyspace, NOW, &mut effects, b"k", End::Left, &[]).unwrap();
        assert!(keyspace.is_empty() && effects.is_empty());
    }
}
