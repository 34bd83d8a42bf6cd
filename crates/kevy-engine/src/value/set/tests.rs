//! The set against an ordered set that is obviously right, in all forms and over their borders.

use super::*;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use kevy_proto::rng::Rng;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u8>),
    AddNumbers(i64, i64),
    Remove(Vec<u8>),
    RemoveNumbers(i64, i64),
    PopRandom(usize),
    Copy,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..30_i64).prop_map(|n| format!("{n}").into_bytes()),
        2 => any::<i64>().prop_map(|n| format!("{n}").into_bytes()),
        3 => (0..40_u8).prop_map(|n| vec![b'a' + n]),
        1 => prop::collection::vec(any::<u8>(), 0..80),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = || (-20..700_i64, 0..300_i64);
    prop_oneof![
        12 => member().prop_map(Step::Add),
        1 => numbers().prop_map(|(from, count)| Step::AddNumbers(from, count)),
        8 => member().prop_map(Step::Remove),
        1 => numbers().prop_map(|(from, count)| Step::RemoveNumbers(from, count)),
        1 => (0..50_usize).prop_map(Step::PopRandom),
        1 => Just(Step::Copy),
    ]
}

fn numbers(from: i64, count: i64) -> impl Iterator<Item = Vec<u8>> {
    (from..from + count).map(|n| format!("{n}").into_bytes())
}

struct Pair {
    set: Set,
    model: BTreeSet<Vec<u8>>,
    limits: EncodingLimits,
    rng: Rng,
}

impl Pair {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Add(member) => self.add(member),
            Step::AddNumbers(from, count) => numbers(from, count).for_each(|m| self.add(m)),
            Step::Remove(member) => self.remove(&member),
            Step::RemoveNumbers(from, count) => {
                numbers(from, count).for_each(|m| self.remove(&m));
            }
            Step::PopRandom(count) => {
                let sample = self.set.sample(count, &mut self.rng);
                let sample: Vec<Vec<u8>> = sample.iter().map(|m| m.to_vec()).collect();
                assert_eq!(sample.len(), count.min(self.model.len()));
                sample.iter().for_each(|member| self.remove(member));
            }
            Step::Copy => self.set = self.set.clone(),
        }
    }

    fn add(&mut self, member: Vec<u8>) {
        let is_new = self.set.add(&member, &self.limits);
        assert_eq!(is_new, self.model.insert(member));
    }

    fn remove(&mut self, member: &[u8]) {
        assert_eq!(self.set.remove(member), self.model.remove(member));
    }

    fn check(&mut self) {
        assert_eq!(self.set.len(), self.model.len());
        let members: BTreeSet<Vec<u8>> = self.set.iter().map(|m| m.to_vec()).collect();
        assert_eq!(members, self.model);
        assert!(self.model.iter().all(|member| self.set.contains(member)));
        let random = self.set.random(&mut self.rng).map(|m| m.to_vec());
        assert!(random.map_or(self.model.is_empty(), |m| self.model.contains(&m)));
        let mut scanned = BTreeSet::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let (found, after) = self.set.scan(from, 7);
            scanned.extend(found.iter().map(|m| m.to_vec()));
            next = after;
        }
        assert_eq!(scanned, self.model);
        if let Form::Large(large) = &self.set.form {
            let bytes: usize = self
                .model
                .iter()
                .map(|m| crate::keyspace::allocated(m.len()))
                .sum();
            assert!(large.heap_bytes() > bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_set_does_what_an_ordered_set_does(
        intset in prop_oneof![Just(0_usize), Just(5), Just(512)],
        listpack in prop_oneof![Just(0_usize), Just(5), Just(128)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let limits = EncodingLimits {
            set_max_intset_entries: intset,
            set_max_listpack_entries: listpack,
            ..EncodingLimits::default()
        };
        let mut pair = Pair {
            set: Set::default(),
            model: BTreeSet::new(),
            limits,
            rng: Rng::from_seed(1),
        };
        for step in steps {
            pair.apply(step);
            pair.check();
        }
    }
}

fn encoding(members: &[&[u8]], limits: &EncodingLimits) -> &'static str {
    let mut set = Set::default();
    members.iter().for_each(|member| {
        set.add(member, limits);
    });
    set.encoding().name()
}

#[test]
fn encodings_change_at_the_limits_of_redis() {
    let limits = EncodingLimits::default();
    let numbers: Vec<Vec<u8>> = numbers(0, 513).collect();
    let numbers: Vec<&[u8]> = numbers.iter().map(Vec::as_slice).collect();
    let with = |count: usize, last: &'static [u8]| {
        let mut members = numbers[..count].to_vec();
        members.push(last);
        members
    };
    assert_eq!(encoding(&numbers[..512], &limits), "intset");
    assert_eq!(encoding(&numbers, &limits), "hashtable");
    assert_eq!(encoding(&with(127, b"x"), &limits), "listpack");
    assert_eq!(encoding(&with(128, b"x"), &limits), "hashtable");
    assert_eq!(encoding(&[b"x", &[b'y'; 64]], &limits), "listpack");
    assert_eq!(encoding(&[b"x", &[b'y'; 65]], &limits), "hashtable");
    assert_eq!(encoding(&[&[b'y'; 65]], &limits), "hashtable");
    let few = EncodingLimits {
        set_max_intset_entries: 0,
        set_max_listpack_entries: 2,
        ..limits
    };
    assert_eq!(encoding(&numbers[..2], &few), "listpack");
    assert_eq!(encoding(&numbers[..3], &few), "hashtable");
}

#[test]
fn a_set_takes_two_words() {
    assert_eq!(size_of::<Set>(), 16);
}
