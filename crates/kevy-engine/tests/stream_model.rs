//! Streams against a map that is obviously right, and their effects against what they have to tell.

use bytes::BytesMut;
use kevy_engine::keyspace::ExpiryMode;
use kevy_engine::value::stream::{Entries, Keep, Stream, StreamId, Trim};
use kevy_engine::value::{Collection, EncodingLimits};
use kevy_engine::{Command, Context, Effects, Keyspace};
use kevy_proto::resp::{Encoder, RequestBuffer, RespVersion};
use kevy_proto::time::{Instant, Now, UnixMillis};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Pairs = Vec<Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    /// Milliseconds and sequence numbers after the last id, and the pairs.
    Append(u64, u64, Pairs),
    Delete(prop::sample::Index),
    KeepNewest(u64, bool, u64),
    KeepFrom(prop::sample::Index, bool, u64),
    Range(prop::sample::Index, prop::sample::Index, usize),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        (60..70_usize).prop_map(|length| vec![b'x'; length]),
    ]
}

fn pairs() -> impl Strategy<Value = Pairs> {
    let same = (text(), text()).prop_map(|(a, b)| vec![b"f".to_vec(), a, b"12".to_vec(), b]);
    let other = prop::collection::vec((text(), text()), 1..4)
        .prop_map(|pairs| pairs.into_iter().flat_map(|(a, b)| [a, b]).collect());
    prop_oneof![3 => same, 1 => other]
}

fn step() -> impl Strategy<Value = Step> {
    let limit = || prop_oneof![Just(0), 1..20_u64];
    prop_oneof![
        12 => (0..3_u64, 1..4_u64, pairs()).prop_map(|(ms, seq, pairs)| Step::Append(ms, seq, pairs)),
        1 => (1..1_u64 << 40, 1..4_u64, pairs()).prop_map(|(ms, seq, pairs)| Step::Append(ms, seq, pairs)),
        5 => any::<prop::sample::Index>().prop_map(Step::Delete),
        1 => (0..40_u64, any::<bool>(), limit()).prop_map(|(n, approximately, limit)| Step::KeepNewest(n, approximately, limit)),
        1 => (any::<prop::sample::Index>(), any::<bool>(), limit()).prop_map(|(id, approximately, limit)| Step::KeepFrom(id, approximately, limit)),
        3 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..10_usize).prop_map(|(a, b, n)| Step::Range(a, b, n)),
    ]
}

#[derive(Default)]
struct Model {
    entries: Entries,
    expected: BTreeMap<StreamId, Pairs>,
    /// Every id that was ever used.
    ids: Vec<StreamId>,
    max_deleted_id: StreamId,
}

impl Model {
    fn run(&mut self, step: Step, limits: &EncodingLimits) {
        match step {
            Step::Append(ms, seq, pairs) => self.append(ms, seq, pairs, limits),
            Step::Delete(index) => {
                let id = self.id(index);
                let there = self.expected.remove(&id).is_some();
                assert_eq!(self.entries.delete(id), there);
                if there {
                    self.max_deleted_id = self.max_deleted_id.max(id);
                }
            }
            Step::KeepNewest(count, approximately, limit) => {
                let surplus = self.expected.len().saturating_sub(count as usize);
                self.trim(surplus, Keep::Newest(count), approximately, limit);
            }
            Step::KeepFrom(index, approximately, limit) => {
                let id = self.id(index);
                let surplus = self.expected.range(..id).count();
                self.trim(surplus, Keep::From(id), approximately, limit);
            }
            Step::Range(start, end, count) => {
                let (start, end) = (self.id(start), self.id(end));
                self.check_range(start, end, count);
            }
        }
    }

    /// An id that was used, or one beside it.
    fn id(&self, index: prop::sample::Index) -> StreamId {
        if self.ids.is_empty() {
            return StreamId::MIN;
        }
        let id = self.ids[index.index(self.ids.len())];
        match index.index(7) {
            0 => id.next().unwrap_or(id),
            1 => id.previous().unwrap_or(id),
            _ => id,
        }
    }

    fn append(&mut self, ms: u64, seq: u64, pairs: Pairs, limits: &EncodingLimits) {
        let last = self.entries.last_id();
        let id = StreamId {
            ms: last.ms + ms,
            seq: if ms == 0 { last.seq + seq } else { seq },
        };
        let request = RequestBuffer::from_slices(pairs.iter().map(Vec::as_slice));
        self.entries.append(id, request.args(), limits);
        self.expected.insert(id, pairs);
        self.ids.push(id);
        assert_eq!(self.entries.last_id(), id);
    }

    fn trim(&mut self, surplus: usize, keep: Keep, approximately: bool, limit: u64) {
        let limit = if approximately { limit } else { 0 };
        let removed = self.entries.trim(Trim {
            keep,
            approximately,
            limit,
        }) as usize;
        if approximately {
            assert!(removed <= surplus);
            assert!(limit == 0 || removed as u64 <= limit);
        } else {
            assert_eq!(removed, surplus);
        }
        for _ in 0..removed {
            self.expected.pop_first();
        }
    }

