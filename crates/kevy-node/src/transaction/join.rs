//! Makes one reply of the replies of several shards.

use crate::message::Partial;
use bytes::BytesMut;
use kevy_engine::Command;
use kevy_proto::command::{Join, Keys, Placement};
use kevy_proto::resp::{Args, Encoder, RespVersion, reply_length};
use kevy_proto::rng::Rng;

/// Appends to `out` what the parts' replies amount to. An error of any part is the whole command's.
///
/// Each part comes with the positions of its keys.
pub(super) fn join(
    command: &Command,
    args: Args<'_>,
    parts: &[(Vec<usize>, Partial)],
    rng: &mut Rng,
    version: RespVersion,
    out: &mut BytesMut,
) {
    if let Some((_, failed)) = parts
        .iter()
        .find(|(_, part)| part.reply.first() == Some(&b'-'))
    {
        return out.extend_from_slice(&failed.reply);
    }
    let how = match command.placement {
        Placement::Split(how) | Placement::EveryShard(how) => how,
        Placement::Together | Placement::Cursor(_) | Placement::Session | Placement::Node => {
            Join::Same
        }
    };
    let replies = parts.iter().map(|(_, part)| &part.reply[..]);
    match how {
        Join::Same => out.extend_from_slice(replies.into_iter().next().unwrap_or_default()),
        Join::Sum => Encoder::new(out, version).integer(replies.map(number).sum()),
        Join::Concat => concatenate(replies, version, out),
        Join::Weighted => out.extend_from_slice(drawn(parts, rng).unwrap_or_default()),
        Join::ByPosition => by_position(command.keys, args, parts, version, out),
    }
}

/// Puts the elements of the parts' arrays at the places of their keys.
fn by_position(
    keys: Keys,
    args: Args<'_>,
    parts: &[(Vec<usize>, Partial)],
    version: RespVersion,
    out: &mut BytesMut,
) {
    let mut positions = Vec::new();
    keys.positions(args, &mut positions);
    let mut elements: Vec<&[u8]> = vec![&[]; positions.len()];
    for (own, part) in parts {
        for (position, element) in own.iter().zip(Elements::of(&part.reply)) {
            if let Ok(place) = positions.binary_search(position) {
                elements[place] = element;
            }
        }
    }
    Encoder::new(out, version).array(elements.len());
    elements
        .into_iter()
        .for_each(|element| out.extend_from_slice(element));
}

/// The number that an encoded integer or the header of an encoded aggregate says.
fn number(reply: &[u8]) -> i64 {
    let line = reply
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let digits = line
        .get(1..)
        .and_then(|digits| std::str::from_utf8(digits).ok());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

fn concatenate<'a>(
    replies: impl Iterator<Item = &'a [u8]> + Clone,
    version: RespVersion,
    out: &mut BytesMut,
) {
    let total: i64 = replies.clone().map(number).sum();
    Encoder::new(out, version).array(total.max(0) as usize);
    replies.for_each(|reply| out.extend_from_slice(body(reply)));
}

/// An encoded aggregate without its header line.
fn body(reply: &[u8]) -> &[u8] {
    let header = reply
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(reply.len(), |end| end + 1);
    &reply[header..]
}

/// One part, drawn with the number of its shard's keys as its weight.
fn drawn<'a>(parts: &'a [(Vec<usize>, Partial)], rng: &mut Rng) -> Option<&'a [u8]> {
    let total: u64 = parts.iter().map(|(_, part)| part.keys as u64).sum();
    let mut ticket = rng.below(total);
    for (_, part) in parts {
        match ticket.checked_sub(part.keys as u64) {
            Some(left) => ticket = left,
            None => return Some(&part.reply),
        }
    }
    parts.first().map(|(_, part)| &part.reply[..])
}

/// The encoded elements of an encoded array.
struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    fn of(reply: &'a [u8]) -> Self {
        Self { rest: body(reply) }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = reply_length(self.rest).ok()??;
        let (element, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(element)
    }
}
