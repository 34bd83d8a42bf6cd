//! Redis's append-only files: the manifest of a directory of them, and the requests in one.
//!
//! ```text
//! directory = [manifest][base][increment]..            since Redis 7; before that it is one file
//! file      = [RDB file]? ([annotation] | [request])..
//! annotation = "#" text line end                       "#TS:1700000000": when what follows was done
//! request   = "*" [number of words] ("$" [length] [word])..        each number and word with a line end
//! ```
//!
//! * [`Manifest`] reads which files there are.
//! * [`AofReader`] gives the requests of a file. Those of a transaction are given only once all of it has arrived.

mod manifest;
mod reader;

pub use manifest::{MANIFEST_MAX_BYTES, Manifest, ManifestFault};
pub use reader::{AofFault, AofReader, AofStep, LONGEST_TRANSACTION_BYTES, Tail};
