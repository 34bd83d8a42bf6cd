//! Entries: what one command, or one shard's part of a transaction, did.

use crate::ids::{ShardId, TransactionId};
use crate::resp::{Args, Span};
use alloc::vec::Vec;
use bytes::BytesMut;
use core::fmt;
use unsigned_varint::{decode, encode};

const EFFECTS: u8 = 1;
const PART: u8 = 2;
const DROPPED: u8 = 3;
const EARLIER_RUNS_SETTLED: u8 = 4;
const SNAPSHOT_BEGIN: u8 = 5;
const SNAPSHOT_END: u8 = 6;
const ISOLATED_PART: u8 = 7;
const SKIPPED: u8 = 8;

/// One entry of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// What a command did on this shard alone.
    Effects(Requests<'a>),
    /// What a transaction over several shards did on this one. It counts only if every participant's log has its part.
    Part(TransactionPart, Requests<'a>),
    /// Transactions of a run that are not to be carried out although this log has their parts: another's had not.
    Dropped {
        /// The run they belong to.
        run: u64,
        /// Which they are.
        transactions: Vec<TransactionId>,
    },
    /// What this log says before this entry of a later epoch than this one does not count: it may depend on a transaction
    /// that another shard lacks.
    Skipped {
        /// The last epoch that counts.
        above: u64,
    },
    /// Every shard has made durable what it decided about transactions of the runs before this one: they need no more proof.
    EarlierRunsSettled,
    /// The first entry of a snapshot: what the log before it told about transactions, by runs in their order.
    SnapshotBegin(Vec<SurveyedRun>),
    /// The last entry of a snapshot.
    SnapshotEnd {
        /// How many keys it holds.
        keys: u64,
    },
}

/// What a log told about the transactions of one run that may have to be proven to other shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurveyedRun {
    /// The run.
    pub run: u64,
    /// For each coordinator: its transactions before this number are durable at all of their participants.
    pub settled_below: Vec<(ShardId, u64)>,
    /// Parts that the log had, and their participants.
    pub open: Vec<(TransactionId, Vec<ShardId>)>,
    /// Transactions that are not to be carried out.
    pub dropped: Vec<TransactionId>,
}

/// Which transaction, and with whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPart {
    /// Its name within its run of the process.
    pub id: TransactionId,
    /// Transactions of the same coordinator before this one are durable at all of their participants.
    pub settled_below: u64,
    /// The shards whose logs must have a part, this one included.
    pub participants: Vec<ShardId>,
    /// When it took place. Shards count epochs by one clock and tell each other theirs, so that whatever depends on something
    /// has no earlier epoch. A set of epochs from the first on is a state that makes sense.
    pub epoch: u64,
    /// Nobody saw what it did before it was durable everywhere: without it what follows still makes sense.
    pub is_isolated: bool,
}

/// Canonical requests, encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests<'a> {
    count: u64,
    bytes: &'a [u8],
}

/// Why bytes are no entry. Behind a checksum that is right it means that whoever wrote them was wrong, or newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFault {
    /// They end too early, or a number is out of range.
    Malformed,
    /// A kind of entry that this version does not know.
    Kind(u8),
}

/// The entries of a frame, in order; ends after the first fault.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

/// Appends what a command did.
pub fn push_effects<'a>(out: &mut BytesMut, requests: impl ExactSizeIterator<Item = Args<'a>>) {
    out.extend_from_slice(&[EFFECTS]);
    push_requests(out, requests);
}

/// Appends what a transaction did here.
pub fn push_part<'a>(
    out: &mut BytesMut,
    part: &TransactionPart,
    requests: impl ExactSizeIterator<Item = Args<'a>>,
) {
    out.extend_from_slice(&[if part.is_isolated {
        ISOLATED_PART
    } else {
        PART
    }]);
    push_id(out, part.id);
    push_number(out, part.epoch);
    push_number(out, part.settled_below);
    push_shards(out, &part.participants);
    push_requests(out, requests);
}

