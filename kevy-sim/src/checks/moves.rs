//! Values that are moved or copied over shards: `RENAMENX` loses and doubles nothing, and a copy is never newer than its
//! original (spec C4).

use super::Violation;
use crate::history::Operation;
use crate::reply::{Reply, elements, number};

/// The key that is copied, and its copy.
pub const ORIGINAL: &str = "original";
/// See [`ORIGINAL`].
pub const COPY: &str = "copy";

/// Checks reads of all places against the values `tokens` (in byte order) that were put there, `DBSIZE` against `keys`, and reads of
/// the original together with its copy.
///
/// # Errors
/// The first read that is wrong.
pub fn check(operations: &[Operation], tokens: &[&str], keys: i64) -> Result<(), Violation> {
    for operation in operations {
        let Some(reply) = operation.reply() else {
            continue;
        };
        let fine = match operation.name() {
            "MGET" if operation.text(1) == ORIGINAL => copy_is_not_newer(reply),
            "MGET" => same_tokens(reply, tokens),
            "DBSIZE" => *reply == Reply::Integer(keys),
            _ => !is_unexpected_error(reply),
        };
        if !fine {
            return Err(Violation::new("moves", operation.describe()));
        }
    }
    Ok(())
}

fn same_tokens(reply: &Reply, tokens: &[&str]) -> bool {
    let elements = elements(reply).unwrap_or_default().iter();
    let mut seen: Vec<&[u8]> = elements.filter_map(|e| Some(&e.as_bytes()?[..])).collect();
    seen.sort_unstable();
    let tokens: Vec<&[u8]> = tokens.iter().map(|token| token.as_bytes()).collect();
    seen == tokens
}

fn copy_is_not_newer(reply: &Reply) -> bool {
    let elements = elements(reply).unwrap_or_default();
    let numbers: Vec<_> = elements.iter().map(number).collect();
    match numbers[..] {
        [Some(original), Some(copy)] => copy <= original,
        _ => false,
    }
}

/// Moving what is not there is the only thing that may be refused.
fn is_unexpected_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text != "ERR no such key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings};
    use crate::reply::error;

    fn is_fine(text: &str, reply: Reply) -> bool {
        check(&[operation(1, (1, 2), text, reply)], &["t1", "t2"], 4).is_ok()
    }

    #[test]
    fn lost_and_doubled_tokens_are_found() {
        assert!(is_fine("MGET a b", strings(&["t2", "t1"])));
        assert!(!is_fine("MGET a b", strings(&["t2"])));
        assert!(!is_fine("MGET a b", strings(&["t2", "t1", "t1"])));
        assert!(!is_fine("DBSIZE", Reply::Integer(3)));
    }

    #[test]
    fn a_copy_that_is_newer_than_its_original_is_found() {
        assert!(is_fine("MGET original copy", strings(&["5", "5"])));
        assert!(!is_fine("MGET original copy", strings(&["5", "6"])));
    }

    #[test]
    fn only_what_is_not_there_may_be_refused() {
        assert!(is_fine("RENAMENX a b", error("ERR no such key")));
        assert!(!is_fine("RENAMENX a b", error("ERR other")));
    }
}
