//! Black-box tests of kevy: what they need to start a server, talk to it and compare it with Redis.
//!
//! The tests themselves are in `tests/tests/`. Nothing here links kevy: every fact about it is learned
//! from its binary over a socket, as a user would. A failing harness panics, since its callers are tests.
//!
//! * [`server`] starts `kevy` (or, with `KEVY_TEST_SERVER=redis`, Redis in its place: that shows that a
//!   test's expectation is Redis's own) and the Redis that serves as the oracle;
//! * [`connection`] and [`reply`] are a RESP client that trusts nobody;
//! * [`contents`] fills a server with keys of every type and tells what it holds;
//! * [`oracle`] makes, runs, compares and shrinks random command sequences;
//! * [`tidy`] holds the rules of the repository as functions on text;
//! * [`clients`] runs other people's clients.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_panics_doc,
    reason = "a test harness reports by panicking"
)]

pub mod binary;
pub mod clients;
pub mod connection;
pub mod contents;
pub mod oracle;
pub mod ports;
pub mod process;
pub mod reply;
pub mod server;
pub mod slots;
pub mod tidy;
