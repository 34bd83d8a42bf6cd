//! From the bytes of a file to its keys.

use super::super::{Kind, Reader, decode, intset, listpack, payload, ziplist, zipmap};
use super::extent::{self, Extent, Part};
use super::fault::{Fault, FaultKind, ModuleId};
use super::item::{Item, KeyItem, Step};
use super::{MAGIC, opcode};
use crate::value::EncodingLimits;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::mem;
use core::ops::{Range, RangeInclusive};
use kevy_proto::time::UnixMillis;

/// The longest record that is read: key and value of one key, as they are written. All of it is in memory at once.
pub const LONGEST_RECORD_BYTES: u64 = 8 << 30;

/// The versions that are read: those of Redis 2.6 to 7.4.
const VERSIONS: RangeInclusive<u16> = 6..=12;
/// Bytes of the magic and the version.
const HEADER_BYTES: usize = 9;
/// Bytes of the buffer that are kept from one record to the next.
const KEPT_BYTES: usize = 1 << 20;
/// The types of values that modules wrote before and since Redis 4.
const MODULE_1: u8 = 6;
const MODULE_2: u8 = 7;

/// Reads a file piece by piece: [`push`](Self::push) bytes, take [`next`](Self::next) until it wants more, and at the
/// file's end say so ([`end`](Self::end)).
#[derive(Debug)]
pub struct FileReader {
    limits: EncodingLimits,
    /// Bytes that have arrived; those before `start` are done with.
    buffer: Vec<u8>,
    start: usize,
    /// Where in the file `start` is.
    offset: u64,
    stage: Stage,
    /// Of all that is no longer in the buffer.
    digest: crc_fast::Digest,
    attributes: Attributes,
}

#[derive(Debug)]
enum Stage {
    /// Before the header.
    Header,
    /// Before a record.
    Between,
    /// In a record.
    Within(Record, Extent),
    /// After the end.
    Ended,
}

/// A record by what it is for.
#[derive(Clone, Copy, Debug)]
enum Record {
    /// About the next key.
    Attribute(Attribute),
    /// About no key.
    Plain(Plain),
    Key(Kind),
    /// A key and the number of the module that wrote its value; the rest is not looked for.
    ModuleValue,
    End,
}

#[derive(Clone, Copy, Debug)]
enum Attribute {
    DeadlineSeconds,
    DeadlineMs,
    Idle,
    Frequency,
}

#[derive(Clone, Copy, Debug)]
enum Plain {
    Aux,
    Database,
    Sizes,
    SlotSizes,
    Function,
    ModuleAux,
}

/// What records before a key say of it.
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    deadline: Option<UnixMillis>,
    idle_seconds: u32,
    frequency: Option<u8>,
}

impl FileReader {
    /// A reader at the start of a file. Values are stored as `limits` say.
    pub fn new(limits: EncodingLimits) -> Self {
        Self {
            limits,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            stage: Stage::Header,
            digest: crc_fast::Digest::new(payload::CHECKSUM),
            attributes: Attributes::default(),
        }
    }

    /// The next bytes of the file. Bytes that were not yet read are kept, so take all items first.
    pub fn push(&mut self, bytes: &[u8]) {
        // All that is done with at once: a checksum of many small parts takes its time.
        self.digest.update(&self.buffer[..self.start]);
        self.buffer.drain(..mem::take(&mut self.start));
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT_BYTES);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Where in the file the next record begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// There are no more bytes.
    ///
    /// # Errors
    /// [`FaultKind::Truncated`] if the file has not ended.
    pub fn end(&self) -> Result<(), Fault> {
        match self.stage {
            Stage::Ended => Ok(()),
            Stage::Header | Stage::Between | Stage::Within(..) => {
                Err(self.fault(FaultKind::Truncated))
            }
        }
    }

