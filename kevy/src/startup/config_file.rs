//! Replaces the configuration file (`CONFIG REWRITE`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Hands the file's text to `edit` and puts what comes back in its place: written beside it, synced, renamed, directory
/// synced. Permissions stay.
///
/// # Errors
/// What `edit` or the system says; the old file then still stands.
pub(crate) fn rewrite(path: &str, edit: &dyn Fn(&str) -> Result<String, String>) -> io::Result<()> {
    // Through a symbolic link the file it leads to is replaced, not the link.
    let path = fs::canonicalize(path)?;
    let text = edit(&fs::read_to_string(&path)?).map_err(io::Error::other)?;
    let temporary = path.with_added_extension(format!("{}.tmp", std::process::id()));
    let written = replace(&path, &temporary, &text);
    if written.is_err() {
        // Whether it is there or not, the fault is told already.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn replace(path: &Path, temporary: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.set_permissions(fs::metadata(path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_or_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kevy.toml");
        fs::write(&path, "old").unwrap();
        let name = path.display().to_string();
        rewrite(&name, &|text| Ok(format!("{text} and new"))).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old and new");
        let refused = rewrite(&name, &|_| Err("not now".into())).unwrap_err();
        assert_eq!(refused.to_string(), "not now");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old and new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(rewrite("/nowhere/kevy.toml", &|_| Ok(String::new())).is_err());
    }
}
