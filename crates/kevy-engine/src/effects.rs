//! The effects of commands: what the log keeps and replicas apply.

use alloc::vec::Vec;
use bytes::BytesMut;
use kevy_proto::resp::{Args, Span};

/// Collects the effects of commands as canonical requests, in order.
///
/// Each effect concerns the key at its argument 1 only (`FLUSHALL` has none), so that it can be logged by the key's
/// owner. If nobody wants effects ([`Effects::off`]) collecting costs one branch.
#[derive(Debug, Default)]
pub struct Effects {
    wanted: bool,
    bytes: BytesMut,
    spans: Vec<Span>,
    /// For each effect, how many spans come before it.
    starts: Vec<usize>,
    /// Changes since the start, also counted when effects are not wanted (`rdb_changes_since_last_save`).
    changes: u64,
}

impl Effects {
    /// Counts changes and keeps nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Keeps every effect.
    pub fn on() -> Self {
        Self {
            wanted: true,
            ..Self::default()
        }
    }

    /// Whether effects are kept: for commands whose effect costs something to build.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// Keeps effects from now on, or no longer. Those that are kept stay.
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Adds one effect.
    pub fn emit(&mut self, request: &[&[u8]]) {
        self.changes += 1;
        if !self.wanted {
            return;
        }
        self.starts.push(self.spans.len());
        for arg in request {
            self.spans.push(Span {
                start: self.bytes.len(),
                length: arg.len(),
            });
            self.bytes.extend_from_slice(arg);
        }
    }

    /// Number of effects kept.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether no effect is kept.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Changes counted so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The effects kept, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Args<'_>> {
        self.starts.iter().enumerate().map(|(i, &start)| {
            let end = self.starts.get(i + 1).copied().unwrap_or(self.spans.len());
            Args::new(&self.bytes, &self.spans[start..end])
        })
    }

    /// Forgets the effects kept; the count of changes goes on.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.starts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn effects_come_back_in_order() {
        let mut effects = Effects::on();
        effects.emit(&[b"SET", b"k", b"v"]);
        effects.emit(&[b"DEL", b"k"]);
        let seen: Vec<Vec<&[u8]>> = effects.iter().map(|args| args.iter().collect()).collect();
        assert_eq!(
            seen,
            [vec![&b"SET"[..], b"k", b"v"], vec![&b"DEL"[..], b"k"]]
        );
        effects.clear();
        assert!(effects.is_empty());
        assert_eq!(effects.changes(), 2);
    }

    #[test]
    fn nothing_is_kept_when_nobody_wants_it() {
        let mut effects = Effects::off();
        effects.emit(&[b"SET", b"k", b"v"]);
        assert!(effects.is_empty());
        assert_eq!(effects.changes(), 1);
    }
}
