//! The data directory belongs to one process: a lock that the kernel lets go of when the process dies, however it dies.

use super::StartError;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// The file that is locked; it holds the owner's pid for people to read.
pub(crate) const LOCK_FILE: &str = "kevy.lock";
/// More than any pid has.
const LONGEST_PID: u64 = 20;

/// Keeps the directory locked while it lives.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// Makes `directory` if need be and locks it.
///
/// # Errors
/// [`StartError::DirectoryLocked`] if another process has it, [`StartError::Directory`] if the system refuses.
pub(crate) fn lock(directory: &Path) -> Result<DirectoryLock, StartError> {
    let fault = |error| StartError::Directory {
        path: directory.to_owned(),
        error,
    };
    fs::create_dir_all(directory).map_err(fault)?;
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(directory.join(LOCK_FILE))
        .map_err(fault)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StartError::DirectoryLocked {
                path: directory.to_owned(),
                pid: owner(&file),
            });
        }
        Err(TryLockError::Error(error)) => return Err(fault(error)),
    }
    sign(&mut file).map_err(fault)?;
    Ok(DirectoryLock { _file: file })
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn owner(file: &File) -> String {
    let mut pid = String::new();
    match file.take(LONGEST_PID).read_to_string(&mut pid) {
        Ok(count) if count > 0 => pid.trim().into(),
        Ok(_) | Err(_) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("new/data");
        let lock_held = lock(&directory).unwrap();
        let refused = lock(&directory).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(
            refused.ends_with(&format!("is used by another kevy (pid {pid})")),
            "{refused}"
        );
        drop(lock_held);
        lock(&directory).unwrap();
    }
}
