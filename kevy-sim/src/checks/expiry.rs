//! Keys vanish at their moment, on all shards alike: a key with the deadline `t` is seen by everything that runs before `t`
//! and by nothing that runs after `t`, and one command sees one moment on all shards. In the millisecond `t` itself a key is
//! still there, as in Redis, unless it was only then set: a deadline that is not ahead deletes at once.
//!
//! When a command ran is known only as far as between its request and its reply; the node's clock is known exactly.

use super::Violation;
use crate::history::Operation;
use crate::reply::Reply;
use crate::turmoil_host::NodeClock;
use std::collections::BTreeMap;
use std::time::Duration;

/// A key with a deadline, as far as it is known that it was set.
struct Dated {
    deadline_millis: i64,
    /// When its setting was confirmed, in the order of moments.
    confirmed: u64,
    /// And in simulated time.
    confirmed_at: Duration,
}

/// Checks reads of keys that were set once, by `SET key value PXAT deadline`.
///
/// # Errors
/// The first read that saw a key too long, or missed it too early.
pub fn check(operations: &[Operation], clock: &NodeClock) -> Result<(), Violation> {
    let dated = dated_keys(operations);
    for operation in operations {
        let seen = read(operation, &dated, clock);
        seen.map_err(|what| Violation::new("expiry", format!("{}: {what}", operation.describe())))?;
    }
    Ok(())
}

fn dated_keys(operations: &[Operation]) -> BTreeMap<&str, Dated> {
    let sets = operations.iter().filter(|o| o.name() == "SET");
    let dated = sets.filter_map(|set| {
        let outcome = set.outcome.as_ref()?;
        let deadline_millis = set.text(4).parse().ok()?;
        let dated = Dated {
            deadline_millis,
            confirmed: outcome.returned,
            confirmed_at: outcome.returned_at,
        };
        Some((set.text(1), dated))
    });
    dated.collect()
}

/// The earliest and latest millisecond of the node's wall clock at which a command may have run.
struct Span {
    earliest: i64,
    latest: i64,
}

fn read(
    operation: &Operation,
    dated: &BTreeMap<&str, Dated>,
    clock: &NodeClock,
) -> Result<(), String> {
    let Some(outcome) = &operation.outcome else {
        return Ok(());
    };
    let span = Span {
        earliest: clock.at(operation.invoked_at).unix.0,
        latest: clock.at(outcome.returned_at).unix.0,
    };
    let confirmed = |index: usize| {
        let key = dated.get(operation.text(index))?;
        (key.confirmed < operation.invoked).then_some(key)
    };
    let set_in_time = |index: usize| {
        confirmed(index).filter(|key| clock.at(key.confirmed_at).unix.0 < key.deadline_millis)
    };
    match (operation.name(), &outcome.reply) {
        ("SET", reply) if *reply != Reply::OK => Err("not set".to_owned()),
        ("GET", reply) => confirmed(1).map_or(Ok(()), |key| presence(key, reply, &span)),
        ("MGET", Reply::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                confirmed(index + 1).map_or(Ok(()), |key| presence(key, element, &span))?;
            }
            let keys = (1..=elements.len()).map(set_in_time).collect();
            one_moment(keys, elements)
        }
        ("PTTL", Reply::Integer(left)) => {
            confirmed(1).map_or(Ok(()), |key| time_left(key, *left, &span))
        }
        _ => Ok(()),
    }
}

fn presence(key: &Dated, reply: &Reply, span: &Span) -> Result<(), String> {
    let is_there = *reply != Reply::Null;
    if is_there && span.earliest > key.deadline_millis {
        return Err("seen after its deadline".to_owned());
    }
    if !is_there && span.latest < key.deadline_millis {
        return Err("gone before its deadline".to_owned());
    }
    Ok(())
}

fn one_moment(keys: Option<Vec<&Dated>>, elements: &[Reply]) -> Result<(), String> {
    let Some(keys) = keys else { return Ok(()) };
    let mut deadlines = keys.iter().map(|key| key.deadline_millis);
    let first = deadlines.next();
    if deadlines.any(|deadline| Some(deadline) != first) {
        return Ok(());
    }
    let there = elements.iter().filter(|e| **e != Reply::Null).count();
    if there != 0 && there != elements.len() {
        return Err("keys of one deadline looked different in one command".to_owned());
    }
    Ok(())
}

fn time_left(key: &Dated, left: i64, span: &Span) -> Result<(), String> {
    if left == -2 {
        return presence(key, &Reply::Null, span);
    }
    let (most, least) = (
        key.deadline_millis - span.earliest,
        key.deadline_millis - span.latest,
    );
    if left < 0 || left < least || left > most {
        return Err(format!("not between {least} and {most}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings};
    use crate::reply::bulk;
    use crate::turmoil_host::UNIX_START_MILLIS;

    /// Sets `a` and `b` with a deadline at 100 ms of simulated time, then reads.
    fn is_fine(moments: (u64, u64), text: &str, reply: Reply) -> bool {
        let deadline = UNIX_START_MILLIS + 100;
        let set = |key| {
            operation(
                1,
                (1, 2),
                &format!("SET {key} v PXAT {deadline}"),
                Reply::OK,
            )
        };
        let history = [set("a"), set("b"), operation(2, moments, text, reply)];
        check(&history, &NodeClock::new(0, 0)).is_ok()
    }

    #[test]
    fn a_key_that_lives_too_long_is_found() {
        assert!(is_fine((99, 101), "GET a", bulk("v")));
        assert!(!is_fine((101, 102), "GET a", bulk("v")));
        assert!(!is_fine((101, 102), "MGET a b", strings(&["v", "v"])));
    }

    #[test]
    fn a_key_that_goes_too_early_is_found() {
        assert!(is_fine((50, 100), "GET a", Reply::Null));
        assert!(!is_fine((50, 99), "GET a", Reply::Null));
        assert!(!is_fine((50, 99), "PTTL a", Reply::Integer(-2)));
    }

    #[test]
    fn shards_that_look_at_different_moments_are_found() {
        let mixed = Reply::Array(vec![bulk("v"), Reply::Null]);
        assert!(!is_fine((98, 102), "MGET a b", mixed));
    }

    #[test]
    fn a_wrong_time_to_live_is_found() {
        assert!(is_fine((40, 50), "PTTL a", Reply::Integer(55)));
        assert!(!is_fine((40, 50), "PTTL a", Reply::Integer(49)));
        assert!(!is_fine((40, 50), "PTTL a", Reply::Integer(-1)));
    }
}
