//! The whole kevy server without an operating system.
//!
//! One [`shard::Shard`] is one core's data plane: sessions, routing, its part of the keys, its part in transactions. It is a
//! pure machine: bytes, messages and the time come in through `handle_*`, replies and messages go out through `poll_*`.
//! [`drive::drive`] joins it to a [`host`].

#![forbid(unsafe_code)]

pub mod host;
pub mod lock_table;
pub mod message;
pub mod query;
