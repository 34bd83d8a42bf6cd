//! The data directory of a simulated node, in memory. It outlives the node's crash.
//!
//! What was written but not synced may be lost when power fails: each write by itself survives whole, not at all, or torn
//! at any byte. Names are durable once their directory was synced: a new file may vanish, a removed one come back. When
//! only the process dies, what the system took stays. Operations take time, fail, and find the disk full.

use bytes::{Bytes, BytesMut};
use kevy_node::host::Disk;
use kevy_node::log::{DiskAction, DiskFault, DiskResult};
use kevy_proto::rng::Rng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// What goes wrong with a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFaults {
    /// Longest time of one operation.
    pub latency_max: Duration,
    /// Of 1,000 operations, how many fail.
    pub error_permille: u64,
    /// Bytes that all files together may have.
    pub capacity_bytes: usize,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self {
            latency_max: Duration::ZERO,
            error_permille: 0,
            capacity_bytes: usize::MAX,
        }
    }
}

/// What ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process: what the system took stays.
    Process,
    /// The machine: what is not synced may be lost.
    Power,
}

/// A disk; clones are the same disk, so that a node finds its files after a crash.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    inner: Rc<RefCell<Inner>>,
    faults: DiskFaults,
}

#[derive(Debug)]
struct Inner {
    rng: Rng,
    files: BTreeMap<String, File>,
    /// Files that were removed since the directory was synced.
    removed: BTreeMap<String, File>,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// What survives a loss of power.
    durable: BytesMut,
    /// What readers see.
    content: BytesMut,
    /// What was written since the last sync, in order.
    unsynced: Vec<Unsynced>,
    /// Its name is durable.
    is_named: bool,
}

#[derive(Clone, Debug)]
struct Unsynced {
    offset: u64,
    bytes: Bytes,
    /// The write has ended: the system has it.
    has_landed: bool,
}

impl File {
    fn whole(content: &[u8]) -> Self {
        Self {
            durable: content.into(),
            content: content.into(),
            unsynced: Vec::new(),
            is_named: true,
        }
    }
}

fn write_at(content: &mut BytesMut, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset as usize..end].copy_from_slice(bytes);
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64, faults: DiskFaults) -> Self {
        let inner = Inner {
            rng: Rng::from_seed(seed),
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
        };
        Self {
            inner: Rc::new(RefCell::new(inner)),
            faults,
        }
    }

    /// The same disk, on which nothing fails: for what a node does before it serves.
    #[must_use]
    pub fn reliable(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
            faults: DiskFaults::default(),
        }
    }

    /// The node has crashed: leaves what a disk would have.
    pub fn crash(&self, crash: Crash) {
        let mut inner = self.inner.borrow_mut();
        let Inner {
            rng,
            files,
            removed,
        } = &mut *inner;
        if crash == Crash::Process {
            // What was under way has reached the system, or not.
            for file in files.values_mut() {
                file.unsynced.retain(|write| write.has_landed);
            }
            return;
        }
        for (name, file) in std::mem::take(removed) {
            if rng.below(4) == 0 {
                files.entry(name).or_insert(file);
            }
        }
        files.retain(|_, file| file.is_named || rng.below(2) == 0);
        for file in files.values_mut() {
            for Unsynced { offset, bytes, .. } in std::mem::take(&mut file.unsynced) {
                let kept = match rng.below(3) {
                    0 => 0,
                    1 => bytes.len(),
                    _ => rng.below(bytes.len() as u64 + 1) as usize,
                };
                // Blocks reach the disk in any order: sometimes it is the end that does.
                let start = if rng.below(4) == 0 {
                    bytes.len() - kept
                } else {
                    0
                };
                if kept > 0 {
                    let piece = &bytes[start..start + kept];
                    write_at(&mut file.durable, offset + start as u64, piece);
                }
            }
            file.content = file.durable.clone();
            file.is_named = true;
        }
    }

    /// Lets an operation take its time and perhaps fail.
    async fn operate(&self) -> io::Result<()> {
        let (millis, fails) = {
            let rng = &mut self.inner.borrow_mut().rng;
            let millis = rng.below(self.faults.latency_max.as_millis() as u64 + 1);
            (millis, rng.below(1000) < self.faults.error_permille)
        };
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
        if fails {
            return Err(io::Error::other("simulated disk error"));
        }
        Ok(())
    }

    /// Whether `more` bytes in `name` fit.
    fn check_room(&self, name: &str, length: usize) -> io::Result<()> {
        let inner = self.inner.borrow();
        let others = inner.files.iter().filter(|(other, _)| *other != name);
        let used: usize = others.map(|(_, file)| file.content.len()).sum();
        if used.saturating_add(length) > self.faults.capacity_bytes {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    async fn write(&self, name: &str, offset: u64, bytes: Bytes) -> io::Result<()> {
        let end = offset as usize + bytes.len();
        let before = self
            .inner
            .borrow()
            .files
            .get(name)
            .map_or(0, |f| f.content.len());
        self.check_room(name, end.max(before))?;
        {
            let mut inner = self.inner.borrow_mut();
            // What is under way when the power fails may be there or not.
            let file = inner.files.entry(name.to_owned()).or_default();
            file.unsynced.push(Unsynced {
                offset,
                bytes: bytes.clone(),
                has_landed: false,
            });
        }
        self.operate().await?;
        if let Some(file) = self.inner.borrow_mut().files.get_mut(name) {
            write_at(&mut file.content, offset, &bytes);
            let mut writes = file.unsynced.iter_mut();
            if let Some(write) = writes.find(|write| !write.has_landed && write.offset == offset) {
                write.has_landed = true;
            }
        }
        Ok(())
    }

    async fn sync(&self, name: &str) -> io::Result<()> {
        let (content, count) = {
            let inner = self.inner.borrow();
            let file = inner.files.get(name).ok_or(io::ErrorKind::NotFound)?;
            let landed = file.unsynced.iter().filter(|write| write.has_landed);
            (file.content.clone(), landed.count())
        };
        self.operate().await?;
        let mut inner = self.inner.borrow_mut();
        let was_named = match inner.files.get_mut(name) {
            None => true,
            Some(file) => {
                file.durable = content;
                let mut left = count;
                file.unsynced.retain(|write| {
                    let is_durable = write.has_landed && left > 0;
                    left -= usize::from(is_durable);
                    !is_durable
                });
                std::mem::replace(&mut file.is_named, true)
            }
        };
        if !was_named {
            inner.removed.clear();
        }
        Ok(())
    }

    async fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.check_room(name, content.len())?;
        // Until this returns only a temporary file has changed: a crash here leaves the old content.
        self.operate().await?;
        let mut inner = self.inner.borrow_mut();
        inner.files.insert(name.to_owned(), File::whole(content));
        inner.removed.clear();
        Ok(())
    }

    async fn act(&self, name: &str, action: DiskAction) -> io::Result<Bytes> {
        match action {
            DiskAction::Write { offset, bytes } => self.write(name, offset, bytes).await?,
            DiskAction::Sync => self.sync(name).await?,
            DiskAction::Replace(bytes) => self.replace(name, &bytes).await?,
            DiskAction::Cut { length } => {
                self.operate().await?;
                let mut inner = self.inner.borrow_mut();
                let file = inner.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
                let content = file.content[..length as usize].to_vec();
                *file = File::whole(&content);
            }
            DiskAction::Remove => {
                self.operate().await?;
                let mut inner = self.inner.borrow_mut();
                if let Some(file) = inner.files.remove(name)
                    && file.is_named
                {
                    inner.removed.insert(name.to_owned(), file);
                }
            }
            DiskAction::Rename { to } => {
                self.operate().await?;
                let mut inner = self.inner.borrow_mut();
                let file = inner.files.remove(name).ok_or(io::ErrorKind::NotFound)?;
                inner.files.insert(to, file);
                inner.removed.clear();
            }
            DiskAction::Read { offset, length } => {
                self.operate().await?;
                let inner = self.inner.borrow();
                let file = inner.files.get(name).ok_or(io::ErrorKind::NotFound)?;
                let start = file.content.len().min(offset as usize);
                let end = file.content.len().min(start + length);
                return Ok(Bytes::copy_from_slice(&file.content[start..end]));
            }
        }
        Ok(Bytes::new())
    }
}

