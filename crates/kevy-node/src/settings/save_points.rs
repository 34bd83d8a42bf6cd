//! `save`: after how many seconds and changes a snapshot is due.

use super::kind::Invalid;

/// A snapshot is due when so many changes were made and so much time has passed since the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Since the last snapshot.
    pub seconds: u64,
    /// Since the last snapshot.
    pub changes: u64,
}

/// Most save points.
const MAX_SAVE_POINTS: usize = 64;

/// Reads `<seconds> <changes> <seconds> <changes> ...`; nothing: no snapshots.
pub(super) fn parse_save_points(text: &str) -> Result<Vec<SavePoint>, Invalid> {
    const INVALID: Invalid = Invalid::Because("Invalid save parameters");
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() || pairs.len() > MAX_SAVE_POINTS {
        return Err(INVALID);
    }
    let parse = |[seconds, changes]: &[&str; 2]| {
        let seconds = seconds.parse().ok().filter(|seconds| *seconds >= 1);
        let (seconds, changes) = (seconds?, changes.parse().ok()?);
        Some(SavePoint { seconds, changes })
    };
    pairs
        .iter()
        .map(|pair| parse(pair).ok_or(INVALID))
        .collect()
}

/// The save points as `CONFIG GET` shows them.
pub(super) fn save_points_text(points: &[SavePoint]) -> String {
    let shown: Vec<String> = points
        .iter()
        .map(|point| format!("{} {}", point.seconds, point.changes))
        .collect();
    shown.join(" ")
}
