//! Node.
#![forbid(unsafe_code)]
