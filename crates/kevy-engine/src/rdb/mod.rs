//! Redis's format for values: what RDB files hold and `DUMP` payloads carry.
//!
//! * [`decode`]: a value from any [`Kind`] that Redis has written since version 2.6 (RDB versions 1 to 12, modules apart).
//! * [`encode`]: a value in the kinds that Redis 7.0 reads (RDB version 10); only a hash whose fields have deadlines needs
//!   Redis 7.4 (version 12).
//! * [`payload`]: the footer that makes a `DUMP` payload of a value.
//! * [`file`]: the keys and their deadlines around the values; values look the same there.
//!
//! Everything is checked as Redis checks under `sanitize-dump-payload yes`: lengths, counts, order, duplicates. What does
//! not hold is damage, never a panic, and nothing is allocated that is merely announced.

mod decode;
pub(crate) mod element;
mod encode;
pub mod file;
mod intset;
mod kind;
mod listpack;
mod lzf;
pub mod payload;
mod primitive;
mod stream;
#[cfg(test)]
mod tests;
mod ziplist;
mod zipmap;

pub use decode::{Decoded, decode};
pub use element::Element;
pub use encode::Encoded;
pub use kind::Kind;
pub use primitive::{Reader, put_length, put_string};
