//! Clients against scripted servers: what they do when a server redirects, waits, cuts the connection or talks nonsense.
#![forbid(unsafe_code)]

mod cluster;
mod fake;
mod plain;
mod read_write;
#[cfg(feature = "tokio")]
mod tokio_twins;
