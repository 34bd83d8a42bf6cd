//! What `SORT` sorts.

use super::{Options, Order};
use crate::Context;
use crate::keyspace::{Entry, Value};
use crate::value::{List, Set, SortedSet};
use alloc::vec::Vec;
use core::ops::Range;
use kevy_proto::resp::ErrorReply;

/// The elements of the collection at `key`, none if there is no key: those wanted and no more if their order stays, else
/// all. A set that is stored in its own order, which is none, is sorted by text instead: the result then depends on the
/// set alone.
pub(super) fn load<'a>(
    cx: &mut Context<'_>,
    key: &[u8],
    mut options: Options<'a>,
) -> Result<(Vec<Vec<u8>>, Options<'a>), ErrorReply> {
    let Some(entry) = cx.keyspace.lookup(key, cx.now, cx.effects) else {
        return Ok((Vec::new(), options));
    };
    let Entry::Object(object) = entry else {
        return Err(ErrorReply::WrongType);
    };
    let unsorted = matches!(options.order, Order::AsTheyAre);
    let elements = match object.value() {
        Value::List(list) if unsorted => list_part(list, &options),
        Value::List(list) => list.iter().map(<[u8]>::to_vec).collect(),
        Value::SortedSet(set) if unsorted => sorted_set_part(set, &options),
        Value::SortedSet(set) => set.elements().map(|(member, _)| member.to_vec()).collect(),
        Value::Set(set) if unsorted && options.destination.is_none() => set_part(set, &options),
        Value::Set(set) => {
            if unsorted {
                options.order = Order::By {
                    pattern: None,
                    alphabetic: true,
                };
            }
            set.iter().map(|member| member.to_vec()).collect()
        }
        Value::String(_) | Value::Hash(_) | Value::Stream(_) => return Err(ErrorReply::WrongType),
    };
    Ok((elements, options))
}

fn list_part(list: &List, options: &Options<'_>) -> Vec<Vec<u8>> {
    let range = options.range(list.len());
    if !options.descending {
        return list.range(range).map(<[u8]>::to_vec).collect();
    }
    let part = list.range(from_end(range, list.len()));
    let mut part: Vec<Vec<u8>> = part.map(<[u8]>::to_vec).collect();
    part.reverse();
    part
}

fn sorted_set_part(set: &SortedSet, options: &Options<'_>) -> Vec<Vec<u8>> {
    let mut ranks = options.range(set.len());
    if options.descending {
        ranks = from_end(ranks, set.len());
    }
    let part = set.range(ranks, options.descending);
    part.map(|(member, _)| member.to_vec()).collect()
}

fn set_part(set: &Set, options: &Options<'_>) -> Vec<Vec<u8>> {
    let range = options.range(set.len());
    let part = set.iter().skip(range.start).take(range.len());
    part.map(|member| member.to_vec()).collect()
}

/// The same range counted from the other end.
fn from_end(range: Range<usize>, length: usize) -> Range<usize> {
    length - range.end..length - range.start
}
