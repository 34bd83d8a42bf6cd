//! Reading strings, whole or in part; `GETEX` and `GETDEL` also change how long they stay.

use super::expiry_option::TimeUnit;
use super::{clamped_range, is_backwards, is_past};
use crate::{Command, Context, EventClasses, number};
use kevy_proto::command::{ALL_KEYS, Flags, Join, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// Redis documents the same for `GETRANGE` and `SUBSTR`.
const RANGE_COMPLEXITY: &str = "O(N) where N is the length of the returned string. The complexity is ultimately \
    determined by the returned length, but because creating a substring from an existing string is very cheap, it can \
    be considered O(1) for small strings.";

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "get",
        arity: 2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Get the value of a key",
        run: get,
        subcommands: &[],
    },
    Row {
        name: "getex",
        arity: -2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Get the value of a key and optionally set its expiration",
        run: getex,
        subcommands: &[],
    },
    Row {
        name: "getdel",
        arity: 2,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Get the value of a key and delete the key",
        run: getdel,
        subcommands: &[],
    },
    Row {
        name: "mget",
        arity: -2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ALL_KEYS,
        placement: Placement::Split(Join::ByPosition),
        group: "string",
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys to retrieve.",
        summary: "Get the values of all the given keys",
        run: mget,
        subcommands: &[],
    },
    Row {
        name: "strlen",
        arity: 2,
        flags: Flags::READONLY.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Get the length of the value stored in a key",
        run: strlen,
        subcommands: &[],
    },
    Row {
        name: "getrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "2.4.0",
        complexity: RANGE_COMPLEXITY,
        summary: "Get a substring of the string stored at a key",
        run: getrange,
        subcommands: &[],
    },
    Row {
        name: "substr",
        arity: 4,
        flags: Flags::READONLY,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "string",
        since: "1.0.0",
        complexity: RANGE_COMPLEXITY,
        summary: "Get a substring of the string stored at a key",
        run: getrange,
        subcommands: &[],
    },
];

fn get(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let value = ctx.keyspace.string(args.at(1), ctx.now, ctx.effects)?;
    ctx.reply.bulk_or_null(value);
    Ok(())
}

/// What `GETEX` does to the expiry of its key.
#[derive(Clone, Copy)]
enum GetexOption<'a> {
    None,
    Persist,
    At(TimeUnit, &'a [u8]),
}

fn getex(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let option = parse_getex(args)?;
    let key = args.at(1);
    let mode = ctx.keyspace.expiry_mode();
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    access.note_miss();
    let Some(value) = access.string()? else {
        ctx.reply.null();
        return Ok(());
    };
    ctx.reply.bulk(value);
    match option {
        GetexOption::None => {}
        GetexOption::Persist => {
            if access.expiry().is_some() {
                access.set_expiry(None);
                access.note_event(EventClasses::GENERIC, "persist");
                ctx.effects.emit(&[b"PERSIST", key]);
            }
        }
        GetexOption::At(unit, number) => {
            let deadline = unit.deadline(number, ctx.now, "getex")?;
            if is_past(deadline, ctx.now, mode) {
                access.remove();
                access.note_event(EventClasses::GENERIC, "del");
                ctx.effects.emit(&[b"DEL", key]);
            } else {
                access.set_expiry(Some(deadline));
                access.note_event(EventClasses::GENERIC, "expire");
                let mut digits = itoa::Buffer::new();
                let at = digits.format(deadline.0).as_bytes();
                ctx.effects.emit(&[b"PEXPIREAT", key, at]);
            }
        }
    }
    Ok(())
}

fn parse_getex(args: Args<'_>) -> Result<GetexOption<'_>, ErrorReply> {
    let mut option = GetexOption::None;
    let mut rest = args.skip(2).iter();
    while let Some(arg) = rest.next() {
        if arg.eq_ignore_ascii_case(b"PERSIST") && !matches!(option, GetexOption::At(..)) {
            option = GetexOption::Persist;
            continue;
        }
        let unit = TimeUnit::from_option(arg).ok_or(ErrorReply::Syntax)?;
        let number = rest.next().ok_or(ErrorReply::Syntax)?;
        option = match option {
            GetexOption::None => GetexOption::At(unit, number),
            // The same unit again is allowed: the last number counts.
            GetexOption::At(before, _) if before == unit => GetexOption::At(unit, number),
            GetexOption::Persist | GetexOption::At(..) => return Err(ErrorReply::Syntax),
        };
    }
    Ok(option)
}

fn getdel(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let mut access = ctx.keyspace.lookup_for_write(key, ctx.now, ctx.effects);
    access.note_miss();
    let value = access.string()?;
    ctx.reply.bulk_or_null(value);
    if access.remove() {
        access.note_event(EventClasses::GENERIC, "del");
        ctx.effects.emit(&[b"DEL", key]);
    }
    Ok(())
}

fn mget(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    ctx.reply.array(args.len() - 1);
    for key in args.skip(1).iter() {
        // A key of another type counts as none.
        let value = ctx.keyspace.string(key, ctx.now, ctx.effects);
        ctx.reply.bulk_or_null(value.unwrap_or_default());
    }
    Ok(())
}

fn strlen(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let value = ctx.keyspace.string(args.at(1), ctx.now, ctx.effects)?;
    ctx.reply.length(value.map_or(0, <[u8]>::len));
    Ok(())
}

fn getrange(ctx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let start = number::integer(args.at(2))?;
    let end = number::integer(args.at(3))?;
    let value = ctx.keyspace.string(args.at(1), ctx.now, ctx.effects)?;
    let value = value.unwrap_or_default();
    let range = if is_backwards(start, end) {
        0..0
    } else {
        clamped_range(start, end, value.len())
    };
    ctx.reply.bulk(&value[range]);
    Ok(())
}
