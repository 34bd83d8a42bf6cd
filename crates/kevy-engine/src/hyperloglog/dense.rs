//! Dense registers: six bits each, the lowest bits of a byte first.

use super::{Observation, REGISTERS};

/// Bits of a register.
const BITS: usize = 6;
/// The largest value.
const MAX: u8 = (1 << BITS) - 1;
/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * BITS / 8;

/// Raises a register; says whether it held less. `registers` may be too short: then nothing changes.
pub(super) fn raise(registers: &mut [u8], observation: Observation) -> bool {
    let bit = observation.index * BITS;
    let (byte, shift) = (bit / 8, bit % 8);
    let high = registers.get(byte + 1).copied().unwrap_or(0);
    let Some(low) = registers.get_mut(byte) else {
        return false;
    };
    let pair = u16::from_le_bytes([*low, high]);
    let held = (pair >> shift) as u8 & MAX;
    if held >= observation.count {
        return false;
    }
    let cleared = pair & !(u16::from(MAX) << shift);
    let [new_low, new_high] = (cleared | u16::from(observation.count & MAX) << shift).to_le_bytes();
    *low = new_low;
    if let Some(high) = registers.get_mut(byte + 1) {
        *high = new_high;
    }
    true
}

/// All registers.
pub(super) fn iter(registers: &[u8]) -> impl Iterator<Item = u8> {
    let (groups, _) = registers.as_chunks::<3>();
    groups.iter().flat_map(|&[a, b, c]| {
        [
            a & MAX,
            (a >> 6 | b << 2) & MAX,
            (b >> 4 | c << 4) & MAX,
            c >> 2,
        ]
    })
}
