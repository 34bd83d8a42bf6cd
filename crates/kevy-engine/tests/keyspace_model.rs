//! The keyspace against a map that is obviously right, and the promise of `SCAN` while keys come and go.

use kevy_engine::Effects;
use kevy_engine::keyspace::{Cursor, Entry, Expiry, Keyspace, Partition};
use kevy_proto::time::{Instant, Now, UnixMillis};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Keys are numbers below this: enough for many splits and merges.
const KEYS: u32 = 6_000;

#[derive(Clone, Debug)]
enum Step {
    Set(u32, Vec<u8>, Option<i64>),
    SetKeepingExpiry(u32, Vec<u8>),
    SetMany(Range<u32>),
    Append(u32, Vec<u8>),
    WriteAt(u32, usize, Vec<u8>),
    Expire(u32, Option<i64>),
    Get(u32),
    Remove(u32),
    RemoveMany(Range<u32>),
    Wait(i64),
    ExpireDue(usize),
    /// Takes the keys to another keyspace and back.
    Journey(Range<u32>),
    Rename(u32, u32),
    Clear,
}

fn key() -> impl Strategy<Value = u32> {
    // Few keys for many meetings, many keys for many segments.
    prop_oneof![0..20_u32, 0..KEYS]
}

fn keys() -> impl Strategy<Value = Range<u32>> {
    (0..KEYS, 0..KEYS).prop_map(|(a, b)| a.min(b)..a.max(b))
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..60)
}

fn ttl_ms() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(-10..200_i64)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (key(), value(), ttl_ms()).prop_map(|(k, v, t)| Step::Set(k, v, t)),
        2 => (key(), value()).prop_map(|(k, v)| Step::SetKeepingExpiry(k, v)),
        1 => keys().prop_map(Step::SetMany),
        3 => (key(), value()).prop_map(|(k, v)| Step::Append(k, v)),
        2 => (key(), 0..100_usize, value()).prop_map(|(k, o, v)| Step::WriteAt(k, o, v)),
        4 => (key(), ttl_ms()).prop_map(|(k, t)| Step::Expire(k, t)),
        4 => key().prop_map(Step::Get),
        3 => key().prop_map(Step::Remove),
        1 => keys().prop_map(Step::RemoveMany),
        3 => (0..100_i64).prop_map(Step::Wait),
        2 => (0..50_usize).prop_map(Step::ExpireDue),
        1 => (0..KEYS, 0..300_u32).prop_map(|(from, count)| Step::Journey(from..from + count)),
        2 => (key(), key()).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => Just(Step::Clear),
    ]
}

/// A key's value and deadline.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

struct World {
    keyspace: Keyspace,
    other: Keyspace,
    effects: Effects,
    now: Now,
    model: Model,
}

fn name(number: u32) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn at(ms: i64) -> Now {
    Now {
        monotonic: Instant::default(),
        unix: UnixMillis(ms),
    }
}

impl World {
    fn new() -> Self {
        Self {
            keyspace: Keyspace::new(1),
            other: Keyspace::new(2),
            effects: Effects::on(),
            now: at(1_000_000),
            model: Model::new(),
        }
    }

    /// Forgets a key of the model whose time has come.
    fn settle(&mut self, key: &[u8]) {
        let now = self.now.unix.0;
        if let Some((_, Some(deadline))) = self.model.get(key)
            && now > *deadline
        {
            self.model.remove(key);
        }
    }

    fn set(&mut self, number: u32, value: &[u8], expiry: Expiry) {
        let key = name(number);
        self.settle(&key);
        let kept = self.model.get(&key).and_then(|(_, deadline)| *deadline);
        let deadline = match expiry {
            Expiry::Never => None,
            Expiry::Keep => kept,
            Expiry::At(at) => Some(at.0),
        };
        self.keyspace
            .set_string(&key, value, expiry, self.now, &mut self.effects);
        self.model.insert(key, (value.to_vec(), deadline));
    }

    fn deadline(&self, ttl_ms: i64) -> UnixMillis {
        UnixMillis(self.now.unix.0 + ttl_ms)
    }

    fn change(&mut self, number: u32, offset: Option<usize>, data: &[u8]) {
        let key = name(number);
        self.settle(&key);
        let mut string = self
            .keyspace
            .string_mut(&key, self.now, &mut self.effects)
            .expect("all values are strings");
        let (value, _) = self.model.entry(key.clone()).or_default();
        match offset {
            None => {
                string.append(data);
                value.extend_from_slice(data);
            }
            Some(offset) => {
                string.write_at(offset, data);
                value.resize(value.len().max(offset + data.len()), 0);
                value[offset..offset + data.len()].copy_from_slice(data);
            }
        }
        assert_eq!(string.bytes(), *value);
    }

