//! Commands over keys of several shards: atomic and isolated, as if the process had one thread (spec C4, decision
//! record 0004).
//!
//! The shard of the session coordinates. It first *tries* to lock the keys on all shards at once; if one refuses, it lets
//! go of all and locks *in order*, shard after shard, waiting where it must. With all locks held
//! * a command whose keys are independent (`MGET`, `MSET`, `DEL`) runs in parts where the keys are, and each part lets its
//!   locks go;
//! * any other command runs here, on entries that were taken along with the locks and are put back changed.
//!
//! What `SORT` looks at it tells only once its collection is at hand (`gather`): it locks everything.
//!
//! `EXEC` is such a transaction over the keys of all its commands (`exec`, `needs`); they run step by step under its locks.
//!
//! The session waits meanwhile, so that what follows in its pipeline sees what the transaction did. A transaction never
//! fails half-way: shards of one process live and die together.

mod conclude;
mod coordinate;
mod exec;
mod gather;
mod join;
mod needs;
mod participate;
pub(crate) mod queue;
mod show;
mod state;
mod together;

pub(crate) use participate::{Origin, Waiting, fingerprint};
pub(crate) use state::{Caller, Meeting, Party, Transaction};
