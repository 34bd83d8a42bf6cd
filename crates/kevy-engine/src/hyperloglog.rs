//! `HyperLogLog`: how many different elements were added, in a string of at most 12304 bytes, byte for byte as Redis keeps it.
//!
//! ```text
//! "HYLL" [encoding: 1][unused: 3][cached count: 8, little endian; top bit set: not valid][registers]
//! ```
//!
//! An element's hash chooses one of 16384 registers, which keeps the longest run of zeros seen behind that choice. Registers
//! are 6 bits each ([`dense`]) or run lengths ([`sparse`]); the count is estimated from how many registers hold what
//! ([`estimate`]). Sources: <https://redis.io/docs/latest/develop/data-types/probabilistic/hyperloglogs/>, the format's
//! description at <http://antirez.com/news/75>, and redis-server 7.0, which every payload was compared with.

mod dense;
mod estimate;
mod hash;
mod sparse;

use alloc::vec;
use alloc::vec::Vec;

/// Bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
/// Number of registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of a hash in which zeros are counted.
const RUN_BITS: u32 = 64 - INDEX_BITS;
/// Bytes before the registers.
const HEAD_BYTES: usize = 16;
const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const CACHE_AT: usize = 8;
/// The byte of the cached count whose top bit says that it is not valid.
const CACHE_FLAG_AT: usize = HEAD_BYTES - 1;
const CACHE_INVALID: u8 = 0x80;

/// How registers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Six bits each.
    Dense = 0,
    /// Runs of equal registers.
    Sparse = 1,
}

/// The registers are not what the format allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// A register and what an element makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Which register.
    pub index: usize,
    /// The least that the register holds afterwards: `1..=51`.
    pub count: u8,
}

impl Observation {
    /// What adding `element` does.
    pub fn of(element: &[u8]) -> Self {
        let hash = hash::murmur64a(element);
        let run = hash >> INDEX_BITS | 1 << RUN_BITS;
        Self {
            index: hash as usize % REGISTERS,
            count: run.trailing_zeros() as u8 + 1,
        }
    }
}

/// How the registers in `bytes` are kept; `None` if `bytes` are no `HyperLogLog`. Their content is not checked.
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < HEAD_BYTES || !bytes.starts_with(MAGIC) {
        return None;
    }
    match bytes[ENCODING_AT] {
        0 => (bytes.len() == HEAD_BYTES + dense::BYTES).then_some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// One without elements.
pub fn empty() -> Vec<u8> {
    let mut bytes = head(Encoding::Sparse);
    sparse::push_zeros(&mut bytes, REGISTERS);
    bytes
}

fn head(encoding: Encoding) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = encoding as u8;
    bytes
}

/// Raises a register, if it holds less; says whether it did. A sparse one that grows beyond `sparse_max_bytes`, or that
/// cannot hold the count, becomes dense.
///
/// # Errors
/// If the registers are corrupted; some bytes may have changed.
pub fn raise(
    bytes: &mut Vec<u8>,
    observation: Observation,
    sparse_max_bytes: usize,
) -> Result<bool, Corrupted> {
    if bytes.get(ENCODING_AT) == Some(&(Encoding::Dense as u8)) {
        return Ok(raise_dense(bytes, observation));
    }
    match sparse::raise(bytes, HEAD_BYTES, observation, sparse_max_bytes)? {
        sparse::Raised::No => Ok(false),
        sparse::Raised::Yes => Ok(true),
        sparse::Raised::NoRoom => {
            make_dense(bytes)?;
            Ok(raise_dense(bytes, observation))
        }
    }
}

/// Raises a register of a dense one where it stands; says whether it held less.
pub fn raise_dense(bytes: &mut [u8], observation: Observation) -> bool {
    bytes
        .get_mut(HEAD_BYTES..)
        .is_some_and(|registers| dense::raise(registers, observation))
}

/// Makes a sparse one dense.
///
/// # Errors
/// If the registers are corrupted; nothing changed then.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<(), Corrupted> {
    if bytes.get(ENCODING_AT) == Some(&(Encoding::Dense as u8)) {
        return Ok(());
    }
    let mut registers = vec![0; REGISTERS];
    merge_into(&mut registers, bytes)?;
    let mut dense = vec![0; dense::BYTES];
    for (index, &count) in registers.iter().enumerate() {
        dense::raise(&mut dense, Observation { index, count });
    }
    bytes.truncate(HEAD_BYTES);
    bytes[ENCODING_AT] = Encoding::Dense as u8;
    bytes.extend_from_slice(&dense);
    Ok(())
}

/// Raises `registers` to those of `bytes`.
///
/// # Errors
/// If the registers are corrupted.
pub fn merge_into(registers: &mut [u8], bytes: &[u8]) -> Result<(), Corrupted> {
    let mut index = 0;
    each_run(bytes, |count, length| {
        let run = registers.get_mut(index..index + length).ok_or(Corrupted)?;
        run.iter_mut()
            .for_each(|register| *register = count.max(*register));
        index += length;
        Ok(())
    })?;
    whole(index)
}

/// Estimates how many different elements were added.
///
/// # Errors
/// If the registers are corrupted.
pub fn count(bytes: &[u8]) -> Result<i64, Corrupted> {
    let mut histogram = [0; estimate::VALUES];
    let mut registers = 0;
    each_run(bytes, |count, length| {
        histogram[usize::from(count) % estimate::VALUES] += length;
        registers += length;
        Ok(())
    })?;
    whole(registers)?;
    Ok(estimate::estimate(&histogram))
}

