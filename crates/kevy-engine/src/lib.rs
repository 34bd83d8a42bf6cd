//! What a key holds and what a command does to it.
//!
//! The engine is one shard's data: a [`Keyspace`] and the commands over it. It knows no socket, no clock, no other shard:
//! a [`Context`] brings the time, the keys, a place for the reply and a place for the effects.
//!
//! A command is one row plus one function, in one file per family ([`commands`]). Its function
//! * reads and changes the keyspace,
//! * writes exactly one reply, or returns an [`ErrorReply`](kevy_proto::resp::ErrorReply) having changed nothing,
//! * emits the *effects* of what it changed: canonical requests that give the same state when they are run on an empty
//!   engine (an absolute expiry instead of a relative one, the resulting number instead of a float increment).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod commands;
mod context;
pub mod double;
mod effects;
mod events;
pub mod glob;
pub mod hyperloglog;
pub mod keyspace;
pub mod long_double;
pub mod number;
pub mod rdb;
pub mod redis_aof;
mod segmented;
pub mod value;
mod varint;
mod wait;

pub use context::Context;
pub use effects::Effects;
pub use events::{Event, EventClasses};
pub use keyspace::Keyspace;
pub use wait::{Awaited, Wait, may_block};

use kevy_proto::command::Row;
use kevy_proto::resp::{Args, ErrorReply};

/// The function of a command.
pub type Run = fn(&mut Context<'_>, Args<'_>) -> Result<(), ErrorReply>;

/// A command of the engine: row and function together.
pub type Command = Row<Run>;