/// Appends which transactions of `run` are not to be carried out.
pub fn push_dropped(out: &mut BytesMut, run: u64, transactions: &[TransactionId]) {
    out.extend_from_slice(&[DROPPED]);
    push_number(out, run);
    push_number(out, transactions.len() as u64);
    transactions.iter().for_each(|id| push_id(out, *id));
}

/// Appends that what the log says before of a later epoch than `above` does not count.
pub fn push_skipped(out: &mut BytesMut, above: u64) {
    out.extend_from_slice(&[SKIPPED]);
    push_number(out, above);
}

/// Appends that earlier runs are settled.
pub fn push_earlier_runs_settled(out: &mut BytesMut) {
    out.extend_from_slice(&[EARLIER_RUNS_SETTLED]);
}

/// Appends the first entry of a snapshot.
pub fn push_snapshot_begin(out: &mut BytesMut, runs: &[SurveyedRun]) {
    out.extend_from_slice(&[SNAPSHOT_BEGIN]);
    push_number(out, runs.len() as u64);
    for run in runs {
        push_number(out, run.run);
        push_number(out, run.settled_below.len() as u64);
        for (coordinator, below) in &run.settled_below {
            push_number(out, u64::from(coordinator.0));
            push_number(out, *below);
        }
        push_number(out, run.open.len() as u64);
        for (id, participants) in &run.open {
            push_id(out, *id);
            push_shards(out, participants);
        }
        push_number(out, run.dropped.len() as u64);
        run.dropped.iter().for_each(|id| push_id(out, *id));
    }
}

/// Appends the last entry of a snapshot.
pub fn push_snapshot_end(out: &mut BytesMut, keys: u64) {
    out.extend_from_slice(&[SNAPSHOT_END]);
    push_number(out, keys);
}

fn push_shards(out: &mut BytesMut, shards: &[ShardId]) {
    push_number(out, shards.len() as u64);
    shards
        .iter()
        .for_each(|shard| push_number(out, u64::from(shard.0)));
}

fn push_id(out: &mut BytesMut, id: TransactionId) {
    push_number(out, u64::from(id.coordinator.0));
    push_number(out, id.sequence);
}

fn push_requests<'a>(out: &mut BytesMut, requests: impl ExactSizeIterator<Item = Args<'a>>) {
    push_number(out, requests.len() as u64);
    for request in requests {
        push_number(out, request.len() as u64);
        for arg in request.iter() {
            push_number(out, arg.len() as u64);
            out.extend_from_slice(arg);
        }
    }
}

fn push_number(out: &mut BytesMut, number: u64) {
    out.extend_from_slice(encode::u64(number, &mut encode::u64_buffer()));
}

impl<'a> Entries<'a> {
    /// The entries that a frame's bytes say.
    pub fn of(entries: &'a [u8]) -> Self {
        Self { rest: entries }
    }

