//! The `vltava` binary.
fn main() {}
