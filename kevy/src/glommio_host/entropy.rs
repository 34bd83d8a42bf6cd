//! Random numbers from the kernel.

use kevy_node::host::Entropy;
use std::hash::{BuildHasher, RandomState};

/// Draws from `getrandom(2)`. Used for seeds, a few per process, so nothing is buffered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostEntropy;

impl Entropy for HostEntropy {
    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => u64::from_ne_bytes(bytes),
            // A sandbox without the call: std's hasher keys are as random as the platform allows.
            Ok(_) | Err(_) => RandomState::new().hash_one(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ() {
        let mut entropy = HostEntropy;
        let drawn: std::collections::HashSet<_> = (0..64).map(|_| entropy.next_u64()).collect();
        assert_eq!(drawn.len(), 64);
    }
}
