//! Linearizability by search (Wing and Gong, with Lowe's memory of what was tried): is there an order of all operations, in
//! which each takes place at one moment between its request and its reply, that a sequential model agrees with?
//!
//! Operations without a known outcome may have taken place at any later moment, or never. Operations of one session take
//! place in the order in which they were sent.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential object.
pub trait Model {
    /// What it holds.
    type State: Clone + Eq + Hash + Debug;
    /// What is done to it, with what was observed; an action without observation is one whose outcome is unknown.
    type Action: Debug + PartialEq;

    /// What it holds at first.
    fn initial(&self) -> Self::State;

    /// What it holds after `action`, or none if it would not have shown what was observed.
    fn step(&self, state: &Self::State, action: &Self::Action) -> Option<Self::State>;

    /// Whether `action`, with what was observed, changes nothing wherever it can take place: a read, say. Such an action
    /// takes place as soon as it can, without a second thought, since it hinders nothing.
    fn only_looks(&self, action: &Self::Action) -> bool;

    /// The one state in which `action` would have shown what was observed, if there is but one.
    fn needs(&self, action: &Self::Action) -> Option<Self::State>;

    /// What `action` can leave behind.
    fn leaves(&self, action: &Self::Action) -> Leaves<Self::State>;

    /// Whether `steps` actions that leave [`Leaves::Next`] can lead from one state to another one.
    fn leads(&self, from: &Self::State, to: &Self::State, steps: usize) -> bool;

    /// Whether only actions that [need](Self::needs) one of the two states tell them apart.
    fn alike(&self, one: &Self::State, other: &Self::State) -> bool;
}

/// What an action can leave behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaves<S> {
    /// This state, if it changes anything.
    Exactly(S),
    /// A state that depends on what it found.
    Next,
    /// What it found.
    Same,
}

/// One operation on the object.
#[derive(Clone, Debug)]
pub struct Timed<A> {
    /// What was done.
    pub action: A,
    /// The session it was done in.
    pub session: u32,
    /// Its request's place in the order of moments.
    pub invoked: u64,
    /// Its reply's place, if it is known.
    pub returned: Option<u64>,
}

/// What the search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none.
    Impossible,
    /// The search was given up.
    Undecided,
}

/// How many steps a search may take before it is given up.
pub const STEPS_MAX: u64 = 2_000_000;

/// Looks for an order of `operations`.
pub fn check<M: Model>(model: &M, mut operations: Vec<Timed<M::Action>>) -> Verdict {
    operations.sort_by_key(|operation| operation.invoked);
    let mut search = Search {
        model,
        predecessors: predecessors(&operations),
        known: operations.iter().filter(|o| o.returned.is_some()).count(),
        operations: &operations,
        done: vec![0; operations.len().div_ceil(64)],
        seen: HashSet::new(),
    };
    search.run()
}

/// For each operation the one before it in its session, if its outcome is known: an unknown one may never have happened.
fn predecessors<A>(operations: &[Timed<A>]) -> Vec<Option<usize>> {
    let before = |at: usize| {
        (0..at)
            .rev()
            .find(|&earlier| operations[earlier].session == operations[at].session)
            .filter(|&earlier| operations[earlier].returned.is_some())
    };
    (0..operations.len()).map(before).collect()
}

struct Search<'a, M: Model> {
    model: &'a M,
    operations: &'a [Timed<M::Action>],
    predecessors: Vec<Option<usize>>,
    /// How many operations have a known outcome: all of them must find their place.
    known: usize,
    /// One bit an operation: it has its place.
    done: Vec<u64>,
    seen: HashSet<(Vec<u64>, M::State)>,
}

/// A point of the search: the state reached, and what could come next and was not tried yet (last first).
struct Frame<S> {
    state: S,
    untried: Vec<usize>,
    /// The operation that led here.
    by: Option<usize>,
}