    fn check_range(&self, start: StreamId, end: StreamId, limit: usize) {
        let got: Vec<(StreamId, Pairs)> = self.entries.range(start, end).map(owned).collect();
        let mut back: Vec<(StreamId, Pairs)> =
            self.entries.range_back(start, end).map(owned).collect();
        back.reverse();
        let expected: Vec<(StreamId, Pairs)> = self
            .expected
            .iter()
            .filter(|(id, _)| (start..=end).contains(id))
            .map(|(id, pairs)| (*id, pairs.clone()))
            .collect();
        assert_eq!(got, expected);
        assert_eq!(back, expected);
        let count = self.entries.count(start, end, limit);
        assert_eq!(count, expected.len().min(limit));
    }

    fn check(&self) {
        let first = self.expected.keys().next().copied().unwrap_or_default();
        assert_eq!(self.entries.len(), self.expected.len() as u64);
        assert_eq!(self.entries.first_id(), first);
        assert_eq!(self.entries.added(), self.ids.len() as i64);
        assert_eq!(self.entries.max_deleted_id(), self.max_deleted_id);
        self.check_range(StreamId::MIN, StreamId::MAX, usize::MAX);
        for id in &self.ids {
            let found = self.entries.get(*id).map(owned);
            let expected = self.expected.get(id).map(|pairs| (*id, pairs.clone()));
            assert_eq!(found, expected);
        }
        if self.entries.blocks() == 0 {
            assert_eq!(self.entries.radix_nodes(), 1);
        }
    }
}

fn owned(entry: kevy_engine::value::stream::Entry<'_>) -> (StreamId, Pairs) {
    let texts = entry
        .elements()
        .map(|element| element.with_text(<[u8]>::to_vec));
    let pairs: Pairs = texts.collect();
    assert_eq!(pairs.len(), 2 * entry.len());
    (entry.id, pairs)
}

/// Commands over few keys, groups, consumers and ids, so that they meet.
fn command() -> impl Strategy<Value = String> {
    let key = || prop_oneof![3 => Just("s"), 1 => Just("t")];
    let group = || prop_oneof![Just("g"), Just("h")];
    let consumer = || prop_oneof![Just("alice"), Just("bob"), Just("carol")];
    let id = || (0..30_u64, 0..2_u64).prop_map(|(ms, seq)| format!("{ms}-{seq}"));
    let ids = move || prop::collection::vec(id(), 1..5).prop_map(|ids| ids.join(" "));
    let option = |text: &'static str| prop_oneof![Just(""), Just(text)];
    prop_oneof![
        8 => (key(), option(" MAXLEN ~ 5"), 0..30_u64).prop_map(|(k, trim, ms)| format!("XADD {k}{trim} {ms}-* a {ms}")),
        8 => key().prop_map(|k| format!("XADD {k} * a b")),
        2 => (key(), ids()).prop_map(|(k, ids)| format!("XDEL {k} {ids}")),
        1 => (key(), 0..10_u64).prop_map(|(k, n)| format!("XTRIM {k} MAXLEN {n}")),
        1 => (key(), id()).prop_map(|(k, id)| format!("XTRIM {k} MINID ~ {id}")),
        1 => (key(), id(), id()).prop_map(|(k, id, deleted)| format!("XSETID {k} {id} ENTRIESADDED 50 MAXDELETEDID {deleted}")),
        1 => (key(), id()).prop_map(|(k, id)| format!("XSETID {k} {id}")),
        3 => (key(), group(), id()).prop_map(|(k, g, id)| format!("XGROUP CREATE {k} {g} {id} MKSTREAM")),
        1 => (key(), group(), id()).prop_map(|(k, g, id)| format!("XGROUP SETID {k} {g} {id}")),
        1 => (key(), group(), consumer()).prop_map(|(k, g, c)| format!("XGROUP CREATECONSUMER {k} {g} {c}")),
        1 => (key(), group(), consumer()).prop_map(|(k, g, c)| format!("XGROUP DELCONSUMER {k} {g} {c}")),
        1 => (key(), group()).prop_map(|(k, g)| format!("XGROUP DESTROY {k} {g}")),
        8 => (group(), consumer(), 1..4_u64, option(" NOACK"), key(), prop_oneof![3 => Just(">"), 1 => Just("0")])
            .prop_map(|(g, c, n, noack, k, id)| format!("XREADGROUP GROUP {g} {c} COUNT {n}{noack} STREAMS {k} {id}")),
        2 => (key(), group(), ids()).prop_map(|(k, g, ids)| format!("XACK {k} {g} {ids}")),
        3 => (key(), group(), consumer(), ids(), option(" FORCE"), option(" JUSTID"), option(" LASTID 9-9"))
            .prop_map(|(k, g, c, ids, force, justid, last)| format!("XCLAIM {k} {g} {c} 0 {ids}{force}{justid}{last}")),
        2 => (key(), group(), consumer(), 0..50_u64).prop_map(|(k, g, c, idle)| format!("XAUTOCLAIM {k} {g} {c} {idle} 0 COUNT 3")),
        1 => Just("COPY s t REPLACE".to_owned()),
        1 => Just("RENAME t s".to_owned()),
    ]
}

