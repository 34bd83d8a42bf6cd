//! What a blocking command says when there is nothing for it.
//!
//! The commands themselves never wait. One that finds nothing writes the null reply, which is what `MULTI` gets, and leaves
//! a [`Wait`] in its [`Context`](crate::Context). A host that lets clients wait takes the null reply back and runs the
//! request of the [`Wait`] again whenever one of its keys may have become of use ([`Awaited::suits`]), until a run leaves no
//! `Wait` any more.

use crate::commands::group_has_news;
use crate::double;
use crate::keyspace::Entry;
use crate::long_double::LongDouble;
use crate::{Command, Context, commands};
use alloc::boxed::Box;
use core::time::Duration;
use kevy_proto::command::{Flags, Keys};
use kevy_proto::resp::{Args, ErrorReply, RequestBuffer};
use kevy_proto::time::Now;

/// Where commands that wait have their keys: all arguments but the last, which says how long.
pub(crate) const KEYS_BEFORE_TIMEOUT: Keys = Keys::Range {
    first: 1,
    last: -2,
    step: 1,
};

/// What a client waits for.
#[derive(Clone, Debug)]
pub struct Wait {
    /// How long; `None`: for ever. When it has passed the reply is the null array.
    pub timeout: Option<Duration>,
    /// The request to run again, if it is another than the one that was run.
    pub request: Option<RequestBuffer>,
    /// How many of its keys are waited for: the first ones. Those behind them are only written to.
    pub sources: usize,
    /// What must be at a key that is waited for.
    pub awaited: Awaited,
}

/// What must be at a key for its waiter to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A list.
    List,
    /// A sorted set.
    SortedSet,
    /// A stream.
    Stream,
    /// A stream whose group was not given all of it. If there is something else, or nothing, the client is to be told.
    Group,
}

impl Awaited {
    /// Whether the waiter with the request `args` is to run again, now that `entry` is at the key.
    pub fn suits(self, entry: Option<&Entry>, args: Args<'_>) -> bool {
        match self {
            Self::List => entry.is_some_and(|entry| entry.type_name() == "list"),
            Self::SortedSet => entry.is_some_and(|entry| entry.type_name() == "zset"),
            Self::Stream => entry.is_some_and(|entry| entry.type_name() == "stream"),
            Self::Group => group_has_news(entry, args),
        }
    }
}

/// Whether the request may have to wait.
#[inline]
pub fn may_block(command: &Command, args: Args<'_>) -> bool {
    command.flags.contains(Flags::BLOCKING)
        && (command.group != "stream" || commands::stream_blocks(args))
}

impl Context<'_> {
    /// There is nothing for the command, which has replied so: a client may wait for the first `sources` keys.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, sources: usize, awaited: Awaited) {
        self.wait = Some(Box::new(Wait {
            timeout,
            request: None,
            sources,
            awaited,
        }));
    }
}

/// Reads a timeout in seconds; `None`: for ever. It is rounded up to milliseconds.
pub(crate) fn timeout(text: &[u8], now: Now) -> Result<Option<Duration>, ErrorReply> {
    const NO_FLOAT: ErrorReply = ErrorReply::text("ERR timeout is not a float or out of range");
    const OUT_OF_RANGE: ErrorReply = ErrorReply::text("ERR timeout is out of range");
    let Some(seconds) = double::parse(text) else {
        let large = LongDouble::parse(text).is_some();
        return Err(if large { OUT_OF_RANGE } else { NO_FLOAT });
    };
    let exact_ms = seconds * 1000.0;
    if exact_ms <= -1.0 {
        return Err(ErrorReply::text("ERR timeout is negative"));
    }
    // From 0 on conversion rounds down.
    let floor_ms = exact_ms as u64;
    let timeout_ms = floor_ms.saturating_add(u64::from((floor_ms as f64) < exact_ms));
    if timeout_ms > (i64::MAX - now.unix.0.max(0)).unsigned_abs() {
        return Err(OUT_OF_RANGE);
    }
    Ok(Some(Duration::from_millis(timeout_ms)).filter(|timeout| !timeout.is_zero()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        let read = |text: &str| {
            let timeout = timeout(text.as_bytes(), Now::default());
            timeout.map(|timeout| timeout.map(|timeout| timeout.as_millis()))
        };
        for (text, expected) in [
            ("0", None),
            ("-0.0001", None),
            ("1", Some(1000)),
            ("0.001", Some(1)),
            ("1e-10", Some(1)),
            ("0.0015", Some(2)),
            ("0x1", Some(1000)),
            ("+2.5", Some(2500)),
            ("9223372036854774", Some(9_223_372_036_854_773_760)),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("-1", "ERR timeout is negative"),
            ("-inf", "ERR timeout is negative"),
            ("inf", "ERR timeout is out of range"),
            ("1e16", "ERR timeout is out of range"),
            ("1e400", "ERR timeout is out of range"),
            ("nan", "ERR timeout is not a float or out of range"),
            ("", "ERR timeout is not a float or out of range"),
            (" 1", "ERR timeout is not a float or out of range"),
            ("1 ", "ERR timeout is not a float or out of range"),
            ("abc", "ERR timeout is not a float or out of range"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