    fn expire(&mut self, number: u32, ttl_ms: Option<i64>) {
        let key = name(number);
        self.settle(&key);
        let deadline = ttl_ms.map(|ttl| self.deadline(ttl));
        let found = self
            .keyspace
            .set_expiry(&key, deadline, self.now, &mut self.effects);
        let known = self.model.get_mut(&key);
        assert_eq!(found, known.is_some());
        if let Some((_, kept)) = known {
            *kept = deadline.map(|at| at.0);
        }
    }

    fn get(&mut self, number: u32) {
        let key = name(number);
        self.settle(&key);
        let got = self.keyspace.string(&key, self.now, &mut self.effects);
        let expected = self.model.get(&key).map(|(value, _)| value.as_slice());
        assert_eq!(got, Ok(expected));
    }

    fn remove(&mut self, number: u32) {
        let key = name(number);
        self.settle(&key);
        let removed = self.keyspace.remove(&key, self.now, &mut self.effects);
        assert_eq!(removed, self.model.remove(&key).is_some());
    }

    fn expire_due(&mut self, budget: usize) {
        let before = self.keyspace.len();
        let more = self
            .keyspace
            .expire_due(self.now, budget, &mut self.effects);
        assert!(before - self.keyspace.len() <= budget);
        let next = self.keyspace.next_deadline();
        assert_eq!(more, next.is_some_and(|next| next < self.now.unix));
    }

    fn journey(&mut self, numbers: Range<u32>) {
        for number in numbers.clone() {
            if let Some(entry) = self.keyspace.take(&name(number)) {
                assert_eq!(entry.key(), name(number));
                self.other.put(entry);
            }
        }
        for number in numbers {
            if let Some(entry) = self.other.take(&name(number)) {
                self.keyspace.put(entry);
            }
        }
        assert_eq!((self.other.len(), self.other.used_bytes()), (0, 0));
        assert_eq!(self.other.expires_len(), 0);
    }

    fn rename(&mut self, from: u32, to: u32) {
        let (from, to) = (name(from), name(to));
        if let Some(entry) = self.keyspace.take(&from) {
            self.keyspace.put(entry.with_key(&to));
        }
        if let Some(value) = self.model.remove(&from) {
            self.model.insert(to, value);
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Set(number, value, None) => self.set(number, &value, Expiry::Never),
            Step::Set(number, value, Some(ttl)) => {
                let deadline = self.deadline(ttl);
                self.set(number, &value, Expiry::At(deadline));
            }
            Step::SetKeepingExpiry(number, value) => self.set(number, &value, Expiry::Keep),
            Step::SetMany(numbers) => numbers.for_each(|n| self.set(n, b"many", Expiry::Never)),
            Step::Append(number, value) => self.change(number, None, &value),
            Step::WriteAt(number, offset, value) => self.change(number, Some(offset), &value),
            Step::Expire(number, ttl) => self.expire(number, ttl),
            Step::Get(number) => self.get(number),
            Step::Remove(number) => self.remove(number),
            Step::RemoveMany(numbers) => numbers.for_each(|number| self.remove(number)),
            Step::Wait(ms) => self.now.unix.0 += ms,
            Step::ExpireDue(budget) => self.expire_due(budget),
            Step::Journey(numbers) => self.journey(numbers),
            Step::Rename(from, to) => self.rename(from, to),
            Step::Clear => {
                self.keyspace.clear();
                self.model.clear();
            }
        }
    }

