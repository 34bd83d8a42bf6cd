//! What was read and what was left out.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Counts of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Keys that are there at the end.
    pub(super) keys: u64,
    /// Requests of append-only files that were carried out.
    pub(super) requests: u64,
    /// Keys whose time had come.
    pub(super) expired: u64,
    /// Keys without elements, left by faults of old versions of Redis.
    pub(super) empty: u64,
    /// Libraries of functions, scripts and messages: each name with how often it was met.
    pub(super) not_kept: BTreeMap<String, u64>,
    /// Keys in RDB files, and requests in append-only files, of each other database.
    pub(super) elsewhere: BTreeMap<u64, Elsewhere>,
    /// Bytes at the end of the last append-only file that are no whole request or transaction.
    pub(super) torn_bytes: u64,
    /// Bytes behind the end of an RDB file.
    pub(super) trailing_bytes: u64,
    /// RDB files without a checksum.
    pub(super) unchecked: u64,
}

/// What there is in another database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    pub(super) keys: u64,
    pub(super) requests: u64,
}

impl Report {
    /// Counts something that kevy does not keep.
    pub(super) fn not_kept(&mut self, what: &str) {
        *self.not_kept.entry(what.to_owned()).or_default() += 1;
    }

    /// What there is in other databases, in words.
    pub(super) fn elsewhere(&self) -> String {
        let words = self.elsewhere.iter().map(|(database, found)| {
            let mut parts = Vec::new();
            if found.keys > 0 {
                parts.push(format!("{} keys", found.keys));
            }
            if found.requests > 0 {
                parts.push(format!("{} requests", found.requests));
            }
            format!("database {database}: {}", parts.join(" and "))
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "imported {} keys", self.keys)?;
        if self.requests > 0 {
            write!(f, " ({} requests carried out)", self.requests)?;
        }
        let mut left_out = |count: u64, what: &str| match count {
            0 => Ok(()),
            _ => write!(f, "\nleft out: {count} {what}"),
        };
        left_out(self.expired, "keys whose time had come")?;
        left_out(self.empty, "keys without elements")?;
        left_out(
            self.torn_bytes,
            "bytes of an unfinished request or transaction at the end",
        )?;
        left_out(self.trailing_bytes, "bytes behind the end of the RDB file")?;
        for (what, count) in &self.not_kept {
            left_out(*count, what)?;
        }
        if !self.elsewhere.is_empty() {
            write!(f, "\nleft out: {}", self.elsewhere())?;
        }
        match self.unchecked {
            0 => Ok(()),
            _ => write!(f, "\nnote: the RDB file has no checksum to check"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_was_left_out() {
        let mut report = Report {
            keys: 7,
            expired: 2,
            ..Report::default()
        };
        assert_eq!(
            report.to_string(),
            "imported 7 keys\nleft out: 2 keys whose time had come"
        );
        report.expired = 0;
        report.not_kept("SCRIPT");
        report.not_kept("SCRIPT");
        let found = Elsewhere {
            keys: 3,
            requests: 1,
        };
        report.elsewhere.insert(5, found);
        let expected =
            "imported 7 keys\nleft out: 2 SCRIPT\nleft out: database 5: 3 keys and 1 requests";
        assert_eq!(report.to_string(), expected);
    }
}