    /// The bytes pushed that come after the end of the file: an append-only file goes on there.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The next thing in the file. After an error the same error comes again, or any other.
    ///
    /// # Errors
    /// The file cannot be read on.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows from the reader, which no iterator can give"
    )]
    pub fn next(&mut self) -> Result<Step<'_>, Fault> {
        loop {
            match &mut self.stage {
                Stage::Ended => return Ok(Step::Ended),
                Stage::Header => return self.header(),
                Stage::Between => {
                    let Some(&first) = self.buffer.get(self.start) else {
                        return Ok(Step::NeedsMore);
                    };
                    let (record, extent) = self.begin(first)?;
                    self.stage = Stage::Within(record, extent);
                }
                Stage::Within(record, extent) => {
                    let record = *record;
                    let end = extent.advance(&self.buffer[self.start..]);
                    let (at_least, empty) = (extent.at_least(), extent.has_no_elements());
                    if at_least > LONGEST_RECORD_BYTES {
                        return Err(self.fault(FaultKind::TooLong(at_least)));
                    }
                    let Some(length) = end.map_err(|_| self.damage(record))? else {
                        return Ok(Step::NeedsMore);
                    };
                    if let Record::Attribute(attribute) = record {
                        self.take_attribute(attribute, length)?;
                    } else {
                        return self.item(record, length, empty).map(Step::Item);
                    }
                }
            }
        }
    }

    fn header(&mut self) -> Result<Step<'_>, Fault> {
        let bytes = &self.buffer[self.start..];
        let begun = bytes.len().min(MAGIC.len());
        if bytes[..begun] != MAGIC[..begun] {
            return Err(self.fault(FaultKind::NotRdb));
        }
        let Some(digits) = bytes.get(MAGIC.len()..HEADER_BYTES) else {
            return Ok(Step::NeedsMore);
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.fault(FaultKind::NotRdb));
        }
        let version = digits
            .iter()
            .fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        if !VERSIONS.contains(&version) {
            return Err(self.fault(FaultKind::Version(version)));
        }
        self.pass(HEADER_BYTES);
        Ok(Step::Item(Item::Version(version)))
    }

    /// What begins with the byte `first`.
    fn begin(&self, first: u8) -> Result<(Record, Extent), Fault> {
        const KEY: &[Part] = &[Part::Text];
        let (record, parts): (Record, &'static [Part]) = match first {
            opcode::AUX => (Record::Plain(Plain::Aux), &[Part::Text, Part::Text]),
            opcode::DATABASE => (Record::Plain(Plain::Database), &[Part::Number]),
            opcode::SIZES => (Record::Plain(Plain::Sizes), &[Part::Number, Part::Number]),
            opcode::SLOT_INFO => (
                Record::Plain(Plain::SlotSizes),
                &[Part::Number, Part::Number, Part::Number],
            ),
            opcode::FUNCTION => (Record::Plain(Plain::Function), &[Part::Text]),
            opcode::MODULE_AUX => (
                Record::Plain(Plain::ModuleAux),
                &[Part::Number, Part::ModuleData],
            ),
            opcode::DEADLINE_SECONDS => (
                Record::Attribute(Attribute::DeadlineSeconds),
                &[Part::Bytes(4)],
            ),
            opcode::DEADLINE_MS => (Record::Attribute(Attribute::DeadlineMs), &[Part::Bytes(8)]),
            opcode::IDLE => (Record::Attribute(Attribute::Idle), &[Part::Number]),
            opcode::FREQUENCY => (Record::Attribute(Attribute::Frequency), &[Part::Bytes(1)]),
            opcode::END => (Record::End, &[Part::Bytes(8)]),
            MODULE_1 => return Err(self.fault(FaultKind::ModuleValue(None))),
            MODULE_2 => (Record::ModuleValue, &[Part::Text, Part::Number]),
            _ => {
                let unknown = || self.fault(FaultKind::UnknownRecord(first));
                let kind = Kind::from_byte(first).ok_or_else(unknown)?;
                let extent = Extent::new(&[KEY, extent::of_value(kind)]);
                return Ok((Record::Key(kind), extent));
            }
        };
        Ok((record, Extent::new(&[parts])))
    }

    /// Takes a record of `length` bytes that says something of the next key.
    fn take_attribute(&mut self, attribute: Attribute, length: usize) -> Result<(), Fault> {
        let mut reader = self.reader(self.start..self.start + length);
        let mut all = self.attributes;
        let understood = match attribute {
            Attribute::DeadlineSeconds => reader.array().map(|bytes| {
                let seconds = i64::from(i32::from_le_bytes(bytes));
                all.deadline = Some(UnixMillis(seconds * 1000));
            }),
            Attribute::DeadlineMs => reader.array().map(|bytes| {
                all.deadline = Some(UnixMillis(i64::from_le_bytes(bytes)));
            }),
            Attribute::Idle => reader.length().map(|seconds| {
                all.idle_seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            }),
            Attribute::Frequency => reader.byte().map(|count| all.frequency = Some(count)),
        };
        understood.ok_or_else(|| self.fault(FaultKind::Damaged))?;
        self.attributes = all;
        self.pass(length);
        Ok(())
    }

    /// Takes any other record of `length` bytes.
    fn item(&mut self, record: Record, length: usize, empty: bool) -> Result<Item<'_>, Fault> {
        let offset = self.offset;
        let range = self.start..self.start + length;
        let item = match record {
            Record::End => return self.last(length),
            Record::Key(kind) => {
                let attributes = mem::take(&mut self.attributes);
                self.pass(length);
                let mut reader = self.reader(range.clone());
                match self.key(kind, reader.clone(), attributes, offset) {
                    Some(key) => Some(Item::Key(key)),
                    None if empty || is_vacant(kind, reader.clone()) => {
                        reader.string().map(Item::EmptyKey)
                    }
                    None => None,
                }
            }
            Record::Plain(record) => {
                self.pass(length);
                plain(record, self.reader(range.clone()))
            }
            Record::Attribute(_) | Record::ModuleValue => None,
        };
        item.ok_or_else(|| self.fault_in(record, range, offset))
    }

    fn key<'a>(
        &'a self,
        kind: Kind,
        mut reader: Reader<'a>,
        attributes: Attributes,
        offset: u64,
    ) -> Option<KeyItem<'a>> {
        let key = reader.string()?;
        let value = decode(kind, &mut reader, &self.limits)?;
        let Attributes {
            deadline,
            idle_seconds,
            frequency,
        } = attributes;
        reader.rest().is_empty().then_some(KeyItem {
            key,
            value,
            deadline,
            idle_seconds,
            frequency,
            offset,
        })
    }

    /// The end, of `length` bytes.
    fn last(&mut self, length: usize) -> Result<Item<'_>, Fault> {
        let mut digest = self.digest;
        digest.update(&self.buffer[..=self.start]);
        let found = digest.finalize();
        let sum = self.reader(self.start..self.start + length).array();
        let expected = u64::from_le_bytes(sum.unwrap_or_default());
        if expected != 0 && expected != found {
            return Err(self.fault(FaultKind::Checksum { expected, found }));
        }
        self.pass(length);
        self.stage = Stage::Ended;
        Ok(Item::End {
            checked: expected != 0,
        })
    }

    /// Reads what a record holds behind its first byte.
    fn reader(&self, record: Range<usize>) -> Reader<'_> {
        Reader::new(&self.buffer[record.start + 1..record.end])
    }

    /// Is done with `length` bytes, which are a record or the header.
    fn pass(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
        self.stage = Stage::Between;
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        Fault {
            offset: self.offset,
            key: None,
            kind,
        }
    }

    /// A record that has a header that cannot be.
    fn damage(&self, record: Record) -> Fault {
        self.fault_in(record, self.start..self.buffer.len(), self.offset)
    }

    fn fault_in(&self, record: Record, range: Range<usize>, offset: u64) -> Fault {
        let mut reader = self.reader(range);
        let (key, kind) = match record {
            Record::Key(kind) => (reader.string(), FaultKind::DamagedValue(kind)),
            Record::ModuleValue => {
                let key = reader.string();
                let module = key.is_some().then(|| reader.length()).flatten();
                let module = module.map(ModuleId);
                (key, FaultKind::ModuleValue(module))
            }
            Record::Attribute(_) | Record::Plain(_) | Record::End => (None, FaultKind::Damaged),
        };
        Fault {
            offset,
            key: key.map(Cow::into_owned),
            kind,
        }
    }
}

