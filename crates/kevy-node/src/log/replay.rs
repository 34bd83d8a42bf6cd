//! Carries out what a log says.

use crate::command_table::{CommandTable, Handler};
use bytes::BytesMut;
use kevy_engine::{Context, Effects, Keyspace};
use kevy_proto::log::Requests;
use kevy_proto::resp::{Args, Encoder, RespVersion};
use kevy_proto::time::Now;

/// Carries out the `requests` of an entry on `keyspace`, which should be one that removes nothing by itself
/// ([`Ignore`](kevy_engine::keyspace::ExpiryMode::Ignore)).
///
/// # Errors
/// The first request that cannot be carried out, for people: whoever wrote it was wrong, or newer.
pub fn replay(
    keyspace: &mut Keyspace,
    commands: &mut CommandTable,
    now: Now,
    requests: &Requests<'_>,
) -> Result<(), String> {
    let mut effects = Effects::off();
    let mut reply = BytesMut::new();
    let mut failed = None;
    requests.for_each(|args| {
        reply.clear();
        let ran = match commands.find(args).map(|found| found.handler) {
            Ok(Handler::Engine(command)) => Context {
                keyspace,
                reply: Encoder::new(&mut reply, RespVersion::V2),
                effects: &mut effects,
                now,
                wait: None,
            }
            .run(command, args)
            .is_ok(),
            Ok(Handler::Node(_)) | Err(_) => false,
        };
        if !ran && failed.is_none() {
            failed = Some(describe(args));
        }
    });
    failed.map_or(Ok(()), Err)
}

/// A request, for people: its first words.
fn describe(args: Args<'_>) -> String {
    let words = args.iter().take(3).map(String::from_utf8_lossy);
    words.collect::<Vec<_>>().join(" ")
}
