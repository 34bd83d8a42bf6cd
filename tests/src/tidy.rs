//! The rules of the repository, each a function from text to the places that break it.
//!
//! A rule knows nothing of files, so a test can show it a text that must not pass. `tests/tests/tidy.rs`
//! does that, and then shows each rule the repository.
//!
//! The most telling rules say what a crate must *not* know: [`layers`] holds the table of who may import
//! whom, and of who may touch sockets, files, clocks and threads.

pub mod layers;
pub mod manifest;
pub mod source;
pub mod text;

use std::path::Path;
use std::process::Command;

/// A tracked file and its content.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its path from the root of the repository, with `/`.
    pub path: String,
    /// Its content; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Every file under version control in `root`, without those deleted but not yet committed.
///
/// # Panics
/// When `root` is no git repository: the rules need to know what belongs to it.
pub fn tracked_files(root: &Path) -> Vec<SourceFile> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()
        .expect("git is installed");
    assert!(
        listed.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let paths = String::from_utf8_lossy(&listed.stdout).into_owned();
    let files = paths.split_terminator('\0').filter_map(|path| {
        let bytes = std::fs::read(root.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(SourceFile {
            path: path.to_owned(),
            text,
        })
    });
    files.collect()
}
