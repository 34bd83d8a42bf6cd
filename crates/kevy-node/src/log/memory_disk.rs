//! A data directory in memory, for tests: what is written is durable at once, and every operation can be the last.

use super::operation::{DiskAction, DiskFault, DiskResult};
use crate::host::Disk;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs what needs nothing but such a disk: it never has to wait.
pub(super) fn at_once<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a disk in memory does not keep anybody waiting"),
    }
}

/// Files by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryDisk {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// So many operations that change something still succeed, if that is limited.
    pub(super) changes_left: Option<usize>,
}

impl MemoryDisk {
    fn change(&mut self) -> Result<(), DiskFault> {
        match &mut self.changes_left {
            Some(0) => Err(io::Error::other("the power is gone").into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn existing(&mut self, name: &str) -> Result<&mut Vec<u8>, DiskFault> {
        let file = self.files.get_mut(name);
        file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }
}

impl Disk for MemoryDisk {
    async fn perform(&mut self, file: &str, action: DiskAction) -> DiskResult {
        if let DiskAction::Read { offset, length } = action {
            let content = self.existing(file)?;
            let start = content.len().min(offset as usize);
            let end = content.len().min(start + length);
            return Ok(Bytes::copy_from_slice(&content[start..end]));
        }
        self.change()?;
        match action {
            DiskAction::Write { offset, bytes } => {
                let content = self.files.entry(file.to_owned()).or_default();
                let end = offset as usize + bytes.len();
                content.resize(content.len().max(end), 0);
                content[offset as usize..end].copy_from_slice(&bytes);
            }
            DiskAction::Replace(bytes) => {
                self.files.insert(file.to_owned(), bytes.to_vec());
            }
            DiskAction::Cut { length } => self.existing(file)?.truncate(length as usize),
            DiskAction::Remove => {
                self.files.remove(file);
            }
            DiskAction::Rename { to } => {
                let content = std::mem::take(self.existing(file)?);
                self.files.remove(file);
                self.files.insert(to, content);
            }
            DiskAction::Sync | DiskAction::Read { .. } => {}
        }
        Ok(Bytes::new())
    }

    async fn list(&mut self) -> Result<Vec<String>, DiskFault> {
        Ok(self.files.keys().cloned().collect())
    }
}
