//! The data directory by plain system calls, one after the other: at the start, before any shard is at work, and for tools.

use bytes::Bytes;
use kevy_node::host::Disk;
use kevy_node::log::{DiskAction, DiskFault, DiskResult, TEMPORARY_SUFFIX};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files of one directory.
#[derive(Debug)]
pub(crate) struct StdDisk {
    directory: PathBuf,
}

impl StdDisk {
    /// The files of `directory`, which exists.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn act(&self, name: &str, action: DiskAction) -> io::Result<Bytes> {
        let path = self.path(name);
        match action {
            DiskAction::Write { offset, bytes } => {
                let mut options = OpenOptions::new();
                let file = options
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)?;
                file.write_all_at(&bytes, offset)?;
            }
            DiskAction::Sync => {
                File::open(path)?.sync_all()?;
                self.sync_directory()?;
            }
            DiskAction::Replace(bytes) => {
                let temporary = self.path(&format!("{name}{TEMPORARY_SUFFIX}"));
                let file = File::create(&temporary)?;
                file.write_all_at(&bytes, 0)?;
                file.sync_all()?;
                fs::rename(temporary, path)?;
                self.sync_directory()?;
            }
            DiskAction::Cut { length } => {
                let file = OpenOptions::new().write(true).open(path)?;
                file.set_len(length)?;
                file.sync_all()?;
            }
            DiskAction::Remove => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            },
            DiskAction::Rename { to } => {
                fs::rename(path, self.path(&to))?;
                self.sync_directory()?;
            }
            DiskAction::Read { offset, length } => return read(&path, offset, length),
        }
        Ok(Bytes::new())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
                && !name.ends_with(TEMPORARY_SUFFIX)
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn read(path: &Path, offset: u64, length: usize) -> io::Result<Bytes> {
    use std::io::Seek;
    let mut file = File::open(path)?;
    file.seek(io::SeekFrom::Start(offset))?;
    let mut content = Vec::new();
    file.take(length as u64).read_to_end(&mut content)?;
    Ok(content.into())
}

impl Disk for StdDisk {
    async fn perform(&mut self, file: &str, action: DiskAction) -> DiskResult {
        self.act(file, action).map_err(DiskFault::from)
    }

    async fn list(&mut self) -> Result<Vec<String>, DiskFault> {
        self.names().map_err(DiskFault::from)
    }
}
