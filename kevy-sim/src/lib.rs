//! A whole kevy node on a simulated host: the shards that run in production, with a network, a mesh, clocks and dice that a
//! seed decides. Any run can be repeated exactly, and what clients were told is checked against what kevy promises.
//!
//! * [`turmoil_host`] runs the node; [`client`] and [`workloads`] use it; [`swarm`] draws the options of a run from its seed.
//! * [`checks`] look at the [`history`] alone, as a user of the node could.
//! * [`trace`] turns a run into a number that must be the same every time; [`marks`] count situations that must be met.
//! * [`simulation`] puts one run together.

#![forbid(unsafe_code)]

pub mod checks;
pub mod client;
pub mod history;
pub mod marks;
pub mod reply;
pub mod simulation;
pub mod swarm;
pub mod trace;
pub mod turmoil_host;
pub mod workloads;
