//! Linearizability of keys, and of groups of keys that are only ever touched together (spec C4).
//!
//! A group behaves like one register if commands over several keys are atomic: a reply that mixes two states, or a count that
//! is neither none nor all, is a violation by itself; what remains goes through the search of [`linearizable`].

use super::Violation;
use super::linearizable::{self, Leaves, Model, Timed, Verdict};
use crate::history::Operation;
use crate::reply::{Reply, number};
use std::collections::BTreeMap;

/// How many lines of a history a violation shows.
const LINES_MAX: usize = 400;

/// Checks each group by itself. A key `name:part` belongs to the group `name`, a key without `:` is a group of its own; every
/// command names all keys of one group.
///
/// # Errors
/// The first group that is no register.
pub fn check(operations: &[Operation]) -> Result<(), Violation> {
    let mut groups: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in operations {
        let key = operation.text(1);
        let name = key.split(':').next().unwrap_or(key);
        groups.entry(name).or_default().push(operation);
    }
    for (name, operations) in groups {
        check_group(name, &operations)?;
    }
    Ok(())
}

fn check_group(name: &str, operations: &[&Operation]) -> Result<(), Violation> {
    let mut timed = Vec::with_capacity(operations.len());
    for operation in operations {
        let action = observe(operation).map_err(|what| {
            Violation::new("atomicity", format!("{}: {what}", operation.describe()))
        })?;
        // A read that was never answered says nothing.
        if action.observed.is_some() || action.what.writes() {
            timed.push(Timed {
                action,
                session: operation.session,
                invoked: operation.invoked,
                returned: operation.outcome.as_ref().map(|outcome| outcome.returned),
            });
        }
    }
    let verdict = linearizable::check(&Register, timed);
    if verdict == Verdict::Linearizable {
        return Ok(());
    }
    let check = match verdict {
        Verdict::Undecided => "undecided",
        Verdict::Linearizable | Verdict::Impossible => "linearizability",
    };
    let lines = operations.iter().take(LINES_MAX);
    let lines: Vec<_> = lines.map(|operation| operation.describe()).collect();
    let what = format!("{name}\n{}", lines.join("\n"));
    Err(Violation::new(check, what))
}

/// One register of a number, or nothing.
struct Register;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Action {
    what: What,
    observed: Option<Observed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Get,
    Exists,
    Set(i64),
    SetIfAbsent(i64),
    Swap(i64),
    Add(i64),
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observed {
    Done,
    Value(Option<i64>),
    Number(i64),
}

impl What {
    fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::Exists)
    }
}

impl Model for Register {
    type State = Option<i64>;
    type Action = Action;

    fn initial(&self) -> Option<i64> {
        None
    }

    fn step(&self, state: &Option<i64>, action: &Action) -> Option<Option<i64>> {
        let held = *state;
        let is_there = i64::from(held.is_some());
        let (after, shown) = match action.what {
            What::Get => (held, Observed::Value(held)),
            What::Exists => (held, Observed::Number(is_there)),
            What::Set(value) => (Some(value), Observed::Done),
            What::SetIfAbsent(value) => (held.or(Some(value)), Observed::Number(1 - is_there)),
            What::Swap(value) => (Some(value), Observed::Value(held)),
            What::Add(number) => {
                let sum = held.unwrap_or(0) + number;
                (Some(sum), Observed::Number(sum))
            }
            What::Delete => (None, Observed::Number(is_there)),
        };
        let agrees = action.observed.is_none_or(|observed| observed == shown);
        agrees.then_some(after)
    }

    fn only_looks(&self, action: &Action) -> bool {
        match action.what {
            What::Get | What::Exists => true,
            What::SetIfAbsent(_) | What::Delete => action.observed == Some(Observed::Number(0)),
            What::Set(_) | What::Swap(_) | What::Add(_) => false,
        }
    }

    fn needs(&self, action: &Action) -> Option<Option<i64>> {
        match (action.what, action.observed?) {
            (What::Get | What::Swap(_), Observed::Value(value)) => Some(value),
            (What::Exists | What::Delete, Observed::Number(0))
            | (What::SetIfAbsent(_), Observed::Number(1)) => Some(None),
            // From nothing or from 0 an addition comes to the same.
            (What::Add(by), Observed::Number(sum)) if sum != by => Some(Some(sum - by)),
            _ => None,
        }
    }

    fn leaves(&self, action: &Action) -> Leaves<Option<i64>> {
        match (action.what, action.observed) {
            (What::Get | What::Exists, _) => Leaves::Same,
            (What::Set(value) | What::SetIfAbsent(value) | What::Swap(value), _) => {
                Leaves::Exactly(Some(value))
            }
            (What::Add(_), Some(Observed::Number(sum))) => Leaves::Exactly(Some(sum)),
            (What::Add(_), _) => Leaves::Next,
            (What::Delete, _) => Leaves::Exactly(None),
        }
    }

    fn leads(&self, from: &Option<i64>, to: &Option<i64>, steps: usize) -> bool {
        // Each step adds or takes 1.
        to.is_some_and(|to| from.unwrap_or(0).abs_diff(to) <= steps as u64)
    }

    fn alike(&self, one: &Option<i64>, other: &Option<i64>) -> bool {
        one.is_some() == other.is_some()
    }
}

