//! Replies come in the order of the requests, whatever shards the commands ran on (spec A3), and are what one client alone
//! with its keys must be told.
//!
//! Each session uses keys of its own, so a plain sequential model predicts every reply. A reply that was swapped with another
//! one, lost, doubled or given to another connection differs from the prediction.

use super::Violation;
use crate::history::Operation;
use crate::reply::{Reply, bulk, error};
use std::collections::BTreeMap;

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// Checks all operations; they are in the order in which they were sent.
///
/// # Errors
/// The first reply that differs from the prediction.
pub fn check(operations: &[Operation]) -> Result<(), Violation> {
    let mut sessions: BTreeMap<u32, Keys> = BTreeMap::new();
    for operation in operations {
        let keys = sessions.entry(operation.session).or_default();
        let expected = apply(keys, operation);
        if let Some(reply) = operation.reply()
            && *reply != expected
        {
            let what = format!("{}, expected {expected:?}", operation.describe());
            return Err(Violation::new("reply order", what));
        }
    }
    Ok(())
}

/// What one client alone would be told.
fn apply(keys: &mut Keys, operation: &Operation) -> Reply {
    let args = &operation.request;
    match operation.name() {
        "PING" | "ECHO" => bulk(&args[1]),
        "SET" => {
            keys.insert(args[1].clone(), args[2].clone());
            Reply::OK
        }
        "GET" => get(keys, &args[1]),
        "INCR" => increment(keys, &args[1]),
        "APPEND" => {
            let value = keys.entry(args[1].clone()).or_default();
            value.extend_from_slice(&args[2]);
            Reply::Integer(value.len() as i64)
        }
        "STRLEN" => Reply::Integer(keys.get(&args[1]).map_or(0, Vec::len) as i64),
        "DEL" => {
            let removed = args[1..].iter().filter(|key| keys.remove(*key).is_some());
            Reply::Integer(removed.count() as i64)
        }
        "EXISTS" => {
            let there = args[1..].iter().filter(|key| keys.contains_key(*key));
            Reply::Integer(there.count() as i64)
        }
        "MSET" => {
            for pair in args[1..].chunks_exact(2) {
                keys.insert(pair[0].clone(), pair[1].clone());
            }
            Reply::OK
        }
        "MGET" => Reply::Array(args[1..].iter().map(|key| get(keys, key)).collect()),
        other => unknown_command(other, &args[1..]),
    }
}

fn get(keys: &Keys, key: &[u8]) -> Reply {
    keys.get(key).map_or(Reply::Null, bulk)
}

fn increment(keys: &mut Keys, key: &[u8]) -> Reply {
    let value = keys.get(key).map_or(&b"0"[..], Vec::as_slice);
    let number: Option<i64> = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(sum) = number.and_then(|number| number.checked_add(1)) else {
        return error("ERR value is not an integer or out of range");
    };
    keys.insert(key.to_vec(), sum.to_string().into_bytes());
    Reply::Integer(sum)
}

fn unknown_command(name: &str, args: &[Vec<u8>]) -> Reply {
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ").into_bytes();
    for arg in args {
        text.extend_from_slice(b"'");
        text.extend_from_slice(arg);
        text.extend_from_slice(b"' ");
    }
    while text.ends_with(b" ") && args.is_empty() {
        text.pop();
    }
    error(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings, unknown};

    #[test]
    fn what_a_client_alone_must_be_told_passes() {
        let history = [
            operation(1, (1, 9), "SET a 1", Reply::OK),
            operation(1, (2, 10), "INCR a", Reply::Integer(2)),
            operation(2, (3, 8), "GET a", Reply::Null),
            operation(1, (4, 11), "MGET a b", {
                Reply::Array(vec![bulk("2"), Reply::Null])
            }),
            operation(1, (5, 12), "APPEND a x", Reply::Integer(2)),
            operation(1, (6, 13), "INCR a", {
                error("ERR value is not an integer or out of range")
            }),
            unknown(1, 7, "DEL a"),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn swapped_replies_are_found() {
        let history = [
            operation(1, (1, 9), "PING x", bulk("y")),
            operation(1, (2, 10), "PING y", bulk("x")),
        ];
        assert!(check(&history).is_err());
    }

    #[test]
    fn a_write_that_overtook_a_read_is_found() {
        let history = [
            operation(1, (1, 9), "SET a 1", Reply::OK),
            operation(1, (2, 10), "GET a", bulk("2")),
            operation(1, (3, 11), "SET a 2", Reply::OK),
        ];
        assert!(check(&history).is_err());
    }

    #[test]
    fn elements_in_the_wrong_places_are_found() {
        let history = [
            operation(1, (1, 9), "MSET a 1 b 2", Reply::OK),
            operation(1, (2, 10), "MGET a b", strings(&["2", "1"])),
        ];
        assert!(check(&history).is_err());
    }
}
