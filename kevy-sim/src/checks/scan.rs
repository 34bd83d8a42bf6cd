//! The guarantee of `SCAN`: a whole iteration, from cursor 0 to cursor 0, returns every key that was there from its beginning
//! to its end, on all shards, and no key that never was.

use super::Violation;
use crate::history::Operation;
use crate::reply::{Reply, elements};
use std::collections::{BTreeMap, BTreeSet};

/// The first characters of keys that come and go while others scan.
pub const CHURN: &str = "churn:";

/// Checks all iterations. `stable` are the keys that were always there.
///
/// # Errors
/// The first iteration that missed a key or invented one.
pub fn check(operations: &[Operation], stable: &BTreeSet<String>) -> Result<(), Violation> {
    let mut iterations: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for operation in operations.iter().filter(|o| o.name() == "SCAN") {
        let Some(reply) = operation.reply() else {
            continue;
        };
        let wrong =
            |what: String| Violation::new("scan", format!("{}: {what}", operation.describe()));
        let (cursor, keys) = page(reply).ok_or_else(|| wrong("no page".to_owned()))?;
        let seen = iterations.entry(operation.session).or_default();
        if operation.text(1) == "0" {
            seen.clear();
        }
        for key in keys {
            if !key.starts_with(CHURN) && !stable.contains(&key) {
                return Err(wrong(format!("{key} never was")));
            }
            seen.insert(key);
        }
        if cursor == "0"
            && let Some(missed) = stable.difference(seen).next()
        {
            return Err(wrong(format!("missed {missed}")));
        }
    }
    Ok(())
}

/// The cursor and the keys of one reply.
pub fn page(reply: &Reply) -> Option<(String, Vec<String>)> {
    let [Reply::Bulk(cursor), Reply::Array(keys)] = elements(reply)? else {
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let keys = keys.iter().map(|key| text(key.as_bytes()?));
    Some((text(cursor)?, keys.collect::<Option<Vec<_>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings};
    use crate::reply::bulk;

    fn scan(from: &str, moments: (u64, u64), to: &str, keys: &[&str]) -> Operation {
        let reply = Reply::Array(vec![bulk(to), strings(keys)]);
        operation(1, moments, &format!("SCAN {from}"), reply)
    }

    fn is_fine(history: &[Operation]) -> bool {
        let stable = ["a", "b"].map(str::to_owned).into();
        check(history, &stable).is_ok()
    }

    #[test]
    fn an_iteration_may_return_keys_twice_and_others_too() {
        let first = scan("0", (1, 2), "7", &["a", "churn:1"]);
        let second = scan("7", (3, 4), "0", &["b", "a"]);
        assert!(is_fine(&[first, second]));
    }

    #[test]
    fn a_missed_key_is_found() {
        let first = scan("0", (1, 2), "7", &["a"]);
        let second = scan("7", (3, 4), "0", &["churn:1"]);
        assert!(!is_fine(&[first, second]));
    }

    #[test]
    fn keys_of_an_earlier_iteration_do_not_count() {
        let whole = scan("0", (1, 2), "0", &["a", "b"]);
        let half = scan("0", (3, 4), "0", &["a"]);
        assert!(!is_fine(&[whole, half]));
    }

    #[test]
    fn an_invented_key_is_found() {
        assert!(!is_fine(&[scan("0", (1, 2), "0", &["a", "b", "c"])]));
    }
}
