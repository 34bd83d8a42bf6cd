//! Readers that wait: `XREAD BLOCK` and `XREADGROUP BLOCK` with nothing to read ([`Wait`]).

use super::read::Read;
use crate::Context;
use crate::commands::is_option;
use crate::keyspace::Entry;
use crate::value::Collection;
use crate::value::stream::{Stream, StreamId};
use crate::wait::{Awaited, Wait};
use alloc::boxed::Box;
use core::time::Duration;
use kevy_proto::resp::{Args, RequestBuffer};

/// Whether the reader with `args` would wait if it found nothing.
pub(crate) fn stream_blocks(args: Args<'_>) -> bool {
    parse(args).is_some_and(|read| read.block_ms.is_some())
}

fn parse(args: Args<'_>) -> Option<Read<'_>> {
    Read::parse(args, is_option(args, 0, "xreadgroup")).ok()
}

impl Read<'_> {
    /// Nothing was found: if the reader wants to wait, says for what. Where it said `$` it waits for what comes after the
    /// entry that is the last one now: one added between two runs is not missed.
    pub(super) fn wait(&self, cx: &mut Context<'_>) {
        let Some(block_ms) = self.block_ms else {
            return;
        };
        let ids = self.keys_at + self.streams;
        let mut request = None;
        if self.args.skip(ids).iter().any(|id| id == b"$") {
            let mut resolved = RequestBuffer::new();
            self.args
                .iter()
                .take(ids)
                .for_each(|arg| resolved.push(arg));
            for index in 0..self.streams {
                match (self.args.at(ids + index), self.after(cx, index)) {
                    (b"$", Ok(last)) => resolved.push(last.text().as_bytes()),
                    (id, _) => resolved.push(id),
                }
            }
            request = Some(resolved);
        }
        cx.wait = Some(Box::new(Wait {
            timeout: u64::try_from(block_ms)
                .ok()
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis),
            request,
            sources: self.streams,
            awaited: if self.group.is_some() {
                Awaited::Group
            } else {
                Awaited::Stream
            },
        }));
    }
}

/// The same request, reading of its streams only the one at `key`.
pub fn request_for_stream(args: Args<'_>, key: &[u8]) -> RequestBuffer {
    let Some(read) = parse(args) else {
        return RequestBuffer::from_args(args);
    };
    let mut request = RequestBuffer::new();
    args.iter()
        .take(read.keys_at)
        .for_each(|arg| request.push(arg));
    let wanted = || (read.keys_at..read.keys_at + read.streams).filter(|at| args.at(*at) == key);
    wanted().for_each(|at| request.push(args.at(at)));
    wanted().for_each(|at| request.push(args.at(at + read.streams)));
    request
}