impl<M: Model> Search<'_, M> {
    fn run(&mut self) -> Verdict {
        let mut placed = 0;
        let mut steps = 0;
        let mut stack = vec![self.frame(self.model.initial(), None)];
        while let Some(frame) = stack.last_mut() {
            if placed == self.known {
                return Verdict::Linearizable;
            }
            steps += 1;
            if steps > STEPS_MAX {
                return Verdict::Undecided;
            }
            let Some(next) = frame.untried.pop() else {
                if let Some(by) = frame.by {
                    self.done[by / 64] &= !(1 << (by % 64));
                    placed -= usize::from(self.operations[by].returned.is_some());
                }
                stack.pop();
                continue;
            };
            let operation = &self.operations[next];
            let Some(state) = self.model.step(&frame.state, &operation.action) else {
                continue;
            };
            self.done[next / 64] |= 1 << (next % 64);
            let strands = state != frame.state && self.strands(&frame.state, &state);
            if !strands && self.seen.insert((self.done.clone(), state.clone())) {
                placed += usize::from(operation.returned.is_some());
                let frame = self.frame(state, Some(next));
                stack.push(frame);
            } else {
                self.done[next / 64] &= !(1 << (next % 64));
            }
        }
        if self.known == 0 {
            Verdict::Linearizable
        } else {
            Verdict::Impossible
        }
    }

    /// Whether leaving `state` for `after` would strand an operation that needs it, because nothing leads back.
    fn strands(&self, state: &M::State, after: &M::State) -> bool {
        let needs_it = |action: &M::Action| self.model.needs(action).as_ref() == Some(state);
        if !self.waiting().any(needs_it) {
            return false;
        }
        let steps = self.waiting_steps();
        let leads = |from: &M::State| from == state || self.model.leads(from, state, steps);
        let leads_back = |action| match self.model.leaves(action) {
            Leaves::Exactly(left) => leads(&left),
            Leaves::Next | Leaves::Same => false,
        };
        !leads(after) && !self.waiting().any(leads_back)
    }

    /// Whether an operation of unknown outcome may explain something at `state`, beside those `chosen` already.
    fn is_worth_a_try(&self, operation: usize, chosen: &[usize], state: &M::State) -> bool {
        let action = &self.operations[operation].action;
        // Two unknown outcomes of one action are interchangeable once both are possible.
        let is_chosen = |other: &usize| self.operations[*other].action == *action;
        if chosen.iter().any(is_chosen) {
            return false;
        }
        let Leaves::Exactly(left) = self.model.leaves(action) else {
            return true;
        };
        let steps = self.waiting_steps();
        let explains = |action: &M::Action| {
            let needed = self.model.needs(action);
            needed.is_some_and(|needed| left == needed || self.model.leads(&left, &needed, steps))
        };
        !self.model.alike(&left, state) || self.waiting().any(explains)
    }

    /// Actions that wait for their place.
    fn waiting(&self) -> impl Iterator<Item = &M::Action> {
        let all = self.operations.iter().enumerate();
        all.filter(|(index, _)| !self.is_done(*index))
            .map(|(_, operation)| &operation.action)
    }

    /// How many of them leave a state that depends on what they find.
    fn waiting_steps(&self) -> usize {
        let steps = |action: &&M::Action| self.model.leaves(action) == Leaves::Next;
        self.waiting().filter(steps).count()
    }

    fn is_done(&self, operation: usize) -> bool {
        self.done[operation / 64] & 1 << (operation % 64) != 0
    }

    /// What can come next: operations that were invoked before any other one that still waits for its place returned.
    /// Unknown outcomes are tried last: mostly they are needed only where a later observation asks for them.
    fn frame(&self, state: M::State, by: Option<usize>) -> Frame<M::State> {
        let mut earliest_return = u64::MAX;
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (index, operation) in self.operations.iter().enumerate() {
            if operation.invoked > earliest_return {
                break;
            }
            if self.is_done(index) {
                continue;
            }
            let waits = self.predecessors[index].is_some_and(|before| !self.is_done(before));
            match operation.returned {
                Some(returned) => {
                    earliest_return = earliest_return.min(returned);
                    if !waits {
                        known.push(index);
                    }
                }
                None if !waits && self.is_worth_a_try(index, &unknown, &state) => {
                    unknown.push(index);
                }
                None => {}
            }
        }
        // What returned first is most likely to have happened first; the last one is tried first.
        known.sort_by_key(|index| Reverse(self.operations[*index].returned));
        let looks = |index: &usize| {
            let action = &self.operations[*index].action;
            self.model.only_looks(action) && self.model.step(&state, action).is_some()
        };
        let untried = match known.iter().copied().find(looks) {
            Some(look) => vec![look],
            None => [unknown, known].concat(),
        };
        Frame { state, untried, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register of numbers: `(what to write, what was read)`.
    struct Numbers;

    #[derive(Debug, PartialEq)]
    enum Do {
        Write(u32),
        Read(u32),
    }

    impl Model for Numbers {
        type State = u32;
        type Action = Do;

        fn initial(&self) -> u32 {
            0
        }

        fn step(&self, state: &u32, action: &Do) -> Option<u32> {
            match action {
                Do::Write(number) => Some(*number),
                Do::Read(number) => (number == state).then_some(*state),
            }
        }

        fn only_looks(&self, action: &Do) -> bool {
            matches!(action, Do::Read(_))
        }

        fn needs(&self, action: &Do) -> Option<u32> {
            match action {
                Do::Read(number) => Some(*number),
                Do::Write(_) => None,
            }
        }

        fn leaves(&self, action: &Do) -> Leaves<u32> {
            match action {
                Do::Read(_) => Leaves::Same,
                Do::Write(number) => Leaves::Exactly(*number),
            }
        }

        fn leads(&self, from: &u32, to: &u32, _: usize) -> bool {
            from == to
        }

        fn alike(&self, _: &u32, _: &u32) -> bool {
            true
        }
    }

    fn at(session: u32, invoked: u64, returned: impl Into<Option<u64>>, action: Do) -> Timed<Do> {
        Timed {
            action,
            session,
            invoked,
            returned: returned.into(),
        }
    }

    #[test]
    fn reads_during_a_write_may_see_either_value_but_not_go_back() {
        let write = || at(1, 1, 10, Do::Write(7));
        let forth = vec![write(), at(2, 2, 3, Do::Read(0)), at(2, 4, 5, Do::Read(7))];
        assert_eq!(check(&Numbers, forth), Verdict::Linearizable);
        let back = vec![write(), at(2, 2, 3, Do::Read(7)), at(2, 4, 5, Do::Read(0))];
        assert_eq!(check(&Numbers, back), Verdict::Impossible);
    }

    #[test]
    fn a_stale_read_after_the_write_returned_is_impossible() {
        let stale = vec![at(1, 1, 2, Do::Write(7)), at(2, 3, 4, Do::Read(0))];
        assert_eq!(check(&Numbers, stale), Verdict::Impossible);
    }

    #[test]
    fn an_unknown_write_may_come_late_or_never_but_not_twice() {
        let unknown = || at(1, 1, None, Do::Write(7));
        let never = vec![unknown(), at(2, 3, 4, Do::Read(0))];
        assert_eq!(check(&Numbers, never), Verdict::Linearizable);
        let late = vec![
            unknown(),
            at(2, 3, 4, Do::Write(1)),
            at(2, 5, 6, Do::Read(1)),
            at(2, 7, 8, Do::Read(7)),
        ];
        assert_eq!(check(&Numbers, late), Verdict::Linearizable);
        let twice = vec![
            unknown(),
            at(2, 3, 4, Do::Read(7)),
            at(2, 5, 6, Do::Write(1)),
            at(2, 7, 8, Do::Read(7)),
        ];
        assert_eq!(check(&Numbers, twice), Verdict::Impossible);
    }

    #[test]
    fn a_session_keeps_its_order_although_its_pipeline_overlaps() {
        let reordered = vec![
            at(1, 1, 10, Do::Write(1)),
            at(1, 2, 11, Do::Write(2)),
            at(2, 12, 13, Do::Read(1)),
        ];
        assert_eq!(check(&Numbers, reordered), Verdict::Impossible);
    }

    #[test]
    fn a_thousand_operations_of_many_sessions_are_decided() {
        let mut operations = Vec::new();
        for round in 0..100 {
            let start = u64::from(round) * 100 + 1;
            for session in 0..5 {
                let number = round * 10 + session;
                let invoked = start + u64::from(session);
                operations.push(at(session, invoked, start + 50, Do::Write(number)));
                operations.push(at(session + 5, invoked + 20, start + 60, Do::Read(number)));
            }
        }
        assert_eq!(check(&Numbers, operations), Verdict::Linearizable);
    }
}
