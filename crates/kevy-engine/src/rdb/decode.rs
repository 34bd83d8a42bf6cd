//! From bytes to a value.

use super::element::Element;
use super::primitive::Reader;
use super::{Kind, intset, listpack, stream, ziplist, zipmap};
use crate::double;
use crate::keyspace::Value;
use crate::value::hash::{Field, LATEST_DEADLINE_MS};
use crate::value::sorted_set::Accumulator;
use crate::value::{Collection, EncodingLimits, End, Hash, List, Member, Set, Stream};
use alloc::borrow::Cow;

/// A value that was read.
#[derive(Clone, Debug)]
pub enum Decoded<'a> {
    /// A string.
    String(Cow<'a, [u8]>),
    /// Anything else; never empty, but for streams.
    Collection(Value),
}

/// Takes one element; `None`: it must not be there.
type One<'t> = &'t mut dyn FnMut(&[u8]) -> Option<()>;
/// Takes a field's name, its value and its deadline, 0 if it has none.
type Fields<'t> = &'t mut dyn FnMut(&[u8], &[u8], i64) -> Option<()>;
/// Takes two elements that belong together.
type Pair<'t> = &'t mut dyn FnMut(&[u8], &[u8]) -> Option<()>;
/// Takes a member and its score.
type Scored<'t> = &'t mut dyn FnMut(&[u8], f64) -> Option<()>;

/// Reads a value of `kind`, stored as `limits` say. `None`: it is damaged, or empty though only a stream may be.
pub fn decode<'a>(
    kind: Kind,
    reader: &mut Reader<'a>,
    limits: &EncodingLimits,
) -> Option<Decoded<'a>> {
    let value = match kind {
        Kind::String => return reader.string().map(Decoded::String),
        Kind::List => list(limits, |push| strings(reader, push)),
        Kind::ListZiplist => list(limits, |push| {
            elements(ziplist::open(&reader.string()?)?, push)
        }),
        Kind::ListZiplists => list(limits, |push| {
            (0..reader.length()?)
                .try_for_each(|_| elements(ziplist::open(&reader.string()?)?, &mut *push))
        }),
        Kind::ListListpacks => list(limits, |push| {
            (0..reader.length()?).try_for_each(|_| list_node(reader, &mut *push))
        }),
        Kind::Set => set(limits, |add| strings(reader, add)),
        Kind::SetIntset => set(limits, |add| {
            intset::open(&reader.string()?)?.try_for_each(|number| add(&Member::from(number)))
        }),
        Kind::SetListpack => set(limits, |add| {
            elements(listpack::open(&reader.string()?)?, add)
        }),
        Kind::Hash => hash(limits, |set| {
            (0..reader.length()?).try_for_each(|_| set(&reader.string()?, &reader.string()?, 0))
        }),
        Kind::HashZipmap => hash(limits, |set| {
            zipmap::open(&reader.string()?)?.try_for_each(|(name, value)| set(name, value, 0))
        }),
        Kind::HashZiplist => hash(limits, |set| {
            let mut set = |name: &[u8], value: &[u8]| set(name, value, 0);
            pairs(ziplist::open(&reader.string()?)?, &mut set)
        }),
        Kind::HashListpack => hash(limits, |set| {
            let mut set = |name: &[u8], value: &[u8]| set(name, value, 0);
            pairs(listpack::open(&reader.string()?)?, &mut set)
        }),
        Kind::HashDeadlines => hash(limits, |set| fields(reader, set)),
        Kind::HashDeadlinesListpack => hash(limits, |set| packed_fields(reader, set)),
        Kind::SortedSet => sorted_set(limits, |add| {
            (0..reader.length()?).try_for_each(|_| add(&reader.string()?, reader.double()?))
        }),
        Kind::SortedSetText => sorted_set(limits, |add| {
            (0..reader.length()?).try_for_each(|_| add(&reader.string()?, reader.double_text()?))
        }),
        Kind::SortedSetZiplist => sorted_set(limits, |add| {
            let mut add = |member: &[u8], score: &[u8]| add(member, double::parse(score)?);
            pairs(ziplist::open(&reader.string()?)?, &mut add)
        }),
        Kind::SortedSetListpack => sorted_set(limits, |add| {
            let mut add = |member: &[u8], score: &[u8]| add(member, double::parse(score)?);
            pairs(listpack::open(&reader.string()?)?, &mut add)
        }),
        Kind::Stream1 | Kind::Stream2 | Kind::Stream3 => {
            stream::decode(kind, reader).map(Stream::into_value)
        }
    };
    value.map(Decoded::Collection)
}