/// Whether `XREADGROUP` with `args` has anything to say now that `entry` is at one of its keys: entries that its group was
/// not given, or that there is no such group.
pub(crate) fn group_has_news(entry: Option<&Entry>, args: Args<'_>) -> bool {
    let Some(Entry::Object(object)) = entry else {
        return true;
    };
    let (Some(stream), Some(group)) = (
        Stream::view(object.value()),
        parse(args).and_then(|read| read.group),
    ) else {
        return true;
    };
    stream.group(group.name).is_none_or(|group| {
        let start = group.last_id.next();
        start.is_some_and(|start| stream.entries().count(start, StreamId::MAX, 1) > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effects, Keyspace, may_block};
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
        /// The reply, and what the reader waits for.
        fn run(&mut self, args: Args<'_>) -> (String, Option<Wait>) {
            let named = |command: &&crate::Command| is_option(args, 0, command.name);
            let mut command = crate::commands::families().flatten().find(named).unwrap();
            if let Some(subcommand) = command
                .subcommands
                .iter()
                .find(|row| is_option(args, 1, row.name))
            {
                command = subcommand;
            }
            let mut out = BytesMut::new();
            let mut context = Context {
                keyspace: self.keyspace.get_or_insert_with(|| Keyspace::new(1)),
                reply: Encoder::new(&mut out, RespVersion::V2),
                effects: &mut self.effects,
                now: Now::default(),
                wait: None,
            };
            let result = context.run(command, args);
            let wait = context.wait.take().map(|wait| *wait);
            assert!(wait.is_none() || result.is_ok() && may_block(command, args));
            (String::from_utf8(out.to_vec()).unwrap(), wait)
        }

        fn line(&mut self, line: &str) -> (String, Option<Wait>) {
            self.run(request(line).args())
        }

        fn has_news(&self, key: &str, line: &str) -> bool {
            let keyspace = self.keyspace.as_ref().unwrap();
            group_has_news(keyspace.held(key.as_bytes()), request(line).args())
        }
    }

    fn request(line: &str) -> RequestBuffer {
        RequestBuffer::from_slices(line.split(' ').map(str::as_bytes))
    }

    fn words(request: &RequestBuffer) -> String {
        let words: Vec<_> = request.args().iter().map(String::from_utf8_lossy).collect();
        words.join(" ")
    }

    const NOTHING: &str = "*-1\r\n";

    #[test]
    fn a_reader_of_the_end_gets_what_comes_after_it() {
        let mut host = Host::default();
        host.line("XADD s 5 a b");
        let (reply, wait) = host.line("XREAD BLOCK 100 COUNT 1 STREAMS s t $ $");
        let wait = wait.unwrap();
        assert_eq!(reply, NOTHING);
        assert_eq!(wait.timeout, Some(Duration::from_millis(100)));
        assert_eq!((wait.sources, wait.awaited), (2, Awaited::Stream));
        let again = wait.request.unwrap();
        assert_eq!(words(&again), "XREAD BLOCK 100 COUNT 1 STREAMS s t 5-0 0-0");
        let one = request_for_stream(again.args(), b"t");
        assert_eq!(words(&one), "XREAD BLOCK 100 COUNT 1 STREAMS t 0-0");
        let (reply, wait) = host.run(again.args());
        assert!(reply == NOTHING && wait.is_some());
        // Two entries come before the reader has its turn again: it gets the first.
        host.line("XADD s 6 a b");
        host.line("XADD s 7 a b");
        let (reply, wait) = host.run(again.args());
        assert!(reply.contains("6-0") && wait.is_none());
    }

    #[test]
    fn a_consumer_waits_for_what_its_group_did_not_see() {
        let mut host = Host::default();
        host.line("XGROUP CREATE block group 0 MKSTREAM");
        let request = "XREADGROUP GROUP group block BLOCK 0 STREAMS block >";
        let (reply, wait) = host.line(request);
        let wait = wait.unwrap();
        assert_eq!(reply, NOTHING);
        assert!(wait.timeout.is_none() && wait.request.is_none());
        assert_eq!(wait.awaited, Awaited::Group);
        assert!(!host.has_news("block", request));
        assert!(host.has_news("gone", request));
        host.line("XADD block 1 a b");
        assert!(host.has_news("block", request));
        assert!(host.line(request).0.contains("1-0"));
        assert!(!host.has_news("block", request));
        host.line("XGROUP DESTROY block group");
        assert!(host.has_news("block", request));
        host.line("SET block x");
        assert!(host.has_news("block", request));
    }

    #[test]
    fn who_does_not_say_block_does_not_wait() {
        let mut host = Host::default();
        assert!(host.line("XREAD STREAMS block $").1.is_none());
        assert!(host.line("XREAD BLOCK x STREAMS s $").1.is_none());
        host.line("XGROUP CREATE s g 0 MKSTREAM");
        assert!(host.line("XREADGROUP GROUP g c STREAMS s >").1.is_none());
        // What a consumer was given already is replied at once, even if it is nothing.
        let history = host.line("XREADGROUP GROUP g c BLOCK 0 STREAMS s 0");
        assert!(history.1.is_none() && history.0.ends_with("*0\r\n"));
    }
}
