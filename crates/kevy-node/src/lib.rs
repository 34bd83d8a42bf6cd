//! The whole kevy server without an operating system.
//!
//! One [`shard::Shard`] is one core's data plane: sessions, routing, its part of the keys, its part in transactions. It is a
//! pure machine: bytes, messages and the time come in through `handle_*`, replies and messages go out through `poll_*`.
//! [`drive::drive`] joins it to a [`host`].
//!
//! The way of a request: [`session`] -> decoder -> [`command_table`] -> [`route`] -> here, `hop` to another shard, or
//! `transaction` over several -> [`reply_order`] -> the client.

#![forbid(unsafe_code)]

mod announcements;
pub mod blocking;
mod changes;
pub mod command_table;
pub mod commands;
pub mod drive;
pub mod durability;
mod execute;
pub mod histogram;
mod hop;
pub mod host;
pub mod latency;
pub mod lock_table;
pub mod log;
mod memory;
pub mod message;
mod monitor;
mod notifications;
pub mod observation;
pub mod pause;
pub mod process;
pub mod query;
pub mod reply_order;
pub mod route;
pub mod session;
pub mod settings;
pub mod shard;
pub mod slow_log;
pub mod stats;
mod stopwatch;
pub mod subscriptions;
pub mod tracking;
mod transaction;
mod watch;
