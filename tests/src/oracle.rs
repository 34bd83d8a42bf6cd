//! The differential oracle: the same random commands to Redis and to kevy must get the same replies.
//!
//! [`Generator`] makes a sequence from a seed without looking at replies, so any part of a sequence can be
//! run again from an empty keyspace. [`Pair`] runs it on both servers and finds the first reply that
//! differs; [`shrink`] then drops every command that the difference does not need, and [`report`] prints
//! what is left in a form that redis-cli can read.
//!
//! Most replies are compared byte for byte. [`compare`] says which are not, and why.

mod administration;
mod canonical;
pub mod compare;
mod generator;
mod generic;
mod large;
mod pair;
mod sentence;
mod shrink;
mod side;
mod skipped;
mod strings;
mod syntax;
mod values;
mod words;

pub use generator::{Generator, Grammar};
pub use pair::{Difference, Pair};
pub use shrink::{report, shrink};

/// A word list as the arguments of a command: `args!["SET", key, value]`.
macro_rules! args {
    ($($word:expr),* $(,)?) => {
        vec![$(Vec::<u8>::from($word)),*]
    };
}
pub(crate) use args;
