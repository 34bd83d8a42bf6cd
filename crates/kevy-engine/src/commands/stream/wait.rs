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

/// Whether the reader with `args` would wait if it found nothing (`XREAD .. BLOCK`).
pub fn stream_blocks(args: Args<'_>) -> bool {
    let in_group = is_option(args, 0, "xreadgroup");
    Read::parse(args, in_group).is_ok_and(|read| read.block_ms.is_some())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Effects, Keyspace};
    use alloc::string::String;
    use alloc::vec::Vec;
    use bytes::BytesMut;
    use kevy_proto::resp::{Encoder, RespVersion};
    use kevy_proto::time::Now;

    #[derive(Default)]
    struct Host {
        keyspace: Option<Keyspace>,
        effects: Effects,
    }

    impl Host {
        fn with<R>(&mut self, act: impl FnOnce(&mut Context<'_>) -> R) -> (R, String) {
            let mut out = BytesMut::new();
            let mut context = Context {
                keyspace: self.keyspace.get_or_insert_with(|| Keyspace::new(1)),
                reply: Encoder::new(&mut out, RespVersion::V2),
                effects: &mut self.effects,
                now: Now::default(),
            };
            let result = act(&mut context);
            (result, String::from_utf8(out.to_vec()).unwrap())
        }

        fn run(&mut self, args: Args<'_>) -> String {
            let named = |command: &&Command| is_option(args, 0, command.name);
            let mut command = crate::commands::families().flatten().find(named).unwrap();
            if let Some(subcommand) = command
                .subcommands
                .iter()
                .find(|row| is_option(args, 1, row.name))
            {
                command = subcommand;
            }
            let (result, reply) = self.with(|cx| cx.run(command, args));
            result.unwrap();
            reply
        }

        fn line(&mut self, line: &str) -> String {
            self.run(request(line).args())
        }

        fn wait(&mut self, line: &str) -> Option<(i64, String)> {
            let wait = self.with(|cx| stream_wait(cx, request(line).args())).0?;
            let words: Vec<String> = wait
                .request
                .args()
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            Some((wait.timeout_ms, words.join(" ")))
        }
    }

    fn request(line: &str) -> RequestBuffer {
        RequestBuffer::from_slices(line.split(' ').map(str::as_bytes))
    }

    const NOTHING: &str = "*-1\r\n";

    #[test]
    fn a_reader_of_the_end_gets_what_comes_after_it() {
        let mut host = Host::default();
        host.line("XADD s 5 a b");
        let request = "XREAD BLOCK 100 COUNT 1 STREAMS s t $ $";
        assert_eq!(host.line(request), NOTHING);
        let (timeout_ms, again) = host.wait(request).unwrap();
        assert_eq!(timeout_ms, 100);
        assert_eq!(again, "XREAD COUNT 1 STREAMS s t 5-0 0-0");
        assert_eq!(host.line(&again), NOTHING);
        // Two entries come before the reader has its turn again: it gets the first.
        host.line("XADD s 6 a b");
        host.line("XADD s 7 a b");
        assert!(host.line(&again).contains("6-0"));
    }

    #[test]
    fn a_consumer_waits_for_what_its_group_did_not_see() {
        let mut host = Host::default();
        host.line("XGROUP CREATE block group 0 MKSTREAM");
        let request = "XREADGROUP GROUP group block BLOCK 0 STREAMS block >";
        assert_eq!(host.line(request), NOTHING);
        let (timeout_ms, again) = host.wait(request).unwrap();
        assert_eq!(timeout_ms, 0);
        assert_eq!(again, "XREADGROUP GROUP group block STREAMS block >");
        host.line("XADD block 1 a b");
        assert!(host.line(&again).contains("1-0"));
        assert_eq!(host.line(&again), NOTHING);
    }

    #[test]
    fn who_does_not_say_block_does_not_wait() {
        let mut host = Host::default();
        assert_eq!(host.wait("XREAD STREAMS block $"), None);
        assert_eq!(host.wait("XREAD BLOCK x STREAMS s $"), None);
        assert_eq!(host.wait("XREADGROUP GROUP g c STREAMS s >"), None);
    }
}
