//! The data directory of a simulated node, in memory. It outlives the node's crash; what a crash interrupts never happened,
//! and a full or failing disk keeps the old content.

use kevy_node::host::Disk;
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

/// A disk; clones are the same disk, so that a node finds its files after a crash.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    inner: Rc<RefCell<Inner>>,
    faults: DiskFaults,
}

#[derive(Debug)]
struct Inner {
    rng: Rng,
    /// What a crash leaves behind.
    durable: BTreeMap<String, Vec<u8>>,
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64, faults: DiskFaults) -> Self {
        let inner = Inner {
            rng: Rng::from_seed(seed),
            durable: BTreeMap::new(),
        };
        Self {
            inner: Rc::new(RefCell::new(inner)),
            faults,
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
}

impl Disk for SimulatedDisk {
    async fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        self.operate().await?;
        let inner = self.inner.borrow();
        let content = inner.durable.get(name).cloned();
        content.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    async fn replace(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        // Until this returns only a temporary file has changed: a crash here leaves the old content.
        self.operate().await?;
        let mut inner = self.inner.borrow_mut();
        let others = inner.durable.iter().filter(|(other, _)| *other != name);
        let used: usize = others.map(|(_, content)| content.len()).sum();
        if used.saturating_add(content.len()) > self.faults.capacity_bytes {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        inner.durable.insert(name.to_owned(), content.to_vec());
        Ok(())
    }

    async fn list(&mut self) -> io::Result<Vec<String>> {
        self.operate().await?;
        Ok(self.inner.borrow().durable.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn a_file_is_read_back_and_listed_in_order() {
        let mut disk = SimulatedDisk::new(1, DiskFaults::default());
        run(async {
            disk.replace("b", b"2").await.unwrap();
            disk.replace("a", b"1").await.unwrap();
            assert_eq!(disk.read("b").await.unwrap(), b"2");
            assert_eq!(disk.list().await.unwrap(), ["a", "b"]);
            let missing = disk.read("c").await.unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn an_interrupted_replacement_leaves_the_old_content() {
        let faults = DiskFaults {
            latency_max: Duration::from_hours(1),
            ..DiskFaults::default()
        };
        let quick = SimulatedDisk::new(1, DiskFaults::default());
        let mut slow = SimulatedDisk {
            faults,
            ..quick.clone()
        };
        run(async {
            quick.clone().replace("f", b"old").await.unwrap();
            {
                let mut replacing = std::pin::pin!(slow.replace("f", b"new"));
                poll_fn(|context| {
                    assert!(replacing.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            assert_eq!(quick.clone().read("f").await.unwrap(), b"old");
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
            disk.replace("f", b"1234").await.unwrap();
            let full = disk.replace("g", b"5").await.unwrap_err();
            assert_eq!(full.kind(), io::ErrorKind::StorageFull);
            disk.replace("f", b"4321").await.unwrap();
            assert_eq!(disk.read("f").await.unwrap(), b"4321");
        });
    }
}