/// Estimates how many different elements `registers` have seen.
pub fn count_registers(registers: &[u8]) -> i64 {
    let mut histogram = [0; estimate::VALUES];
    for &count in registers {
        histogram[usize::from(count) % estimate::VALUES] += 1;
    }
    estimate::estimate(&histogram)
}

/// The registers of a sparse one as runs, in the notation of `PFDEBUG DECODE`: value (0 for zeros), length, and whether it
/// is written in two bytes.
pub fn sparse_runs(bytes: &[u8]) -> impl Iterator<Item = (u8, usize, bool)> {
    let runs = sparse::Runs(bytes.get(HEAD_BYTES..).unwrap_or_default());
    runs.map(|run| (run.count, run.length, run.bytes > 1))
}

/// Gives `each` the registers as runs: a value and how many registers in a row hold it.
fn each_run(
    bytes: &[u8],
    mut each: impl FnMut(u8, usize) -> Result<(), Corrupted>,
) -> Result<(), Corrupted> {
    let registers = bytes.get(HEAD_BYTES..).unwrap_or_default();
    match encoding(bytes).ok_or(Corrupted)? {
        Encoding::Dense => dense::iter(registers).try_for_each(|count| each(count, 1)),
        Encoding::Sparse => {
            let mut runs = sparse::Runs(registers);
            runs.try_for_each(|run| each(run.count, run.length))
        }
    }
}

fn whole(registers: usize) -> Result<(), Corrupted> {
    if registers == REGISTERS {
        Ok(())
    } else {
        Err(Corrupted)
    }
}

/// The count estimated before, if nothing changed since.
pub fn cached_count(bytes: &[u8]) -> Option<i64> {
    let cached = bytes.get(CACHE_AT..)?.first_chunk()?;
    let cached = i64::from_le_bytes(*cached);
    (cached >= 0).then_some(cached)
}

/// Keeps an estimated count.
pub fn cache_count(bytes: &mut [u8], count: i64) {
    if let Some(cache) = bytes.get_mut(CACHE_AT..HEAD_BYTES) {
        cache.copy_from_slice(&count.to_le_bytes());
    }
}

/// Notes that the cached count is not valid any more.
pub fn forget_count(bytes: &mut [u8]) {
    if let Some(flag) = bytes.get_mut(CACHE_FLAG_AT) {
        *flag |= CACHE_INVALID;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_proto::rng::Rng;

    #[test]
    fn sparse_and_dense_hold_the_same_registers() {
        let mut rng = Rng::from_seed(1);
        let mut sparse = empty();
        let mut dense = empty();
        make_dense(&mut dense).unwrap();
        let mut model = vec![0; REGISTERS];
        for _ in 0..1_500 {
            let observation = Observation {
                index: rng.below(600) as usize * 27,
                count: 1 + rng.below(32) as u8,
            };
            let raises = model[observation.index] < observation.count;
            model[observation.index] = observation.count.max(model[observation.index]);
            assert_eq!(raise(&mut sparse, observation, 12_000), Ok(raises));
            assert_eq!(raise(&mut dense, observation, 0), Ok(raises));
        }
        assert_eq!(encoding(&sparse), Some(Encoding::Sparse));
        assert_eq!(encoding(&dense), Some(Encoding::Dense));
        for bytes in [&sparse, &dense] {
            let mut registers = vec![0; REGISTERS];
            merge_into(&mut registers, bytes).unwrap();
            assert!(registers == model);
            assert_eq!(count(bytes), Ok(count_registers(&model)));
        }
        make_dense(&mut sparse).unwrap();
        assert!(sparse == dense);
    }

    #[test]
    fn what_is_sparse_becomes_dense_when_it_must() {
        let mut bytes = empty();
        let tall = Observation {
            index: 7,
            count: 33,
        };
        assert_eq!(raise(&mut bytes, tall, 3_000), Ok(true));
        assert_eq!(encoding(&bytes), Some(Encoding::Dense));
        let mut bytes = empty();
        let low = Observation { index: 7, count: 1 };
        assert_eq!(raise(&mut bytes, low, 18), Ok(true));
        assert_eq!(encoding(&bytes), Some(Encoding::Dense));
    }

    #[test]
    fn estimates_are_near() {
        let mut bytes = empty();
        for number in 0..200_000_u32 {
            raise(&mut bytes, Observation::of(&number.to_le_bytes()), 3_000).unwrap();
            if [9, 99, 999, 9_999, 99_999, 199_999].contains(&number) {
                let estimated = count(&bytes).unwrap();
                let off = (estimated - i64::from(number) - 1).abs();
                assert!(off * 30 <= i64::from(number), "{number}: {estimated}");
            }
        }
    }

    #[test]
    fn foreign_bytes_are_refused_or_found_corrupted() {
        for bytes in [
            &b""[..],
            b"HYLL",
            b"HYLL\x02012345678901",
            b"HYLL\x00012345678901",
        ] {
            assert_eq!(encoding(bytes), None);
        }
        let mut rng = Rng::from_seed(2);
        for _ in 0..20_000 {
            let mut bytes = head(Encoding::Sparse);
            (0..rng.below(12)).for_each(|_| bytes.push(rng.next_u64() as u8));
            let observation = Observation::of(&rng.next_u64().to_le_bytes());
            // Whatever comes of it: no panic.
            let _ = (count(&bytes), raise(&mut bytes, observation, 3_000));
        }
    }

    #[test]
    fn a_cached_count_is_valid_until_it_is_forgotten() {
        let mut bytes = empty();
        assert_eq!(cached_count(&bytes), Some(0));
        cache_count(&mut bytes, 77);
        assert_eq!(cached_count(&bytes), Some(77));
        forget_count(&mut bytes);
        assert_eq!(cached_count(&bytes), None);
    }
}
