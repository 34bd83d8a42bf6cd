//! The files of the data directory while a shard is at work, through glommio: reads, writes and syncs go through the
//! executor's ring, so the shard serves clients meanwhile.
//!
//! Each operation is a task of the executor. Files stay open between operations. What `io_uring` (or glommio) has no
//! operation for, cutting and listing, is rare and short and done by std calls.

use super::executor::Outstanding;
use bytes::{Bytes, BytesMut};
use glommio::io::{BufferedFile, Directory, remove, rename};
use kevy_node::host::Event;
use kevy_node::log::{DiskAction, DiskFault, DiskOperation, DiskResult, TEMPORARY_SUFFIX};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// How much is read or written by one operation of the ring.
const CHUNK_BYTES: usize = 1 << 20;
/// How many files stay open.
const OPEN_FILES: usize = 8;

/// The files of one shard.
#[derive(Clone, Debug)]
pub(crate) struct GlommioDisk {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    outstanding: Outstanding,
    open: RefCell<BTreeMap<Arc<str>, OpenFile>>,
    done: RefCell<Done>,
}

#[derive(Clone, Debug)]
struct OpenFile {
    file: Rc<BufferedFile>,
    /// Its name may not be durable.
    is_new: bool,
}

/// Operations that have ended, and who waits for one to end.
#[derive(Debug, Default)]
struct Done {
    events: VecDeque<Event>,
    waker: Option<Waker>,
}

impl GlommioDisk {
    /// The files of `directory`, which exists. Operations are counted in the shard's `outstanding`.
    pub(crate) fn new(directory: &Path, outstanding: Outstanding) -> Self {
        Self {
            shared: Rc::new(Shared {
                // glommio opens relative to no directory at all: EBADF for a relative path.
                directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
                outstanding,
                open: RefCell::default(),
                done: RefCell::default(),
            }),
        }
    }

    /// Begins an operation; its end is collected with [`GlommioDisk::collect`].
    pub(crate) fn start(&self, operation: DiskOperation) {
        let shared = Rc::clone(&self.shared);
        let running = shared.outstanding.begin();
        glommio::spawn_local(async move {
            let DiskOperation { task, file, action } = operation;
            let result = shared.perform(file, action).await;
            let mut done = shared.done.borrow_mut();
            done.events.push_back(Event::Disk { task, result });
            if let Some(waker) = done.waker.take() {
                waker.wake();
            }
            drop(running);
        })
        .detach();
    }

    /// Appends the ends of operations to `events`.
    pub(crate) fn collect(&self, events: &mut Vec<Event>) {
        events.extend(self.shared.done.borrow_mut().events.drain(..));
    }

