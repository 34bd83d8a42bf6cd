//! Redis's RDB file: keys with their values and deadlines, in versions 6 to 12 (Redis 2.6 to 7.4).
//!
//! ```text
//! file   = "REDIS" [version: 4 digits] record.. [ff] [CRC-64 of everything before: 8, little endian; 0: not checked]
//! record = [fa][name][value]                                       about the file
//!        | [fe][database]                                          what follows belongs to this database
//!        | [fb][keys][keys with a deadline]                        sizes of the database, so that tables can be made
//!        | [f4][slot][keys][keys with a deadline]                  the same for a slot of a cluster (Redis 7.4)
//!        | [f5][code]                                              a library of functions
//!        | [f7][module id][[opcode][datum]..][0]                   what a module wants to remember
//!        | [fd][seconds: 4] | [fc][milliseconds: 8]                the next key's deadline, little endian
//!        | [f8][seconds] | [f9][counter: 1]                        when, or how often, the next key was used
//!        | [kind: 1][key][value]                                   a key; its value as in `DUMP` payloads
//! ```
//!
//! Numbers are lengths and texts are strings as [`Reader`](super::Reader) reads them.
//!
//! * [`FileReader`] takes the file in pieces of any size and gives [`Item`]s. It keeps the bytes of one record at most, and
//!   finds where a record ends ([`extent`]) before it looks at what it says.
//! * [`FileWriter`] makes a file that Redis 7.0 reads (Redis 7.4, where fields of hashes have deadlines).

mod extent;
mod fault;
mod item;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use fault::{Fault, FaultKind, ModuleId};
pub use item::{Item, KeyItem, Step};
pub use reader::{FileReader, LONGEST_RECORD_BYTES};
pub use writer::{FileVersion, FileWriter, NeedsNewer};

/// What a file begins with.
const MAGIC: &[u8; 5] = b"REDIS";

/// The byte before a record that is no key.
mod opcode {
    pub(super) const SLOT_INFO: u8 = 0xf4;
    pub(super) const FUNCTION: u8 = 0xf5;
    pub(super) const MODULE_AUX: u8 = 0xf7;
    pub(super) const IDLE: u8 = 0xf8;
    pub(super) const FREQUENCY: u8 = 0xf9;
    pub(super) const AUX: u8 = 0xfa;
    pub(super) const SIZES: u8 = 0xfb;
    pub(super) const DEADLINE_MS: u8 = 0xfc;
    pub(super) const DEADLINE_SECONDS: u8 = 0xfd;
    pub(super) const DATABASE: u8 = 0xfe;
    pub(super) const END: u8 = 0xff;
}
