//! Sorted sets: changed ([`add`], [`remove`], [`pop`]), read ([`get`], [`range`], [`random`], [`scan`]) and combined
//! ([`combine`]).

pub(super) mod add;
pub(super) mod blocking;
mod bounds;
pub(super) mod combine;
pub(super) mod get;
pub(super) mod pop;
pub(super) mod random;
pub(super) mod range;
pub(super) mod remove;
pub(super) mod scan;
mod source;

use crate::value::SortedSet;
use crate::value::sorted_set::emit_additions;
use crate::{Context, EventClasses};
use kevy_proto::resp::{Encoder, RespVersion};

/// Makes `key` hold `set` and nothing else, tells the log, notes `event`, and gives the number of members; an empty set
/// removes the key.
pub(super) fn store(
    cx: &mut Context<'_>,
    key: &[u8],
    set: SortedSet,
    event: &'static str,
) -> usize {
    let before = cx.keyspace.remove(key, cx.now, cx.effects);
    if before {
        cx.effects.emit(&[b"DEL", key]);
    }
    let count = set.len();
    emit_additions(key, set.elements(), cx.effects);
    let now = cx.keyspace.set_collection(key, set, cx.now, cx.effects);
    let event = (EventClasses::SORTED_SET, event);
    cx.keyspace.note_stored(event, key, (before, now));
    count
}

/// Replies `count` members, each followed by its score if `with_scores`: in RESP3 as pairs.
fn reply_elements<'a>(
    reply: &mut Encoder<'_>,
    count: usize,
    elements: impl Iterator<Item = (&'a [u8], f64)>,
    with_scores: bool,
) {
    let in_pairs = with_scores && reply.version() == RespVersion::V3;
    let flat = with_scores && !in_pairs;
    reply.array(if flat { 2 * count } else { count });
    for (member, score) in elements {
        if in_pairs {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    }
}
