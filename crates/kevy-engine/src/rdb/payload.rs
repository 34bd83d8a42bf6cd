//! Redis's `DUMP` payload: one value as it stands in an RDB file, with a footer.
//!
//! ```text
//! [kind: 1][value][RDB version: 2, little endian][CRC-64 (Jones) of everything before: 8, little endian]
//! ```

use alloc::vec::Vec;
use crc_fast::CrcAlgorithm;
use kevy_proto::resp::ErrorReply;

/// The newest version that `RESTORE` reads: Redis 7.4's.
const VERSION_READ: u16 = 12;
/// Version and checksum.
const FOOTER_BYTES: usize = 10;

/// How payloads and files are checked: CRC-64 as Redis has it.
pub(super) const CHECKSUM: CrcAlgorithm = CrcAlgorithm::Crc64Redis;

/// The checksum of `bytes`.
fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CHECKSUM, bytes)
}

/// Makes a payload of `value`, which begins with its kind, in RDB version `version`.
pub fn seal(mut value: Vec<u8>, version: u16) -> Vec<u8> {
    value.reserve_exact(FOOTER_BYTES);
    value.extend_from_slice(&version.to_le_bytes());
    let sum = checksum(&value);
    value.extend_from_slice(&sum.to_le_bytes());
    value
}

/// The payload without its footer.
///
/// # Errors
/// The version is newer than what is known here, or the checksum is wrong.
pub fn open(payload: &[u8]) -> Result<&[u8], ErrorReply> {
    const BAD: ErrorReply = ErrorReply::text("ERR DUMP payload version or checksum are wrong");
    let (covered, sum) = payload.split_last_chunk::<8>().ok_or(BAD)?;
    let (value, version) = covered.split_last_chunk::<2>().ok_or(BAD)?;
    let whole = u16::from_le_bytes(*version) <= VERSION_READ
        && u64::from_le_bytes(*sum) == checksum(covered);
    if whole { Ok(value) } else { Err(BAD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_is_that_of_redis() {
        let payload = seal(b"\x00\x01v".to_vec(), 10);
        assert_eq!(payload, b"\x00\x01v\n\x00\x91\x08\xce\xb2\x198\x8a\xce");
        assert_eq!(open(&payload).unwrap(), b"\x00\x01v");
    }

    #[test]
    fn damage_is_found() {
        let payload = seal(b"\x00\x05value".to_vec(), 12);
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 0x10;
            assert!(open(&damaged).is_err());
            assert!(open(&payload[..at]).is_err());
        }
        assert!(open(&seal(b"\x00\x05value".to_vec(), 13)).is_err());
    }
}