fn observe(operation: &Operation) -> Result<Action, String> {
    let what = what(operation)?;
    let width = keys(operation) as i64;
    let observed = match operation.reply() {
        None => None,
        Some(reply) => Some(observed(what, width, reply)?),
    };
    Ok(Action { what, observed })
}

fn what(operation: &Operation) -> Result<What, String> {
    let number = |index| {
        let parsed = operation.text(index).parse::<i64>();
        parsed.map_err(|_| "a request this check does not know".to_owned())
    };
    Ok(match operation.name() {
        "GET" | "MGET" => What::Get,
        "EXISTS" => What::Exists,
        "SET" | "MSET" => What::Set(number(2)?),
        "SETNX" | "MSETNX" => What::SetIfAbsent(number(2)?),
        "GETSET" => What::Swap(number(2)?),
        "INCR" => What::Add(1),
        "DECR" => What::Add(-1),
        "DEL" | "UNLINK" => What::Delete,
        _ => return Err("a request this check does not know".to_owned()),
    })
}

/// How many keys the request names.
fn keys(operation: &Operation) -> usize {
    match operation.name() {
        "MSET" | "MSETNX" => operation.request.len() / 2,
        "MGET" | "EXISTS" | "DEL" | "UNLINK" => operation.request.len() - 1,
        _ => 1,
    }
}

fn observed(what: What, width: i64, reply: &Reply) -> Result<Observed, String> {
    match (what, reply) {
        (What::Set(_), reply) if *reply == Reply::OK => Ok(Observed::Done),
        (What::Get, Reply::Array(elements)) => one_of_all(elements).and_then(value),
        (What::Get | What::Swap(_), reply) => value(reply),
        (What::Exists | What::Delete, Reply::Integer(0)) => Ok(Observed::Number(0)),
        (What::Exists | What::Delete, Reply::Integer(count)) if *count == width => {
            Ok(Observed::Number(1))
        }
        (What::Exists | What::Delete, Reply::Integer(_)) => Err("some of a group".to_owned()),
        (What::SetIfAbsent(_) | What::Add(_), Reply::Integer(number)) => {
            Ok(Observed::Number(*number))
        }
        _ => Err("an unexpected reply".to_owned()),
    }
}

fn one_of_all(elements: &[Reply]) -> Result<&Reply, String> {
    let first = elements.first().ok_or("no elements")?;
    if elements.iter().any(|element| element != first) {
        return Err("a mixture of two states".to_owned());
    }
    Ok(first)
}

fn value(reply: &Reply) -> Result<Observed, String> {
    if *reply == Reply::Null {
        return Ok(Observed::Value(None));
    }
    let number = number(reply).ok_or("an unexpected reply")?;
    Ok(Observed::Value(Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings, unknown};
    use crate::reply::bulk;

    fn check_name(history: &[Operation]) -> Option<&'static str> {
        check(history).err().map(|violation| violation.check)
    }

    #[test]
    fn groups_that_change_as_one_pass() {
        let history = [
            operation(1, (1, 10), "MSET p:a 1 p:b 1", Reply::OK),
            operation(2, (2, 3), "MGET p:a p:b", {
                Reply::Array(vec![Reply::Null, Reply::Null])
            }),
            operation(2, (4, 11), "MGET p:a p:b", strings(&["1", "1"])),
            operation(3, (12, 13), "MSETNX p:a 2 p:b 2", Reply::Integer(0)),
            operation(3, (14, 15), "DEL p:a p:b", Reply::Integer(2)),
            unknown(4, 16, "MSET p:a 3 p:b 3"),
            operation(2, (17, 18), "EXISTS p:a p:b", Reply::Integer(2)),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_mixture_is_found() {
        let history = [
            operation(1, (1, 2), "MSET p:a 1 p:b 1", Reply::OK),
            operation(1, (3, 9), "MSET p:a 2 p:b 2", Reply::OK),
            operation(2, (4, 5), "MGET p:a p:b", strings(&["2", "1"])),
        ];
        assert_eq!(check_name(&history), Some("atomicity"));
    }

    #[test]
    fn half_a_deletion_is_found() {
        let history = [
            operation(1, (1, 2), "MSET p:a 1 p:b 1", Reply::OK),
            operation(2, (4, 5), "DEL p:a p:b", Reply::Integer(1)),
        ];
        assert_eq!(check_name(&history), Some("atomicity"));
    }

    #[test]
    fn a_read_that_goes_back_is_found() {
        let history = [
            operation(1, (1, 2), "SET r 1", Reply::OK),
            operation(1, (3, 9), "SET r 2", Reply::OK),
            operation(2, (4, 5), "GET r", bulk("2")),
            operation(2, (6, 7), "GET r", bulk("1")),
        ];
        assert_eq!(check_name(&history), Some("linearizability"));
    }

    #[test]
    fn a_lost_increment_is_found() {
        let history = [
            operation(1, (1, 5), "INCR r", Reply::Integer(1)),
            operation(2, (2, 6), "INCR r", Reply::Integer(1)),
        ];
        assert_eq!(check_name(&history), Some("linearizability"));
    }

    #[test]
    fn two_winners_of_one_place_are_found() {
        let history = [
            operation(1, (1, 5), "MSETNX p:a 1 p:b 1", Reply::Integer(1)),
            operation(2, (2, 6), "MSETNX p:a 2 p:b 2", Reply::Integer(1)),
        ];
        assert_eq!(check_name(&history), Some("linearizability"));
    }
}
