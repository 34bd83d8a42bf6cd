//! Conversations with shards that have no operating system.
