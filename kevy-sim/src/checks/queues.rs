//! Queues: what producers push is popped once, in their order, or is still there. Only what a client that vanished was given
//! may be gone.
//!
//! Elements are named `<producer>.<number>` with numbers that grow. A moved element (`BLMOVE`) is not popped: it comes again.

use super::Violation;
use crate::history::Operation;
use crate::reply::{Reply, elements};
use std::collections::{BTreeMap, BTreeSet};

/// Checks pushes, pops, and in the end `LRANGE` of every list.
///
/// # Errors
/// An element that came twice, out of order or from nowhere, or too many that are gone.
pub fn check(operations: &[Operation]) -> Result<(), Violation> {
    let broken = |what: String| Err(Violation::new("queues", what));
    let mut pushed = BTreeSet::new();
    let mut arrived = BTreeSet::new();
    let mut queued = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut may_be_gone = 0;
    // For each connection, list and producer the highest number popped.
    let mut newest: BTreeMap<(u32, String, u32), u64> = BTreeMap::new();
    for operation in operations {
        let queue: &mut Vec<String> = queued.entry(operation.session).or_default();
        match (operation.name(), operation.reply()) {
            ("RPUSH", reply) => {
                let element = operation.text(2).to_owned();
                pushed.insert(element.clone());
                if matches!(reply, Some(Reply::Integer(_))) {
                    arrived.insert(element);
                } else {
                    queue.push(element);
                }
                continue;
            }
            ("EXEC", Some(Reply::Array(_))) => arrived.extend(std::mem::take(queue)),
            ("MULTI", _) => queue.clear(),
            _ => {}
        }
        let Some(reply) = operation.reply() else {
            may_be_gone += takes_at_most(operation);
            continue;
        };
        let Some((list, popped)) = popped(operation, reply) else {
            continue;
        };
        for element in popped {
            if !seen.insert(element.clone()) {
                return broken(format!("{element} came twice: {}", operation.describe()));
            }
            let in_order = element.split_once('.').and_then(|(producer, number)| {
                Some((producer.parse().ok()?, number.parse::<u64>().ok()?))
            });
            let Some((producer, number)) = in_order.filter(|_| list.starts_with('q')) else {
                continue;
            };
            let place = (operation.session, list.clone(), producer);
            if newest
                .insert(place, number)
                .is_some_and(|last| last > number)
            {
                return broken(format!("{element} came late: {}", operation.describe()));
            }
        }
    }
    if let Some(element) = seen.difference(&pushed).next() {
        return broken(format!("nobody pushed {element}"));
    }
    let gone: Vec<_> = arrived.difference(&seen).collect();
    if gone.len() > may_be_gone {
        return broken(format!("{gone:?} are gone; {may_be_gone} may be"));
    }
    Ok(())
}

/// How many elements a request takes away whose reply nobody saw.
fn takes_at_most(operation: &Operation) -> usize {
    match operation.name() {
        "BLPOP" => 1,
        "BLMPOP" => 2,
        _ => 0,
    }
}

/// The list and the elements that came from it, or are left in it.
fn popped(operation: &Operation, reply: &Reply) -> Option<(String, Vec<String>)> {
    let texts = |replies: &[Reply]| replies.iter().filter_map(text).collect::<Vec<_>>();
    let parts = elements(reply)?;
    match operation.name() {
        "LRANGE" => Some((String::new(), texts(parts))),
        "BLPOP" => Some((text(parts.first()?)?, texts(&parts[1..]))),
        "BLMPOP" => Some((text(parts.first()?)?, texts(elements(parts.get(1)?)?))),
        _ => None,
    }
}

fn text(reply: &Reply) -> Option<String> {
    let bytes = reply.as_bytes()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings, unknown};

    fn push(at: u64, element: &str) -> Operation {
        let request = format!("RPUSH q0 {element}");
        operation(0, (at, at + 1), &request, Reply::Integer(1))
    }

    fn pop(at: u64, element: &str) -> Operation {
        let reply = strings(&["q0", element]);
        operation(1, (at, at + 1), "BLPOP q0 q1 0.1", reply)
    }

    #[test]
    fn what_is_popped_once_in_order_is_fine() {
        let left = operation(2, (20, 21), "LRANGE q0 0 -1", strings(&["0.3"]));
        let moved = Reply::Bulk("0.2".into());
        let moved = operation(1, (14, 15), "BLMOVE q0 r0 LEFT RIGHT 0", moved);
        let pushes = [push(1, "0.1"), push(2, "0.2"), push(3, "0.3")];
        let mut history = pushes.to_vec();
        history.extend([pop(10, "0.1"), pop(12, "0.2"), moved, left]);
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn doubled_late_and_strange_elements_are_found() {
        let pushes = [push(1, "0.1"), push(2, "0.2")];
        for pops in [
            [pop(10, "0.1"), pop(12, "0.1")],
            [pop(10, "0.2"), pop(12, "0.1")],
            [pop(10, "0.1"), pop(12, "0.3")],
        ] {
            let history: Vec<_> = pushes.iter().chain(&pops).cloned().collect();
            assert!(check(&history).is_err(), "{pops:?}");
        }
    }

    #[test]
    fn an_element_is_gone_only_with_a_client() {
        let pushes = [push(1, "0.1"), push(2, "0.2")];
        let vanished = unknown(3, 5, "BLPOP q0 q1 0.1");
        let history = |more: &[Operation]| [&pushes[..], more].concat();
        assert!(check(&history(&[pop(10, "0.1")])).is_err());
        assert_eq!(check(&history(&[pop(10, "0.1"), vanished.clone()])), Ok(()));
        assert!(check(&history(&[vanished])).is_err());
    }
}
