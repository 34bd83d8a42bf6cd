//! When keys go: the `EXPIRE` and `TTL` commands and `PERSIST`.
//!
//! Whatever a client says, an expiry is stored and logged as an absolute Unix time in milliseconds.

use crate::keyspace::{ExpiryMode, KeyAccess};
use crate::number::integer;
use crate::{Command, Context, EventClasses};
use alloc::string::String;
use core::cmp::Ordering;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};
use kevy_proto::time::UnixMillis;

/// The commands of this family.
pub(super) const COMMANDS: &[Command] = &[
    write_row(
        "expire",
        -3,
        "1.0.0",
        "Sets the time to live of a key in seconds.",
        |cx, args| expire(cx, args, Given::SECONDS_FROM_NOW),
    ),
    write_row(
        "pexpire",
        -3,
        "2.6.0",
        "Sets the time to live of a key in milliseconds.",
        |cx, args| expire(cx, args, Given::MILLIS_FROM_NOW),
    ),
    write_row(
        "expireat",
        -3,
        "1.2.0",
        "Sets when a key goes, as a Unix time in seconds.",
        |cx, args| expire(cx, args, Given::UNIX_SECONDS),
    ),
    write_row(
        "pexpireat",
        -3,
        "2.6.0",
        "Sets when a key goes, as a Unix time in milliseconds.",
        |cx, args| expire(cx, args, Given::UNIX_MILLIS),
    ),
    write_row(
        "persist",
        2,
        "2.2.0",
        "Removes the expiry of a key.",
        persist,
    ),
    read_row(
        "ttl",
        "1.0.0",
        "Returns the time to live of a key in seconds.",
        |cx, args| ttl(cx, args, Given::SECONDS_FROM_NOW),
    ),
    read_row(
        "pttl",
        "2.6.0",
        "Returns the time to live of a key in milliseconds.",
        |cx, args| ttl(cx, args, Given::MILLIS_FROM_NOW),
    ),
    read_row(
        "expiretime",
        "7.0.0",
        "Returns when a key goes, as a Unix time in seconds.",
        |cx, args| ttl(cx, args, Given::UNIX_SECONDS),
    ),
    read_row(
        "pexpiretime",
        "7.0.0",
        "Returns when a key goes, as a Unix time in milliseconds.",
        |cx, args| ttl(cx, args, Given::UNIX_MILLIS),
    ),
];

const fn write_row(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: crate::Run,
) -> Command {
    Row {
        name,
        arity,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "generic",
        since,
        complexity: "O(1)",
        summary,
        run,
        subcommands: &[],
    }
}

const fn read_row(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: crate::Run,
) -> Command {
    Row {
        flags: Flags::READONLY.with(Flags::FAST),
        ..write_row(name, 2, since, summary, run)
    }
}

/// How a command gives or shows a time.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) in_seconds: bool,
    pub(super) from_now: bool,
}

impl Given {
    pub(super) const SECONDS_FROM_NOW: Self = Self::new(true, true);
    pub(super) const MILLIS_FROM_NOW: Self = Self::new(false, true);
    pub(super) const UNIX_SECONDS: Self = Self::new(true, false);
    pub(super) const UNIX_MILLIS: Self = Self::new(false, false);

    const fn new(in_seconds: bool, from_now: bool) -> Self {
        Self {
            in_seconds,
            from_now,
        }
    }

    /// The Unix milliseconds that `number` means; `None` if they leave the range of 64 bits.
    pub(super) fn to_unix(self, number: i64, now: UnixMillis) -> Option<UnixMillis> {
        let ms = if self.in_seconds {
            number.checked_mul(1000)?
        } else {
            number
        };
        let base = if self.from_now { now.0 } else { 0 };
        ms.checked_add(base).map(UnixMillis)
    }

    fn show(self, deadline: UnixMillis, now: UnixMillis) -> i64 {
        let base = if self.from_now { now.0 } else { 0 };
        let ms = deadline.0.saturating_sub(base).max(0);
        if self.in_seconds {
            // Rounded to the nearest second, as in Redis.
            ms / 1000 + i64::from(ms % 1000 >= 500)
        } else {
            ms
        }
    }
}

fn expire(cx: &mut Context<'_>, args: Args<'_>, given: Given) -> Result<(), ErrorReply> {
    let condition = Condition::read(args.skip(3))?;
    let number = integer(args.at(2))?;
    let deadline = given
        .to_unix(number, cx.now.unix)
        .ok_or_else(|| ErrorReply::InvalidExpire(name_of(args)))?;
    let key = args.at(1);
    // Applied from a log or a primary, a deadline that has passed meanwhile is kept: its `DEL` follows.
    let passed = deadline <= cx.now.unix && cx.keyspace.expiry_mode() != ExpiryMode::Ignore;
    let mut access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
    let changes = condition.allows(&access, deadline);
    if changes && passed {
        access.remove();
        access.note_event(EventClasses::GENERIC, "del");
        cx.effects.emit(&[b"DEL", key]);
    } else if changes {
        access.set_expiry(Some(deadline));
        access.note_event(EventClasses::GENERIC, "expire");
        let mut digits = itoa::Buffer::new();
        let at = digits.format(deadline.0).as_bytes();
        cx.effects.emit(&[b"PEXPIREAT", key, at]);
    }
    cx.reply.integer(i64::from(changes));
    Ok(())
}

