//! A client of a whole cluster: one connection to each shard, and each command to the shard that owns its key.
//!
//! Three machines decide, and do no I/O: [`topology`] (who owns a slot), [`redirect`] (what an error reply tells a router)
//! and [`router`] (where a command goes next). [`client`] and its twin on tokio carry commands to where they say.

mod backoff;
mod client;
mod options;
pub(crate) mod redirect;
pub(crate) mod router;
mod topology;

pub use client::ClusterClient;
pub use options::ClusterOptions;
pub use topology::Address;
pub(crate) use topology::Topology;