    fn take(&mut self) -> Result<Entry<'a>, EntryFault> {
        match self.byte()? {
            EFFECTS => Ok(Entry::Effects(self.requests()?)),
            kind @ (PART | ISOLATED_PART) => {
                let part = TransactionPart {
                    id: self.id()?,
                    epoch: self.number()?,
                    settled_below: self.number()?,
                    participants: self.shards()?,
                    is_isolated: kind == ISOLATED_PART,
                };
                Ok(Entry::Part(part, self.requests()?))
            }
            SKIPPED => Ok(Entry::Skipped {
                above: self.number()?,
            }),
            DROPPED => Ok(Entry::Dropped {
                run: self.number()?,
                transactions: self.ids()?,
            }),
            EARLIER_RUNS_SETTLED => Ok(Entry::EarlierRunsSettled),
            SNAPSHOT_BEGIN => Ok(Entry::SnapshotBegin(
                (0..self.bounded_count()?)
                    .map(|_| self.surveyed_run())
                    .collect::<Result<_, _>>()?,
            )),
            SNAPSHOT_END => Ok(Entry::SnapshotEnd {
                keys: self.number()?,
            }),
            kind => Err(EntryFault::Kind(kind)),
        }
    }

    fn byte(&mut self) -> Result<u8, EntryFault> {
        let (first, rest) = self.rest.split_first().ok_or(EntryFault::Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, EntryFault> {
        let (number, rest) = decode::u64(self.rest).map_err(|_| EntryFault::Malformed)?;
        self.rest = rest;
        Ok(number)
    }

    /// A number of things, each of which takes a byte at least: nothing is allocated for what cannot be there.
    fn bounded_count(&mut self) -> Result<usize, EntryFault> {
        let count = self.number()?;
        if count > self.rest.len() as u64 {
            return Err(EntryFault::Malformed);
        }
        Ok(count as usize)
    }

    fn shard(&mut self) -> Result<ShardId, EntryFault> {
        let index = u16::try_from(self.number()?).map_err(|_| EntryFault::Malformed)?;
        Ok(ShardId(index))
    }

    fn shards(&mut self) -> Result<Vec<ShardId>, EntryFault> {
        (0..self.bounded_count()?).map(|_| self.shard()).collect()
    }

    fn id(&mut self) -> Result<TransactionId, EntryFault> {
        Ok(TransactionId {
            coordinator: self.shard()?,
            sequence: self.number()?,
        })
    }

    fn ids(&mut self) -> Result<Vec<TransactionId>, EntryFault> {
        (0..self.bounded_count()?).map(|_| self.id()).collect()
    }

    fn surveyed_run(&mut self) -> Result<SurveyedRun, EntryFault> {
        Ok(SurveyedRun {
            run: self.number()?,
            settled_below: (0..self.bounded_count()?)
                .map(|_| Ok((self.shard()?, self.number()?)))
                .collect::<Result<_, _>>()?,
            open: (0..self.bounded_count()?)
                .map(|_| Ok((self.id()?, self.shards()?)))
                .collect::<Result<_, _>>()?,
            dropped: self.ids()?,
        })
    }

    /// Walks over requests, so that reading them later cannot fail.
    fn requests(&mut self) -> Result<Requests<'a>, EntryFault> {
        let count = self.bounded_count()? as u64;
        let start = self.rest;
        for _ in 0..count {
            for _ in 0..self.bounded_count()? {
                let length = self.bounded_count()?;
                self.rest = &self.rest[length..];
            }
        }
        let bytes = &start[..start.len() - self.rest.len()];
        Ok(Requests { count, bytes })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.take();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

impl Requests<'_> {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Hands each request to `run`, in order.
    pub fn for_each(&self, mut run: impl FnMut(Args<'_>)) {
        let mut reader = Entries { rest: self.bytes };
        let mut spans = Vec::new();
        for _ in 0..self.count {
            spans.clear();
            for _ in 0..reader.bounded_count().unwrap_or_default() {
                let length = reader.bounded_count().unwrap_or_default();
                let start = self.bytes.len() - reader.rest.len();
                spans.push(Span { start, length });
                reader.rest = &reader.rest[length..];
            }
            run(Args::new(self.bytes, &spans));
        }
    }
}

impl fmt::Display for EntryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("an entry is malformed"),
            Self::Kind(kind) => write!(
                f,
                "an entry is of kind {kind}, which this kevy does not know"
            ),
        }
    }
}

impl core::error::Error for EntryFault {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::RequestBuffer;
    use alloc::vec;
    use proptest::prelude::*;

    fn requests(of: &[Vec<Vec<u8>>]) -> Vec<RequestBuffer> {
        of.iter()
            .map(|args| RequestBuffer::from_slices(args.iter().map(Vec::as_slice)))
            .collect()
    }

    fn read(requests: &Requests<'_>) -> Vec<Vec<Vec<u8>>> {
        let mut seen = Vec::new();
        requests.for_each(|args| seen.push(args.iter().map(<[u8]>::to_vec).collect()));
        seen
    }

