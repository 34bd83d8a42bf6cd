//! Randomness that is a number handed in: a seeded generator, the same sequence for the same seed.

/// A small fast generator (wyrand by crate `fastrand`). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Starts the sequence that belongs to `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.u64(..bound) }
    }

    /// A number in `0.0..1.0`.
    pub fn unit_f64(&mut self) -> f64 {
        self.0.f64()
    }
}