impl Disk for SimulatedDisk {
    async fn perform(&mut self, file: &str, action: DiskAction) -> DiskResult {
        self.act(file, action).await.map_err(DiskFault::from)
    }

    async fn list(&mut self) -> Result<Vec<String>, DiskFault> {
        self.operate().await?;
        Ok(self.inner.borrow().files.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(future)
    }

    const READ: DiskAction = DiskAction::Read {
        offset: 0,
        length: 100,
    };

    fn write(offset: u64, bytes: &'static [u8]) -> DiskAction {
        let bytes = Bytes::from_static(bytes);
        DiskAction::Write { offset, bytes }
    }

    #[test]
    fn what_is_synced_survives_and_what_is_not_may_be_torn() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut disk = SimulatedDisk::new(seed, DiskFaults::default());
            run(async {
                disk.perform("f", write(0, b"safe")).await.unwrap();
                disk.perform("f", DiskAction::Sync).await.unwrap();
                disk.perform("f", write(4, b"1234")).await.unwrap();
                disk.perform("g", write(0, b"x")).await.unwrap();
                assert_eq!(disk.perform("f", READ).await.unwrap(), b"safe1234"[..]);
                disk.crash(Crash::Power);
                let content = disk.perform("f", READ).await.unwrap();
                assert!(content.starts_with(b"safe"), "{content:?}");
                outcomes.insert((content, disk.perform("g", READ).await.is_ok()));
            });
        }
        let lengths: Vec<usize> = outcomes.iter().map(|(content, _)| content.len()).collect();
        assert!(
            (4..=8).all(|length| lengths.contains(&length)),
            "{outcomes:?}"
        );
        assert!(outcomes.iter().any(|(_, is_there)| !is_there));
    }

    #[test]
    fn the_death_of_a_process_loses_nothing_that_was_written() {
        let mut disk = SimulatedDisk::new(1, DiskFaults::default());
        run(async {
            disk.perform("f", write(0, b"1234")).await.unwrap();
            disk.crash(Crash::Process);
            assert_eq!(disk.perform("f", READ).await.unwrap(), b"1234"[..]);
        });
    }

    #[test]
    fn a_full_disk_refuses_and_keeps_what_it_has() {
        let faults = DiskFaults {
            capacity_bytes: 4,
            ..DiskFaults::default()
        };
        let mut disk = SimulatedDisk::new(1, faults);
        run(async {
            disk.perform("f", write(0, b"1234")).await.unwrap();
            let full = disk.perform("g", write(0, b"5")).await.unwrap_err();
            assert_eq!(full.kind, io::ErrorKind::StorageFull);
            disk.perform("f", write(0, b"4321")).await.unwrap();
            assert_eq!(disk.perform("f", READ).await.unwrap(), b"4321"[..]);
        });
    }
}
