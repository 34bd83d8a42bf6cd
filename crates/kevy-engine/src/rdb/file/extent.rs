//! Where a record ends, found while its bytes arrive: what it is made of is known, what it says is not looked at.
//!
//! Each header is looked at once, and nothing is kept but a place in a small tree, so that the work is linear in the bytes
//! however they are cut.

use super::super::{Kind, Reader};
use alloc::vec::Vec;

/// A part of a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// A length or another number.
    Number,
    /// A string, however it is written.
    Text,
    /// A double as text.
    DoubleText,
    /// So many bytes.
    Bytes(u8),
    /// A number, and these parts so many times.
    Each(&'static [Part]),
    /// What a module wrote: an opcode and a datum each, up to opcode 0.
    ModuleData,
}

use Part::{Bytes, DoubleText, Each, ModuleData, Number, Text};

const ID: Part = Bytes(16);
const TIME: Part = Bytes(8);
const NODES: Part = Each(&[Text, Text]);
const PENDING: Part = Each(&[ID, TIME, Number]);
/// Consumers without, and with, the time when they were active.
const CONSUMERS: Part = Each(&[Text, TIME, Each(&[ID])]);
const ACTIVE_CONSUMERS: Part = Each(&[Text, TIME, TIME, Each(&[ID])]);

/// The parts of a value.
pub(super) fn of_value(kind: Kind) -> &'static [Part] {
    match kind {
        Kind::String
        | Kind::HashZipmap
        | Kind::ListZiplist
        | Kind::SetIntset
        | Kind::SetListpack
        | Kind::SortedSetZiplist
        | Kind::SortedSetListpack
        | Kind::HashZiplist
        | Kind::HashListpack => &[Text],
        Kind::List | Kind::Set | Kind::ListZiplists => &[Each(&[Text])],
        Kind::ListListpacks => &[Each(&[Number, Text])],
        Kind::Hash => &[Each(&[Text, Text])],
        Kind::HashDeadlines => &[TIME, Each(&[Number, Text, Text])],
        Kind::HashDeadlinesListpack => &[TIME, Text],
        Kind::SortedSet => &[Each(&[Text, Bytes(8)])],
        Kind::SortedSetText => &[Each(&[Text, DoubleText])],
        Kind::Stream1 => &[
            NODES,
            Number,
            Number,
            Number,
            Each(&[Text, Number, Number, PENDING, CONSUMERS]),
        ],
        Kind::Stream2 => &[
            NODES,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Each(&[Text, Number, Number, Number, PENDING, CONSUMERS]),
        ],
        Kind::Stream3 => &[
            NODES,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Number,
            Each(&[Text, Number, Number, Number, PENDING, ACTIVE_CONSUMERS]),
        ],
    }
}

/// The data that may follow an opcode of a module: signed, unsigned, float, double, string.
const MODULE_DATA: [&[Part]; 5] = [&[Number], &[Number], &[Bytes(4)], &[Bytes(8)], &[Text]];

/// A header that cannot be: the record is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// How far a record's end was looked for.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    frames: Vec<Frame>,
    /// Bytes of the record that are accounted for; they may not have arrived yet.
    passed: u64,
    /// Whether something announced no elements where only a stream may: see [`Extent::has_no_elements`].
    first_count: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    parts: &'static [Part],
    at: usize,
    /// This one included; at least 1.
    rounds: u64,
}

impl Frame {
    fn new(parts: &'static [Part], rounds: u64) -> Self {
        Self {
            parts,
            at: 0,
            rounds,
        }
    }
}

impl Extent {
    /// A record of one byte and then these parts, one list after the other.
    pub(super) fn new(parts: &[&'static [Part]]) -> Self {
        Self {
            frames: parts.iter().rev().map(|p| Frame::new(p, 1)).collect(),
            passed: 1,
            first_count: None,
        }
    }

    /// Bytes that the record has at least.
    pub(super) fn at_least(&self) -> u64 {
        self.passed
    }

    /// Whether the first list of elements in the record has none.
    pub(super) fn has_no_elements(&self) -> bool {
        self.first_count == Some(0)
    }

    /// Looks at the record, which begins where `bytes` begin: its length if all of it has arrived.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        while let Some(frame) = self.frames.last_mut() {
            let Some(&part) = frame.parts.get(frame.at) else {
                frame.at = 0;
                frame.rounds -= 1;
                if frame.rounds == 0 {
                    self.frames.pop();
                }
                continue;
            };
            let rest = usize::try_from(self.passed)
                .ok()
                .and_then(|passed| bytes.get(passed..));
            let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
                return Ok(None);
            };
            if !self.pass(part, rest)? {
                return Ok(None);
            }
        }
        let length = usize::try_from(self.passed).ok();
        Ok(length.filter(|length| *length <= bytes.len()))
    }

    /// Accounts for `part`, which begins where `rest` begins; says whether enough of it has arrived to know its length.
    fn pass(&mut self, part: Part, rest: &[u8]) -> Result<bool, Malformed> {
        let (length, inside) = match part {
            Number => (number(rest)?.map(|(_, length)| length), None),
            Text => (text(rest)?, None),
            DoubleText => (Some(double_text(rest)), None),
            Bytes(count) => (Some(count.into()), None),
            Each(parts) => match number(rest)? {
                None => (None, None),
                Some((count, length)) => {
                    self.first_count.get_or_insert(count);
                    (Some(length), Some(Frame::new(parts, count)))
                }
            },
            ModuleData => match number(rest)? {
                None => (None, None),
                Some((0, length)) => (Some(length), None),
                Some((datum, length)) => {
                    let parts = MODULE_DATA.get((datum - 1) as usize);
                    let datum = Frame::new(parts.ok_or(Malformed)?, 1);
                    return Ok(self.enter(length, datum));
                }
            },
        };
        let Some(length) = length else {
            return Ok(false);
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.at += 1;
        }
        self.passed = self.passed.saturating_add(length);
        self.frames
            .extend(inside.filter(|inside| inside.rounds > 0));
        Ok(true)
    }

    /// Goes into `frame` and comes back to the same part.
    fn enter(&mut self, length: u64, frame: Frame) -> bool {
        self.passed = self.passed.saturating_add(length);
        self.frames.push(frame);
        true
    }
}