fn filled<T: Collection>(collection: T) -> Option<Value> {
    (!collection.is_vacant()).then(|| collection.into_value())
}

fn list(limits: &EncodingLimits, fill: impl FnOnce(One<'_>) -> Option<()>) -> Option<Value> {
    let mut list = List::default();
    fill(&mut |text| {
        list.push(End::Right, core::iter::once(text), limits);
        Some(())
    })?;
    filled(list)
}

fn set(limits: &EncodingLimits, fill: impl FnOnce(One<'_>) -> Option<()>) -> Option<Value> {
    let mut set = Set::default();
    fill(&mut |member| set.add(member, limits).then_some(()))?;
    filled(set)
}

fn hash(limits: &EncodingLimits, fill: impl FnOnce(Fields<'_>) -> Option<()>) -> Option<Value> {
    let mut hash = Hash::default();
    fill(&mut |name, value, deadline| {
        let field = Field {
            name,
            value,
            deadline: (deadline != 0).then_some(deadline),
        };
        let may_be = (0..=LATEST_DEADLINE_MS).contains(&deadline);
        (may_be && hash.set(field, i64::MIN, limits)).then_some(())
    })?;
    filled(hash)
}

fn sorted_set(
    limits: &EncodingLimits,
    fill: impl FnOnce(Scored<'_>) -> Option<()>,
) -> Option<Value> {
    let mut all = Accumulator::new(limits);
    fill(&mut |member, score| {
        let before = all.len();
        all.add(member, score, |old, _| old);
        (all.len() > before).then_some(())
    })?;
    filled(all.into_set())
}

/// A number of strings.
fn strings(reader: &mut Reader<'_>, take: One<'_>) -> Option<()> {
    (0..reader.length()?).try_for_each(|_| take(&reader.string()?))
}

/// The texts of elements.
fn elements<'a>(mut all: impl Iterator<Item = Element<'a>>, take: One<'_>) -> Option<()> {
    all.try_for_each(|element| element.with_text(&mut *take))
}

/// The texts of every two elements; `None` if one is left over.
fn pairs<'a>(mut all: impl Iterator<Item = Element<'a>>, take: Pair<'_>) -> Option<()> {
    while let Some(first) = all.next() {
        let second = all.next()?;
        first.with_text(|first| second.with_text(|second| take(first, second)))?;
    }
    Some(())
}

/// A node of a list: an element, or many in a listpack.
fn list_node(reader: &mut Reader<'_>, push: One<'_>) -> Option<()> {
    match reader.length()? {
        1 => push(&reader.string()?),
        2 => elements(listpack::open(&reader.string()?)?, push),
        _ => None,
    }
}

/// `[earliest deadline: 8][number]([deadline - the earliest + 1, 0 for none][name][value])..`
fn fields(reader: &mut Reader<'_>, set: Fields<'_>) -> Option<()> {
    let before_first = reader.milliseconds()?.checked_sub(1)?;
    (0..reader.length()?).try_for_each(|_| {
        let deadline = match reader.length()? {
            0 => 0,
            after => before_first.checked_add_unsigned(after)?,
        };
        set(&reader.string()?, &reader.string()?, deadline)
    })
}

/// `[earliest deadline: 8][listpack of name, value, deadline or 0, ..]`
fn packed_fields(reader: &mut Reader<'_>, set: Fields<'_>) -> Option<()> {
    reader.milliseconds()?;
    let bytes = reader.string()?;
    let mut elements = listpack::open(&bytes)?;
    while let Some(name) = elements.next() {
        let (value, deadline) = (elements.next()?, elements.next()?.integer()?);
        name.with_text(|name| value.with_text(|value| set(name, value, deadline)))?;
    }
    Some(())
}
