//! The data directory, through glommio.
//!
//! Reads and writes go through the executor's ring, so the shard serves clients meanwhile. Names are listed with
//! std calls: that is done once, at start, and io_uring has no operation for it.

use super::executor::Outstanding;
use glommio::io::{BufferedFile, Directory, rename};
use kevy_node::host::Disk;
use std::io;
use std::path::{Path, PathBuf};

/// How much is read or written by one operation.
const CHUNK_BYTES: usize = 1 << 20;
/// What a file is called until it is complete.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Files of one directory.
#[derive(Debug)]
pub(crate) struct GlommioDisk {
    directory: PathBuf,
    outstanding: Outstanding,
}

impl GlommioDisk {
    /// The files of `directory`, which exists. Operations are counted in the shard's `outstanding`.
    pub(crate) fn new(directory: &Path, outstanding: Outstanding) -> Self {
        Self {
            directory: directory.to_owned(),
            outstanding,
        }
    }

    async fn write_new(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let file = BufferedFile::create(path).await?;
        let mut position = 0;
        while position < content.len() {
            let end = content.len().min(position + CHUNK_BYTES);
            let written = file
                .write_at(content[position..end].to_vec(), position as u64)
                .await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            position += written;
        }
        file.fdatasync().await?;
        file.close().await?;
        Ok(())
    }
}

impl Disk for GlommioDisk {
    async fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        let _running = self.outstanding.begin();
        let file = BufferedFile::open(self.directory.join(name)).await?;
        let mut content = Vec::new();
        loop {
            let chunk = file.read_at(content.len() as u64, CHUNK_BYTES).await?;
            if chunk.is_empty() {
                break;
            }
            content.extend_from_slice(&chunk);
        }
        file.close().await?;
        Ok(content)
    }

    async fn replace(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let _running = self.outstanding.begin();
        let temporary = self.directory.join(format!("{name}{TEMPORARY_SUFFIX}"));
        self.write_new(&temporary, content).await?;
        rename(&temporary, self.directory.join(name)).await?;
        let directory = Directory::open(&self.directory).await?;
        directory.sync().await?;
        directory.close().await?;
        Ok(())
    }

    async fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use glommio::{LocalExecutorBuilder, Placement};

    #[test]
    fn files_are_replaced_read_and_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .make()
            .unwrap();
        executor.run(async move {
            let outstanding = Outstanding::default();
            let mut disk = GlommioDisk::new(&path, outstanding.clone());
            let large: Vec<u8> = (0..3_000_000_u32).map(|byte| byte as u8).collect();
            disk.replace("b", &large).await.unwrap();
            disk.replace("a", b"first").await.unwrap();
            disk.replace("a", b"2nd").await.unwrap();
            std::fs::write(path.join("c.tmp"), b"left by a crash").unwrap();
            assert_eq!(disk.list().await.unwrap(), ["a", "b"]);
            assert_eq!(disk.read("a").await.unwrap(), b"2nd");
            assert_eq!(disk.read("b").await.unwrap(), large);
            let missing = disk.read("nothing").await.unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
            assert!(!outstanding.any());
        });
    }
}
