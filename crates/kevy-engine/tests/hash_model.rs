//! A hash against a map that is obviously right, and the promise of `HSCAN` while fields come and go.

use kevy_engine::keyspace::Encoding;
use kevy_engine::value::hash::Field;
use kevy_engine::value::{Collection, EncodingLimits, Hash};
use kevy_proto::rng::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Set(u16, Vec<u8>, Option<i64>),
    SetMany(u16, u16),
    Remove(u16),
    RemoveMany(u16, u16),
    Expire(u16, Option<i64>),
    RemoveDue(usize),
    Wait(i64),
    Clone,
}

fn field() -> impl Strategy<Value = u16> {
    // Few fields for many meetings, many for many segments.
    prop_oneof![3 => 0..12_u16, 1 => 0..3_000_u16]
}

fn ttl_ms() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(-5..100_i64)
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        8 => (field(), value, ttl_ms()).prop_map(|(f, v, t)| Step::Set(f, v, t)),
        1 => (0..3_000_u16, 1..700_u16).prop_map(|(f, n)| Step::SetMany(f, n)),
        4 => field().prop_map(Step::Remove),
        1 => (0..3_000_u16, 1..700_u16).prop_map(|(f, n)| Step::RemoveMany(f, n)),
        4 => (field(), ttl_ms()).prop_map(|(f, t)| Step::Expire(f, t)),
        2 => (0..20_usize).prop_map(Step::RemoveDue),
        2 => (0..40_i64).prop_map(Step::Wait),
        1 => Just(Step::Clone),
    ]
}

/// A field's value and deadline, hidden fields included until they are removed.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

struct World {
    hash: Hash,
    model: Model,
    limits: EncodingLimits,
    now_ms: i64,
}

fn name(number: u16) -> Vec<u8> {
    format!("field:{number}").into_bytes()
}

impl World {
    fn new(most_packed: usize) -> Self {
        Self {
            hash: Hash::default(),
            model: Model::new(),
            limits: EncodingLimits {
                hash_max_listpack_entries: most_packed,
                hash_seed: 7,
                ..EncodingLimits::default()
            },
            now_ms: 1_000,
        }
    }

    fn alive(&self, name: &[u8]) -> Option<&(Vec<u8>, Option<i64>)> {
        let now_ms = self.now_ms;
        self.model
            .get(name)
            .filter(|(_, deadline)| deadline.is_none_or(|at| now_ms <= at))
    }

    fn set(&mut self, name: Vec<u8>, value: Vec<u8>, deadline: Option<i64>) {
        let expected = self.alive(&name).is_none();
        let field = Field {
            name: &name,
            value: &value,
            deadline,
        };
        assert_eq!(self.hash.set(field, self.now_ms, &self.limits), expected);
        self.model.insert(name, (value, deadline));
    }

    fn remove(&mut self, name: &[u8]) {
        let expected = self.alive(name).is_some();
        assert_eq!(self.hash.remove(name, self.now_ms), expected);
        if expected {
            self.model.remove(name);
        }
    }

    fn take(&mut self, step: Step) {
        let at = |ttl: Option<i64>, now_ms| ttl.map(|ttl| now_ms + ttl);
        match step {
            Step::Set(number, value, ttl) => self.set(name(number), value, at(ttl, self.now_ms)),
            Step::SetMany(first, count) => {
                (first..first + count).for_each(|n| self.set(name(n), vec![b'v'], None));
            }
            Step::Remove(number) => self.remove(&name(number)),
            Step::RemoveMany(first, count) => {
                (first..first + count).for_each(|n| self.remove(&name(n)));
            }
            Step::Expire(number, ttl) => {
                let (name, deadline) = (name(number), at(ttl, self.now_ms));
                self.hash.set_deadline(&name, deadline, self.now_ms);
                if self.alive(&name).is_some()
                    && let Some(held) = self.model.get_mut(&name)
                {
                    held.1 = deadline;
                }
            }
            Step::RemoveDue(budget) => self.remove_due(budget),
            Step::Wait(ms) => self.now_ms += ms,
            Step::Clone => self.hash = self.hash.clone(),
        }
    }

    fn remove_due(&mut self, budget: usize) {
        let due = self.model.len() - self.hash.len(self.now_ms);
        let removed = self.hash.remove_due(self.now_ms, budget);
        assert_eq!(removed.len(), due.min(budget));
        for name in removed {
            assert!(self.alive(&name).is_none());
            assert!(self.model.remove(&name).is_some());
        }
    }

