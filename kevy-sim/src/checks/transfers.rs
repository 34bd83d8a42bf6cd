//! Transfers between accounts keep their sum: each owner moves amounts among its own accounts with one `MSET`, readers read
//! the accounts of all owners with one `MGET`.

use super::Violation;
use crate::history::Operation;
use crate::reply::{elements, number};

/// Checks that every `MGET` shows accounts that add up to `total`.
///
/// # Errors
/// The first read that does not.
pub fn check(operations: &[Operation], total: i64) -> Result<(), Violation> {
    for operation in operations {
        let (name, reply) = (operation.name(), operation.reply());
        let Some(reply) = reply.filter(|_| name == "MGET") else {
            continue;
        };
        let numbers = elements(reply).and_then(|all| all.iter().map(number).sum::<Option<i64>>());
        if numbers != Some(total) {
            let what = format!("{}: not {total}", operation.describe());
            return Err(Violation::new("constant sum", what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examples::{operation, strings};

    #[test]
    fn half_a_transfer_is_found() {
        let whole = operation(1, (1, 2), "MGET a b", strings(&["70", "30"]));
        assert_eq!(check(std::slice::from_ref(&whole), 100), Ok(()));
        let half = operation(1, (3, 4), "MGET a b", strings(&["70", "50"]));
        assert!(check(&[whole, half], 100).is_err());
    }
}
