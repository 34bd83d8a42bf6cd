//! Effects that add members: several of bounded size where there are many.

use crate::Effects;
use alloc::vec::Vec;
use kevy_proto::resp::DoubleBuffer;

/// Members that one effect adds at most.
const MEMBERS: usize = 128;
/// Bytes of members after which an effect ends.
const MEMBER_BYTES: usize = 64 * 1024;

/// Emits `ZADD`s that give `elements` to the sorted set at `key`.
pub fn emit_additions<'a>(
    key: &[u8],
    elements: impl Iterator<Item = (&'a [u8], f64)>,
    effects: &mut Effects,
) {
    let mut chunk: Vec<(&[u8], f64)> = Vec::new();
    let mut bytes = 0;
    for (member, score) in elements {
        chunk.push((member, score));
        bytes += member.len();
        if chunk.len() == MEMBERS || bytes > MEMBER_BYTES {
            emit_addition(key, &chunk, effects);
            chunk.clear();
            bytes = 0;
        }
    }
    emit_addition(key, &chunk, effects);
}

/// Emits one `ZADD`; nothing if there are no elements.
fn emit_addition(key: &[u8], elements: &[(&[u8], f64)], effects: &mut Effects) {
    match elements {
        [] => {}
        [(member, score)] => {
            let mut text = DoubleBuffer::new();
            let score = text.format(*score).as_bytes();
            effects.emit(&[b"ZADD", key, score, member]);
        }
        _ if effects.wanted() => {
            let mut texts = alloc::vec![DoubleBuffer::new(); elements.len()];
            let mut request: Vec<&[u8]> = Vec::with_capacity(2 + 2 * elements.len());
            request.extend([&b"ZADD"[..], key]);
            for ((member, score), text) in elements.iter().zip(&mut texts) {
                request.extend([text.format(*score).as_bytes(), member]);
            }
            effects.emit(&request);
        }
        // Counted as a change.
        _ => effects.emit(&[]),
    }
}

/// Emits `ZREM`s that take `members` out of the sorted set at `key`.
pub fn emit_removals<'a>(
    key: &[u8],
    members: impl Iterator<Item = &'a [u8]>,
    effects: &mut Effects,
) {
    let mut request: Vec<&[u8]> = Vec::new();
    let mut bytes = 0;
    for member in members {
        if request.is_empty() {
            request.extend([&b"ZREM"[..], key]);
        }
        request.push(member);
        bytes += member.len();
        if request.len() == MEMBERS + 2 || bytes > MEMBER_BYTES {
            effects.emit(&request);
            request.clear();
            bytes = 0;
        }
    }
    if !request.is_empty() {
        effects.emit(&request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::resp::Args;

    #[test]
    fn effects_have_a_bounded_size() {
        let mut effects = Effects::on();
        let members: Vec<[u8; 2]> = (0..300_u16).map(u16::to_be_bytes).collect();
        emit_additions(b"k", members.iter().map(|m| (&m[..], 1.0)), &mut effects);
        emit_removals(b"k", members.iter().map(|m| &m[..]), &mut effects);
        let lengths: Vec<usize> = effects.iter().map(Args::len).collect();
        assert_eq!(lengths, [258, 258, 90, 130, 130, 46]);

        effects.clear();
        let long = alloc::vec![b'x'; MEMBER_BYTES];
        let members = [&long[..], b"a", b"b", b"c"];
        emit_additions(b"k", members.iter().map(|m| (*m, 1.0)), &mut effects);
        emit_removals(b"k", members.into_iter(), &mut effects);
        let lengths: Vec<usize> = effects.iter().map(Args::len).collect();
        assert_eq!(lengths, [6, 6, 4, 4]);
    }

    #[test]
    fn changes_are_counted_when_nobody_wants_effects() {
        let mut effects = Effects::off();
        emit_additions(
            b"k",
            [(&b"a"[..], 1.0), (b"b", 2.0)].into_iter(),
            &mut effects,
        );
        emit_additions(b"k", [].into_iter(), &mut effects);
        emit_removals(b"k", [&b"a"[..]].into_iter(), &mut effects);
        assert_eq!(effects.changes(), 2);
    }
}