    fn check(&self) {
        let fields = self.hash.fields(self.now_ms);
        let got: Model = fields
            .map(|f| (f.name.to_vec(), (f.value.to_vec(), f.deadline)))
            .collect();
        let mut expected = self.model.clone();
        expected.retain(|name, _| self.alive(name).is_some());
        assert_eq!(got, expected);
        assert_eq!(self.hash.len(self.now_ms), expected.len());
        let first = self.model.values().filter_map(|(_, deadline)| *deadline);
        assert_eq!(self.hash.next_deadline(), first.min());
        assert_eq!(self.hash.is_vacant(), self.model.is_empty());
        for number in 0..12 {
            let name = name(number);
            let got = self.hash.get(&name, self.now_ms);
            let got = got.map(|f| (f.value.to_vec(), f.deadline));
            assert_eq!(got, expected.get(&name).cloned());
        }
        self.check_random(&expected);
    }

    fn check_random(&self, expected: &Model) {
        let mut rng = Rng::from_seed(self.now_ms as u64);
        let one = self.hash.random(self.now_ms, &mut rng);
        assert_eq!(one.is_some(), !expected.is_empty());
        assert!(one.is_none_or(|field| expected.contains_key(field.name)));
        for count in [0, 1, 5, usize::MAX] {
            let sample = self.hash.sample(count, self.now_ms, &mut rng);
            let names: BTreeSet<&[u8]> = sample.iter().map(|field| field.name).collect();
            assert_eq!(names.len(), sample.len());
            assert_eq!(names.len(), count.min(expected.len()));
            assert!(names.iter().all(|&name| expected.contains_key(name)));
        }
        let mut drawn = 0;
        self.hash.draw(10, self.now_ms, &mut rng, |field| {
            assert!(expected.contains_key(field.name));
            drawn += 1;
        });
        assert_eq!(drawn, if expected.is_empty() { 0 } else { 10 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_hash_is_a_map(most_packed in prop_oneof![Just(4_usize), Just(10_000)], steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(most_packed);
        for step in steps {
            world.take(step);
            world.check();
        }
        world.now_ms += 1_000;
        while !world.hash.remove_due(world.now_ms, 100).is_empty() {}
        prop_assert_eq!(world.hash.next_deadline(), None);
    }

    #[test]
    fn a_scan_meets_all_that_stays(before in 0..2_000_u16, count in 1..50_usize, added in 0..60_u16, removed in 0..60_u16) {
        let mut world = World::new(4);
        let stays = |number: u16| number.is_multiple_of(3);
        (0..before).for_each(|n| world.set(name(n), Vec::new(), None));
        let mut seen = BTreeSet::new();
        let (mut next, mut new, mut old) = (Some(0), before, 0);
        while let Some(from) = next {
            let (found, after) = world.hash.scan(from, count, 0);
            seen.extend(found.iter().map(|field| field.name.to_vec()));
            next = after;
            prop_assert!(next.is_none_or(|next| next > 0 && next < 1 << 53));
            if new < 30_000 {
                (new..new + added).for_each(|n| world.set(name(n), Vec::new(), None));
                new += added;
            }
            let leaving = old..(old + removed).min(before);
            leaving.filter(|&n| !stays(n)).for_each(|n| world.remove(&name(n)));
            old = (old + removed).min(before);
        }
        for number in (0..before).filter(|&n| stays(n)) {
            prop_assert!(seen.contains(&name(number)));
        }
    }
}

#[test]
fn a_hash_becomes_large_at_its_limits_and_stays_so() {
    let limits = EncodingLimits::default();
    let set = |hash: &mut Hash, name: &[u8], value: &[u8]| {
        let field = Field {
            name,
            value,
            deadline: None,
        };
        hash.set(field, 0, &limits);
    };
    let mut many = Hash::default();
    for number in 0..limits.hash_max_listpack_entries {
        assert_eq!(many.encoding(), Encoding::Listpack);
        set(&mut many, &name(number as u16), b"");
    }
    assert_eq!(many.encoding(), Encoding::Listpack);
    set(&mut many, b"one more", b"");
    assert_eq!(many.encoding(), Encoding::Hashtable);
    let mut long = Hash::default();
    set(&mut long, &[b'n'; 64], &[b'v'; 64]);
    assert_eq!(long.encoding(), Encoding::Listpack);
    set(&mut long, b"", &[b'v'; 65]);
    assert_eq!(long.encoding(), Encoding::Hashtable);
    long.remove(b"", 0);
    assert_eq!(long.encoding(), Encoding::Hashtable);
}

#[test]
fn heap_bytes_follow_what_is_held() {
    let limits = EncodingLimits::default();
    let mut hash = Hash::default();
    for number in 0..20_000_u16 {
        let field = Field {
            name: &name(number),
            value: &[b'v'; 20],
            deadline: None,
        };
        hash.set(field, 0, &limits);
    }
    let full = hash.heap_bytes();
    assert!((20_000 * 48..20_000 * 90).contains(&full), "{full}");
    for number in 0..20_000_u16 {
        hash.remove(&name(number), 0);
    }
    assert!(hash.heap_bytes() < full / 10, "{}", hash.heap_bytes());
}
