//! The list against a deque that is obviously right, in all encodings and over their borders.

use super::*;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

type Bytes = Vec<u8>;

#[derive(Clone, Debug)]
enum Step {
    Push(End, Vec<Bytes>),
    Pop(End, usize),
    Rotate(End),
    Set(usize, Bytes),
    Insert(End, Bytes, Bytes),
    RemoveEqual(End, Bytes, usize),
    Trim(usize, usize),
    Copy,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Left), Just(End::Right)]
}

fn element() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        10 => (0..5_u8).prop_map(|n| vec![b'0' + n]),
        4 => prop::collection::vec(any::<u8>(), 0..100),
        2 => any::<i64>().prop_map(|n| alloc::format!("{n}").into_bytes()),
        1 => (100..20_000_usize).prop_map(|n| vec![b'x'; n]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0..400_usize;
    prop_oneof![
        8 => (end(), prop::collection::vec(element(), 1..60)).prop_map(|(e, l)| Step::Push(e, l)),
        3 => (end(), 0..30_usize).prop_map(|(e, n)| Step::Pop(e, n)),
        1 => (end(), 0..3000_usize).prop_map(|(e, n)| Step::Pop(e, n)),
        2 => end().prop_map(Step::Rotate),
        4 => (index.clone(), element()).prop_map(|(i, e)| Step::Set(i, e)),
        6 => (end(), element(), element()).prop_map(|(s, p, e)| Step::Insert(s, p, e)),
        2 => (end(), element(), 0..20_usize).prop_map(|(e, b, n)| Step::RemoveEqual(e, b, n)),
        1 => (index.clone(), index).prop_map(|(a, b)| Step::Trim(a, b)),
        1 => Just(Step::Copy),
    ]
}

fn limits(size: i64) -> EncodingLimits {
    EncodingLimits {
        list_max_listpack_size: size,
        ..EncodingLimits::default()
    }
}

fn apply_both(step: Step, list: &mut List, model: &mut VecDeque<Bytes>, limits: &EncodingLimits) {
    match step {
        Step::Push(end, elements) => {
            list.push(end, elements.iter().map(Vec::as_slice), limits);
            for element in elements {
                match end {
                    End::Left => model.push_front(element),
                    End::Right => model.push_back(element),
                }
            }
        }
        Step::Pop(end, count) => {
            list.pop(end, count, limits);
            for _ in 0..count.min(model.len()) {
                match end {
                    End::Left => model.pop_front(),
                    End::Right => model.pop_back(),
                };
            }
        }
        Step::Rotate(from) => {
            list.rotate(from, limits);
            if !model.is_empty() {
                match from {
                    End::Left => model.rotate_left(1),
                    End::Right => model.rotate_right(1),
                }
            }
        }
        Step::Set(index, element) => {
            assert_eq!(list.set(index, &element, limits), index < model.len());
            if let Some(place) = model.get_mut(index) {
                *place = element;
            }
        }
        Step::Insert(side, pivot, element) => {
            let found = model.iter().position(|e| *e == pivot);
            assert_eq!(list.insert(side, &pivot, &element, limits), found.is_some());
            if let Some(index) = found {
                model.insert(index + usize::from(side == End::Right), element);
            }
        }
        Step::RemoveEqual(from, element, most) => {
            let mut left = most;
            let mut keep = |e: &Bytes| {
                let goes = *e == element && left > 0;
                left -= usize::from(goes);
                !goes
            };
            match from {
                End::Left => model.retain(&mut keep),
                End::Right => {
                    let mut kept: VecDeque<Bytes> =
                        model.drain(..).rev().filter(|e| keep(e)).collect();
                    kept.make_contiguous().reverse();
                    *model = kept;
                }
            }
            let removed = list.remove_equal(from, &element, most, limits);
            assert_eq!(removed, most - left);
        }
        Step::Trim(a, b) => {
            let (start, end) = (a.min(b).min(model.len()), a.max(b).min(model.len()));
            list.trim(start..end, limits);
            model.truncate(end);
            model.drain(..start);
        }
        Step::Copy => *list = list.clone(),
    }
}

/// What must hold after every step.
fn check(list: &List, model: &VecDeque<Bytes>, limits: &EncodingLimits) {
    assert_eq!(list.len(), model.len());
    assert!(list.iter().eq(model.iter().map(Vec::as_slice)));
    assert!(list.iter().rev().eq(model.iter().rev().map(Vec::as_slice)));
    for index in [0, 1, model.len() / 3, model.len() / 2, model.len()] {
        assert_eq!(list.get(index), model.get(index).map(Vec::as_slice));
        if index <= model.len() {
            let middle = index..(index + 7).min(model.len());
            let expected = model.range(middle.clone()).map(Vec::as_slice);
            assert!(list.range(middle).eq(expected));
        }
    }
    if let Form::Large(chunks) = &list.form {
        let pieces = || chunks.pieces().0.iter().chain(chunks.pieces().1);
        let limit = Limit::of(limits);
        for piece in pieces() {
            assert!(!piece.is_empty());
            let exceeds = limit.is_exceeded_by(piece.listpack_bytes() / 2, piece.len() / 2);
            assert!(piece.len() == 1 || !exceeds, "a piece far too large");
        }
        let piece_bytes: usize = pieces().map(Packed::heap_bytes).sum();
        let deque_bytes = chunks.heap_bytes() - piece_bytes;
        assert_eq!(deque_bytes % size_of::<Packed>(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_list_does_what_a_deque_does(
        size in prop_oneof![Just(-2_i64), Just(-5), Just(0), Just(1), Just(4), Just(30)],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let limits = limits(size);
        let (mut list, mut model) = (List::default(), VecDeque::new());
        for step in steps {
            apply_both(step, &mut list, &mut model, &limits);
            check(&list, &model, &limits);
        }
    }
}

fn pushed(count: usize, limits: &EncodingLimits) -> List {
    let mut list = List::default();
    (0..count).for_each(|_| list.push(End::Right, core::iter::once(&b"0123456789"[..]), limits));
    list
}

#[test]
fn encodings_change_at_the_limits_of_redis() {
    let limits = limits(10);
    let mut list = pushed(10, &limits);
    assert_eq!(list.encoding(), Encoding::Listpack);
    list.push(End::Left, core::iter::once(&b"x"[..]), &limits);
    assert_eq!(list.encoding(), Encoding::Quicklist);
    list.pop(End::Left, 5, &limits);
    assert_eq!(list.encoding(), Encoding::Quicklist);
    list.pop(End::Left, 1, &limits);
    assert_eq!(list.encoding(), Encoding::Listpack);
    // Two pieces stay large, however few elements they have.
    let mut list = pushed(20, &limits);
    list.trim(9..11, &limits);
    assert_eq!(list.encoding(), Encoding::Quicklist);
}

#[test]
fn a_large_list_takes_little_more_than_its_elements() {
    let limits = EncodingLimits::default();
    let list = pushed(100_000, &limits);
    let bytes = list.heap_bytes();
    assert!(bytes < 100_000 * 12 * 11 / 10, "{bytes}");
    assert!(list.clone().heap_bytes() <= bytes);
}

#[test]
fn memory_comes_back() {
    let limits = EncodingLimits::default();
    let mut list = pushed(100_000, &limits);
    list.pop(End::Left, 99_990, &limits);
    assert!(list.heap_bytes() < 3000, "{}", list.heap_bytes());
}
