//! What two parties of kevy say to each other: clients and servers (RESP), shards and nodes (ids, slots, command rows).
//!
//! This crate knows no socket, no clock and no source of randomness: bytes come in, values go out, and back.
//!
//! * [`resp`]: the Redis serialization protocol, versions 2 and 3: an incremental decoder for requests and replies,
//!   an encoder for replies, and the errors a client may see.
//! * [`command`]: the columns of a command row. Routing, `COMMAND`, the documentation and the cluster client all read them.
//! * [`log`]: the write log as bytes.
//! * [`replication`]: what a primary and a replica say to each other.
//! * [`slot`]: which of the 16384 slots a key is in, and which shard owns a slot.
//! * [`ids`], [`time`], [`rng`]: numbers with a meaning.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod command;
pub mod ids;
pub mod log;
pub mod replication;
pub mod resp;
pub mod rng;
pub mod slot;
pub mod time;
