//! What the control plane asks of every shard, and what they answer.

/// A question to a shard.
#[derive(Clone, Debug)]
pub enum Query {}

/// A shard's answer.
#[derive(Debug)]
pub enum Answer {}
