//! What a primary and a replica say to each other about one shard.
//!
//! ```text
//! replica -> primary   REPLICATE FROM offset ID name [KEY value]...      once, a request in RESP
//! primary -> replica   +ACK epoch offset [KEY value]...                  entries follow
//!                      +FULLSYNC epoch offset [KEY value]...             a snapshot follows; also later, at any time
//!                      -ERR text                                         and the end of the connection
//! entry                *3 :offset :epoch $length bytes                   the bytes are those of the log's entry
//! heartbeat            +PING epoch next_offset                           once a second, outside the offsets
//! snapshot             +SNAPSHOT BEGIN offset
//!                      $length bytes                                     chunks, each of bounded length
//!                      +SNAPSHOT END offset chunks bytes crc32c          the checksum of all bytes, in hexadecimal
//! replica -> primary   REPLCONF ACK offset [FACK durable_offset]         once a second at least
//! ```
//!
//! Offsets count entries: the first has offset 1, and 0 is the empty key space. Which line of entries an offset counts is said
//! by a [`History`].
//!
//! **Versions.** `VERSION n` says which version the replica speaks; absent means 1. A primary refuses what is newer than
//! [`VERSION`]. Within a version only fields that may be ignored are added: pairs behind the fixed words of a request or a
//! line, words at its end, elements of an entry's array before its bytes. Readers skip those that they do not know, and take
//! what older peers leave out (`*2` without an epoch, `+PING` with less) as unknown. A changed meaning needs a new version.

mod decode;
mod handshake;
mod history;
mod message;

pub use decode::{StreamFault, StreamLimits, decode_message};
pub use handshake::{Answer, Handshake, MAX_REPLICA_ID_BYTES, PeerRequest, RequestFault, Terms};
pub use history::{Branch, Continuity, History, HistoryId, MAX_BRANCHES};
pub use message::{
    EntryFrame, SnapshotDigest, SnapshotTotals, StreamMessage, push_ack, push_entry,
    push_entry_header, push_ping, push_snapshot_begin, push_snapshot_chunk, push_snapshot_end,
};

use core::fmt;

/// The version of the protocol that is spoken, and the newest that is understood.
pub const VERSION: u32 = 1;
/// The longest line, without its end.
pub const MAX_LINE_BYTES: usize = 8 * 1024;
/// The largest entry that travels. A larger one is not streamed: replicas get a snapshot instead.
pub const MAX_ENTRY_BYTES: usize = 1 << 30;
/// The largest chunk of a snapshot.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;
/// What follows the bytes of an entry or a chunk.
pub const LINE_END: &[u8] = b"\r\n";

/// The number of an election; grows with each, and no two primaries ever have the same. 0 where nobody is elected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A number in decimal digits and nothing else.
fn number<N: core::str::FromStr>(text: &[u8]) -> Option<N> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok()
}