/// Whether what `reader` reads is a key, and a value in one string that packs no elements.
fn is_vacant(kind: Kind, mut reader: Reader<'_>) -> bool {
    /// Bytes of an empty ziplist, the longest of them.
    const MOST_BYTES: usize = 11;
    let packed = reader.string().and_then(|_| reader.string());
    let Some(packed) = packed.filter(|packed| packed.len() <= MOST_BYTES) else {
        return false;
    };
    match kind {
        Kind::ListZiplist | Kind::HashZiplist | Kind::SortedSetZiplist => {
            ziplist::open(&packed).is_some_and(|mut all| all.next().is_none())
        }
        Kind::SetListpack | Kind::HashListpack | Kind::SortedSetListpack => {
            listpack::open(&packed).is_some_and(|mut all| all.next().is_none())
        }
        Kind::SetIntset => intset::open(&packed).is_some_and(|mut all| all.next().is_none()),
        Kind::HashZipmap => zipmap::open(&packed).is_some_and(|mut all| all.next().is_none()),
        Kind::String
        | Kind::List
        | Kind::ListZiplists
        | Kind::ListListpacks
        | Kind::Set
        | Kind::SortedSet
        | Kind::SortedSetText
        | Kind::Hash
        | Kind::HashDeadlines
        | Kind::HashDeadlinesListpack
        | Kind::Stream1
        | Kind::Stream2
        | Kind::Stream3 => false,
    }
}

/// What a record says that is about no key.
fn plain(record: Plain, mut reader: Reader<'_>) -> Option<Item<'_>> {
    Some(match record {
        Plain::Aux => Item::Aux {
            name: reader.string()?,
            value: reader.string()?,
        },
        Plain::Database => Item::Database(reader.length()?),
        Plain::Sizes => Item::Sizes {
            keys: reader.length()?,
            with_deadline: reader.length()?,
        },
        Plain::SlotSizes => Item::SlotSizes {
            slot: reader.length()?,
            keys: reader.length()?,
            with_deadline: reader.length()?,
        },
        Plain::Function => Item::Function(reader.string()?),
        Plain::ModuleAux => Item::ModuleAux(ModuleId(reader.length()?)),
    })
}