    /// Ready once an operation has ended.
    pub(crate) async fn ended(&self) {
        poll_fn(|context| {
            let mut done = self.shared.done.borrow_mut();
            if done.events.is_empty() {
                done.waker = Some(context.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }
}

impl Shared {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    async fn perform(&self, name: Arc<str>, action: DiskAction) -> DiskResult {
        let done = match action {
            DiskAction::Write { offset, bytes } => self.write(name, offset, bytes).await,
            DiskAction::Sync => self.sync(&name).await,
            DiskAction::Replace(bytes) => self.replace(&name, bytes).await,
            DiskAction::Cut { length } => self.cut(&name, length),
            DiskAction::Remove => self.remove(&name).await,
            DiskAction::Rename { to } => self.rename(&name, &to).await,
            DiskAction::Read { offset, length } => return self.read(&name, offset, length).await,
        };
        done.map(|()| Bytes::new()).map_err(DiskFault::from)
    }

    /// The file, opened for writing, created if it is missing.
    async fn opened(&self, name: &Arc<str>) -> io::Result<OpenFile> {
        if let Some(open) = self.open.borrow().get(name) {
            return Ok(open.clone());
        }
        let path = self.path(name);
        let is_new = !path.exists();
        let file = if is_new {
            BufferedFile::create(&path).await?
        } else {
            open_for_writing(&path).await?
        };
        let open = OpenFile {
            file: Rc::new(file),
            is_new,
        };
        let mut files = self.open.borrow_mut();
        if files.len() >= OPEN_FILES {
            // Segments and snapshots are numbered, so that the oldest come first; whoever uses one keeps it alive.
            files.pop_first();
        }
        files.insert(Arc::clone(name), open.clone());
        Ok(open)
    }

    async fn write(&self, name: Arc<str>, offset: u64, bytes: Bytes) -> io::Result<()> {
        let open = self.opened(&name).await?;
        write_all(&open.file, offset, &bytes).await
    }

    async fn sync(&self, name: &Arc<str>) -> io::Result<()> {
        let open = self.opened(name).await?;
        open.file.fdatasync().await?;
        if open.is_new {
            self.sync_directory().await?;
            if let Some(open) = self.open.borrow_mut().get_mut(name) {
                open.is_new = false;
            }
        }
        Ok(())
    }

    async fn sync_directory(&self) -> io::Result<()> {
        let directory = Directory::open(&self.directory).await?;
        directory.sync().await?;
        directory.close().await?;
        Ok(())
    }

    async fn replace(&self, name: &str, content: Bytes) -> io::Result<()> {
        let temporary = self.path(&format!("{name}{TEMPORARY_SUFFIX}"));
        let file = BufferedFile::create(&temporary).await?;
        write_all(&file, 0, &content).await?;
        file.fdatasync().await?;
        file.close().await?;
        rename(&temporary, self.path(name)).await?;
        self.sync_directory().await
    }

    fn cut(&self, name: &str, length: u64) -> io::Result<()> {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(self.path(name))?;
        file.set_len(length)?;
        file.sync_all()
    }

    async fn remove(&self, name: &Arc<str>) -> io::Result<()> {
        self.open.borrow_mut().remove(name);
        match remove(self.path(name)).await.map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn rename(&self, name: &str, to: &str) -> io::Result<()> {
        self.open.borrow_mut().remove(name);
        rename(self.path(name), self.path(to)).await?;
        self.sync_directory().await
    }

    async fn read(&self, name: &str, offset: u64, length: usize) -> DiskResult {
        let file = BufferedFile::open(self.path(name))
            .await
            .map_err(io::Error::from)?;
        let mut content = BytesMut::new();
        while content.len() < length {
            let wanted = CHUNK_BYTES.min(length - content.len());
            let position = offset + content.len() as u64;
            let chunk = file
                .read_at(position, wanted)
                .await
                .map_err(io::Error::from)?;
            if chunk.is_empty() {
                break;
            }
            content.extend_from_slice(&chunk);
        }
        file.close().await.map_err(io::Error::from)?;
        Ok(content.freeze())
    }
}

/// glommio has no way to open a buffered file for writing without emptying it.
async fn open_for_writing(path: &Path) -> io::Result<BufferedFile> {
    let file = glommio::io::OpenOptions::new()
        .write(true)
        .read(true)
        .buffered_open(path)
        .await?;
    Ok(file)
}

async fn write_all(file: &BufferedFile, offset: u64, content: &[u8]) -> io::Result<()> {
    let mut position = 0;
    while position < content.len() {
        let end = content.len().min(position + CHUNK_BYTES);
        let written = file
            .write_at(content[position..end].to_vec(), offset + position as u64)
            .await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        position += written;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use glommio::{LocalExecutorBuilder, Placement};

    /// Runs `work` on an executor of its own, with an empty directory.
    fn in_directory(work: impl AsyncFnOnce(&Path)) {
        let directory = tempfile::tempdir().unwrap();
        on_executor(work(directory.path()));
    }

    fn on_executor(work: impl Future<Output = ()>) {
        let executor = LocalExecutorBuilder::new(Placement::Unbound).make();
        executor.unwrap().run(work);
    }

    #[test]
    fn files_are_written_replaced_read_cut_and_removed() {
        in_directory(async |path: &Path| {
            let disk = GlommioDisk::new(path, Outstanding::default()).shared;
            let large: Bytes = (0..3_000_000_u32).map(|byte| byte as u8).collect();
            let name: Arc<str> = "a".into();
            let write = |offset, bytes: &Bytes| DiskAction::Write {
                offset,
                bytes: bytes.clone(),
            };
            let read = |offset, length| DiskAction::Read { offset, length };
            disk.perform(Arc::clone(&name), write(0, &large))
                .await
                .unwrap();
            disk.perform(Arc::clone(&name), write(3_000_000, &large))
                .await
                .unwrap();
            disk.perform(Arc::clone(&name), DiskAction::Sync)
                .await
                .unwrap();
            let back = disk
                .perform(Arc::clone(&name), read(2_999_999, 4_000_000))
                .await
                .unwrap();
            assert_eq!(back.len(), 3_000_001, "fewer bytes: the file ends there");
            assert_eq!(back[1..], large);
            disk.perform(Arc::clone(&name), DiskAction::Cut { length: 5 })
                .await
                .unwrap();
            let back = disk.perform(Arc::clone(&name), read(0, 100)).await.unwrap();
            assert_eq!(back, large[..5]);
            disk.perform("b".into(), DiskAction::Replace(large.clone()))
                .await
                .unwrap();
            disk.perform("b".into(), DiskAction::Replace(Bytes::from_static(b"2nd")))
                .await
                .unwrap();
            let to = "c".to_owned();
            disk.perform("b".into(), DiskAction::Rename { to })
                .await
                .unwrap();
            let back = disk.perform("c".into(), read(0, 100)).await.unwrap();
            assert_eq!(back, b"2nd"[..]);
            let missing = disk.perform("b".into(), read(0, 100)).await.unwrap_err();
            assert_eq!(missing.kind, io::ErrorKind::NotFound);
            disk.perform(name, DiskAction::Remove).await.unwrap();
            disk.perform("a".into(), DiskAction::Remove).await.unwrap();
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 1);
        });
    }

    #[test]
    fn a_directory_may_be_relative() {
        let here = std::env::current_dir().unwrap();
        let directory = tempfile::tempdir_in(&here).unwrap();
        let relative = directory.path().strip_prefix(&here).unwrap().to_owned();
        on_executor(async move {
            let disk = GlommioDisk::new(&relative, Outstanding::default()).shared;
            let content = Bytes::from_static(b"x");
            disk.perform("a".into(), DiskAction::Replace(content.clone()))
                .await
                .unwrap();
            let read = DiskAction::Read {
                offset: 0,
                length: 2,
            };
            assert_eq!(disk.perform("a".into(), read).await.unwrap(), content);
        });
    }

    #[test]
    fn ends_of_operations_are_collected() {
        in_directory(async |path: &Path| {
            let outstanding = Outstanding::default();
            let disk = GlommioDisk::new(path, outstanding.clone());
            disk.start(DiskOperation {
                task: kevy_node::log::DiskTask::LogWrite,
                file: "log".into(),
                action: DiskAction::Write {
                    offset: 0,
                    bytes: Bytes::from_static(b"x"),
                },
            });
            assert!(outstanding.any());
            disk.ended().await;
            let mut events = Vec::new();
            disk.collect(&mut events);
            let expected = Event::Disk {
                task: kevy_node::log::DiskTask::LogWrite,
                result: Ok(Bytes::new()),
            };
            assert_eq!(events, [expected]);
        });
    }
}