/// A number and how many bytes it takes, if they have arrived.
fn number(bytes: &[u8]) -> Result<Option<(u64, u64)>, Malformed> {
    let Some(first) = bytes.first() else {
        return Ok(None);
    };
    let length: usize = match first {
        0x00..=0x3f => 1,
        0x40..=0x7f => 2,
        0x80 => 5,
        0x81 => 9,
        0x82..=0xff => return Err(Malformed),
    };
    let Some(bytes) = bytes.get(..length) else {
        return Ok(None);
    };
    let number = Reader::new(bytes).length().ok_or(Malformed)?;
    Ok(Some((number, length as u64)))
}

/// How many bytes a string takes, if that can be told yet.
fn text(bytes: &[u8]) -> Result<Option<u64>, Malformed> {
    match bytes.first() {
        None => Ok(None),
        Some(0xc0) => Ok(Some(2)),
        Some(0xc1) => Ok(Some(3)),
        Some(0xc2) => Ok(Some(5)),
        Some(0xc3) => packed(&bytes[1..]),
        Some(_) => {
            let whole = |(count, header): (u64, u64)| header.saturating_add(count);
            Ok(number(bytes)?.map(whole))
        }
    }
}

/// The same for a compressed string, whose first byte is not in `bytes`.
fn packed(bytes: &[u8]) -> Result<Option<u64>, Malformed> {
    let Some((count, first)) = number(bytes)? else {
        return Ok(None);
    };
    let rest = bytes.get(first as usize..).unwrap_or_default();
    let second = number(rest)?;
    Ok(second.map(|(_, second)| count.saturating_add(1 + first + second)))
}

/// How many bytes a double as text takes that begins where `bytes`, which are some, begin.
fn double_text(bytes: &[u8]) -> u64 {
    match bytes.first() {
        Some(&length @ 0..=252) => 1 + u64::from(length),
        Some(253..=255) | None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parts: &[&'static [Part]], bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut whole = Extent::new(parts);
        let at_once = whole.advance(bytes);
        let mut extent = Extent::new(parts);
        let mut in_bytes = Ok(None);
        for end in 1..=bytes.len() {
            in_bytes = extent.advance(&bytes[..end]);
            if in_bytes != Ok(None) {
                break;
            }
        }
        assert_eq!(at_once, in_bytes);
        at_once
    }

    #[test]
    fn a_record_ends_where_its_parts_end() {
        assert_eq!(found(&[&[Text]], b"\0\x03abcd"), Ok(Some(5)));
        assert_eq!(found(&[&[Text]], b"\0\xc1abcd"), Ok(Some(4)));
        assert_eq!(found(&[&[Text]], b"\0\xc3\x02\x40\x40abcd"), Ok(Some(7)));
        assert_eq!(
            found(&[&[Text], &[Each(&[Text])]], b"\0\x01k\0x"),
            Ok(Some(4))
        );
        assert_eq!(
            found(&[&[Each(&[Number, Text])]], b"\0\x02\x01\x01a\x02\0"),
            Ok(Some(7))
        );
        assert_eq!(
            found(&[&[DoubleText, DoubleText]], b"\0\xff\x02ab"),
            Ok(Some(5))
        );
        assert_eq!(
            found(&[&[ModuleData]], b"\0\x02\x07\x05\x01a\x03ffff\0x"),
            Ok(Some(12))
        );
        assert_eq!(found(&[&[TIME]], b"\x01234567"), Ok(None));
    }

    #[test]
    fn what_is_announced_is_known_before_it_arrives() {
        let mut extent = Extent::new(&[&[Text]]);
        assert_eq!(extent.advance(b"\0\x81\0\0\x01\0\0\0\0\0"), Ok(None));
        assert_eq!(extent.at_least(), 10 + (1 << 40));
        let mut extent = Extent::new(&[&[Text, Text]]);
        assert_eq!(
            extent.advance(b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff"),
            Ok(None)
        );
        assert_eq!(extent.at_least(), u64::MAX);
    }

    #[test]
    fn headers_that_cannot_be_are_damage() {
        assert_eq!(found(&[&[Text]], b"\0\xc4"), Err(Malformed));
        assert_eq!(found(&[&[Number]], b"\0\xc0"), Err(Malformed));
        assert_eq!(found(&[&[ModuleData]], b"\0\x06"), Err(Malformed));
    }
}
