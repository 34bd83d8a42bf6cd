//! Ranges of free ports: kevy in cluster mode needs `port ..= port + threads` in one piece.
//!
//! Ports are handed out in blocks. A block is held by a lock on a file in the temporary directory, so
//! tests in other threads and processes take other blocks; the lock goes with the process that held it.
//! Blocks lie below the ephemeral range, so no outgoing connection can sit on them.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};

const FIRST_PORT: u16 = 20_000;
const BLOCK_PORTS: u16 = 16;
const BLOCKS: u16 = 600;

/// A range of ports that nobody else in these tests uses while this value lives.
#[derive(Debug)]
pub struct PortRange {
    first: u16,
    count: u16,
    _lock: File,
}

impl PortRange {
    /// The first port of the range.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The port at `index` of the range.
    pub fn at(&self, index: u16) -> u16 {
        assert!(
            index < self.count,
            "port {index} of a range of {}",
            self.count
        );
        self.first + index
    }
}

/// Takes `count` consecutive free ports (at most 16).
///
/// # Panics
/// When there are none left: something holds on to thousands of ports.
pub fn free_ports(count: u16) -> PortRange {
    assert!(
        (1..=BLOCK_PORTS).contains(&count),
        "a block has {BLOCK_PORTS} ports"
    );
    let start = fastrand::u16(..BLOCKS);
    (0..BLOCKS)
        .map(|step| (start + step) % BLOCKS)
        .find_map(|block| take(block, count))
        .expect("no free range of ports")
}

fn take(block: u16, count: u16) -> Option<PortRange> {
    let first = FIRST_PORT + block * BLOCK_PORTS;
    let path = std::env::temp_dir().join(format!("kevy-test-ports-{first}.lock"));
    let lock = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .ok()?;
    lock.try_lock().ok()?;
    let probes: Result<Vec<_>, _> = (first..first + count)
        .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
        .collect();
    probes.ok().map(|_free| PortRange {
        first,
        count,
        _lock: lock,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranges_never_overlap() {
        let a = free_ports(5);
        let b = free_ports(5);
        assert!(a.first().abs_diff(b.first()) >= BLOCK_PORTS);
    }

    #[test]
    fn a_block_with_a_taken_port_is_passed_over() {
        let range = free_ports(2);
        let block = (range.first() - FIRST_PORT) / BLOCK_PORTS;
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, range.at(1))).unwrap();
        drop(range);
        assert!(take(block, 2).is_none());
        drop(taken);
    }
}
