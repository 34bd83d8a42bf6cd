//! How `SORT` orders elements.

use super::{Options, Order, pattern};
use crate::{Context, double};
use alloc::vec::Vec;
use core::cmp::Ordering;
use kevy_proto::resp::ErrorReply;

/// What an element is ordered by.
enum Weight {
    Number(f64),
    /// `None` comes first.
    Text(Option<Vec<u8>>),
    /// By the element itself.
    Own,
}

/// The wanted elements in the order that `options` ask for. Takes time like N + M log M for M of N wanted.
///
/// # Errors
/// If a weight is no number although numbers are asked for.
pub(super) fn ordered(
    cx: &mut Context<'_>,
    elements: Vec<Vec<u8>>,
    options: &Options<'_>,
) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let mut items = Vec::with_capacity(elements.len());
    for (index, element) in elements.into_iter().enumerate() {
        let weight = weight(cx, &element, options.order)?;
        items.push((weight, element, index));
    }
    let order = |a: &Item, b: &Item| {
        let order = compare(a, b);
        let order = if options.descending {
            order.reverse()
        } else {
            order
        };
        // What is equal stays in its order.
        order.then(a.2.cmp(&b.2))
    };
    let range = options.range(items.len());
    if range.is_empty() {
        return Ok(Vec::new());
    }
    if range.end < items.len() {
        items.select_nth_unstable_by(range.end, order);
        items.truncate(range.end);
    }
    if range.start > 0 {
        items.select_nth_unstable_by(range.start, order);
        items.drain(..range.start);
    }
    items.sort_unstable_by(order);
    Ok(items.into_iter().map(|(_, element, _)| element).collect())
}

/// A weight, its element, and the element's place before.
type Item = (Weight, Vec<u8>, usize);

fn compare(a: &Item, b: &Item) -> Ordering {
    match (&a.0, &b.0) {
        (Weight::Number(x), Weight::Number(y)) => x
            .partial_cmp(y)
            .unwrap_or(Ordering::Equal)
            // Numbers alone would leave the order of equals open.
            .then_with(|| a.1.cmp(&b.1)),
        (Weight::Text(x), Weight::Text(y)) => x.cmp(y),
        _ => a.1.cmp(&b.1),
    }
}

fn weight(cx: &mut Context<'_>, element: &[u8], order: Order<'_>) -> Result<Weight, ErrorReply> {
    let (pattern, alphabetic) = match order {
        Order::AsTheyAre => (None, true),
        Order::By {
            pattern,
            alphabetic,
        } => (pattern, alphabetic),
    };
    let looked_up = pattern.map(|pattern| pattern::lookup(cx, pattern, element));
    match (looked_up, alphabetic) {
        (None, true) => Ok(Weight::Own),
        (Some(text), true) => Ok(Weight::Text(text)),
        (None, false) => number(element).map(Weight::Number),
        (Some(None), false) => Ok(Weight::Number(0.0)),
        (Some(Some(text)), false) => number(&text).map(Weight::Number),
    }
}

/// A number as C's `strtod` reads it for `SORT`: after spaces, up to a zero byte; nothing is 0.
fn number(text: &[u8]) -> Result<f64, ErrorReply> {
    let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
    if text.is_empty() {
        return Ok(0.0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte));
    start
        .and_then(|start| double::parse(&text[start..]))
        .filter(|number| *number == 0.0 || number.abs() >= f64::MIN_POSITIVE)
        .ok_or(ErrorReply::text(
            "ERR One or more scores can't be converted into double",
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value) in [
            (&b""[..], 0.0),
            (b"1.5", 1.5),
            (b" \t5", 5.0),
            (b"0x1p-3", 0.125),
            (b"1\0abc", 1.0),
            (b"-inf", f64::NEG_INFINITY),
        ] {
            assert_eq!(number(text), Ok(value));
        }
        for text in [
            &b" "[..],
            b"1 ",
            b"nan",
            b"1e400",
            b"1e-310",
            b"1e-400",
            b"x",
        ] {
            assert!(number(text).is_err(), "{text:?}");
        }
    }
}
