//! `MONITOR`: sessions that see every command of every client of the process
//! (<https://redis.io/docs/latest/commands/monitor/>).
//!
//! The shard that executes a request writes its line; lines go to the shards that have monitors at the end of the turn. All
//! shards know which do, so that nothing is written while nobody looks. A monitor that does not keep up is cut
//! ([`MONITOR_OUTPUT_BYTES`]).

use crate::command_table::Found;
use crate::host::Slot;
use crate::message::Message;
use crate::session::{Session, State};
use crate::shard::Shard;
use bytes::{BufMut, Bytes, BytesMut};
use kevy_proto::command::Flags;
use kevy_proto::ids::ShardId;
use kevy_proto::resp::Args;
use kevy_proto::time::Now;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The most bytes that may wait for a monitor, unless `client-output-buffer-limit` says less of normal clients.
pub(crate) const MONITOR_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Who looks, on whatever shard.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    /// Sessions of this shard.
    own: BTreeSet<Slot>,
    /// How many monitors each shard has, if any.
    by_shard: BTreeMap<ShardId, usize>,
}

/// Commands that are never shown: they may tell secrets, or tell the monitor about itself.
fn is_hidden(found: Found) -> bool {
    let (flags, name) = (found.handler.flags(), found.handler.name());
    flags.contains(Flags::ADMIN) || flags.contains(Flags::SKIP_MONITOR) || name == "monitor"
}

impl Shard {
    /// The session becomes a monitor; the other shards are still to be told.
    pub(crate) fn add_monitor(&mut self, session: &mut Session) {
        session.is_monitor = true;
        self.monitors.own.insert(session.slot);
    }

    /// The session is a monitor no more.
    pub(crate) fn remove_monitor(&mut self, session: &mut Session) {
        if std::mem::take(&mut session.is_monitor) {
            self.monitors.own.remove(&session.slot);
            for index in 0..self.shards() {
                self.send(ShardId(index), Message::MonitorLeft);
            }
        }
    }

    /// `shard` has one more monitor.
    pub(crate) fn count_monitor(&mut self, shard: ShardId) {
        *self.monitors.by_shard.entry(shard).or_default() += 1;
    }

    /// `shard` has one monitor less.
    pub(crate) fn discount_monitor(&mut self, shard: ShardId) {
        if let Some(count) = self.monitors.by_shard.get_mut(&shard) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.monitors.by_shard.remove(&shard);
            }
        }
    }

    /// Whether somebody looks, on whatever shard.
    #[inline]
    pub(crate) fn has_monitors(&self) -> bool {
        !self.monitors.by_shard.is_empty()
    }

    /// Shows a command that was executed for the client at `address`.
    pub(crate) fn show(&mut self, address: &str, found: Found, args: Args<'_>) {
        if self.has_monitors() && !is_hidden(found) {
            self.show_line(address, args);
        }
    }

    /// As [`Shard::show`], whatever the command.
    pub(crate) fn show_line(&mut self, address: &str, args: Args<'_>) {
        write_line(&mut self.announcements.lines, self.now, address, args);
    }

    /// Sends lines to the shards that have monitors.
    pub(crate) fn send_lines(&mut self, lines: &Bytes) {
        let shards: Vec<ShardId> = self.monitors.by_shard.keys().copied().collect();
        for shard in shards {
            self.send(shard, Message::Monitor(lines.clone()));
        }
    }

    /// Hands lines to our monitors.
    pub(crate) fn take_lines(&mut self, lines: &[u8]) {
        let slots: Vec<Slot> = self.monitors.own.iter().copied().collect();
        for slot in slots {
            if let Some(session) = self.session_mut(slot)
                && session.state != State::Draining
            {
                session.replies.push_out_of_band(lines);
                let held = session.replies.len_bytes() as u64;
                self.announce_output(slot);
                if held > MONITOR_OUTPUT_BYTES {
                    self.close_slow(slot);
                } else {
                    self.close_above_hard_limit(slot);
                }
            }
        }
    }
}

/// `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`
fn write_line(out: &mut BytesMut, now: Now, address: &str, args: Args<'_>) {
    let (seconds, micros) = unix_micros(now);
    let _ = write!(out, "+{seconds}.{micros:06} [0 {address}]");
    for (index, arg) in args.iter().enumerate() {
        let secret = index > 0 && args.at(0).eq_ignore_ascii_case(b"auth");
        out.put_slice(b" ");
        write_quoted(out, if secret { b"(redacted)" } else { arg });
    }
    out.put_slice(b"\r\n");
}

/// Seconds since 1970 and microseconds of the second. The wall clock is read in milliseconds; the monotonic clock tells
/// moments within one apart.
fn unix_micros(now: Now) -> (i64, i64) {
    let millis = now.unix.0;
    let within = (now.monotonic.nanos / 1000 % 1000) as i64;
    (
        millis.div_euclid(1000),
        millis.rem_euclid(1000) * 1000 + within,
    )
}

/// Writes an argument as Redis shows it: quoted, and what cannot be printed escaped.
fn write_quoted(out: &mut BytesMut, arg: &[u8]) {
    out.put_u8(b'"');
    for &byte in arg {
        match byte {
            b'\\' | b'"' => out.put_slice(&[b'\\', byte]),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            0x07 => out.put_slice(b"\\a"),
            0x08 => out.put_slice(b"\\b"),
            b' '..=b'~' => out.put_u8(byte),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::resp::RequestBuffer;
    use kevy_proto::time::{Instant, UnixMillis};

    #[test]
    fn a_line_looks_as_in_redis() {
        let now = Now {
            monotonic: Instant::from_nanos(5_412_999),
            unix: UnixMillis(1_339_518_083_107),
        };
        let request = RequestBuffer::from_slices([
            &b"SET"[..],
            b"k\x00\xff\"'\\\n\r\t\x07\x08 x\x1b",
            b"\x7f~ \xc3\xa4",
        ]);
        let mut out = BytesMut::new();
        write_line(&mut out, now, "127.0.0.1:60866", request.args());
        let expected = "+1339518083.107412 [0 127.0.0.1:60866] \"SET\" \
                        \"k\\x00\\xff\\\"'\\\\\\n\\r\\t\\a\\b x\\x1b\" \"\\x7f~ \\xc3\\xa4\"\r\n";
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn passwords_are_not_shown() {
        let request = RequestBuffer::from_slices([&b"auth"[..], b"me", b"secret"]);
        let mut out = BytesMut::new();
        write_line(&mut out, Now::default(), "a", request.args());
        assert_eq!(
            out,
            &b"+0.000000 [0 a] \"auth\" \"(redacted)\" \"(redacted)\"\r\n"[..]
        );
    }
}