pub(super) fn name_of(args: Args<'_>) -> String {
    String::from_utf8_lossy(args.at(0)).to_ascii_lowercase()
}

/// When an expiry may change: the options `NX XX GT LT`.
#[derive(Clone, Copy)]
pub(super) struct Condition {
    /// Whether there must (`XX`) or must not (`NX`) be an expiry already.
    has_expiry: Option<bool>,
    /// How the new one must compare to the old one (`GT`, `LT`).
    order: Option<Ordering>,
}

impl Condition {
    fn read(options: Args<'_>) -> Result<Self, ErrorReply> {
        let known = |option: &&[u8]| ["nx", "xx", "gt", "lt"].iter().any(|name| is(option, name));
        if let Some(unknown) = options.iter().find(|option| !known(option)) {
            return Err(unsupported(unknown));
        }
        let has = |name| options.iter().any(|option| is(option, name));
        let (nx, xx, gt, lt) = (has("nx"), has("xx"), has("gt"), has("lt"));
        if nx && (xx || gt || lt) {
            return Err(ErrorReply::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        let order = match (gt, lt) {
            (true, true) => {
                return Err(ErrorReply::text(
                    "ERR GT and LT options at the same time are not compatible",
                ));
            }
            (true, false) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (false, false) => None,
        };
        let has_expiry = (nx || xx).then_some(xx);
        Ok(Self { has_expiry, order })
    }

    /// The condition of one option, or of none.
    pub(super) fn of(option: Option<&[u8]>) -> Self {
        let has = |name| option.is_some_and(|option| is(option, name));
        let order = [("gt", Ordering::Greater), ("lt", Ordering::Less)];
        Self {
            has_expiry: (has("nx") || has("xx")).then(|| has("xx")),
            order: order
                .into_iter()
                .find(|(name, _)| has(name))
                .map(|(_, order)| order),
        }
    }

    /// Whether the key of `access` exists and may get `deadline`.
    fn allows(self, access: &KeyAccess<'_>, deadline: UnixMillis) -> bool {
        let current = access.expiry();
        access.exists() && self.permits(current, deadline)
    }

    /// Whether what goes at `current`, if ever, may get `deadline`.
    pub(super) fn permits(self, current: Option<UnixMillis>, deadline: UnixMillis) -> bool {
        // What has no expiry goes later than anything else.
        let order = current.map_or(Ordering::Less, |current| deadline.cmp(&current));
        self.has_expiry.is_none_or(|has| has == current.is_some())
            && self.order.is_none_or(|wanted| wanted == order)
    }
}

pub(super) fn is(option: &[u8], name: &str) -> bool {
    option.eq_ignore_ascii_case(name.as_bytes())
}

fn unsupported(option: &[u8]) -> ErrorReply {
    ErrorReply::quoting("ERR Unsupported option ", option, "")
}

fn persist(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let mut access = cx.keyspace.lookup_for_write(key, cx.now, cx.effects);
    let changes = access.expiry().is_some();
    if changes {
        access.set_expiry(None);
        access.note_event(EventClasses::GENERIC, "persist");
        cx.effects.emit(&[b"PERSIST", key]);
    }
    cx.reply.integer(i64::from(changes));
    Ok(())
}

fn ttl(cx: &mut Context<'_>, args: Args<'_>, given: Given) -> Result<(), ErrorReply> {
    let shown = match cx.keyspace.expiry_of(args.at(1), cx.now, cx.effects) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => given.show(deadline, cx.now.unix),
    };
    cx.reply.integer(shown);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_range_are_refused() {
        let now = UnixMillis(1_700_000_000_000);
        let given = Given::SECONDS_FROM_NOW;
        assert_eq!(given.to_unix(2, now), Some(UnixMillis(1_700_000_002_000)));
        assert_eq!(given.to_unix(i64::MAX / 1000, now), None);
        assert_eq!(given.to_unix(i64::MIN, now), None);
        assert_eq!(
            Given::UNIX_MILLIS.to_unix(i64::MAX, now),
            Some(UnixMillis(i64::MAX))
        );
    }

    #[test]
    fn seconds_are_rounded_to_the_nearest() {
        let now = UnixMillis(0);
        let shown = |ms| Given::SECONDS_FROM_NOW.show(UnixMillis(ms), now);
        assert_eq!([shown(499), shown(500), shown(1499)], [0, 1, 1]);
        assert_eq!(shown(i64::MAX), 9_223_372_036_854_776);
        assert_eq!(shown(-5), 0);
    }
}
