//! What is wrong with the inputs, where it stands, and what to do about it: one line each.

use core::fmt;

/// One thing wrong with the inputs. Its `Display` is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the user finds it.
    pub origin: Origin,
    /// What is wrong.
    pub problem: String,
    /// What to do, as a command.
    pub advice: String,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the configuration file, counted from 1.
    File {
        /// The file's name as the user gave it.
        name: String,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag of the command line, with its dashes.
    Flag(String),
}

impl Fault {
    /// A fault at `origin`.
    pub fn new(origin: Origin, problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            origin,
            problem: problem.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.origin, self.problem, self.advice)
    }
}

impl Origin {
    /// The line of the configuration file, counted from 1; 0 for what stands elsewhere.
    pub(super) fn line(&self) -> usize {
        match self {
            Self::File { line, .. } => *line,
            Self::Default | Self::Environment(_) | Self::Flag(_) => 0,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Environment(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Longest part of an input that a message repeats, in characters.
const QUOTED_CHARS: usize = 64;

/// `text` in quotes on one line, cut to a bearable length.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(QUOTED_CHARS).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("\"{}{dots}\"", short.escape_debug())
}

/// A name as a message shows it: without quotes, on one line, not too long.
pub(super) fn plain(name: &str) -> String {
    quoted(name).trim_matches('"').into()
}

/// The candidate that `written` most probably meant, if any is near enough.
///
/// Letter case and `-` for `_` do not count as differences.
pub(super) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = comparable(written);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&written, &comparable(candidate)), candidate))
        .filter(|(distance, _)| *distance <= 1 + written.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn comparable(name: &str) -> Vec<char> {
    let plain = |c: char| {
        if c == '-' {
            '_'
        } else {
            c.to_ascii_lowercase()
        }
    };
    name.chars().take(QUOTED_CHARS).map(plain).collect()
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `from` into `to`
/// (optimal string alignment: <https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance>).
fn edit_distance(from: &[char], to: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let substituted = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = core::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["port", "bind", "maxclients", "tcp_keepalive", "hz"];
        for (written, meant) in [
            ("prot", Some("port")),
            ("ports", Some("port")),
            ("PORT", Some("port")),
            ("max_clients", Some("maxclients")),
            ("maxclient", Some("maxclients")),
            ("tcp-keepalive", Some("tcp_keepalive")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, names), meant, "{written}");
        }
    }

    #[test]
    fn distance_counts_a_swap_as_one() {
        let distance = |a: &str, b: &str| edit_distance(&comparable(a), &comparable(b));
        assert_eq!(distance("prot", "port"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn a_quoted_input_stays_on_one_short_line() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        assert!(quoted(&"x".repeat(10_000)).len() < 80);
    }

    #[test]
    fn a_fault_says_where_what_and_how() {
        let origin = Origin::File {
            name: "kevy.toml".into(),
            line: 3,
        };
        let fault = Fault::new(origin, "unknown key [server] prot", "did you mean port?");
        assert_eq!(
            fault.to_string(),
            "kevy.toml:3: unknown key [server] prot; did you mean port?"
        );
    }
}
