//! Rules on single files: length, names, paths of somebody's machine, reasons for unsafe code.

use super::SourceFile;
use super::source::{code_only, without_tests};

/// No source file may be longer than this, without its tests.
pub const LONGEST_LINES: usize = 1_000;
/// A source file longer than this must be in the list of long files, which only shrinks.
pub const LONG_LINES: usize = 500;

/// How much shorter a listed file may have become before its entry must follow.
const SLACK_LINES: usize = 50;

/// A file that is long for now, and how long it may be.
pub type LongFile = (&'static str, usize);

/// Files that are too long, that have grown since they were listed, or that need not be listed any more.
pub fn too_long(file: &SourceFile, listed: &[LongFile]) -> Vec<String> {
    let lines = without_tests(&file.text).lines().count();
    let limit = listed
        .iter()
        .find(|(path, _)| *path == file.path)
        .map(|(_, lines)| *lines);
    let complaint = match limit {
        _ if lines >= LONGEST_LINES => {
            format!("{lines} lines without tests, {LONGEST_LINES} are too many")
        }
        Some(limit) if lines > limit => {
            format!("has grown from {limit} to {lines} lines: split it")
        }
        Some(limit) if lines + SLACK_LINES < limit || lines <= LONG_LINES => {
            format!("is down to {lines} lines: list it with those, or no more")
        }
        None if lines > LONG_LINES => {
            format!("{lines} lines without tests: split it, aim below {LONG_LINES}")
        }
        _ => return Vec::new(),
    };
    vec![format!("{}: {complaint}", file.path)]
}

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &[
    "common", "manager", "helper", "helpers", "misc", "util", "utils",
];
/// Those of them that say nothing as a part of a name either. (`service_manager` is a thing, `common_case`, too.)
const EMPTY_PARTS: &[&str] = &["helper", "helpers", "misc", "util", "utils"];

fn is_empty_name(name: &str) -> bool {
    let mut parts = name.split(['_', '-']);
    EMPTY_NAMES.contains(&name) || parts.any(|part| EMPTY_PARTS.contains(&part))
}

/// Files, directories and modules with a name that says nothing.
pub fn empty_names(file: &SourceFile) -> Vec<String> {
    let parts = file
        .path
        .split(['/', '.'])
        .filter(|part| is_empty_name(part));
    let files = parts.map(|part| format!("{}: the name {part}", file.path));
    let modules = code_only(&file.text);
    let modules = modules.lines().enumerate().filter_map(|(number, line)| {
        let line = line.trim().trim_end_matches([';', '{', ' ']);
        let (_, name) = line.rsplit_once("mod ")?;
        is_empty_name(name).then(|| format!("{}:{}: the module name {name}", file.path, number + 1))
    });
    files.chain(modules).collect()
}

/// Directories of somebody's machine, put together here so that this file may pass its own rule.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

/// Paths that exist on one machine only.
pub fn machine_paths(file: &SourceFile) -> Vec<String> {
    let lines = file.text.lines().enumerate();
    let found = lines.filter(|(_, line)| MACHINE_PATHS.iter().any(|path| begins_in(line, path)));
    found
        .map(|(number, _)| format!("{}:{}: a path of somebody's machine", file.path, number + 1))
        .collect()
}

/// Whether `path` stands in `line` as the start of a path and not in the middle of a longer one.
fn begins_in(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-*}".contains(c))
    })
}

/// How many lines above an `unsafe` its reason may begin.
const REASON_LINES: usize = 8;

/// Unsafe code without a `SAFETY:` reason right above it.
pub fn unsafe_without_reason(file: &SourceFile) -> Vec<String> {
    let lines: Vec<_> = file.text.lines().collect();
    let code = code_only(&file.text);
    let unsafe_lines = code.lines().enumerate().filter(|(_, line)| {
        let words: Vec<_> = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        words.contains(&"unsafe")
    });
    let bare = unsafe_lines.filter(|(number, _)| {
        let above = &lines[number.saturating_sub(REASON_LINES)..*number];
        !above
            .iter()
            .any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
    });
    bare.map(|(number, _)| format!("{}:{}: unsafe without SAFETY:", file.path, number + 1))
        .collect()
}
