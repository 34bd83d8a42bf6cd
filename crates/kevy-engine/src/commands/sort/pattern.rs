//! The patterns of `SORT`: `weight_*` leads from the element `x` to the string at `weight_x`, `data_*->name` to the field
//! `name` of the hash at `data_x`, and `#` to the element itself.

use crate::Context;
use crate::keyspace::{Entry, Value};
use alloc::vec::Vec;

/// What `pattern` leads to from `element`, if it is there and of the right type.
pub(super) fn lookup(cx: &mut Context<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let (key, field) = target(pattern, element)?;
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let entry = cx.keyspace.lookup(&key, cx.now, cx.effects)?;
    match (entry, field) {
        (Entry::Object(object), Some(field)) => {
            if let Value::Hash(hash) = object.value() {
                hash.get(field, now_ms).map(|field| field.value.to_vec())
            } else {
                None
            }
        }
        (Entry::String(_), Some(_)) => None,
        (entry, None) => entry.string().ok().map(<[u8]>::to_vec),
    }
}

/// The key that `pattern` leads to from `element`, and the field of the hash there if it names one. None if it leads to no
/// other key.
pub(super) fn target<'a>(pattern: &'a [u8], element: &[u8]) -> Option<(Vec<u8>, Option<&'a [u8]>)> {
    let star = memchr::memchr(b'*', pattern)?;
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let (after, field) = split_field(after);
    Some(([before, element, after].concat(), field))
}

/// What stands before `->`, and the name of the field after it if there is one.
fn split_field(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let arrow = text.windows(2).position(|pair| pair == b"->");
    match arrow {
        Some(at) if at + 2 < text.len() => (&text[..at], Some(&text[at + 2..])),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_needs_a_name() {
        assert_eq!(split_field(b"_x->f"), (&b"_x"[..], Some(&b"f"[..])));
        assert_eq!(split_field(b"->f->g"), (&b""[..], Some(&b"f->g"[..])));
        assert_eq!(split_field(b"_x->"), (&b"_x->"[..], None));
        assert_eq!(split_field(b""), (&b""[..], None));
    }
}
