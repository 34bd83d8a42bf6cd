//! What `HSCAN`, `SSCAN` and `ZSCAN` share: their options and their reply.

use super::is_option;
use super::keys::{SCAN_COUNT, parse_cursor};
use crate::glob;
use crate::number::integer;
use kevy_proto::resp::{Args, Encoder, ErrorReply};

/// The cursor at argument 2: to be read before the key is looked up.
///
/// # Errors
/// If it is no number.
pub(super) fn cursor(args: Args<'_>) -> Result<u64, ErrorReply> {
    parse_cursor(args.at(2)).ok_or(ErrorReply::text("ERR invalid cursor"))
}

/// The reply for a key that does not exist, whatever the options are.
pub(super) fn reply_missing(reply: &mut Encoder<'_>) {
    reply_head(reply, None);
    reply.array(0);
}

/// The first element of the reply, where to go on; an array follows.
pub(super) fn reply_head(reply: &mut Encoder<'_>, next: Option<u64>) {
    reply.array(2);
    reply.bulk_integer(next.unwrap_or(0) as i64);
}

/// `[MATCH pattern] [COUNT count] [NOVALUES]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementScan<'a> {
    pattern: &'a [u8],
    /// About how many elements a step looks at; at least 1.
    pub(super) count: usize,
    /// Whether values are wanted beside names (`HSCAN` without `NOVALUES`).
    pub(super) values: bool,
}

impl<'a> ElementScan<'a> {
    /// Reads the options from argument 3 on; `NOVALUES` only if `may_omit_values`.
    ///
    /// # Errors
    /// For unknown options and for counts below 1.
    pub(super) fn read(args: Args<'a>, may_omit_values: bool) -> Result<Self, ErrorReply> {
        let mut options = Self {
            pattern: b"*",
            count: SCAN_COUNT,
            values: true,
        };
        let mut at = 3;
        while at < args.len() {
            let value = args.get(at + 1);
            match value {
                Some(value) if is_option(args, at, "count") => {
                    let given = usize::try_from(integer(value)?).ok();
                    options.count = given.filter(|&count| count > 0).ok_or(ErrorReply::Syntax)?;
                }
                Some(pattern) if is_option(args, at, "match") => options.pattern = pattern,
                _ if may_omit_values && is_option(args, at, "novalues") => {
                    options.values = false;
                    at += 1;
                    continue;
                }
                Some(_) | None => return Err(ErrorReply::Syntax),
            }
            at += 2;
        }
        Ok(options)
    }

    /// Whether the client wants the element of this name.
    pub(super) fn accepts(&self, name: &[u8]) -> bool {
        // `*` alone matches the empty name too, as in Redis.
        self.pattern == b"*" || glob::matches(self.pattern, name)
    }
}
