//! From keys to the bytes of a file.

use super::super::{Encoded, Kind, payload, put_length, put_string};
use super::{MAGIC, opcode};
use crate::keyspace::{Entry, Value};
use crate::value::Collection;
use alloc::vec::Vec;
use core::fmt;
use core::mem;

/// The version of a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileVersion {
    /// What Redis 7.0 and later read.
    Redis7_0 = 10,
    /// What Redis 7.4 and later read: fields of hashes may have deadlines.
    Redis7_4 = 12,
}

impl FileVersion {
    /// The lowest version in which `entry` can be written.
    pub fn needed_by(entry: &Entry) -> Self {
        let has_deadlines = match entry {
            Entry::String(_) => false,
            Entry::Object(object) => match object.value() {
                Value::Hash(hash) => hash.next_deadline().is_some(),
                Value::String(_)
                | Value::List(_)
                | Value::Set(_)
                | Value::SortedSet(_)
                | Value::Stream(_) => false,
            },
        };
        if has_deadlines {
            Self::Redis7_4
        } else {
            Self::Redis7_0
        }
    }
}

/// A key cannot be written in the version that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedsNewer {
    /// The key.
    pub key: Vec<u8>,
}

impl fmt::Display for NeedsNewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.escape_ascii();
        write!(
            f,
            "fields of the hash \"{key}\" have deadlines, which need RDB version 12"
        )
    }
}

impl core::error::Error for NeedsNewer {}

/// Writes a file: a header, [`aux`](Self::aux), one [`database`](Self::database), its keys, and the
/// [`finish`](Self::finish); what was made of it so far is [taken](Self::take) as often as the caller likes.
#[derive(Debug)]
pub struct FileWriter {
    version: FileVersion,
    out: Vec<u8>,
    digest: crc_fast::Digest,
}

impl FileWriter {
    /// Begins a file.
    pub fn new(version: FileVersion) -> Self {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(match version {
            FileVersion::Redis7_0 => b"0010",
            FileVersion::Redis7_4 => b"0012",
        });
        Self {
            version,
            out,
            digest: crc_fast::Digest::new(payload::CHECKSUM),
        }
    }

    /// Says something about the file. Redis ignores names that it does not know.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) {
        self.out.push(opcode::AUX);
        put_string(&mut self.out, name);
        put_string(&mut self.out, value);
    }

    /// Begins database 0, of so many keys, so many of them with a deadline. They are what Redis makes its tables for.
    pub fn database(&mut self, keys: u64, with_deadline: u64) {
        self.out
            .extend_from_slice(&[opcode::DATABASE, 0, opcode::SIZES]);
        put_length(&mut self.out, keys);
        put_length(&mut self.out, with_deadline);
    }

    /// Writes a key. Fields of hashes whose time has come at `fields_now_ms` are left out; says whether anything is left.
    ///
    /// # Errors
    /// The key cannot be written in the file's version; nothing of it was.
    pub fn key(&mut self, entry: &Entry, fields_now_ms: i64) -> Result<bool, NeedsNewer> {
        let Some(encoded) = Encoded::of(entry, fields_now_ms) else {
            return Ok(false);
        };
        if needs(encoded.kind) > self.version {
            return Err(NeedsNewer {
                key: entry.key().to_vec(),
            });
        }
        if let Some(at) = entry.deadline() {
            self.out.push(opcode::DEADLINE_MS);
            self.out.extend_from_slice(&at.0.to_le_bytes());
        }
        self.out.push(encoded.kind.to_byte());
        put_string(&mut self.out, entry.key());
        self.out.extend_from_slice(&encoded.bytes);
        Ok(true)
    }

    /// Bytes that wait to be taken.
    pub fn waiting_bytes(&self) -> usize {
        self.out.len()
    }

    /// Takes the bytes that follow those taken before.
    pub fn take(&mut self) -> Vec<u8> {
        self.digest.update(&self.out);
        mem::take(&mut self.out)
    }

    /// Ends the file; what is left to be taken.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.out.push(opcode::END);
        let mut last = self.take();
        last.extend_from_slice(&self.digest.finalize().to_le_bytes());
        last
    }
}

fn needs(kind: Kind) -> FileVersion {
    if kind.version() > FileVersion::Redis7_0 as u16 {
        FileVersion::Redis7_4
    } else {
        FileVersion::Redis7_0
    }
}
