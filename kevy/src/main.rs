//! kevy.
fn main() {}
