//! Rebuilding a collection by requests of limited size.

use crate::Effects;
use alloc::vec;

/// The most elements of one request.
const MOST_ELEMENTS: usize = 128;
/// A request with this many bytes of elements takes no more.
const ENOUGH_BYTES: usize = 64 * 1024;

/// Emits `command key element ...` as often as it takes for all of `elements`.
pub(crate) fn emit_in_batches<'a>(
    effects: &mut Effects,
    command: &[u8],
    key: &[u8],
    elements: impl Iterator<Item = &'a [u8]>,
) {
    let mut elements = elements.peekable();
    if !effects.wanted() {
        if elements.peek().is_some() {
            effects.emit(&[command, key]);
        }
        return;
    }
    let mut request = vec![command, key];
    let mut bytes = 0;
    for element in elements {
        request.push(element);
        bytes += element.len();
        if request.len() == MOST_ELEMENTS + 2 || bytes >= ENOUGH_BYTES {
            effects.emit(&request);
            request.truncate(2);
            bytes = 0;
        }
    }
    if request.len() > 2 {
        effects.emit(&request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn requests_are_limited_in_elements_and_bytes() {
        let mut effects = Effects::on();
        let small = [&b"x"[..]; 300];
        let large = vec![b'x'; 40_000];
        emit_in_batches(&mut effects, b"RPUSH", b"k", small.into_iter());
        emit_in_batches(&mut effects, b"RPUSH", b"k", [&large[..]; 3].into_iter());
        emit_in_batches(&mut effects, b"RPUSH", b"k", [].into_iter());
        let sizes: Vec<usize> = effects.iter().map(|args| args.len() - 2).collect();
        assert_eq!(sizes, [128, 128, 44, 2, 1]);
    }
}