    fn id(coordinator: u16, sequence: u64) -> TransactionId {
        TransactionId {
            coordinator: ShardId(coordinator),
            sequence,
        }
    }

    #[test]
    fn entries_come_back_in_order() {
        let set = requests(&[vec![b"SET".to_vec(), b"k".to_vec(), Vec::new()]]);
        let part = TransactionPart {
            id: id(2, 1 << 40),
            settled_below: 7,
            participants: vec![ShardId(0), ShardId(2), ShardId(300)],
            epoch: 1 << 50,
            is_isolated: true,
        };
        let mut out = BytesMut::new();
        push_effects(&mut out, set.iter().map(RequestBuffer::args));
        push_part(&mut out, &part, set.iter().map(RequestBuffer::args));
        push_dropped(&mut out, u64::MAX, &[id(0, 1), id(1, 0)]);
        let entries: Vec<_> = Entries::of(&out)
            .map(|entry| entry.expect("well-formed"))
            .collect();
        let expected = vec![vec![b"SET".to_vec(), b"k".to_vec(), Vec::new()]];
        let [
            Entry::Effects(first),
            Entry::Part(read_part, second),
            Entry::Dropped { run, transactions },
        ] = &entries[..]
        else {
            panic!("{entries:?}");
        };
        assert_eq!((read(first), read(second)), (expected.clone(), expected));
        assert_eq!(read_part, &part);
        assert_eq!(
            (*run, &transactions[..]),
            (u64::MAX, &[id(0, 1), id(1, 0)][..])
        );
    }

    #[test]
    fn what_a_snapshot_says_of_transactions_comes_back() {
        let runs = vec![
            SurveyedRun {
                run: 9,
                settled_below: vec![(ShardId(1), 1 << 33)],
                open: vec![(id(0, 5), vec![ShardId(0), ShardId(3)])],
                dropped: vec![id(2, 7)],
            },
            SurveyedRun::default(),
        ];
        let mut out = BytesMut::new();
        push_snapshot_begin(&mut out, &runs);
        push_earlier_runs_settled(&mut out);
        push_skipped(&mut out, 1 << 40);
        push_snapshot_end(&mut out, 77);
        let entries: Vec<_> = Entries::of(&out).collect();
        let expected = [
            Ok(Entry::SnapshotBegin(runs)),
            Ok(Entry::EarlierRunsSettled),
            Ok(Entry::Skipped { above: 1 << 40 }),
            Ok(Entry::SnapshotEnd { keys: 77 }),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn counts_that_cannot_be_true_are_refused_before_anything_is_allocated() {
        let mut out = BytesMut::new();
        out.extend_from_slice(&[DROPPED, 1]);
        push_number(&mut out, u64::MAX);
        assert_eq!(Entries::of(&out).next(), Some(Err(EntryFault::Malformed)));
        assert_eq!(Entries::of(&[9]).next(), Some(Err(EntryFault::Kind(9))));
    }

    proptest! {
        #[test]
        fn any_requests_come_back(all in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..5), 0..20)) {
            let mut out = BytesMut::new();
            let encoded = requests(&all);
            push_effects(&mut out, encoded.iter().map(RequestBuffer::args));
            let Some(Ok(Entry::Effects(back))) = Entries::of(&out).next() else {
                panic!("no effects");
            };
            prop_assert_eq!(read(&back), all);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for entry in Entries::of(&bytes).flatten() {
                match entry {
                    Entry::Effects(requests) | Entry::Part(_, requests) => {
                        prop_assert_eq!(read(&requests).len() as u64, requests.len());
                    }
                    Entry::Dropped { .. }
                    | Entry::Skipped { .. }
                    | Entry::EarlierRunsSettled
                    | Entry::SnapshotBegin(_)
                    | Entry::SnapshotEnd { .. } => {}
                }
            }
        }
    }
}
