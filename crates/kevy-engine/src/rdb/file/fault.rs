//! Why a file cannot be read, or not to its end.

use super::super::Kind;
use alloc::vec::Vec;
use core::fmt;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte of the file at which the record begins that cannot be read.
    pub offset: u64,
    /// Its key, if it has one that can be read.
    pub key: Option<Vec<u8>>,
    /// What is wrong with it.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It does not begin as an RDB file does.
    NotRdb,
    /// It is of this version: before Redis 2.6, or newer than Redis 7.4.
    Version(u16),
    /// No record begins with this byte.
    UnknownRecord(u8),
    /// The value was written by a module, by its format of before Redis 4 or by that since then.
    ModuleValue(Option<ModuleId>),
    /// A record that is no key does not hold what it must.
    Damaged,
    /// A value does not hold what it must.
    DamagedValue(Kind),
    /// A record of at least so many bytes; more than [`LONGEST_RECORD_BYTES`](super::LONGEST_RECORD_BYTES) are not read.
    TooLong(u64),
    /// The file ends before it says that it does.
    Truncated,
    /// The file ends well, but what came before is not what was written.
    Checksum {
        /// What the file says.
        expected: u64,
        /// What its bytes give.
        found: u64,
    },
}

/// Which module wrote something: nine characters of six bits and a version of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleId(pub u64);

impl ModuleId {
    /// The characters that names of modules are made of.
    const CHARACTERS: &'static [u8; 64] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
}

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in (0..9).rev() {
            let index = self.0 >> (10 + 6 * place) & 0x3f;
            write!(f, "{}", char::from(Self::CHARACTERS[index as usize]))?;
        }
        write!(f, " version {}", self.0 & 0x3ff)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}", self.offset)?;
        if let Some(key) = &self.key {
            write!(f, ", key \"{}\"", key.escape_ascii())?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRdb => {
                f.write_str("this is no RDB file: it does not begin with REDIS and a version")
            }
            Self::Version(version) => {
                write!(
                    f,
                    "RDB version {version}: kevy reads 6 to 12 (Redis 2.6 to 7.4)"
                )
            }
            Self::UnknownRecord(byte) => write!(f, "no record begins with byte {byte}"),
            Self::ModuleValue(None) => {
                f.write_str("the value of a module, which kevy does not have")
            }
            Self::ModuleValue(Some(module)) => {
                write!(
                    f,
                    "a value of the module {module}, which kevy does not have"
                )
            }
            Self::Damaged => f.write_str("a damaged record"),
            Self::DamagedValue(kind) => {
                write!(f, "a damaged value ({kind:?}, RDB type {})", kind.to_byte())
            }
            Self::TooLong(bytes) => write!(
                f,
                "a record of {bytes} bytes or more; the longest that is read has {}",
                super::LONGEST_RECORD_BYTES
            ),
            Self::Truncated => f.write_str("the file ends in the middle"),
            Self::Checksum { expected, found } => write!(
                f,
                "the checksum is {found:016x} and should be {expected:016x}: the file is damaged"
            ),
        }
    }
}

impl core::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_fault_says_where_and_what() {
        let fault = Fault {
            offset: 12,
            key: Some(b"a\nb".to_vec()),
            kind: FaultKind::DamagedValue(Kind::Set),
        };
        let expected = "at byte 12, key \"a\\nb\": a damaged value (Set, RDB type 2)";
        assert_eq!(fault.to_string(), expected);
    }

    #[test]
    fn a_module_has_a_name() {
        // "test-type" and version 7, as redis/modules-api-ref draws it.
        let name = b"test-type".iter().fold(0, |id, byte| {
            let place = ModuleId::CHARACTERS.iter().position(|c| c == byte);
            id << 6 | place.unwrap_or_default() as u64
        });
        assert_eq!(ModuleId(name << 10 | 7).to_string(), "test-type version 7");
    }
}
