//! kevy's own Rust client against the real server, most of it at four shards in cluster mode.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

mod cluster;
mod endings;
mod on_tokio;
mod pipelines;
mod plain;
mod verbs;

use kevy_tests::server::{Server, Spec};

const SHARDS: u16 = 4;

fn server() -> Server {
    Spec::threads(SHARDS).cluster().start()
}

/// What the server's answers and ours are: bytes.
fn bytes(text: impl AsRef<str>) -> Vec<u8> {
    text.as_ref().as_bytes().to_vec()
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "it is what a read of a value gives"
)]
fn some(text: &str) -> Option<Vec<u8>> {
    Some(bytes(text))
}
