//! Clients against scripted servers: what they do when a server redirects, waits, cuts the connection or talks nonsense.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

mod cluster;
mod fake;
mod plain;
mod read_write;
#[cfg(feature = "tokio")]
mod tokio_twins;
