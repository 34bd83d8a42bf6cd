//! One key and what it holds, in as few bytes as safe code allows.

use alloc::boxed::Box;

/// How a value is stored, by the names that `OBJECT ENCODING` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A string that is a 64-bit integer in its canonical form.
    Int,
    /// A string of at most 44 bytes, set whole.
    Embstr,
    /// Any other string.
    Raw,
}

/// One key and what it holds.
#[derive(Debug)]
pub enum Entry {
    /// A string: header, key and value in one allocation.
    String(Box<[u8]>),
}