struct Engine {
    keyspace: Keyspace,
    effects: Effects,
    now_ms: i64,
}

impl Engine {
    fn new() -> Self {
        let mut keyspace = Keyspace::new(1);
        keyspace.set_encoding_limits(EncodingLimits {
            stream_node_max_entries: 4,
            ..EncodingLimits::default()
        });
        Self {
            keyspace,
            effects: Effects::on(),
            now_ms: 20,
        }
    }

    fn run(&mut self, request: &RequestBuffer) -> BytesMut {
        let args = request.args();
        let mut rows = kevy_engine::commands::families().flatten();
        let named = |row: &&Command, name: &[u8]| name.eq_ignore_ascii_case(row.name.as_bytes());
        let mut command = rows
            .find(|row| named(row, args.at(0)))
            .expect("a known command");
        if let Some(subcommand) = command
            .subcommands
            .iter()
            .find(|row| named(row, args.at(1)))
        {
            command = subcommand;
        }
        let mut out = BytesMut::new();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: Encoder::new(&mut out, RespVersion::V2),
            effects: &mut self.effects,
            now: Now {
                monotonic: Instant::default(),
                unix: UnixMillis(self.now_ms),
            },
            wait: None,
        };
        let _ = context.run(command, args);
        out
    }

    /// An engine that was told `effects` only, at another time.
    fn told(effects: &Effects) -> Self {
        let mut engine = Self::new();
        engine.keyspace.set_expiry_mode(ExpiryMode::Ignore);
        engine.now_ms = 1;
        for effect in effects.iter() {
            let request = RequestBuffer::from_args(effect);
            let reply = engine.run(&request);
            assert_ne!(reply.first(), Some(&b'-'), "{request:?} {reply:?}");
        }
        engine
    }

    /// The requests that rebuild every key.
    fn rebuild(&self) -> Effects {
        let mut keys: Vec<Vec<u8>> = self.keyspace.iter().map(|e| e.key().to_vec()).collect();
        keys.sort();
        let mut effects = Effects::on();
        for key in keys {
            let copy = self.keyspace.copy_as(&key, &key);
            copy.expect("the key is there").emit_effects(&mut effects);
        }
        effects
    }
}

fn texts(effects: &Effects) -> Vec<String> {
    effects
        .iter()
        .map(|effect| {
            let words = effect.iter().map(String::from_utf8_lossy);
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

proptest! {
    #[test]
    fn entries_are_a_map(
        steps in prop::collection::vec(step(), 1..150),
        stream_node_max_entries in prop_oneof![Just(0), 1..6_usize],
        stream_node_max_bytes in prop_oneof![Just(0), 30..400_usize],
    ) {
        let limits = EncodingLimits { stream_node_max_entries, stream_node_max_bytes, ..EncodingLimits::default() };
        let mut model = Model::default();
        for step in steps {
            model.run(step, &limits);
            model.check();
        }
    }

    #[test]
    fn effects_and_rebuilds_tell_everything(commands in prop::collection::vec(command(), 1..120)) {
        let mut engine = Engine::new();
        for command in commands {
            engine.run(&RequestBuffer::from_slices(command.split(' ').map(str::as_bytes)));
            engine.now_ms += 3;
        }
        let rebuild = engine.rebuild();
        let expected = texts(&rebuild);
        prop_assert_eq!(&texts(&Engine::told(&engine.effects).rebuild()), &expected);
        prop_assert_eq!(&texts(&Engine::told(&rebuild).rebuild()), &expected);
        let bytes: usize = engine.keyspace.iter().map(kevy_engine::keyspace::Entry::memory_bytes).sum();
        prop_assert_eq!(engine.keyspace.used_bytes(), bytes);
    }
}

#[test]
fn a_stream_gives_back_what_it_took() {
    let limits = EncodingLimits::default();
    let mut stream = Stream::default();
    let empty = stream.heap_bytes();
    let request = RequestBuffer::from_slices([&b"field"[..], b"value"]);
    for ms in 1..=1000 {
        let id = StreamId { ms, seq: 0 };
        stream.entries_mut().append(id, request.args(), &limits);
    }
    let full = stream.heap_bytes();
    assert!(full < empty + 1000 * 40, "{full}");
    assert_eq!(stream.entries().blocks(), 10);
    for ms in (1..=1000).rev() {
        assert!(stream.entries_mut().delete(StreamId { ms, seq: 0 }));
    }
    assert_eq!(stream.heap_bytes(), empty);
    assert_eq!(stream.entries().radix_nodes(), 1);
}
