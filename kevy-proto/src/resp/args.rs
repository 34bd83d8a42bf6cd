//! The arguments of one request, as views into the bytes they arrived in.

use alloc::vec::Vec;
use bytes::BytesMut;

/// Where one argument lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Index of the first byte.
    pub start: usize,
    /// Number of bytes.
    pub length: usize,
}

/// The arguments of one request, the command's name first. Copying it copies two references.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    /// Invariant: every span lies within `bytes`.
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Views `spans` of `bytes`. Every span must lie within `bytes`.
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        debug_assert!(
            spans
                .iter()
                .all(|span| span.start + span.length <= bytes.len()),
            "span outside of its buffer"
        );
        Self { bytes, spans }
    }

    /// Number of arguments, names included.
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Whether there is no argument at all.
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `position`, if there is one.
    pub fn get(self, position: usize) -> Option<&'a [u8]> {
        let span = self.spans.get(position)?;
        self.bytes.get(span.start..span.start + span.length)
    }

    /// The argument at `position`; empty if there is none. For positions that the arity guarantees.
    pub fn at(self, position: usize) -> &'a [u8] {
        self.get(position).unwrap_or_default()
    }

    /// All arguments in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone {
        let bytes = self.bytes;
        self.spans
            .iter()
            .map(move |span| &bytes[span.start..span.start + span.length])
    }

    /// The arguments from `position` on.
    #[must_use]
    pub fn skip(self, position: usize) -> Self {
        Self {
            bytes: self.bytes,
            spans: self.spans.get(position..).unwrap_or_default(),
        }
    }
}

/// A request that owns its bytes: for requests that wait, or travel to another shard.
#[derive(Clone, Debug, Default)]
pub struct RequestBuffer {
    bytes: BytesMut,
    /// Invariant: every span lies within `bytes`.
    spans: Vec<Span>,
}

impl RequestBuffer {
    /// A request without arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies `args` into a buffer of its own.
    pub fn from_args(args: Args<'_>) -> Self {
        let mut request = Self::new();
        args.iter().for_each(|arg| request.push(arg));
        request
    }

    /// Builds a request from its arguments.
    pub fn from_slices<'a>(args: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut request = Self::new();
        args.into_iter().for_each(|arg| request.push(arg));
        request
    }

    /// Appends one argument.
    pub fn push(&mut self, arg: &[u8]) {
        self.spans.push(Span {
            start: self.bytes.len(),
            length: arg.len(),
        });
        self.bytes.extend_from_slice(arg);
    }

    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// Bytes held, for limits.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_in_order() {
        let request = RequestBuffer::from_slices([&b"set"[..], b"", b"value"]);
        let args = request.args();
        assert_eq!(args.len(), 3);
        assert_eq!(
            args.iter().collect::<Vec<_>>(),
            [&b"set"[..], b"", b"value"]
        );
        assert_eq!(args.get(3), None);
        assert_eq!(args.skip(2).at(0), b"value");
        assert!(args.skip(9).is_empty());
    }
}
