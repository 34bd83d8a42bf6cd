//! kevy.
#![forbid(unsafe_code)]
#![allow(dead_code)]
mod glommio_host;
fn main() {}