    /// Compares everything once all keys whose time has come are gone.
    fn check(&mut self) {
        while self.keyspace.expire_due(self.now, 7, &mut self.effects) {}
        let now = self.now.unix.0;
        self.model
            .retain(|_, (_, deadline)| deadline.is_none_or(|deadline| now <= deadline));
        let held: Model = self
            .keyspace
            .iter()
            .map(|entry| {
                let value = entry.string().expect("all values are strings").to_vec();
                (
                    entry.key().to_vec(),
                    (value, entry.deadline().map(|at| at.0)),
                )
            })
            .collect();
        assert_eq!(held, self.model);
        assert_eq!(self.keyspace.len(), self.model.len());
        let deadlines: Vec<i64> = self.model.values().filter_map(|(_, at)| *at).collect();
        assert_eq!(self.keyspace.expires_len(), deadlines.len());
        let next = deadlines.iter().min().map(|&at| UnixMillis(at));
        assert_eq!(self.keyspace.next_deadline(), next);
        let used: usize = self.keyspace.iter().map(Entry::memory_bytes).sum();
        assert_eq!(self.keyspace.used_bytes(), used);
        assert_eq!(self.keyspace.stats().expired, self.effects.changes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_keyspace_is_a_map_with_deadlines(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.check();
    }

    #[test]
    fn a_scan_meets_all_that_stays(
        count in 1..400_usize,
        partitions in 1..4_u16,
        changes in prop::collection::vec((any::<bool>(), keys()), 1..40),
    ) {
        // Keys whose number is divisible by 5 stay, the others come and go.
        let stays = |number: u32| number.is_multiple_of(5);
        let now = at(0);
        let mut effects = Effects::off();
        let mut shards: Vec<Keyspace> = (0..partitions)
            .map(|index| Keyspace::with_partition(9, Partition { index, count: partitions }))
            .collect();
        let shard_of = |number: u32| (number % u32::from(partitions)) as usize;
        for number in (0..KEYS).filter(|&number| stays(number)) {
            shards[shard_of(number)].set_string(&name(number), b"", Expiry::Never, now, &mut effects);
        }
        let mut seen = BTreeSet::new();
        let mut changes = changes.into_iter().cycle();
        let mut cursor = 0;
        for calls in 0.. {
            prop_assert!(calls < 100_000, "the scan does not end");
            let shard = &shards[Cursor::partition(cursor)];
            let step = shard.scan(Cursor::from_external(cursor), count);
            seen.extend(step.entries.iter().map(|entry| entry.key().to_vec()));
            cursor = step.next.external();
            prop_assert!(cursor < 1 << 53);
            if cursor == 0 {
                break;
            }
            if calls % 8 != 0 {
                continue;
            }
            let Some((add, numbers)) = changes.next() else { break };
            for number in numbers.filter(|&number| !stays(number)) {
                let shard = &mut shards[shard_of(number)];
                if add {
                    shard.set_string(&name(number), b"", Expiry::Never, now, &mut effects);
                } else {
                    shard.remove(&name(number), now, &mut effects);
                }
            }
        }
        for number in (0..KEYS).filter(|&number| stays(number)) {
            prop_assert!(seen.contains(&name(number)), "key {number} was not met");
        }
    }
}

#[test]
fn count_is_honoured_and_an_unchanged_keyspace_is_met_once() {
    let mut keyspace = Keyspace::new(3);
    let mut effects = Effects::off();
    for number in 0..20_000 {
        keyspace.set_string(&name(number), b"", Expiry::Never, at(0), &mut effects);
    }
    for count in [1, 10, 333, 1_000] {
        let mut met = Vec::new();
        let mut cursor = Cursor::from_external(0);
        loop {
            let step = keyspace.scan(cursor, count);
            assert!(step.entries.len() <= count + 1, "{}", step.entries.len());
            met.extend(step.entries.iter().map(|entry| entry.key().to_vec()));
            cursor = step.next;
            if cursor.external() == 0 {
                break;
            }
            assert!(step.entries.len() >= count);
        }
        assert_eq!(met.len(), 20_000);
        assert_eq!(met.iter().collect::<BTreeSet<_>>().len(), 20_000);
    }
}

#[test]
fn a_cursor_of_a_partition_that_does_not_exist_is_at_the_end() {
    let keyspace = Keyspace::with_partition(3, Partition { index: 1, count: 2 });
    for external in [0, 2, u64::MAX, 5 << 12] {
        let step = keyspace.scan(Cursor::from_external(external), 10);
        assert!(step.entries.is_empty());
        assert_eq!(step.next.external(), 0);
    }
    assert_eq!(Cursor::partition((77 << 12) + 5), 5);
}

#[test]
fn random_entries_are_spread_over_all_keys() {
    const DRAWS: u32 = 200_000;
    let mut keyspace = Keyspace::new(4);
    let mut effects = Effects::off();
    assert!(keyspace.random_entry().is_none());
    for number in 0..2_000 {
        keyspace.set_string(&name(number), b"", Expiry::Never, at(0), &mut effects);
    }
    let mut drawn: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for _ in 0..DRAWS {
        let key = keyspace.random_entry().unwrap().key().to_vec();
        *drawn.entry(key).or_default() += 1;
    }
    assert_eq!(drawn.len(), 2_000);
    // 100 draws for each key are expected; the bias between segments is small beside that.
    assert!(drawn.values().all(|&count| (40..200).contains(&count)));
}

#[test]
fn keys_are_found_by_slot() {
    let mut keyspace = Keyspace::new(4);
    let mut effects = Effects::off();
    for number in 0..100 {
        let key = format!("{{foo}}{number}");
        keyspace.set_string(key.as_bytes(), b"", Expiry::Never, at(0), &mut effects);
        keyspace.set_string(&name(number), b"", Expiry::Never, at(0), &mut effects);
    }
    let slot = kevy_proto::slot::slot_of(b"foo");
    assert_eq!(keyspace.count_in_slot(slot), 100);
    assert_eq!(keyspace.keys_in_slot(slot, 7).len(), 7);
    assert!(
        keyspace
            .keys_in_slot(slot, 7)
            .iter()
            .all(|e| e.key().starts_with(b"{foo}"))
    );
}
