//! What the operating system counts of the process, of `/proc`.

use kevy_node::process::Usage;
use std::fs;

/// Bytes of a page and ticks of a second, as Linux on the machines that kevy runs on has them.
const PAGE_BYTES: u64 = 4096;
const MICROS_PER_TICK: u64 = 10_000;

/// What is counted now; zero where it cannot be read.
pub(crate) fn usage() -> Usage {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (user_ticks, system_ticks) = ticks(&read("/proc/self/stat"));
    Usage {
        resident_bytes: field(&read("/proc/self/statm"), 1) * PAGE_BYTES,
        machine_bytes: field(&read("/proc/meminfo"), 1) * 1024,
        user_micros: user_ticks * MICROS_PER_TICK,
        system_micros: system_ticks * MICROS_PER_TICK,
    }
}

/// The number that is the field `index` of the text, counted from zero.
fn field(text: &str, index: usize) -> u64 {
    let word = text.split_ascii_whitespace().nth(index);
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The fields 14 and 15 of `/proc/self/stat` (proc(5)). The second is a name in parentheses that may hold anything.
fn ticks(stat: &str) -> (u64, u64) {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    (field(after_name, 11), field(after_name, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_memory() {
        let usage = usage();
        assert!(usage.resident_bytes > 1 << 16 && usage.machine_bytes > usage.resident_bytes);
    }

    #[test]
    fn a_name_may_hold_spaces_and_parentheses() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 111 222 13";
        assert_eq!(ticks(stat), (111, 222));
        assert_eq!(ticks(""), (0, 0));
    }
}
