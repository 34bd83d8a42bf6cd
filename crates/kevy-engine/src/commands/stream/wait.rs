//! Waiting for entries: what a host needs to make `XREAD BLOCK` and `XREADGROUP BLOCK` wait.
//!
//! The commands themselves never wait: with nothing to read they reply the null array. The host that got one from a
//! command with `BLOCKING` asks [`stream_wait`] in the same turn. The answer names the time to wait and the request to
//! run again whenever one of its keys changed, until it replies anything but the null array.

use super::read::Read;
use crate::Context;
use crate::commands::is_option;
use kevy_proto::resp::{Args, RequestBuffer};

/// What a reader waits for.
#[derive(Clone, Debug)]
pub struct StreamWait {
    /// How long, in milliseconds; 0: for ever. When it has passed the reply is the null array.
    pub timeout_ms: i64,
    /// The request to run again. It says no longer `BLOCK`, and where it said `$` it says now which entry that was: an
    /// entry added between two turns is not missed. Its keys are those to watch.
    pub request: RequestBuffer,
}

/// Whether the reader with `args`, which found nothing just now, wants to wait, and for what.
pub fn stream_wait(cx: &mut Context<'_>, args: Args<'_>) -> Option<StreamWait> {
    let in_group = is_option(args, 0, "xreadgroup");
    let read = Read::parse(args, in_group).ok()?;
    let timeout_ms = read.block_ms?;
    let mut request = RequestBuffer::new();
    let mut at = 0;
    while at < read.keys_at + read.streams {
        // A group or consumer may be called `block`: they stand behind `GROUP` and are stepped over.
        if is_option(args, at, "block") && at < read.keys_at {
            at += 2;
            continue;
        }
        let words = if is_option(args, at, "group") && at < read.keys_at {
            3
        } else {
            1
        };
        for word in at..at + words {
            request.push(args.at(word));
        }
        at += words;
    }
    for index in 0..read.streams {
        match args.at(at + index) {
            b"$" => request.push(read.after(cx, index).ok()?.text().as_bytes()),
            id => request.push(id),
        }
    }
    Some(StreamWait {
        timeout_ms,
        request,
    })
}
